"""Dask clusters for tests, and an end to each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def cluster(*, processes: bool = False, workers: int = 1, threads: int = 8) -> Iterator[Any]:
    """A LocalCluster that talks TCP; without `processes` its workers are in this one."""
    with import_module("distributed").LocalCluster(
        n_workers=workers,
        threads_per_worker=threads,
        processes=processes,
        protocol="tcp",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=60,
    ) as made:
        yield made


@contextmanager
def client_of(made: Any) -> Iterator[Any]:
    with import_module("distributed").Client(made, set_as_default=False) as client:
        yield client
