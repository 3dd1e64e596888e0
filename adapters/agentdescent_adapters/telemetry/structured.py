"""The events that matter to an operator as structured log lines, through structlog."""

from __future__ import annotations

import sys
from typing import TextIO

import structlog

from agentdescent.engine.event import (
    Abandoned,
    Amended,
    Committed,
    Event,
    Failed,
    Interrupted,
    Judged,
    Promoted,
    Started,
    Stopped,
)
from agentdescent.engine.state import State
from agentdescent.history.rounds import mean


def json_logger(stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """A logger of its own (no global configuration is touched): one JSON object a line, with level and time."""
    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
    )
    return logger


class StructuredLines:
    """An observer: a line for the start, every verdict, commit, failure and end. Replay tells it nothing."""

    def __init__(self, logger: structlog.typing.FilteringBoundLogger) -> None:
        self.logger = logger

    def __call__(self, event: Event, state: State) -> None:
        log = self.logger.bind(event_number=state.seq - 1, round=state.round, tokens=state.governor.spent.tokens)
        match event:
            case Started():
                log.info("started", tasks=len(event.setup.tasks), seed=event.spec.seed, agent=event.setup.agent)
            case Judged():
                log.info("judged", subject=event.subject, outcome=event.outcome)
            case Committed():
                log.info("committed", subject=event.subject, version=event.base + 1, reward=mean(state))
            case Promoted():
                log.info("promoted", version=event.version)
            case Failed():
                log.warning("failed", command=event.id, kind=event.kind, message=event.message)
            case Abandoned():
                log.warning("abandoned", command=event.id)
            case Interrupted():
                log.warning("interrupted", reason=event.reason)
            case Amended():
                log.info("amended", max_tokens=event.caps.tokens, rounds=event.caps.rounds)
            case Stopped():
                log.info("stopped", reason=event.reason, error=event.error, reward=mean(state))
            case _:
                pass
