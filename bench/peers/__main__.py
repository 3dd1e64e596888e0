"""Side by side with peers: other optimisers on the same scripted worlds, at the same prices, under the same cap.

    python -m bench.peers --json      # {"peers": {..: {"tokens_to_target_ratio": [lo, mid, hi], "overshoot": ..,
                                      #  "engine_ms": .., "resume_identical": .., ..}}, "seeds": 20, "cap": 1500000, ..}

Compared: this package as it is and with `thrifty=True`; the public package of the same name; GEPA; Optuna with
successive halving and Hyperband. Each is installed in an environment of its own under build/peers, and each run is a
process of its own. Seeds are worlds: one world is the same for all, its answers, its proposer and what every call
costs (see world.py). Prices vary from call to call, 1,940 tokens a rollout in the mean and 2,690 a proposal.

Measured, over the seeds:

* `tokens_to_target_ratio`: mean tokens until what the run would hand out has the true quality `target`, the peer's over
  those of this package as it is, [lo, mid, hi] of the interval of 95 % of experiment.paired; what is not reached within
  the cap counts as the cap, so ratios are nearer to 1 than the truth. `ratio_to_agentdescent-thrifty` and so on: over
  those of another row. `reached`: share of seeds. `quality`: true, of what was handed out in the end; `quality_at_cap`:
  when the cap was spent, for those that spend more.
* `overshoot`: tokens beyond the cap, as a share of it, the most and the mean; `spent`: all, as a share. Both by a file
  that every call adds a line to before it is answered, and which no peer knows of.
* `engine_ms`: CPU time per call, less what the world's calls take: of the process and its children, from when the peer
  is called until it returns; median. Packages are imported before; what Optuna imports only when it is used is 8 % of
  its figure. Every peer keeps on disk what it needs to go on.
* `resume_identical`: the run is killed with os._exit before a call is billed, after a share of its calls that differs
  from seed to seed, and gone on with as its documentation says; and ends with the same text for the same tokens in all.
  `resume_extra_tokens`: the largest difference to the tokens of the undisturbed run, as a share; `resume_overshoot`:
  beyond the cap. `reproducible`: two undisturbed runs of seed 0 are the same.

How the cap was said to each is in the head of its driver, run_*.py: as a cap in tokens where there is one. Whom it
favours:

* This package: the world is one that its own benches are about. Its tasks name their cluster, by which `thrifty=True`
  samples where most is to be won, and nobody else has a use for it; "agentdescent-thrifty-blind" is without. No model
  is asked, and only what calls cost counts, not how long they take.
* Against this package: reserves. It is told that a rollout costs up to 4,000 tokens, and ends where the worst case of
  the next step would not fit, a tenth before the cap; others spend it all, and more: see `quality_at_cap`.
* Both packages of this name: they gate proposals together, and in this world nearly all go together.
* GEPA: outcomes are without noise, so that to keep whatever scores higher is always right. Against it: three rollouts
  before and after each proposal, of which one can tell anything here; "gepa-tuned" asks for one, and has a stop
  callback on tokens in place of a cap in metric calls.
* Against Optuna: it chooses among given texts, and none of them was written knowing what another mends.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentdescent.errors import AgentDescentError
from bench import harness
from bench.peers.environments import PEERS, REFERENCE, Peer, interpreter
from bench.peers.measures import Figure, Resumed, resumption, row, same, unmeasured
from bench.peers.processes import PeerFailed, Ran, killed, perform

CAP, TARGET, SEEDS, RESUMES = 1_500_000, 0.6, 20, 5
REFERENCES = (REFERENCE, "agentdescent-thrifty", "agentdescent-thrifty-blind")
MEMORY = "/dev/shm"


def main(argv: Sequence[str] | None = None) -> int:
    given = options().parse_args(argv)
    runs: dict[str, dict[int, Ran]] = {}
    resumes: dict[str, dict[str, Figure]] = {}
    errors: dict[str, str] = {}
    for name in given.peers:
        with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
            try:
                runs[name] = undisturbed(name, PEERS[name], given, Path(scratch))
                resumes[name] = disturbed(name, PEERS[name], given, runs[name], Path(scratch))
            except (AgentDescentError, OSError) as error:
                runs.pop(name, None)
                errors[name] = str(error)
                print(f"peers: {name} was not measured: {error}", file=sys.stderr)
    references = [name for name in REFERENCES if name in runs or name == REFERENCE]
    rows = {name: {**row(name, runs, given.cap, given.target, references), **resumes[name]} for name in runs}
    found = {name: rows[name] if name in rows else unmeasured(errors[name]) for name in given.peers}
    result = {"peers": found, "seeds": given.seeds, "cap": given.cap, "target": given.target}
    return harness.finish("peers", given, result, met=met(found), rows=[columns(name, runs[name]) for name in runs])


def options() -> argparse.ArgumentParser:
    parser = harness.options(__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"worlds [{SEEDS}]")
    parser.add_argument("--cap", type=int, default=CAP, help=f"tokens of a run [{CAP:,}]")
    parser.add_argument("--target", type=float, default=TARGET, help=f"true quality to reach [{TARGET}]")
    parser.add_argument("--resumes", type=int, default=RESUMES, help=f"seeds whose run is killed once [{RESUMES}]")
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=list(PEERS), metavar="PEER", help="which")
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    parser.add_argument("--scratch", default=memory, metavar="DIR", help="where runs are while they last [in memory]")
    return parser


def undisturbed(name: str, peer: Peer, given: argparse.Namespace, scratch: Path) -> dict[int, Ran]:
    interpreter(peer.environment)
    harness.progress(f"{name}: {given.seeds} runs")
    return {seed: perform(peer, seed, given.cap, scratch / f"run-{seed}") for seed in range(given.seeds)}


def disturbed(
    name: str, peer: Peer, given: argparse.Namespace, runs: dict[int, Ran], scratch: Path
) -> dict[str, Figure]:
    seeds = list(runs)[: given.resumes]
    harness.progress(f"{name}: {len(seeds)} killed")
    again = perform(peer, 0, given.cap, scratch / "again")
    resumed = []
    for place, seed in enumerate(seeds):
        calls = round(runs[seed].calls * (2 * place + 1) / (2 * len(seeds)))
        try:
            ended = killed(peer, seed, given.cap, scratch / f"killed-{seed}", calls)
        except PeerFailed as error:
            resumed.append(Resumed(runs[seed], None, str(error)))
        else:
            resumed.append(Resumed(runs[seed], ended))
    return resumption(resumed, given.cap, reproducible=same(runs[0], again))


def columns(name: str, runs: dict[int, Ran]) -> dict[str, object]:
    """The runs of a peer in the order of their seeds."""
    return {
        "peer": name,
        "quality": [ran.outcome.quality for ran in runs.values()],
        "billed": [ran.billed for ran in runs.values()],
        "calls": [ran.calls for ran in runs.values()],
        "curve": [[list(step) for step in ran.outcome.curve] for ran in runs.values()],
    }


def met(found: dict[str, dict[str, Figure]]) -> bool:
    """Everything was measured, and this package keeps its cap and goes on exactly."""
    ours = [found[name] for name in found if PEERS[name].module == PEERS[REFERENCE].module]
    kept = all(figures["overshoot"] == 0 and figures["resume_identical"] in (True, None) for figures in ours)
    return kept and not any("error" in figures for figures in found.values())


if __name__ == "__main__":
    sys.exit(main())
