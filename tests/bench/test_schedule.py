"""A small version of bench.schedule, in simulated time; its real threads are left to the bench."""

from __future__ import annotations

from agentdescent.job import Options
from bench.frontier import mean_and_error, to_target
from bench.latencies import ordered_digests, over_bound, work_conserving


def test_the_bound_is_that_of_servers_that_never_rest() -> None:
    assert work_conserving([3.0, 1.0, 1.0, 1.0], 2) == 3.0
    assert work_conserving([1.0, 1.0, 1.0, 3.0], 2) == 4.0
    assert work_conserving([2.0] * 10, 1) == 20.0


def test_a_wider_window_comes_nearer_to_the_bound_and_arrival_to_within_a_tenth() -> None:
    arrival, *ordered = (
        over_bound("arrival", 1, 3_000),
        *(over_bound("ordered", window, 3_000) for window in (1, 4, 16)),
    )
    assert 1.0 <= arrival < 1.1
    assert ordered[0] > 3.5
    assert ordered == sorted(ordered, reverse=True)
    assert ordered[2] < 2.2


def test_sixteen_workers_are_faster_than_one_and_need_no_more() -> None:
    together = Options(n_workers=16, asynchronous=True, admission="arrival")
    one = [to_target(seed, {"n_workers": 1}) for seed in range(6)]
    many = [to_target(seed, together) for seed in range(6)]
    assert all(run[3] for run in (*one, *many))
    tokens, _ = mean_and_error([run[0] for run in many])
    seconds, error = mean_and_error([run[1] for run in many])
    assert tokens < 1.15 * mean_and_error([run[0] for run in one])[0]
    assert seconds + 2 * error < mean_and_error([run[1] for run in one])[0] / 3


def test_the_ordered_log_is_one_whatever_the_latencies() -> None:
    assert len(ordered_digests(4)) == 2  # one of each schedule
