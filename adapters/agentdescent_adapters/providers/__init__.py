"""Language models behind one record each way: a Request goes out, a Reply or CallFailed comes back.

Nothing here is imported by `agentdescent_adapters`, and no client library by this package before a model is made.
"""

from agentdescent_adapters.providers.llama import llama_counter
from agentdescent_adapters.providers.model import Finish, Model, Reply, Request, Terms
from agentdescent_adapters.providers.over_clients import from_anthropic, from_openai
from agentdescent_adapters.providers.over_http import claude, openai_compatible
from agentdescent_adapters.providers.prices import Price, load_prices
from agentdescent_adapters.providers.tokens import Counter, bpe_counter

__all__ = [
    "Counter",
    "Finish",
    "Model",
    "Price",
    "Reply",
    "Request",
    "Terms",
    "bpe_counter",
    "claude",
    "from_anthropic",
    "from_openai",
    "llama_counter",
    "load_prices",
    "openai_compatible",
]
