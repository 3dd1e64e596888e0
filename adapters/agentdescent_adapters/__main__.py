"""`python -m agentdescent_adapters` is the command `agentdescent`."""

from __future__ import annotations

import sys

from agentdescent_adapters.command.main import main

sys.exit(main())
