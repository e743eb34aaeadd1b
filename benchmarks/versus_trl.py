"""groupwise against TRL on the same work: `python benchmarks/versus_trl.py --trl-python PATH [--size 1.5m]`.

Each trainer runs in processes of its own, in turn (A B A B), from the same random weights, with the same prompts, the
same lengths of answers and the same settings; PATH is the Python of an environment with TRL. The lengths are forced
by one schedule: row i of a step ends with the token that the schedule says and never before (TRL: a logits processor;
groupwise: versus/of_groupwise.py replaces what was drawn). Every group has signal, so that both train on all answers.

TRL runs without gradient checkpointing, which is slower here, in float32 and with bfloat16 autocast; each trainer's
best is the precision with less CPU time a step. CPU seconds of the process are what to compare on a machine with other
work; with one thread they are wall time on a free core. The first steps of a process are left out (--warmup).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from versus.workload import SHAPES, Arithmetic, Workload, save_model

HERE = Path(__file__).parent / "versus"
PRECISIONS = ("float32", "bfloat16")
Runs = dict[tuple[str, str], list[dict[str, Any]]]


def main() -> None:
    """Measure every size and print the tables."""
    options = parser().parse_args()
    records = []
    for size in options.size:
        with tempfile.TemporaryDirectory(prefix="versus_") as folder:
            records.append(measure(size, Path(folder), options))
        print(table(records[-1]), flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(records, indent=1) + "\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--trl-python", default="", help="interpreter of an environment with TRL; empty: groupwise alone")
    made.add_argument("--size", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    made.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    made.add_argument("--rounds", type=int, default=2, help="processes of each trainer and precision")
    made.add_argument("--steps", type=int, default=4, help="measured steps of a process")
    made.add_argument("--warmup", type=int, default=1)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--prompts", type=int, default=8)
    made.add_argument("--samples", type=int, default=8)
    made.add_argument("--prompt-tokens", type=int, default=40)
    made.add_argument("--max-new", type=int, default=128)
    made.add_argument("--set", nargs="*", default=[], help="options of groupwise, KEY=VALUE")
    made.add_argument("--json", default="")
    return made


def measure(size: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All rounds of one size, in turn."""
    parameters = save_model(size, folder / "model")
    work = Workload(size, options.prompts, options.samples, options.prompt_tokens, options.max_new)
    trainers = ["groupwise"] + (["trl"] if options.trl_python else [])
    runs: Runs = {}
    for turn in range(options.rounds):
        for precision in options.precision:
            for trainer in trainers:
                scratch = folder / f"{trainer}_{precision}_{turn}"
                scratch.mkdir()
                runs.setdefault((trainer, precision), []).append(run(trainer, precision, work, scratch, options))
                print(f"{size} {trainer} {precision} round {turn + 1}", file=sys.stderr, flush=True)
    rates = {name: statistics.median(r["rates"][name] for rs in runs.values() for r in rs) for name in PRECISIONS}
    made = {
        f"{trainer} {precision}": summary(size, found, options.warmup, rates)
        for (trainer, precision), found in runs.items()
    }
    return {
        "size": size,
        "parameters": parameters,
        "machine": platform.processor() or platform.machine(),
        "threads": options.threads,
        "work": vars(work),
        "rates": rates,
        "versions": {name: text for found in runs.values() for name, text in found[0]["versions"].items()},
        "trainers": made,
        "ratios": ratios(made) if options.trl_python else {},
    }


def run(trainer: str, precision: str, work: Workload, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One process of one trainer."""
    asked = {
        "work": vars(work),
        "precision": precision,
        "model": str(scratch.parent / "model"),
        "scratch": str(scratch),
        "result": str(scratch / "result.json"),
        "steps": options.warmup + options.steps,
        "threads": options.threads,
        "overrides": options.set,
    }
    python = options.trl_python if trainer == "trl" else sys.executable
    return in_process(python, HERE / f"of_{trainer}.py", asked, options.threads)


def in_process(
    python: str, script: Path, asked: dict[str, Any], threads: int, import_from: Sequence[Path] = ()
) -> dict[str, Any]:
    """The record that a script leaves in the file `asked["result"]`, in a process of its own.

    import_from: folders of modules that it imports besides those of its own folder.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    paths = [*map(str, import_from), *filter(None, [environment.get("PYTHONPATH")])]
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [python, str(script), json.dumps(asked)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script} failed:\n{done.stderr[-4000:]}")
    made: dict[str, Any] = json.loads(Path(asked["result"]).read_text())
    return made


def summary(size: str, found: list[dict[str, Any]], warmup: int, rates: dict[str, float]) -> dict[str, Any]:
    """Medians over all measured steps of all processes, with their range."""
    steps = [step for record in found for step in record["steps"][warmup:]]
    counted = [Arithmetic.of_step(SHAPES[size], int(s["prompt_tokens"]), int(s["answer_tokens"])) for s in steps]
    made: dict[str, Any] = {}
    for name in sorted(set.intersection(*(set(step) for step in steps))):
        values = [step[name] for step in steps]
        made[name] = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    for part, cost in (("sampling", [c.sampling for c in counted]), ("training", [c.training for c in counted])):
        rate = statistics.median(c / s[f"{part}_cpu"] for c, s in zip(cost, steps, strict=True))
        made[f"{part}_share"] = {name: rate / limit for name, limit in rates.items()}
    made["tokens_per_cpu_second"] = statistics.median(s["answer_tokens"] / s["cpu"] for s in steps)
    made["tokens_per_second"] = statistics.median(s["answer_tokens"] / s["wall"] for s in steps)
    made["peak_bytes"] = statistics.median(record["peak_bytes"] for record in found)
    return made


def ratios(made: dict[str, Any]) -> dict[str, dict[str, float]]:
    """TRL over groupwise in float32, and each trainer at its best precision.

    sampling: what `generate` of transformers takes inside of TRL's step over what groupwise's engine takes.
    """

    def over(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
        return {
            "step_cpu": theirs["cpu"]["median"] / ours["cpu"]["median"],
            "training_cpu": theirs["training_cpu"]["median"] / ours["training_cpu"]["median"],
            "sampling_cpu": theirs["generate_cpu"]["median"] / ours["sampling_cpu"]["median"],
            "memory": theirs["peak_bytes"] / ours["peak_bytes"],
        }

    def best(trainer: str) -> dict[str, Any]:
        own = [record for name, record in made.items() if name.startswith(trainer)]
        chosen: dict[str, Any] = min(own, key=lambda record: record["cpu"]["median"])
        return chosen

    found = {"best": over(best("trl"), best("groupwise"))}
    if "groupwise float32" in made:
        found["float32"] = over(made["trl float32"], made["groupwise float32"])
    return found


def table(record: dict[str, Any]) -> str:
    """One size as a Markdown table."""
    rates = record["rates"]
    lines = [
        f"\n### {record['size']}: {record['parameters'] / 1e6:.1f} M parameters, {record['threads']} thread(s), matmul "
        f"{rates['float32'] / 1e9:.0f} (float32) and {rates['bfloat16'] / 1e9:.0f} (bfloat16) GFLOP/s\n",
        "| | CPU s/step [range] | wall s/step | sampling CPU s | training CPU s | tokens/CPU s | peak MiB "
        "| sampling: share of float32 rate | training: share of float32 rate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, made in record["trainers"].items():
        cpu = made["cpu"]
        sampling = made.get("generate_cpu", made["sampling_cpu"])["median"]
        lines.append(
            f"| {name} | {cpu['median']:.2f} [{cpu['low']:.2f}, {cpu['high']:.2f}] | {made['wall']['median']:.2f} "
            f"| {sampling:.2f} | {made['training_cpu']['median']:.2f} | {made['tokens_per_cpu_second']:.0f} "
            f"| {made['peak_bytes'] / 2**20:.0f} | {made['sampling_share']['float32']:.0%} "
            f"| {made['training_share']['float32']:.0%} |"
        )
    for name, found in record["ratios"].items():
        lines.append(
            f"\nTRL ÷ groupwise, {name}: step {found['step_cpu']:.2f}, training {found['training_cpu']:.2f}, sampling "
            f"÷ `generate` {found['sampling_cpu']:.2f}, peak memory {found['memory']:.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
