"""One cell of the fault matrix: a small run of the engine whose model fails once, in one way, through one client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Literal, TypeAlias

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from agentdescent import Answer, Rate, Tariff, Task, async_evolve
from agentdescent.engine.event import Failed
from agentdescent.errors import RunError
from agentdescent.history.memory import MemoryLog
from agentdescent.record import Record
from agentdescent.result import EvolutionResult
from agentdescent_adapters.providers import Model, Request, claude, from_anthropic, from_openai, openai_compatible
from bench import scripted_server as scripted
from bench.scripted_server import ScriptedServer

Client: TypeAlias = Literal["openai_compatible", "claude", "OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic"]
CLIENTS: tuple[Client, ...] = ("openai_compatible", "claude", "OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic")
TIMEOUT, PAUSE = 3.0, 6.0
"""Seconds that a call has which is to be too slow, and for which the server keeps silent then."""
PATIENCE = 60.0
"""Seconds that any other call has, on a machine that may be busy."""
CEILING = 200
TASKS = [Task(f"t{n}", f"What is {n} + {n}?") for n in range(6)]


class Fault(Record, frozen=True):
    """`kind`: what the log has to say of it, "" when the call is repeated without a word. `times`: calls that it hits.
    `mock`: how the mock server does it; else `scripted` (of the server here) does. `streamed`: only so; None: both.
    `proposal`: hits the first proposal, not the first call."""

    name: str
    kind: str
    times: int = 1
    mock: tuple[Mapping[str, object], ...] = ()
    scripted: str = ""
    streamed: bool | None = None
    proposal: bool = False


def _fail(status: int, times: int = 1, **more: object) -> tuple[Mapping[str, object], ...]:
    return ({"type": "fail", "status": status, "times": times, **more},)


def _stream(kind: str, **more: object) -> tuple[Mapping[str, object], ...]:
    return ({"type": "stream_fault", "kind": kind, "after_chunks": 1, **more},)


FAULTS = (
    Fault("429", "", 2, _fail(429, 2, retry_after=1)),
    Fault("529", "", 2, _fail(529, 2, retry_after=0.5)),
    Fault("503 without a word", "", 2, scripted="503"),
    Fault("500", "provider", mock=_fail(500)),
    Fault("timeout", "timeout", mock=({"type": "delay", "seconds": PAUSE},)),
    Fault("disconnect", "provider", mock=_stream("disconnect"), streamed=True),
    Fault("truncated", "truncated", mock=_stream("truncate"), streamed=True),
    Fault("malformed", "malformed", mock=_stream("malformed"), streamed=True),
    Fault("stalled", "timeout", mock=_stream("stall", stall_seconds=PAUSE), streamed=True),
    Fault("disconnect", "provider", scripted="disconnect", streamed=False),
    Fault("truncated", "provider", scripted="truncated", streamed=False),
    Fault("malformed", "malformed", scripted="malformed", streamed=False),
    Fault("stalled", "timeout", scripted="stalled", streamed=False),
    Fault(
        "overflow",
        "overflow",
        mock=_fail(400, code="context_length_exceeded", message="prompt is too long: 9 > 8"),
        proposal=True,
    ),
)


class Cell(Record, frozen=True):
    fault: Fault
    client: Client
    streamed: bool

    @property
    def openai(self) -> bool:
        return "openai" in self.client.lower()

    @property
    def model(self) -> str:
        return f"{self.client}-{'stream' if self.streamed else 'whole'}-{self.fault.name.replace(' ', '-')}"


class Ended(Record, frozen=True):
    """What the log says: the kinds of its failures, tokens charged, and the error that ended the run, if one did."""

    kinds: tuple[str, ...]
    charged: int
    error: str
    outcomes: int


CELLS = tuple(
    Cell(fault, client, streamed)
    for fault in FAULTS
    for client in CLIENTS
    for streamed in (False, True)
    if fault.streamed in (None, streamed)
)


class Asking:
    """The least agent there can be: it asks a model for outputs, and another one for proposals."""

    def __init__(self, solver: Model, proposer: Model) -> None:
        self.name = solver.name
        self.tariff = Tariff(_rate(solver), _rate(proposer))
        self._solver = solver
        self._proposer = proposer

    async def solve(self, rendered: str, task: Task) -> Answer:
        reply = await self._solver.complete(Request(task.prompt, rendered))
        return Answer(reply.text, reply.usage)

    async def propose(self, rendered: str, task: Task, output: str, score: float, sample: int) -> Answer:
        reply = await self._proposer.complete(Request(f"{task.prompt}\n{output}", rendered, sample=sample))
        return Answer(f"add: {reply.text[:40]}", reply.usage)


def _rate(model: Model) -> Rate:
    terms = model.terms
    return Rate(strict=True, overhead=terms.overhead, bytes_per_token=terms.bytes_per_token, ceiling=terms.ceiling)


async def _made(cell: Cell, name: str, url: str, open_until: AsyncExitStack) -> Model:
    patience = TIMEOUT if cell.fault.kind == "timeout" else PATIENCE
    own: dict[str, Any] = {"stream": cell.streamed, "ceiling": CEILING, "timeout": patience}
    match cell.client:
        case "openai_compatible":
            return openai_compatible(name, base_url=f"{url}/v1", api_key="k", **own)
        case "claude":
            return claude(name, base_url=f"{url}/anthropic", api_key="k", **own)
        case "OpenAI":
            openai = open_until.enter_context(OpenAI(base_url=f"{url}/v1", api_key="k"))
            return from_openai(openai, name, **own)
        case "AsyncOpenAI":
            async_openai = await open_until.enter_async_context(AsyncOpenAI(base_url=f"{url}/v1", api_key="k"))
            return from_openai(async_openai, name, **own)
        case "Anthropic":
            anthropic = open_until.enter_context(Anthropic(base_url=f"{url}/anthropic", api_key="k"))
            return from_anthropic(anthropic, name, **own)
        case "AsyncAnthropic":
            client = AsyncAnthropic(base_url=f"{url}/anthropic", api_key="k")
            return from_anthropic(await open_until.enter_async_context(client), name, **own)


def _reward(task: Task, output: str) -> float:
    return 0.5


async def run(cell: Cell, url: str) -> Ended:
    """A run against the server there; the first call, or the first proposal, is for `cell.model`."""
    log = MemoryLog()
    other = f"other-{cell.model}"
    async with AsyncExitStack() as clients:
        solver = await _made(cell, other if cell.fault.proposal else cell.model, url, clients)
        proposer = await _made(cell, cell.model if cell.fault.proposal else other, url, clients)
        error = ""
        try:
            result = await async_evolve(
                TASKS, _reward, agent=Asking(solver, proposer), rounds=1, n_workers=1, max_tokens=1_000_000, log=log
            )
        except RunError as failed:
            if not isinstance(failed.result, EvolutionResult):
                raise
            result, error = failed.result, str(failed)
    events = list(log.events())
    kinds = tuple(event.kind for event in events if isinstance(event, Failed))
    return Ended(kinds, result.spend.total.tokens, error, result.spend.total.calls)


def scripted_server(cell: Cell) -> ScriptedServer:
    """Fails as the fault says, then answers."""
    body = scripted.openai_answer() if cell.openai else scripted.anthropic_answer()
    events = scripted.openai_events("Paris") if cell.openai else scripted.anthropic_events("Paris")
    good = scripted.stream(events, billed=15) if cell.streamed else scripted.whole(body, billed=15)
    broken: Mapping[str, Callable[[], scripted.Answer]] = {
        "503": lambda: scripted.whole({"error": {"message": "loading"}}, 503),
        "disconnect": lambda: scripted.Answer((), "reset", billed=15),
        "truncated": lambda: scripted.whole(body, cut=20, then="close", billed=15),
        "malformed": lambda: scripted.whole(body[:-20], billed=15),
        "stalled": lambda: scripted.whole(body, cut=20, then="hang", billed=15),
    }
    return ScriptedServer(*(broken[cell.fault.scripted]() for _ in range(cell.fault.times)), good)
