"""Who proposes new texts: a Model, a callable, the adapter itself; what each may answer, and what it costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from gepa.adapters.default_adapter.default_adapter import DefaultAdapter

from agentdescent import Answer, CallFailed, EvolutionResult, RunError, Usage, UsageError
from agentdescent.engine.event import Failed, Proposed
from agentdescent.ports import Repeat
from agentdescent_adapters.gepa import from_gepa
from agentdescent_adapters.gepa.waiting import Waiting
from agentdescent_adapters.providers.model import Model, Reply, Request, Terms
from tests.adapters.gepa_jobs import KINDS, SEED, Reflector, bridge, colours
from tests.adapters.gepa_jobs import Model as Solver


class Reflecting:
    """A Model that answers as Reflector does, or fails as told."""

    name = "reflecting"
    terms = Terms(ceiling=500)
    repeat: Repeat = "charged"

    def __init__(self, fault: Callable[[int], Reply | CallFailed | None] = lambda call: None) -> None:
        self.requests: list[Request] = []
        self._fault = fault

    async def complete(self, request: Request) -> Reply:
        await asyncio.sleep(0)
        self.requests.append(request)
        found = self._fault(len(self.requests))
        if isinstance(found, CallFailed):
            raise found
        return found or Reply(Reflector()(request.user), "stop", Usage(len(request.user), 10))


def proposals(lm: Any, **options: Any) -> tuple[Any, list[Proposed], list[Failed]]:
    solver = Solver()
    _, result = bridge(solver, reflection_lm=lm, usage=solver.usage, **options).evolve(rounds=20)
    events = list(result.log.events())
    asked = [event for event in events if isinstance(event, Proposed)]
    return result, asked, [event for event in events if isinstance(event, Failed)]


def test_a_model_reflects_and_says_what_it_used() -> None:
    model = Reflecting()
    assert isinstance(model, Model)
    result, asked, failed = proposals(model)
    assert result.final > 0.5
    assert [event.usage for event in asked] == [Usage(len(one.user), 10) for one in model.requests]
    assert len({request.sample for request in model.requests}) == len(model.requests)
    assert not failed


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply("```\nBe", "length", Usage(7, 3)), "truncated"),
        (Reply("```\nBe", "unknown", Usage(7, 3)), "truncated"),
        (Reply(" \n", "stop", Usage(7, 3)), "empty"),
        (CallFailed("provider", "500", Usage(7, 3)), "provider"),
    ],
)
def test_what_a_model_may_answer_instead(reply: Reply | CallFailed, kind: str) -> None:
    _, asked, failed = proposals(Reflecting(lambda call: reply if call == 1 else None))
    assert [(event.kind, event.usage) for event in failed] == [(kind, Usage(7, 3))]
    assert asked


def test_a_call_that_was_turned_away_is_repeated_only_where_nothing_was_billed() -> None:
    def refused(call: int) -> CallFailed | None:
        return CallFailed("rate-limit", "429", Usage(calls=0), retry_after=0.0) if call == 1 else None

    model = Reflecting(refused)
    _, asked, failed = proposals(model)
    assert not failed, "the trace was kept, so nothing was billed before it"
    assert len(model.requests) == len(asked) + 1
    model = Reflecting(refused)
    _, asked, failed = proposals(model, repeat="free")
    assert [(event.kind, event.usage is not None and event.usage.calls) for event in failed] == [("rate-limit", 1)]


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("", "empty", "reflection_lm returned nothing"),
        (None, "empty", "reflection_lm returned nothing"),
        (7, "contract", "reflection_lm returned int: return text, or Answer(text, usage)"),
        (ValueError("no"), "provider", "reflection_lm failed on task 'train-"),
    ],
)
def test_what_a_callable_may_return_instead(said: Any, kind: str, message: str) -> None:
    def lm(prompt: str) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    with pytest.raises(RunError) as stopped:
        proposals(lm)
    result = stopped.value.result
    assert isinstance(result, EvolutionResult)
    assert {event.kind for event in result.log.events() if isinstance(event, Failed)} == {kind}
    assert message in str(stopped.value)


@pytest.mark.parametrize("said", ["NONE", "```\nnone\n```", "```\n\n```", SEED["system"]])
def test_a_reply_that_proposes_nothing(said: str) -> None:
    result, asked, failed = proposals(lambda prompt: said)
    assert {event.ops for event in asked} == {()}
    assert (result.version, failed) == (0, [])


def test_an_asynchronous_callable_and_a_prompt_of_ones_own() -> None:
    prompts = list[str]()

    async def lm(prompt: str) -> Answer:
        await asyncio.sleep(0)
        prompts.append(prompt)
        return Answer(Reflector()(prompt), Usage(1, 1))

    template = "Mine.\n```\n<curr_param>\n```\n<side_info>"
    result, asked, _ = proposals(lm, reflection_prompt_template={"system": template})
    assert result.final > 0.5
    assert all(prompt.startswith("Mine.") for prompt in prompts)
    assert {event.usage for event in asked} == {Usage(1, 1)}


def test_the_adapters_own_proposals_are_used_and_checked() -> None:
    class Own(DefaultAdapter):
        def propose_new_texts(self, candidate: Any, reflective_dataset: Any, components_to_update: Any) -> Any:
            assert list(reflective_dataset) == components_to_update
            return (
                wrong[0]
                if wrong
                else {"system": candidate["system"] + "\n" + "\n".join(f"{kind}: red" for kind in KINDS)}
            )

    wrong = list[Any]()
    best, result = from_gepa(Own(Solver()), colours(), seed_candidate=SEED).evolve()
    assert result.final == pytest.approx(2 / 12)
    assert best["system"].startswith(SEED["system"] + "\napple: red")
    with pytest.raises(UsageError, match="has propose_new_texts"):
        from_gepa(Own(Solver()), colours(), seed_candidate=SEED, reflection_lm=Reflector())
    for wrong[:] in ([{"sistem": "x"}], [{"system": 7}], ["x"]):
        with pytest.raises(RunError, match="propose_new_texts returned"):
            from_gepa(Own(Solver()), colours(), seed_candidate=SEED).evolve()


def test_the_loop_ends_with_the_run() -> None:
    proposals(Reflecting())
    assert [thread for thread in threading.enumerate() if thread.name == "reflection" and thread.is_alive()] == []


def test_waiting_goes_on_after_it_was_closed_and_gives_up_what_it_waited_for() -> None:
    waiting, ended = Waiting(), list[BaseException]()

    async def value() -> int:
        return 7

    async def never() -> None:
        started.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            waiting(never())
        except BaseException as error:
            ended.append(error)

    started = threading.Event()
    assert (waiting(value()), waiting(value())) == (7, 7)
    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(10)
    waiting.close()
    thread.join(10)
    assert [type(error).__name__ for error in ended] == ["CancelledError"]
    assert waiting(value()) == 7
    waiting.close()
