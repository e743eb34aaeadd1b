"""Math and code in one run: `python benchmarks/mixed_domains.py [--seed N]` prints both domains before and after.

The bundled model knows no code. It is first shown careless demonstrations of both domains (supervised, 2 minutes),
and then trained by the recipe `mixed`: other rewards, weights and KL coefficients for each domain. Everything goes to
build/mixed/.
"""

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from groupwise.bundled.build import HABITS
from groupwise.data.demonstrations import demonstrations, write_demonstrations
from groupwise.data.toy_code_demonstrations import CARELESS, toy_code_demonstrations

FOLDER = Path("build/mixed")
ARITHMETIC, CODE = 8_000, 16_000
METRICS = (
    "reward/correctness/mean",
    "reward/format/mean",
    "reward/total/mean",
    "groups/zero_std",
    "policy/kl_ref_k3",
    "completion/tokens",
)


def write_both(path: Path) -> None:
    """Demonstrations of both domains, in random order."""
    pairs = [*demonstrations(1, ARITHMETIC, HABITS), *toy_code_demonstrations(1, CODE, CARELESS)]
    random.Random(0).shuffle(pairs)
    write_demonstrations(path, pairs)


def groupwise(*arguments: str) -> None:
    """Run a command as a user would."""
    subprocess.run([sys.executable, "-m", "groupwise", *arguments], check=True)


def rows_of(run: Path, last_steps: int = 10) -> list[tuple[str, float, float]]:
    """Every measurement of each domain: in the first steps and in the last ones."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

    def mean(part: list[dict[str, Any]], name: str) -> float:
        values = [line[name] for line in part if name in line]
        return sum(values) / len(values) if values else float("nan")

    return [
        (f"domain/{domain}/{name}", mean(lines[:last_steps], key), mean(lines[-last_steps:], key))
        for domain in ("math", "code")
        for name in METRICS
        for key in (f"domain/{domain}/{name}",)
    ]


def main() -> None:
    """Make the start, train, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    start, run = FOLDER / "start", FOLDER / f"seed-{seed}"
    if not start.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        write_both(FOLDER / "demonstrations.jsonl")
        groupwise(
            "sft", f"data={FOLDER / 'demonstrations.jsonl'}", f"output={start}", "steps=700", "optimizer=muon",
            "lr=1e-3", "muon_lr=0.01", "warmup_steps=20",
        )  # fmt: skip
    shutil.rmtree(run, ignore_errors=True)
    groupwise("train", "mixed", f"run.seed={seed}", f"run.output={run}")
    summary = json.loads((run / "summary.json").read_text())
    print("| unseen problems | before | after |\n|---|---|---|")
    for way in ("greedy", "sampled"):
        for domain, after in summary["after"][way]["accuracy_by_domain"].items():
            before = summary["before"][way]["accuracy_by_domain"][domain]
            print(f"| {domain}, {way} | {100 * before['value']:.1f} % | {100 * after['value']:.1f} % |")
    print("\n| metric | first 10 steps | last 10 steps |\n|---|---|---|")
    for name, first, last in rows_of(run):
        if not math.isnan(first):
            print(f"| `{name}` | {first:.4f} | {last:.4f} |")
    minutes = summary["training_wall_seconds"] / 60
    print(f"\n{summary['steps']} steps in {minutes:.1f} min, sandbox {summary['sandbox']}")


if __name__ == "__main__":
    main()
