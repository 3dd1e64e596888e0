"""Which tasks train, which decide, which test: a seeded shuffle, stratified by cluster."""

from __future__ import annotations

from agentdescent.engine.draw import Draw
from agentdescent.engine.spec import Setup, Spec, Split


def stratified(spec: Spec, setup: Setup, draw: Draw) -> tuple[int, ...]:
    """Every task once, so that each prefix holds the clusters in proportion; the given order without shuffle.

    The i-th of the n tasks of a cluster, shuffled, stands at (i + u) / n, u drawn per cluster.
    """
    if not spec.shuffle:
        return tuple(range(len(setup.tasks)))
    clusters: dict[str, list[int]] = {}
    for index, task in enumerate(setup.tasks):
        clusters.setdefault(task.cluster, []).append(index)
    placed: list[tuple[float, int]] = []
    for number, cluster in enumerate(sorted(clusters)):
        members = sorted(clusters[cluster], key=lambda index: draw("shuffle", index))
        offset = draw("cluster", number)
        placed.extend(((rank + offset) / len(members), index) for rank, index in enumerate(members))
    return tuple(index for _, index in sorted(placed))


def part_sizes(spec: Spec, n: int) -> tuple[int, int, int]:
    """(train, held-out, test): test first, then held-out, at least one of it; the rest trains."""
    test = min(spec.test_limit, round(spec.test_share * n))
    heldout = max(1, min(spec.heldout_limit, round(spec.heldout_share * n)))
    return n - test - heldout, heldout, test


def make_split(spec: Spec, setup: Setup, draw: Draw) -> Split:
    order = stratified(spec, setup, draw)
    _, heldout, test = part_sizes(spec, len(order))
    positions = sorted(range(heldout), key=lambda position: draw("cheap", position))
    return Split(
        train=order[test + heldout :],
        heldout=order[test : test + heldout],
        test=order[:test],
        cheap=tuple(sorted(positions[: spec.cheap_size])),
    )
