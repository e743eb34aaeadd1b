"""Which claims about GRPO's improvements show on the bundled model: `python benchmarks/evidence.py [--jobs 2]`.

Trains every variant with every seed on the bundled arithmetic problems, compares what each claim is about, and writes
docs/evidence.md with all numbers. Finished runs are kept in build/evidence/ and not run again.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path("build/evidence")
DOC = Path("docs/evidence.md")
SEEDS = (0, 1, 2)

COMMON = [
    "demo",
    "run.steps=60",
    "run.threads=1",
    "run.checkpoint_every_steps=0",
    "run.rollouts_every_steps=0",
    "problems.eval_problems=256",
    "problems.eval_samples_per_prompt=4",
    "optimizer.schedule=constant",
    "optimizer.final_lr_fraction=0.0",
    "batch.epochs_per_step=1",
]
HOT = ["optimizer.lr=2e-3", "batch.epochs_per_step=4", "batch.minibatches_per_step=2", "optimizer.max_grad_norm=1000.0"]
EPOCHS = ["batch.epochs_per_step=4"]
SEED_KL = ["kl.estimator=k1", "kl.importance=none", "kl.reduction=sequence_mean_token_sum"]

VARIANTS: dict[str, list[str]] = {
    "base": [],
    "hot, no clip": [*HOT, "objective.surrogate=reinforce", "objective.clip_low=0.2", "objective.clip_high=0.28"],
    "hot, PPO clip 0.2/0.28": [*HOT],
    "hot, PPO clip 10": [*HOT, "objective.clip_low=10.0", "objective.clip_high=10.0"],
    "hot, printed clip 0.2/0.28": [*HOT, "objective.surrogate=seed_clip"],
    "4 epochs": [*EPOCHS],
    "4 epochs, printed KL 0.02": [*EPOCHS, *SEED_KL, "kl.coefficient=0.02"],
    "4 epochs, printed KL 0.001": [*EPOCHS, *SEED_KL, "kl.coefficient=0.001"],
    "4 epochs, r·k3 0.02": [*EPOCHS, "kl.coefficient=0.02"],
    "4 epochs, r·k3 0.001": [*EPOCHS, "kl.coefficient=0.001"],
    "4 epochs, KL in the reward 0.02": [*EPOCHS, "kl.coefficient=0.02", "kl.placement=reward"],
    "format weight 0": ["rewards.format_weight=0.0"],
    "format weight 0.1": ["rewards.format_weight=0.1"],
    "format weight 1": ["rewards.format_weight=1.0"],
    "format weight 1, conditional": ["rewards.format_weight=1.0", "rewards.format_when=correct"],
    "group std": ["advantage.scale=group_std"],
    "no refill": ["active_sampling.refill=false"],
    "no filter": ["active_sampling.refill=false", "active_sampling.filter=none"],
    "sequence mean of token means": ["objective.reduction=sequence_mean_token_mean"],
    "sequence mean of sums": ["objective.reduction=sequence_mean_token_sum", "optimizer.max_grad_norm=25.0"],
    "4 epochs, sequence-product ratio": [*EPOCHS, "objective.ratio=sequence_product"],
    "4 epochs, GSPO ratio": [
        *EPOCHS,
        "objective.ratio=sequence_geometric_mean",
        "objective.reduction=sequence_mean_token_mean",
        "objective.clip_low=3e-4",
        "objective.clip_high=4e-4",
    ],
}


@dataclass(frozen=True)
class Claim:
    """A claim, as the difference `better` - `worse` of one measure that it expects to be positive."""

    text: str
    better: str
    worse: str
    measure: str = "sampled"


CLAIMS = [
    Claim("Clipping keeps several large updates per step stable", "hot, PPO clip 0.2/0.28", "hot, no clip"),
    Claim("A clip of 10 does so too", "hot, PPO clip 10", "hot, no clip"),
    Claim("PPO's minimum is safer than the printed maximum", "hot, PPO clip 0.2/0.28", "hot, printed clip 0.2/0.28"),
    Claim("KL 0.02 in the printed form harms", "4 epochs", "4 epochs, printed KL 0.02"),
    Claim("KL 0.001 in the printed form harms less than 0.02", "4 epochs, printed KL 0.001", "4 epochs, printed KL 0.02"),
    Claim("A sound KL of 0.02 harms less than the printed one", "4 epochs, r·k3 0.02", "4 epochs, printed KL 0.02"),
    Claim("No KL is better than a sound KL of 0.02", "4 epochs", "4 epochs, r·k3 0.02"),
    Claim("A format weight of 1 harms correctness against 0.1", "format weight 0.1", "format weight 1"),
    Claim("Paying the format only beside a right answer helps at weight 1", "format weight 1, conditional", "format weight 1"),
    Claim("Not dividing by the group's deviation is better", "base", "group std"),
    Claim("Active sampling is better at equal steps", "base", "no refill"),
    Claim("Active sampling is better at equal sampled tokens", "base", "no refill", "sampled_per_token"),
    Claim("Filtering groups without signal is better than keeping them", "no refill", "no filter"),
    Claim("Token-level is better than sequence-level averaging", "base", "sequence mean of token means"),
    Claim("Averaging is better than summing over a sequence", "base", "sequence mean of sums"),
    Claim("Token ratios are better than sequence products", "4 epochs", "4 epochs, sequence-product ratio"),
]


def run(variant: str, seed: int) -> dict[str, Any]:
    """Train one variant with one seed, unless it is done already; its measures in shares."""
    folder = FOLDER / f"{list(VARIANTS).index(variant):02d}-{seed}"
    result = folder.with_suffix(".json")
    stated = {"variant": variant, "arguments": [*COMMON, *VARIANTS[variant]], "seed": seed}
    if result.is_file() and json.loads(result.read_text())["stated"] == stated:
        measures: dict[str, Any] = json.loads(result.read_text())["measures"]
        return measures
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    command = [sys.executable, "-m", "groupwise", "train", *stated["arguments"]]  # type: ignore[misc]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, f"run.seed={seed}", f"run.output={folder}"], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        raise RuntimeError(f"{variant}: {done.stderr[-2000:]}")
    measures = measures_of(folder)
    result.write_text(json.dumps({"stated": stated, "measures": measures}, indent=2) + "\n")
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    return measures


def measures_of(folder: Path) -> dict[str, Any]:
    """What a finished run is compared by."""
    summary = json.loads((folder / "summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    accuracies = [line["reward/correctness/mean"] for line in lines if "reward/correctness/mean" in line]
    sampled = summary["after"]["sampled"]["accuracy"]["value"]
    gain = sampled - summary["before"]["sampled"]["accuracy"]["value"]
    return {
        "sampled": sampled,
        "greedy": summary["after"]["greedy"]["accuracy"]["value"],
        "format": summary["after"]["sampled"]["format_rate"]["value"],
        "best_step": max(accuracies),
        "entropy": statistics.mean(line["policy/entropy"] for line in lines[-5:] if "policy/entropy" in line),
        "sampled_tokens": summary["sampled_tokens"],
        "sampled_per_token": gain / summary["sampled_tokens"] * 1e5,
    }


def verdict(claim: Claim, results: dict[str, list[dict[str, Any]]]) -> tuple[str, float, float]:
    """Whether the claim shows, the mean difference, and its standard error over seeds (the same seeds on both sides)."""
    pairs = zip(results[claim.better], results[claim.worse], strict=True)
    differences = [better[claim.measure] - worse[claim.measure] for better, worse in pairs]
    mean = statistics.mean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    # Student's t for two degrees of freedom would ask for 4.3 errors; three seeds show large effects only.
    word = "shows" if mean > 4.3 * error else "shows the opposite" if mean < -4.3 * error else "does not show"
    return word, mean, error


def document(results: dict[str, list[dict[str, Any]]]) -> str:
    """The whole of docs/evidence.md."""
    seeds = len(next(iter(results.values())))
    lines = [
        "# What shows on the bundled model",
        "",
        f"Made by `python benchmarks/evidence.py`: {seeds} seeds, 60 steps of 16 problems × 8 samples from the bundled",
        "model, measured on 256 unseen problems × 4 samples. One small model on one kind of problem: what does not show here",
        "may show elsewhere, and the other way round. A claim *shows* when the mean difference over seeds is more than 4.3",
        "standard errors (two-sided 5 % of Student's t with three seeds), so that only large effects can.",
        "",
        "| claim | compared | difference in sampled accuracy, points | verdict |",
        "|---|---|---|---|",
    ]
    for claim in CLAIMS:
        word, mean, error = verdict(claim, results)
        scale, unit = (100, "") if claim.measure == "sampled" else (100, " per 100,000 tokens")
        lines.append(
            f"| {claim.text} | {claim.better} – {claim.worse} | {scale * mean:+.1f} ± {scale * error:.1f}{unit} | {word} |"
        )
    lines += [
        "",
        "## All variants",
        "",
        "Mean ± standard deviation over seeds. Base: DAPO's token loss and clip, no KL, no division by the deviation, format",
        "weight 0.2, active sampling, learning rate 6e-4, one epoch. *Hot*: learning rate 2e-3, 4 epochs × 2 minibatches,",
        "no gradient clipping.",
        "",
        "| variant | sampled % | greedy % | format % | entropy, nats | tokens sampled |",
        "|---|---|---|---|---|---|",
    ]
    for variant, runs in results.items():
        cells = [spread([run[key] for run in runs], 100, 1) for key in ("sampled", "greedy", "format")]
        cells += [spread([run["entropy"] for run in runs], 1, 3), spread([run["sampled_tokens"] for run in runs], 1e-3, 0) + " k"]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    lines += ["", "The options of each variant:", ""]
    lines += [f"- {variant}: `{' '.join(options) or 'as the base'}`" for variant, options in VARIANTS.items()]
    return "\n".join(lines) + "\n"


def spread(values: list[float], scale: float, digits: int) -> str:
    """Mean ± standard deviation."""
    return f"{scale * statistics.mean(values):.{digits}f} ± {scale * statistics.stdev(values):.{digits}f}"


def main() -> None:
    """Run what is missing, then write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, each on one thread")
    jobs = parser.parse_args().jobs
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        pending = {(variant, seed): pool.submit(run, variant, seed) for seed in SEEDS for variant in VARIANTS}
        results = {variant: [pending[variant, seed].result() for seed in SEEDS] for variant in VARIANTS}
    DOC.write_text(document(results), encoding="utf-8")
    print(f"wrote {DOC}")


if __name__ == "__main__":
    main()
