"""Small runs with a real model, in this process or, as a script, in one that may be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from agentdescent import MemoryLog, Task, evolve
from agentdescent.ports import Log
from agentdescent.recovery import Observer
from agentdescent.result import EvolutionResult
from agentdescent_adapters.disk import DiskLog
from agentdescent_adapters.llm import LLMAgent
from agentdescent_adapters.tasks.scorers import scorer
from bench.llama import KEY, MODEL, Server
from bench.real_model import agent_of

MESSAGES = {
    "lost parcel": (
        "The courier says he left my box at the door and there is nothing",
        "Tracking has not moved for nine days, where is my package?",
        "My neighbour got hers and mine never came",
        "It says delivered and I have not seen it",
        "Which depot is my parcel lying in?",
        "Nobody brought the boots I ordered last week",
    ),
    "refund": (
        "Please send me my money back for the broken lamp",
        "I returned the jacket and was never paid",
        "How long until the sum is on my account again?",
        "You took the price twice, I want one of them returned",
        "The voucher was not given back when I cancelled",
        "Can I have cash for what I sent back?",
    ),
    "password": (
        "The login page does not take my password any more",
        "I forgot the secret word I chose in spring",
        "The mail to set a new password never arrives",
        "Locked out after three wrong tries",
        "How do I change what I sign in with?",
        "My phone with the code is gone and I cannot sign in",
    ),
}
LABELS = sorted(MESSAGES)
TASKS = [
    Task(f"{label} {number}", text, {"label": label, "cluster": label})
    for label, texts in MESSAGES.items()
    for number, text in enumerate(texts)
]


def run(
    agent: LLMAgent, cap: int, *, rounds: int | None = 2, log: Log | None = None, observer: Observer | None = None
) -> EvolutionResult:
    """Six held-out tasks, three tests."""
    return evolve(
        TASKS,
        scorer("exact"),
        agent=agent,
        max_tokens=cap,
        rounds=rounds,
        heldout_share=1 / 3,
        test_share=1 / 6,
        deadline=200.0,
        log=MemoryLog() if log is None else log,
        observers=() if observer is None else (observer,),
    )


def main(url: str, directory: str, cap: int) -> None:
    agent = agent_of(Server(url, KEY, MODEL, 0), LABELS)
    with DiskLog.open(directory) if Path(directory, "events.jsonl").exists() else DiskLog.create(directory) as log:
        run(agent, cap, log=log)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
