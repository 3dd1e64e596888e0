"""The world *clusters* once more, in one file that imports nothing but the standard library, for any interpreter.

Its law is told in agentdescent_adapters.worlds.clusters: held-out tasks fail in groups, a useful rule mends most of a
group, and every rule, most of all a useless one, loses tasks that were solved. Answers and prices are those of that
world to the token, where calls cost at most 4,000 tokens and proposals 5,600, as in `agentdescent ab`; the tests hold
the two against each other.

Whatever a peer's text looks like, the world reads the rules in it (`rules_of`), in their order, and nothing else, so
the same rules cost and score the same however they are laid out. Every call is billed by a line in a file before it is
answered.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

TITLE = "# Playbook"
HELDOUT, TRAIN = 40, 2_000
MOST_SOLVE, MOST_PROPOSE = 4_000, 5_600
MEAN_SOLVE = 1_940
"""Mean tokens of a rollout, as a user who looks at a bill would know it: of lognormal(ln 1800, 0.4), cut at 4,000."""
KILLED = 86
"""The exit code of a process that was to die."""

CLUSTERS = 10
SOLVED_AT_START, MENDS, USEFUL = 0.3, 0.8, 0.3
LOSES = {"mend": 0.02, "stir": 0.05}
PASSES = {"mend": 0.8, "stir": 0.1}
_GOLDEN = 0.6180339887498949
_MOST_DRAWN, _PROPOSAL_COSTS = 10_000, 1.4
_RULE = re.compile(r"- ((mend|stir) (\d+) for (\S+) \((\d+)\))")
_TOTAL = sum(1 / k for k in range(1, CLUSTERS + 1))


class Case(NamedTuple):
    """A task: what a peer may know of it."""

    id: str
    prompt: str
    cluster: int


class Reply(NamedTuple):
    """What a call said, and the tokens that it cost."""

    text: str
    tokens: int


def rules_of(text: str) -> tuple[str, ...]:
    """The rules in a text, in its order: each on a line of its own that begins with a dash."""
    return tuple(found[1] for line in text.split("\n") if (found := _RULE.fullmatch(line.strip())))


def text_of(rules: Iterable[str]) -> str:
    """The one text that stands for all that hold these rules in this order."""
    return "\n".join((TITLE, *(f"- {rule}" for rule in rules)))


def cases(seed: int) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Held-out tasks and train tasks."""
    heldout = (drawn_cluster(draw(seed, "cluster", i)) for i in range(HELDOUT))
    start = draw(seed, "train-cluster", 0)
    train = (drawn_cluster((start + i * _GOLDEN) % 1.0) for i in range(TRAIN))
    return (
        tuple(Case(f"held-{i}", f"cluster {cluster}", cluster) for i, cluster in enumerate(heldout)),
        tuple(Case(f"train-{i}", "a case", cluster) for i, cluster in enumerate(train)),
    )


def drawn_cluster(u: float) -> int:
    left, cluster = u * _TOTAL, 0
    while cluster < CLUSTERS - 1 and left >= 1 / (cluster + 1):
        left -= 1 / (cluster + 1)
        cluster += 1
    return cluster


def draw(seed: int, purpose: str, key: int) -> float:
    raw = hashlib.blake2b(f"{seed}/{purpose}/{key}".encode(), digest_size=8).digest()
    return (int.from_bytes(raw, "big") >> 11) / 2.0**53


def number(*parts: object) -> int:
    text = "/".join(map(str, parts))
    return int(hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:15], 16)


class World:
    """One world, its bill, and what was shown of a run in it. Calls may come from several threads.

    `bills`: the file that a line "TOKENS KEY" is added to for every call; "" for none. `kill_after`: so many calls are
    billed and answered, and at the next the process dies without a word. `tokens`, `calls`: of this process;
    `seconds`: CPU time that the calls themselves took. `curve`: (tokens spent, true quality) whenever `show` was given
    something better or worse than before.
    """

    def __init__(self, seed: int, bills: str = "", kill_after: int | None = None) -> None:
        self.seed = seed
        self.heldout, self.train = cases(seed)
        self.tokens = self.calls = 0
        self.seconds = 0.0
        self.curve: list[tuple[int, float]] = []
        self._kill_after = kill_after
        self._bills = os.open(bills, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if bills else None
        self._lock = threading.Lock()
        self._case = {case.id: case for case in (*self.heldout, *self.train)}
        self._place = {case.id: place for place, case in enumerate(self.heldout)}
        self._keys = [number(case.id) for case in self.heldout]
        start = tuple(self._draw("start", key) < SOLVED_AT_START for key in self._keys)
        self._solved: dict[tuple[str, ...], tuple[bool, ...]] = {(): start}

    # --- calls --------------------------------------------------------------------------------------------------------

    def solve(self, text: str, task: str) -> Reply:
        """`right` or `wrong`."""
        begun = time.thread_time()
        rules = rules_of(text)
        key = number(text_of(rules), task)
        with self._lock:
            tokens = self._bill(min(MOST_SOLVE, self._cost("solve", key)), key)
            found = "right" if self._right(rules, task) else "wrong"
            self.seconds += time.thread_time() - begun
        return Reply(found, tokens)

    def propose(self, text: str, task: str, sample: int = 0) -> Reply:
        """A rule for the cluster of a train task. Another sample gives another."""
        begun = time.thread_time()
        key = number(text_of(rules_of(text)), task, sample)
        with self._lock:
            tokens = self._bill(min(MOST_PROPOSE, round(self._cost("propose", key) * _PROPOSAL_COSTS)), key)
            kind = "mend" if self._draw("useful", key) < USEFUL else "stir"
            self.seconds += time.thread_time() - begun
        return Reply(f"{kind} {self._case[task].cluster} for {task} ({key % 10**9})", tokens)

    def _bill(self, tokens: int, key: int) -> int:
        if self._kill_after is not None and self.calls >= self._kill_after:
            os._exit(KILLED)
        if self._bills is not None:
            os.write(self._bills, f"{tokens} {key}\n".encode())
        self.tokens += tokens
        self.calls += 1
        return tokens

    def _cost(self, purpose: str, key: int) -> int:
        u = max(self._draw(f"{purpose}-u", key), 2.0**-53)
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * self._draw(f"{purpose}-v", key))
        return min(_MOST_DRAWN, round(min(1800 * math.exp(0.4 * normal), float(_MOST_DRAWN))))

    # --- the truth, which costs nothing -------------------------------------------------------------------------------

    def quality(self, text: str) -> float:
        """The share of held-out tasks that a text solves."""
        return sum(self._truth(rules_of(text))) / HELDOUT

    def show(self, text: str) -> None:
        """This is what the run would hand out if it ended now."""
        with self._lock:
            begun = time.thread_time()
            quality = self.quality(text)
            if not self.curve or self.curve[-1][1] != quality:
                self.curve.append((self.tokens, quality))
            self.seconds += time.thread_time() - begun

    def _right(self, rules: tuple[str, ...], task: str) -> bool:
        place = self._place.get(task)
        if place is not None:
            return self._truth(rules)[place]
        made = (_RULE.fullmatch(f"- {rule}") for rule in rules)
        return any(m and m[4] == task and self._draw("verify", int(m[5])) < PASSES[m[2]] for m in made)

    def _truth(self, rules: tuple[str, ...]) -> tuple[bool, ...]:
        known = next(length for length in range(len(rules), -1, -1) if rules[:length] in self._solved)
        solved = self._solved[rules[:known]]
        for length in range(known, len(rules)):
            solved = self._solved[rules[: length + 1]] = self._after(solved, rules[length])
        return solved

    def _after(self, solved: tuple[bool, ...], rule: str) -> tuple[bool, ...]:
        kind, cluster, _, _, rank = rule.split()
        rank = rank.strip("()")
        after = []
        for right, case, key in zip(solved, self.heldout, self._keys, strict=True):
            if right:
                after.append(self._draw(f"lose {rank}", key) >= LOSES[kind])
            else:
                mends = kind == "mend" and case.cluster == int(cluster)
                after.append(mends and self._draw(f"mend {rank}", key) < MENDS)
        return tuple(after)

    def _draw(self, purpose: str, key: int) -> float:
        return draw(self.seed, purpose, key)
