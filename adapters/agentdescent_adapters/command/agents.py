"""Who answers, by what a config says: the rules, a model behind a provider's format, or an object of the user's own.

Providers are imported when one is asked for. Whatever is missing, a key, a price or a name, is said before a call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentdescent.errors import UsageError
from agentdescent.ports import Task
from agentdescent_adapters.command.config import RunConfig
from agentdescent_adapters.command.sections import nearest
from agentdescent_adapters.command.strategies import make_strategy
from agentdescent_adapters.named import resolve
from agentdescent_adapters.rules import RuleAgent

if TYPE_CHECKING:
    from agentdescent_adapters.llm import Template
    from agentdescent_adapters.providers import Counter, Model, Price

KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""Agents that are models, and the variable of the environment that holds the key of each."""
CEILING = 1024
"""Completion tokens of a call, where a config does not say."""
OF_MODELS = (
    *("model", "base_url", "api_key_env", "temperature", "model_seed", "solve_ceiling", "propose_ceiling", "choices"),
    *("proposer", "solve_template", "propose_template", "stream", "cache", "overhead", "counter", "bytes_per_token"),
    *("price_prompt", "price_cached", "price_completion"),
)
"""What means nothing to an agent that is no model."""
SEPARATOR = "---"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def make_agent(config: RunConfig, tasks: Sequence[Task], *, asked: bool = True) -> object:
    """The agent, which nobody has asked anything yet. `asked`: False where nobody will, so that no key is needed.
    Raises UsageError that names the key and the remedy."""
    if config.agent in KEYS:
        return _of_model(config, tasks, asked=asked)
    default = RunConfig()
    for name in OF_MODELS:
        if getattr(config, name) != getattr(default, name):
            raise UsageError(
                f"{name} is given, and agent {config.agent!r} is no model of this command: leave it out, or set agent "
                f"to {' or '.join(KEYS)}"
            )
    if config.agent == "rules":
        return RuleAgent(_labels(tasks), seed=config.seed)
    return made("agent", config.agent, ("rules", *KEYS))


def made(role: str, name: str, known: tuple[str, ...]) -> object:
    """The object that `module:object` names, a class called without arguments; `known` are the names without one."""
    if ":" not in name:
        near = nearest(name, known)
        raise UsageError(f"{role} {name!r}: it is {', '.join(known)}, or an object as module:object{near}")
    found = resolve(role, name)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:  # a class is code we do not know: whatever it raises, it cannot be used
        raise UsageError(f"{role} {name!r}: it cannot be made without arguments: {error}") from error


def missing_key(config: RunConfig) -> str | None:
    """The variable that a run of this config would need, and that is not set."""
    if config.agent not in KEYS:
        return None
    variable = config.api_key_env or KEYS[config.agent]
    needed = config.api_key_env is not None or not _is_local(config.base_url)
    return variable if needed and not os.environ.get(variable, "").strip() else None


def _labels(tasks: Sequence[Task]) -> list[str]:
    return sorted({str(task.meta["label"]) for task in tasks})


def _is_local(url: str | None) -> bool:
    from agentdescent_adapters.providers.pools import LOCAL

    return url is not None and urlsplit(url).hostname in LOCAL


def _of_model(config: RunConfig, tasks: Sequence[Task], *, asked: bool) -> object:
    from agentdescent_adapters.llm import LLMAgent

    _check(config, asked=asked)
    model = _model(config, asked=asked)
    if config.cache is not None and asked:
        from agentdescent_adapters.providers.cache import cached

        model = cached(model, config.cache)
    if config.max_cost is not None and model.terms.prices is None:
        raise UsageError(
            f"max_cost is set, and no price of {config.model!r} is known: give price_prompt and price_completion "
            "([prices] prompt and completion), or use max_tokens"
        )
    proposer = _proposer(config)
    return LLMAgent(
        model,
        proposer=proposer,
        strategy=make_strategy(config),
        solve=_template("solve_template", config.solve_template),
        propose=_template("propose_template", config.propose_template),
        choices=_labels(tasks) if config.choices else None,
        solve_ceiling=config.solve_ceiling or CEILING,
        propose_ceiling=config.propose_ceiling or (CEILING if proposer is None else None),
    )


def _check(config: RunConfig, *, asked: bool) -> None:
    """What must never be written to a run directory, and what cannot be."""
    from agentdescent_adapters.providers.settings import url_of

    if config.model is None:
        raise UsageError(f"agent is {config.agent!r}, and no model is named: set model, as the provider calls it")
    if config.api_key_env is not None and not _VARIABLE.fullmatch(config.api_key_env):
        raise UsageError("api_key_env is not the name of a variable: put the key into one, and its name here")
    if config.base_url is not None:
        url_of(config.base_url, "/")  # it is written to the run directory, and into messages
    variable = missing_key(config)
    if asked and variable is not None:
        raise UsageError(f"no key: the variable {variable} is not set; set it, or name another with api_key_env")
    for name in ("solve_ceiling", "propose_ceiling"):
        ceiling = getattr(config, name)
        if ceiling is not None and ceiling < 1:
            raise UsageError(f"{name} is {ceiling}: it must be at least 1 completion token")


def _model(config: RunConfig, *, asked: bool) -> Model:
    from agentdescent_adapters.providers import claude, openai_compatible
    from agentdescent_adapters.providers.over_http import ANTHROPIC_URL, OPENAI_URL

    name = config.model or ""
    variable = config.api_key_env or KEYS[config.agent]
    key = None if asked else ""
    ceiling = max(config.solve_ceiling or CEILING, config.propose_ceiling or CEILING)
    overhead = 64 if config.overhead is None else config.overhead
    counter, prices = _counter(config, variable, key), _price(config)
    if config.agent == "anthropic":
        if config.model_seed is not None:
            raise UsageError("model_seed is given, and the format of anthropic has none: leave it out")
        return claude(
            name,
            base_url=config.base_url or ANTHROPIC_URL,
            api_key=key,
            api_key_env=variable,
            temperature=_temperature(config, None),
            ceiling=ceiling,
            stream=config.stream,
            overhead=overhead,
            counter=counter,
            bytes_per_token=config.bytes_per_token,
            prices=prices,
        )
    return openai_compatible(
        name,
        base_url=config.base_url or OPENAI_URL,
        api_key=key,
        api_key_env=variable,
        temperature=_temperature(config, 0.0),
        seed=config.model_seed,
        ceiling=ceiling,
        stream=config.stream,
        overhead=overhead,
        counter=counter,
        bytes_per_token=config.bytes_per_token,
        prices=prices,
    )


def _temperature(config: RunConfig, default: float | None) -> float | None:
    """None: none is sent."""
    if config.temperature is None:
        return default
    return None if config.temperature == "default" else config.temperature


def _counter(config: RunConfig, variable: str, key: str | None) -> Counter | None:
    from agentdescent_adapters.providers import bpe_counter, llama_counter

    match config.counter:
        case "none":
            return None
        case "openai":
            return bpe_counter(config.model or "")
        case "llama":
            if config.base_url is None:
                raise UsageError("counter is 'llama', and there is no base_url: give the address of llama.cpp's server")
            return llama_counter(config.base_url, api_key=key, api_key_env=variable)


def _price(config: RunConfig) -> Price | None:
    from agentdescent_adapters.providers import Price

    prompt, completion = config.price_prompt, config.price_completion
    if prompt is None and completion is None and config.price_cached is None:
        return None
    if prompt is None or completion is None:
        absent = "price_prompt" if prompt is None else "price_completion"
        raise UsageError(f"{absent} is missing ([prices] in a file): give prompt and completion, or neither")
    return Price(prompt, completion, config.price_cached)


def _proposer(config: RunConfig) -> object | None:
    """None: the model itself."""
    if config.proposer == "model":
        return None
    if config.proposer == "operators":
        from agentdescent_adapters.llm import Operators

        return Operators(strategy=make_strategy(config))
    return made("proposer", config.proposer, ("model", "operators"))


def _template(role: str, path: str | None) -> Template | None:
    """Of a file: what is above a line of three dashes is the system text, all of it the user's where there is none."""
    from agentdescent_adapters.llm import Template

    if path is None:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").strip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{role} {path}: cannot be read as UTF-8 text: {error}") from error
    at = lines.index(SEPARATOR) if SEPARATOR in lines else 0
    user = "\n".join(lines[at + 1 :] if SEPARATOR in lines else lines)
    return Template(user.strip(), "\n".join(lines[:at]).strip())
