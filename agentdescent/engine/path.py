"""What the next stages can cost at most, and whether free money covers them."""

from __future__ import annotations

from agentdescent import vector
from agentdescent.budget.call_budget import ceiling, lowered, lowest
from agentdescent.budget.governor import Governor, alone, fits, remaining_fraction, reservation
from agentdescent.budget.tariff import Rate, cost
from agentdescent.budget.usage import NOTHING, Amount, Usage, add, at_least_zero, scale, subtract
from agentdescent.engine.flow import lanes, next_round
from agentdescent.engine.oracle import audit_calls, known_of
from agentdescent.engine.population import live, shortest
from agentdescent.engine.spec import Setup
from agentdescent.engine.state import Sizes, State, Version, Worker
from agentdescent.merge.audit import missing

_REPLY_BYTES_PER_TOKEN = 4
"""For estimates only (the output a proposal will have to read): a reservation never relies on it."""


def sizes_of(setup: Setup, part: tuple[int, ...]) -> Sizes:
    unit = setup.tariff.solve.bytes_per_token
    residues = [0] * unit
    for index in part:
        residues[setup.tasks[index].size % unit] += 1
    return Sizes(len(part), sum(setup.tasks[index].size // unit for index in part), tuple(residues))


def sweep_cost(governor: Governor, sizes: Sizes, size: int) -> Amount:
    """The worst case of scoring an artifact of `size` bytes on every task of a part; an upper bound of the sum of
    the reservations. Nothing while nothing is known of what a call costs."""
    terms = governor.tariff.solve
    if not terms.strict:
        return NOTHING if alone(governor, "solve") else scale(reservation(governor, "solve", 0), sizes.count)
    unit = terms.bytes_per_token
    rounded = sum(n * -(-(size + residue) // unit) for residue, n in enumerate(sizes.residues) if n)
    return _bulk(terms, sizes.count, sizes.whole + rounded)


def _bulk(terms: Rate, calls: int, prompt: int) -> Amount:
    prompt += calls * terms.overhead
    completion = calls * terms.ceiling
    money = cost(terms.prices, Usage(prompt=prompt, completion=completion))
    return Amount(prompt + completion, money + calls if money else 0, calls * terms.calls, calls)


def gate_cost(state: State, size: int) -> Amount:
    return sweep_cost(state.governor, state.heldout, size)


def test_cost(state: State, size: int) -> Amount:
    return sweep_cost(state.governor, state.test, size)


def gate_hold(state: State, size: int, tasks: int) -> Amount:
    """What opening a gate on `tasks` tasks earmarks: its worst case, and what testing the candidate would cost
    more than is held for the head."""
    gate = gate_cost(state, size)
    if tasks < state.heldout.count:
        gate = Amount(gate.tokens, gate.cost, gate.calls * tasks // state.heldout.count, tasks)
    return add(gate, at_least_zero(subtract(test_cost(state, size), state.test_hold)))


def audit_hold(state: State, head: Version, size: int) -> Amount:
    """The worst case of the audit of a candidate of `size` bytes whose gate opens now on this head; nothing when there
    is none."""
    if not audit_calls(state, head.artifact):
        return NOTHING
    own = sweep_cost(state.governor, state.cheap, size)
    if not missing(known_of(state, head.artifact), state.split.cheap):
        return own
    return add(own, sweep_cost(state.governor, state.cheap, head.size))


def verdict_cost(state: State, head: Version) -> Amount:
    """The worst case of a gate on this head, and of the audit that may follow it."""
    return add(gate_cost(state, head.size), audit_hold(state, head, head.size))


def propose_estimate(state: State, version: Version, task: int) -> Amount:
    """The worst case of the proposal that may follow a rollout, with the longest output it may have to read; with a
    call budget at its floor, to which the ceiling may be lowered."""
    if alone(state.governor, "propose"):
        return NOTHING
    tariff, budget = state.setup.tariff, state.spec.call_budget
    output = min(tariff.output_limit, _REPLY_BYTES_PER_TOKEN * tariff.solve.ceiling)
    floor = None if budget is None else lowest(budget)
    return reservation(state.governor, "propose", version.size + state.setup.tasks[task].size + output, floor)


def proposal_terms(state: State, worker: Worker, size: int) -> tuple[int, Amount]:
    """The ceiling of the proposal that a worker wants, its prompt of `size` bytes, and what to reserve for it.

    With a call budget that is the ceiling it allocates, lowered in steps of 16 tokens as far as the floor where the
    rest would come out of what other turns, and a verdict, are expected to need.
    """
    governor, budget = state.governor, state.spec.call_budget
    if budget is None:
        return state.setup.tariff.propose.ceiling, reservation(governor, "propose", size)
    wanted = ceiling(budget, worker.score, remaining_fraction(governor))
    reserve = reservation(governor, "propose", size, wanted)
    head = state.head if worker.copy is None else live(state, worker.copy.number)
    others = add(at_least_zero(subtract(state.expected, worker.path)), verdict_cost(state, head.version))
    if not governor.tariff.propose.strict or fits(governor, add(reserve, others)):
        return wanted, reserve
    wanted = lowered(budget, wanted, lambda n: fits(governor, add(reservation(governor, "propose", size, n), others)))
    return wanted, reservation(governor, "propose", size, wanted)


def next_task(state: State, index: int, worker: Worker) -> int:
    """Lane l of n owns train[i] with i mod n = l, and goes round; with more lanes than tasks they share. So does
    worker w: its lanes are those with l mod n_workers = w."""
    train, n = state.split.train, lanes(state.spec)
    if index >= len(train):
        return train[(index + worker.turns) % len(train)]
    own = (len(train) - index + n - 1) // n
    return train[index + n * (worker.turns % own)]


def next_copy(state: State, index: int, worker: Worker, number: int) -> Version:
    """What the worker runs in round `number`: its copy, refreshed every `refresh_interval` rounds, staggered."""
    if worker.copy is None or (number + index) % state.spec.refresh_interval == 0:
        return state.head.version
    return worker.copy


def worker_path(
    state: State, index: int, number: int, task: int | None = None, start: Version | None = None
) -> tuple[int, Version, Amount, Amount]:
    """(task, version, reservation, whole path) of the next turn of a worker: rollout, proposal, shared gate. `task`:
    None for the next in its shard. `start`: what was picked from a population."""
    worker = vector.get(state.workers, index)
    task = next_task(state, index, worker) if task is None else task
    version = start or next_copy(state, index, worker, number)
    own = reservation(state.governor, "solve", version.size + state.setup.tasks[task].size)
    if alone(state.governor, "solve"):
        return task, version, own, own
    rest = add(propose_estimate(state, version, task), verdict_cost(state, start or state.head.version))
    return task, version, own, add(own, rest)


def cheapest_path(state: State) -> Amount:
    """The least that a new proposal can need from rollout to verdict, unit by unit."""
    start = shortest(state) if state.population.members else None
    continuous = state.spec.schedule == "continuous"
    number = next_round(state.flow, state.spec) if continuous else state.round + 1
    paths = [worker_path(state, index, number, start=start)[3] for index in range(state.spec.n_workers)]
    return Amount(
        min(path.tokens for path in paths),
        min(path.cost for path in paths),
        min(path.calls for path in paths),
        min(path.rollouts for path in paths),
    )


def affords_turn(state: State, path: Amount) -> bool:
    """True when free money covers this path and what rollouts in progress may still lead to."""
    return fits(state.governor, add(path, state.expected))
