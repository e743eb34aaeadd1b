"""The demo with several seeds: `python benchmarks/demo_seeds.py [SEED ...]` prints mean and spread as a table.

Every seed has other training problems and other random numbers; the held-out problems and the start are the same.
The runs go to build/seeds/, and the table with all numbers to build/seeds/seeds.json.
"""

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path("build/seeds")
ROWS = {
    "greedy accuracy": ("greedy", "accuracy"),
    "sampled accuracy (pass@1)": ("sampled", "accuracy"),
    "greedy, `<think>` forced": ("forced_think_greedy", "accuracy"),
    "sampled, `<think>` forced": ("forced_think_sampled", "accuracy"),
    "format rate, sampled": ("sampled", "format_rate"),
    "`<think>` used, sampled": ("sampled", "thinks"),
}


def run(seed: int) -> dict[str, Any]:
    """Train with one seed in a process of its own, as a user would; its summary."""
    output = FOLDER / f"seed-{seed}"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "groupwise", "train", "demo", f"run.seed={seed}", f"run.output={output}"]
    subprocess.run(command, check=True)
    summary: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return summary


def main(seeds: list[int]) -> None:
    """Run all seeds and print the table."""
    summaries = [run(seed) for seed in seeds]
    rows = {}
    for label, (way, what) in ROWS.items():
        before = summaries[0]["before"][way][what]["value"]
        after = [summary["after"][way][what]["value"] for summary in summaries]
        rows[label] = {"before": before, "after": after}
    minutes = [summary["training_cpu_seconds"] / 60 for summary in summaries]
    (FOLDER / "seeds.json").write_text(json.dumps({"seeds": seeds, "rows": rows, "minutes": minutes}, indent=2) + "\n")

    print(
        f"| {summaries[0]['after']['greedy']['accuracy']['n']} unseen problems | before | after: mean ± spread "
        f"({', '.join(f'seed {seed}' for seed in seeds)}) |"
    )
    print("|---|---|---|")
    for label, row in rows.items():
        mean = statistics.mean(row["after"])
        spread = statistics.stdev(row["after"]) if len(row["after"]) > 1 else 0.0
        each = ", ".join(f"{100 * value:.1f}" for value in row["after"])
        print(f"| {label} | {100 * row['before']:.1f} % | {100 * mean:.1f} ± {100 * spread:.1f} % ({each}) |")
    print(f"| training, CPU-minutes | | {statistics.mean(minutes):.1f} ({', '.join(f'{m:.1f}' for m in minutes)}) |")


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [0, 1, 2])
