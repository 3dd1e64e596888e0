"""What is taken for granted of a run before it begins: how long answers are, and how often a proposal is worth a gate.

By it a call is expected to use so much; what it can use at most is the tariff's to say.
"""

from __future__ import annotations

from agentdescent.artifact.strategy import SingleSlot
from agentdescent.budget.tariff import Rate, Tariff, cost
from agentdescent.budget.usage import Amount, Usage
from agentdescent.engine.spec import Setup, Spec, Split
from agentdescent.record import Record, replace


class Assumptions(Record, frozen=True):
    """What a forecast takes for granted; the shares are means of runs of the rule agent (the demo, and Banking77 with
    5 to 77 labels). Of a single run they may be wrong by a factor of two or three.

    `bytes_per_token`: of text, unless the tariff says more. `solve_completion`, `propose_completion`: shares of the
    ceiling that an answer takes, but at most `answer` tokens of a solution, `rule` and `text` tokens of a proposal to a
    list and of a whole text. `unbilled`: bytes of a proposal that takes no tokens. `unsolved`: share of the first
    rollouts that ask for a proposal, which halves with every `halving` proposals for each cluster of tasks (taken to be
    at least 8). `verified`: share of the proposals that change something. `gained`: of those, share that passes
    `screen`. `fused`: proposals to a gate, and `adaptive` those of an adaptive
    width. `asked`: share of the held-out tasks a curtailed gate asks. `kept`: share of the proposed text that is in the
    artifact in the end.
    """

    bytes_per_token: int = 4
    solve_completion: float = 0.6
    propose_completion: float = 0.2
    answer: int = 200
    rule: int = 64
    text: int = 400
    unbilled: int = 100
    unsolved: float = 0.7
    halving: float = 3.0
    verified: float = 0.8
    gained: float = 0.6
    fused: float = 2.2
    adaptive: float = 8.0
    asked: float = 0.8
    kept: float = 0.75


class Use(Record, frozen=True):
    """Means, so not whole: `solves` and `proposals` are calls of either kind, the rest tokens."""

    solves: float = 0.0
    proposals: float = 0.0
    prompt: float = 0.0
    completion: float = 0.0


NO_USE = Use()


def times(use: Use, n: float) -> Use:
    return Use(use.solves * n, use.proposals * n, use.prompt * n, use.completion * n)


def plus(a: Use, b: Use) -> Use:
    return Use(a.solves + b.solves, a.proposals + b.proposals, a.prompt + b.prompt, a.completion + b.completion)


def amount(tariff: Tariff, use: Use) -> Amount:
    """In the units of the caps, rounded down."""
    prompt, completion = int(use.prompt), int(use.completion)
    money = cost(rate_of(tariff, use).prices, Usage(prompt=prompt, completion=completion))
    calls = use.solves * tariff.solve.calls + use.proposals * tariff.propose.calls
    return Amount(prompt + completion, money, int(calls), int(use.solves))


class Shape(Record, frozen=True):
    """What matters of the tasks: mean bytes and number of each part, the number of clusters, and
    whether one text evolves."""

    tariff: Tariff
    train: float
    heldout: float
    test: float
    cheap: float
    n_heldout: int
    n_test: int
    n_cheap: int
    clusters: int
    single: bool


def shape_of(spec: Spec, setup: Setup, split: Split) -> Shape:
    """With the ceiling of proposals that a call budget sets."""
    cheap = tuple(split.heldout[position] for position in split.cheap)
    return Shape(
        tariff=_budgeted(spec, setup.tariff),
        train=_mean_size(setup, split.train),
        heldout=_mean_size(setup, split.heldout),
        test=_mean_size(setup, split.test),
        cheap=_mean_size(setup, cheap),
        n_heldout=len(split.heldout),
        n_test=len(split.test),
        n_cheap=len(cheap),
        clusters=len({task.cluster for task in setup.tasks}),
        single=isinstance(spec.strategy, SingleSlot),
    )


def _mean_size(setup: Setup, part: tuple[int, ...]) -> float:
    return sum(setup.tasks[index].size for index in part) / len(part) if part else 0.0


def _budgeted(spec: Spec, tariff: Tariff) -> Tariff:
    budget, rate = spec.call_budget, tariff.propose
    if budget is None:
        return tariff
    return replace(
        tariff, propose=replace(rate, ceiling=min(rate.ceiling, budget.base) if rate.strict else budget.base)
    )


def solving(shape: Shape, rules: Assumptions, size: float) -> Use:
    """One solve whose artifact and task have so many bytes together."""
    return Use(1.0, 0.0, _prompt(shape.tariff.solve, rules, size), _answer(shape, rules))


def proposing(shape: Shape, rules: Assumptions, size: float) -> Use:
    """One proposal; to the bytes of artifact and task come those of the output. It takes nothing where it is strict and
    calls nobody."""
    if shape.tariff.propose.strict and not shape.tariff.propose.calls:
        return Use(proposals=1.0)
    output = min(shape.tariff.output_limit, _answer(shape, rules) * rules.bytes_per_token)
    return Use(0.0, 1.0, _prompt(shape.tariff.propose, rules, size + output), _reply(shape, rules))


def reply_bytes(shape: Shape, rules: Assumptions) -> float:
    """The text of a proposal."""
    return _reply(shape, rules) * rules.bytes_per_token or float(rules.unbilled)


def _answer(shape: Shape, rules: Assumptions) -> float:
    return min(rules.answer, shape.tariff.solve.ceiling * rules.solve_completion)


def _reply(shape: Shape, rules: Assumptions) -> float:
    most = rules.text if shape.single else rules.rule
    return min(most, shape.tariff.propose.ceiling * rules.propose_completion)


def _prompt(rate: Rate, rules: Assumptions, size: float) -> float:
    """The overhead is a bound on text too, at the ratio of the tariff."""
    return (rate.overhead * rate.bytes_per_token + size) / max(rules.bytes_per_token, rate.bytes_per_token)


def scoring(shape: Shape, rules: Assumptions, size: float) -> Use:
    """An artifact of `size` bytes on every held-out task."""
    return times(solving(shape, rules, size + shape.heldout), shape.n_heldout)


def testing(shape: Shape, rules: Assumptions, size: float) -> Use:
    """On every test task."""
    return times(solving(shape, rules, size + shape.test), shape.n_test)


def rate_of(tariff: Tariff, use: Use) -> Rate:
    return tariff.propose if use.proposals else tariff.solve
