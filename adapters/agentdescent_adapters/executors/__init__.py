"""Where effects are performed that would block: other processes, a Dask cluster. Threads are the driver's own."""

from agentdescent_adapters.executors.dask import Dask
from agentdescent_adapters.executors.named import executor_named
from agentdescent_adapters.executors.processes import Processes

__all__ = ["Dask", "Processes", "executor_named"]
