"""Optuna 5.0.0 as a search over what to include: TPE with pruning, "asha" and "hyperband".

It chooses, and does not write: POOL proposals are bought before the first trial, each for a train task that failed at
the start, as others buy theirs. A trial says of each whether it is included, and scores the held-out tasks STEP at a
time, reporting the mean so far and ending where the pruner says so. The first trial is the start, with nothing
included. The cap is looked at by a callback after each trial, which stops the study. The study is in SQLite; proposals
and tokens are among its attributes, and the sampler is pickled after each trial, which is how its documentation says
to go on reproducibly. What a trial that was killed has spent, nobody knows.
"""

from __future__ import annotations

import importlib
import os
import pickle
from typing import Any

from bench.peers.driving import Plan, drive
from bench.peers.world import HELDOUT, TITLE, World, text_of

POOL = 16
STEP = 4
STEPS = HELDOUT // STEP


def pruner(optuna: Any, name: str) -> Any:
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=STEPS)
    return optuna.pruners.SuccessiveHalvingPruner()


def sampler(optuna: Any, path: str, seed: int) -> Any:
    if not os.path.exists(path):
        return optuna.samplers.TPESampler(seed=seed)
    with open(path, "rb") as file:
        return pickle.load(file)


def keep(path: str, value: object) -> None:
    with open(f"{path}.new", "wb") as file:
        pickle.dump(value, file)
    os.replace(f"{path}.new", path)


def pool(study: Any, world: World) -> list[str]:
    """The proposals, bought once."""
    found = study.user_attrs.get("pool")
    if found is None:
        failed = (case.id for case in world.train if world.solve(TITLE, case.id).text == "wrong")
        found = [world.propose(TITLE, next(failed)).text for _ in range(POOL)]
        study.set_user_attr("pool", found)
        study.set_user_attr("tokens", world.tokens)
        study.enqueue_trial({f"rule-{i}": False for i in range(POOL)})
    return list(found)


def chosen(rules: list[str], params: dict[str, bool]) -> str:
    return text_of(rule for i, rule in enumerate(rules) if params[f"rule-{i}"])


def search(plan: Plan, world: World) -> str:
    optuna: Any = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    os.makedirs(plan.directory, exist_ok=True)
    kept = os.path.join(plan.directory, "sampler")
    study = optuna.create_study(
        storage=f"sqlite:///{plan.directory}/study.db",
        study_name="rules",
        direction="maximize",
        load_if_exists=True,
        sampler=sampler(optuna, kept, plan.seed),
        pruner=pruner(optuna, plan.variant),
    )
    rules = pool(study, world)
    before = study.user_attrs["tokens"] - world.tokens

    def objective(trial: Any) -> float:
        text = text_of(rule for i, rule in enumerate(rules) if trial.suggest_categorical(f"rule-{i}", [False, True]))
        right = 0
        for step in range(STEPS):
            part = world.heldout[step * STEP : (step + 1) * STEP]
            right += sum(world.solve(text, case.id).text == "right" for case in part)
            trial.report(right / (STEP * (step + 1)), step + 1)
            if step + 1 < STEPS and trial.should_prune():
                raise optuna.TrialPruned
        return right / HELDOUT

    def after(study: Any, trial: Any) -> None:
        study.set_user_attr("tokens", before + world.tokens)
        keep(kept, study.sampler)
        world.show(chosen(rules, study.best_params))
        if before + world.tokens >= plan.cap:
            study.stop()

    if before + world.tokens < plan.cap:
        study.optimize(objective, callbacks=[after])
    return chosen(rules, study.best_params)


if __name__ == "__main__":
    drive(search, "optuna", "sqlalchemy")
