"""Executors by the names that the command line takes."""

from __future__ import annotations

import logging

from agentdescent.errors import UsageError
from agentdescent.ports import Executor
from agentdescent_adapters.executors.dask import Dask
from agentdescent_adapters.executors.processes import Processes

DASK = "dask://"


def executor_named(text: str, workers: int, deadline: float) -> Executor | None:
    """`threads` (None: the driver has its own), `processes` (as many as `workers`) or `dask://HOST:PORT`; nothing is
    started. `deadline`: seconds a call may take. Raises UsageError that lists what there is."""
    if text == "threads":
        return None
    if text == "processes":
        return Processes(workers, deadline)
    host, _, port = text.removeprefix(DASK).rpartition(":")
    if text.startswith(DASK) and host and port.isdecimal():
        dask = Dask(f"tcp://{host}:{port}")
        hush()
        return dask
    raise UsageError(f"executor {text!r}: it is threads, processes or dask://HOST:PORT")


def hush() -> None:
    """What is lost is said by the run in one line, and not by distributed, once it was imported, in forty."""
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
