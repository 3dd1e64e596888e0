"""Where every field of a config stands in a file: section, key and field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from agentdescent_adapters.command.config import RunConfig


def _plain(*fields: str) -> dict[str, str]:
    return {field: field for field in fields}


SECTIONS: dict[str, dict[str, str]] = {
    "tasks": {
        "file": "tasks",
        **_plain(
            "text",
            "label",
            "id",
            "labels",
            "split",
            "subset",
            "limit",
            "heldout_share",
            "heldout_limit",
            "test_share",
            "test_limit",
        ),
        **_plain("shuffle"),
    },
    "artifact": {"file": "artifact"},
    "strategy": {"kind": "strategy"},
    "agent": {
        "kind": "agent",
        **_plain("model", "base_url", "api_key_env", "temperature"),
        "seed": "model_seed",
        **_plain("solve_ceiling", "propose_ceiling", "choices", "proposer", "solve_template", "propose_template"),
        **_plain("stream", "cache", "overhead", "counter", "bytes_per_token"),
        **_plain("concurrency", "deadline", "attempts", "executor", "path"),
    },
    "scorer": {"kind": "scorer", **_plain("oracle", "oracle_budget", "audit", "solved_threshold")},
    "budget": _plain(
        *("max_tokens", "max_cost", "max_calls", "max_rollouts", "max_seconds", "rounds", "target_reward", "patience"),
        *("soft_floor", "hard_floor", "projection", "diminishing_returns", "efficiency_floor", "efficiency_samples"),
        *("call_budget", "call_floor"),
    ),
    "prices": {"prompt": "price_prompt", "cached": "price_cached", "completion": "price_completion"},
    "policies": _plain(
        *("seed", "workers", "thrifty", "self_verify", "screen", "acceptance", "curtail", "tournament", "futility"),
        *("finish_epsilon", "fusion", "fusion_width", "staleness", "refresh_interval", "gate_order", "wave_min"),
        *("cheap_size", "sampling", "samples", "selection", "population", "asynchronous", "merge_size", "async_ratio"),
        *("window", "admission", "allocator", "open_gates"),
    ),
    "output": {"run": "out", "texts": "texts"},
}
PLACES: dict[str, tuple[str, str]] = {
    field: (section, key) for section, keys in SECTIONS.items() for key, field in keys.items()
}
"""Section and key of every field."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean 'x'?` of the nearest of these, or nothing when none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f": did you mean {found[0]!r}?" if found else ""


def homes(name: str) -> list[str]:
    """Where something of that name belongs, as key or as field: `max_tokens in [budget]`."""
    places = [PLACES[name]] if name in PLACES else []
    places += [(section, name) for section, keys in SECTIONS.items() if name in keys]
    return [f"{key!r} in [{section}]" for section, key in dict.fromkeys(places)]


def known_field(name: str) -> bool:
    return name in RunConfig.__struct_fields__
