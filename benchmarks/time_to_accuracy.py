"""Time to an accuracy, groupwise against TRL: `python benchmarks/time_to_accuracy.py --trl-python PATH`.

PATH is the Python of an environment with TRL and with groupwise, whose problems and grader both trainers use. Both
train the bundled model by the recipe `demo`: the same stream of generated problems for a seed, the same prompts to the
token, the same rewards, batch, temperature, length limit, clipping, AdamW, warm-up, schedule and number of epochs, in
float32. What remains different is what each trainer is: TRL trains on all groups of a step, groupwise samples on until
it has a full batch of groups with signal (active sampling); their random numbers differ.

The learning rate is swept for both over the same grid, and chosen by CPU time to the goal, summed over the seeds of the
sweep: with one seed alone luck decides. A rate that has spent more than the best one needed is given up. Then other
seeds run with the chosen rate, both trainers in turn.
Every few steps the clock stops, and an examiner in a process of its own, the same for both, samples answers to held-out
problems with the weights of that moment, unless the answers in training show them to be far below the goal. The time is
taken where the accuracy first reaches it, on a straight line from one examination to the next. It counts from the first
step on; imports and loading are shown next to it.

CPU seconds of the process are what to compare on a machine with other work. Every finished run is kept in --folder, and
not repeated; remove its file there to run it again. TRL's rows in a pass are those that were fastest (--trl-rows).
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from versus_trl import in_process

PARTS = Path(__file__).parent / "accuracy"
# Modules that the parts have in common with the other comparison.
SHARED = [Path(__file__).parent / "versus"]
TRAINERS = ("trl", "groupwise")
Record = dict[str, Any]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--trl-python", default="", help="interpreter of an environment with TRL and groupwise")
    made.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    made.add_argument("--grid", nargs="+", type=float, default=[1.6e-3, 8e-4, 3.2e-3, 4e-4], help="learning rates")
    made.add_argument("--sweep-seeds", nargs="+", type=int, default=[100, 101])
    made.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    made.add_argument("--steps", type=int, default=150, help="of the schedule, and at most")
    made.add_argument("--goal", type=float, default=0.6)
    made.add_argument("--snapshot-every-steps", type=int, default=5)
    made.add_argument("--problems", type=int, default=256, help="held-out problems of the examiner")
    made.add_argument("--samples", type=int, default=4, help="its samples of each problem")
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--trl-rows", type=int, default=64, help="sequences in a pass of TRL's")
    made.add_argument("--set", nargs="*", default=[], help="options of the recipe, for both trainers, KEY=VALUE")
    made.add_argument("--folder", type=Path, default=Path("build/accuracy"), help="finished runs")
    made.add_argument("--json", default="")
    return made


def main() -> None:
    """Sweep and measure every trainer, and print the table."""
    options = parser().parse_args()
    if "trl" in options.trainers and not options.trl_python:
        raise SystemExit("--trl-python is missing: name the Python of an environment with TRL, or --trainers groupwise")
    options.folder.mkdir(parents=True, exist_ok=True)
    found = {trainer: sweep(trainer, options) for trainer in options.trainers}
    # In turn, so that other work on the machine slows all of them alike.
    for seed in options.seeds:
        for trainer, record in found.items():
            if record["lr"] is not None:
                record["runs"].append(kept_run(trainer, record["lr"], seed, math.inf, options))
    print(table(found, options))
    if options.json:
        record = {"goal": options.goal, "steps": options.steps, "trainers": found}
        Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


def sweep(trainer: str, options: argparse.Namespace) -> Record:
    """The runs of one trainer over the grid, and the learning rate with the least CPU time; None if all fail."""
    swept: list[Record] = []
    best, chosen = math.inf, None
    for lr in options.grid:
        total = 0.0
        for seed in options.sweep_seeds:
            swept.append(kept_run(trainer, lr, seed, best - total, options))
            total += to_goal(swept[-1])
            if total >= best:
                break
        if total < best:
            best, chosen = total, lr
    return {"lr": chosen, "sweep": swept, "runs": []}


def kept_run(trainer: str, lr: float, seed: int, budget: float, options: argparse.Namespace) -> Record:
    """One run of one trainer from the folder, or made: stopped where it has spent more CPU seconds than `budget`."""
    asked = {
        "trainer": trainer,
        "lr": lr,
        "seed": seed,
        "steps": options.steps,
        "goal": options.goal,
        "snapshot_every_steps": options.snapshot_every_steps,
        "threads": options.threads,
        "trl_rows": options.trl_rows,
        "overrides": options.set,
    }
    key = {**asked, "problems": options.problems, "samples": options.samples}
    file = options.folder / f"{trainer}_lr{lr:g}_seed{seed}.json"
    if file.is_file():
        kept: Record = json.loads(file.read_text())
        if kept["key"] == key and (kept["stopped"] != "budget" or spent(kept) >= budget):
            return kept
    python = options.trl_python if trainer == "trl" else sys.executable
    examiner = [PARTS / "examine.py", options.problems, options.samples, options.threads]
    with tempfile.TemporaryDirectory(prefix="accuracy_") as folder:
        asked |= {"budget_cpu_seconds": budget, "folder": folder, "result": f"{folder}/result.json"}
        asked["examiner"] = [sys.executable, *map(str, examiner)]
        made = in_process(python, PARTS / f"train_{trainer}.py", asked, options.threads, SHARED)
    record = {"key": key, **made, **reached(made["steps"], made["accuracies"], options.goal)}
    file.write_text(json.dumps(record, indent=1) + "\n")
    print(line(record), file=sys.stderr, flush=True)
    return record


def reached(steps: Sequence[dict[str, float]], accuracies: Sequence[tuple[int, float]], goal: float) -> Record:
    """Steps, CPU seconds and wall seconds to the goal, from what each step took and the accuracy after some of them."""
    found: Record = {"steps_to_goal": crossing(accuracies, goal)}
    for clock in ("cpu", "wall"):
        total = list(itertools.accumulate((step[clock] for step in steps), initial=0.0))
        found[f"{clock}_to_goal"] = crossing([(total[step], accuracy) for step, accuracy in accuracies], goal)
    return found


def crossing(points: Sequence[tuple[float, float]], goal: float) -> float | None:
    """Where a curve of (place, accuracy), in order of places, first reaches the goal; straight lines between points.

    None if it never does. A curve that begins at or above the goal reaches it at its first place.
    """
    before: tuple[float, float] | None = None
    for place, accuracy in points:
        if accuracy >= goal:
            if before is None:
                return place
            return before[0] + (goal - before[1]) / (accuracy - before[1]) * (place - before[0])
        before = place, accuracy
    return None


def to_goal(record: Record) -> float:
    """CPU seconds to the goal; infinite where it was not reached."""
    return math.inf if record["cpu_to_goal"] is None else float(record["cpu_to_goal"])


def spent(record: Record) -> float:
    """CPU seconds of all steps."""
    return sum(step["cpu"] for step in record["steps"])


def line(record: Record) -> str:
    """One run in words."""
    key, steps = record["key"], len(record["steps"])
    start = f"{key['trainer']} lr {key['lr']:g} seed {key['seed']}"
    if record["cpu_to_goal"] is None:
        recent = statistics.mean(step["accuracy"] for step in record["steps"][-10:])
        return (
            f"{start}: not reached in {steps} steps and {spent(record):.0f} CPU s; of the last ten steps' answers "
            f"{recent:.0%} were right"
        )
    return f"{start}: {record['cpu_to_goal']:.0f} CPU s, {record['steps_to_goal']:.0f} steps"


def table(found: dict[str, Record], options: argparse.Namespace) -> str:
    """All trainers as a Markdown table, and their sweeps."""
    start = next(iter(found.values()))["sweep"][0]["accuracies"][0][1]
    lines = [
        f"\nTime to {options.goal:.0%} sampled accuracy from {start:.1%}, {options.threads} thread(s), best of "
        f"{len(options.grid)} learning rates for each trainer, seeds {', '.join(map(str, options.seeds))}\n",
        "| | lr | steps to goal | CPU s to goal, median (each) | wall s, median | CPU s/step | start-up CPU s "
        "| peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    medians: dict[str, float] = {}
    for trainer, record in found.items():
        runs = record["runs"]
        if not runs:
            lines.append(f"| {trainer} | none reached the goal in {options.steps} steps | | | | | | |")
            continue
        medians[trainer] = statistics.median(map(to_goal, runs))
        wall = statistics.median(math.inf if r["wall_to_goal"] is None else r["wall_to_goal"] for r in runs)
        each_step = statistics.median(step["cpu"] for r in runs for step in r["steps"])
        shown = [[_shown(r[what]) for r in runs] for what in ("steps_to_goal", "cpu_to_goal")]
        lines.append(
            f"| {trainer} | {record['lr']:g} | {', '.join(shown[0])} | **{medians[trainer]:.0f}** "
            f"({', '.join(shown[1])}) | {wall:.0f} | {each_step:.2f} "
            f"| {statistics.median(r['startup_cpu'] for r in runs):.1f} "
            f"| {statistics.median(r['peak_bytes'] for r in runs) / 2**20:.0f} |"
        )
    if len(medians) == len(TRAINERS):
        lines.append(f"\nTRL ÷ groupwise: {medians['trl'] / medians['groupwise']:.2f}")
    lines.append(f"\nSweep, each rate until it has cost more than the best, seeds {options.sweep_seeds}:\n")
    for trainer, record in found.items():
        rates = sorted(r["key"]["lr"] for r in record["sweep"])
        lines += [f"- {line(r)}" for r in sorted(record["sweep"], key=lambda r: float(r["key"]["lr"]))]
        if record["lr"] in (rates[0], rates[-1]):
            lines.append(f"- {trainer}: the chosen rate is at the end of the grid; widen it")
    return "\n".join(lines)


def _shown(number: float | None) -> str:
    return "never" if number is None else f"{number:.0f}"


if __name__ == "__main__":
    main()
