"""Run what GEPA runs: an adapter with `evaluate` and `make_reflective_dataset`, under this engine and its ceilings.

`from_gepa` makes a job of it. Needs the package gepa (extra `gepa`) only for its reflection prompt, so not where the
adapter has its own `propose_new_texts`.
"""

from __future__ import annotations

from agentdescent_adapters.gepa.bridge import Bridge, from_gepa
from agentdescent_adapters.gepa.contract import Adapter
from agentdescent_adapters.gepa.usage import UsageCounter, lm_usage

__all__ = ["Adapter", "Bridge", "UsageCounter", "from_gepa", "lm_usage"]
