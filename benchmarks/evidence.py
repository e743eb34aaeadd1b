"""Which claims about GRPO's improvements show on the bundled model: `python benchmarks/evidence.py [--jobs 2]`.

Trains every variant with every seed on the bundled arithmetic problems, compares what each claim is about, and writes
docs/evidence.md with all numbers. Finished runs are kept in build/evidence/ and not run again.
"""

import argparse
import functools
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

import torch

from groupwise.config.compose import compose_train_config
from groupwise.data.sources import eval_problems
from groupwise.evaluation.measure import Measurement, measure
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.model.prompt import PromptRenderer
from groupwise.rollout.engine import SamplingParams, make_engine

FOLDER = Path("build/evidence")
DOC = Path("docs/evidence.md")
SEEDS = (0, 1, 2)
EVAL_PROBLEMS, EVAL_SAMPLES = 384, 4

COMMON = [
    "run.steps=40",
    "run.threads=1",
    "run.checkpoint_every_steps=0",
    "run.rollouts_every_steps=0",
    "problems.eval_problems=0",
    "optimizer.schedule=constant",
    "optimizer.final_lr_fraction=0.0",
    "batch.epochs_per_step=1",
]
HOT = [
    "optimizer.lr=1e-3",
    "optimizer.max_grad_norm=1000.0",
    "batch.epochs_per_step=4",
    "batch.minibatches_per_step=2",
    "active_sampling.refill=false",
]
EPOCHS = ["batch.epochs_per_step=4"]
SEED_KL = ["kl.estimator=k1", "kl.importance=none", "kl.reduction=sequence_mean_token_sum"]

# A recipe's own sizes are for a cluster: these put all recipes on the same work, with several updates per step.
RECIPE_SIZES = [
    "sampling.max_new_tokens=64",
    "batch.prompts_per_step=16",
    "batch.samples_per_prompt=8",
    "batch.minibatches_per_step=2",
    "batch.epochs_per_step=2",
    "rewards.correctness.weight=1.0",
    "rewards.format.weight=0.2",
    "rewards.overlong.buffer_tokens=0",
    "optimizer.lr=6e-4",
    "optimizer.warmup_steps=3",
]
RECIPES = (
    "grpo",
    "dr_grpo",
    "dapo",
    "gspo",
    "cispo",
    "gdpo",
    "olmo3",
    "deepseek_v32",
    "seed_olmo3",
    "seed_deepseek_v32",
    "luspo",
    "m2po",
)

# A name without "=" is a recipe, which comes before the common options.
VARIANTS: dict[str, list[str]] = {
    "base": [],
    "hot, no clip": [*HOT, "objective.surrogate=reinforce"],
    "hot, PPO clip 0.2/0.28": [*HOT],
    "hot, printed clip 0.2/0.28": [*HOT, "objective.surrogate=seed_clip"],
    "4 epochs": [*EPOCHS],
    "4 epochs, printed KL 0.02": [*EPOCHS, *SEED_KL, "kl.coefficient=0.02"],
    "4 epochs, printed KL 0.001": [*EPOCHS, *SEED_KL, "kl.coefficient=0.001"],
    "4 epochs, k1 0.02, token mean": [*EPOCHS, "kl.estimator=k1", "kl.importance=none", "kl.coefficient=0.02"],
    "4 epochs, r·k3 0.02": [*EPOCHS, "kl.coefficient=0.02"],
    "4 epochs, r·k3 0.02, sequence sum": [*EPOCHS, "kl.reduction=sequence_mean_token_sum", "kl.coefficient=0.02"],
    "format weight 0.1": ["rewards.format.weight=0.1"],
    "format weight 1": ["rewards.format.weight=1.0"],
    "format weight 1, conditional": ["rewards.format.weight=1.0", "rewards.format.requires=correctness"],
    "group std": ["advantage.estimator.scale=group_std"],
    "no refill": ["active_sampling.refill=false"],
    "no filter": ["active_sampling.refill=false", "active_sampling.filter=none"],
    "sequence mean of token means": ["objective.reduction=sequence_mean_token_mean"],
    "sequence mean of sums": ["objective.reduction=sequence_mean_token_sum", "optimizer.max_grad_norm=25.0"],
    "4 epochs, sequence-product ratio": [*EPOCHS, "objective.ratio=sequence_product"],
    "4 epochs, FIPO": [*EPOCHS, "objective.surrogate=fipo"],
    "4 epochs, REAL": [*EPOCHS, "objective.surrogate=real", "objective.reduction=sequence_mean_token_mean"],
    "4 epochs, sequence means": [*EPOCHS, "objective.reduction=sequence_mean_token_mean"],
    "hot, BAPO": [*HOT, "objective.surrogate=bapo"],
    "hot, BAPO by clipped sums": [*HOT, "objective.surrogate={type: bapo, contributions: clipped}"],
    "4 epochs, ASPO": [*EPOCHS, "objective.surrogate=aspo"],
    "4 epochs, CE-GPPO": [*EPOCHS, "objective.surrogate=ce_gppo"],
    "format weight 1, order of the tags": ["rewards.format=tag_order", "rewards.format.weight=1.0"],
    **{f"recipe {recipe}": [recipe, *RECIPE_SIZES] for recipe in RECIPES},
    "length-weighted baseline": ["advantage.estimator=opo"],
    "whitened over the step": ["advantage.estimator=reinforce_plus_plus"],
    "hot, DPPO by KL": [*HOT, "objective.surrogate=dppo_kl"],
    "hot, M2PO": [*HOT, "objective.surrogate=reinforce", "off_policy_mask=m2po"],
    "hot, IPO": [*HOT, "objective.surrogate=ipo"],
    "baseline of each token": ["advantage.estimator=optimal_token_baseline"],
}


def arguments_of(variant: str) -> list[str]:
    """The command line of a variant."""
    recipes = [option for option in VARIANTS[variant] if "=" not in option]
    options = [option for option in VARIANTS[variant] if "=" in option]
    return ["demo", *recipes, *COMMON, *options]


@dataclass(frozen=True)
class Claim:
    """A claim, as the difference `better` - `worse` of one measure that it expects to be positive."""

    text: str
    better: str
    worse: str
    measure: str = "sampled"


CLAIMS = [
    Claim("Clipping keeps several large updates per step stable", "hot, PPO clip 0.2/0.28", "hot, no clip"),
    Claim("PPO's minimum is safer than the printed maximum", "hot, PPO clip 0.2/0.28", "hot, printed clip 0.2/0.28"),
    Claim("Searched bounds are better than fixed ones", "hot, BAPO", "hot, PPO clip 0.2/0.28"),
    Claim("Balancing gradients is better than balancing clipped sums", "hot, BAPO", "hot, BAPO by clipped sums"),
    Claim("Classifying the answers of a group is better than advantages", "4 epochs, REAL", "4 epochs, sequence means"),
    Claim("KL 0.02 in the printed form harms", "4 epochs", "4 epochs, printed KL 0.02"),
    Claim(
        "KL 0.001 in the printed form harms less than 0.02", "4 epochs, printed KL 0.001", "4 epochs, printed KL 0.02"
    ),
    # The printed form is k1 summed over a sequence: what harms is told apart by changing one of the two at a time.
    Claim(
        "A k1 of 0.02 harms less as a mean over tokens than summed",
        "4 epochs, k1 0.02, token mean",
        "4 epochs, printed KL 0.02",
    ),
    Claim(
        "An r·k3 of 0.02 harms less as a mean over tokens than summed",
        "4 epochs, r·k3 0.02",
        "4 epochs, r·k3 0.02, sequence sum",
    ),
    Claim("r·k3 harms less than k1, both as means", "4 epochs, r·k3 0.02", "4 epochs, k1 0.02, token mean"),
    Claim("r·k3 harms less than k1, both summed", "4 epochs, r·k3 0.02, sequence sum", "4 epochs, printed KL 0.02"),
    Claim("No KL is better than a sound KL of 0.02", "4 epochs", "4 epochs, r·k3 0.02"),
    Claim("A format weight of 1 harms correctness against 0.1", "format weight 0.1", "format weight 1"),
    Claim(
        "Rewarding the format only of right answers helps at weight 1",
        "format weight 1, conditional",
        "format weight 1",
    ),
    Claim(
        "The whole format is a better reward than the order of its tags",
        "format weight 1",
        "format weight 1, order of the tags",
    ),
    Claim("Not dividing by the group's deviation is better", "base", "group std"),
    Claim("A length-weighted baseline is better than the group's mean", "length-weighted baseline", "base"),
    Claim("A baseline for each token is better than the group's mean", "baseline of each token", "base"),
    Claim("Whitening over the step is better than the group's mean alone", "whitened over the step", "base"),
    Claim("Whitening over the step is better than in the group", "whitened over the step", "group std"),
    Claim("DPPO's KL keeps several large updates per step stable", "hot, DPPO by KL", "hot, no clip"),
    Claim("M2PO's mask keeps several large updates per step stable", "hot, M2PO", "hot, no clip"),
    Claim("IPO keeps several large updates per step stable", "hot, IPO", "hot, no clip"),
    Claim("Active sampling is better at equal steps", "base", "no refill"),
    Claim("Active sampling is better at equal sampled tokens", "base", "no refill", "gain_per_100k_tokens"),
    Claim("Filtering groups without signal is better than keeping them", "no refill", "no filter"),
    Claim("Token-level is better than sequence-level averaging", "base", "sequence mean of token means"),
    Claim("Averaging is better than summing over a sequence", "base", "sequence mean of sums"),
    Claim("The printed OLMo 3 recipe is better than GRPO as published", "recipe seed_olmo3", "recipe grpo"),
    Claim("OLMo 3's own recipe is better than the printed one", "recipe olmo3", "recipe seed_olmo3"),
    Claim(
        "The printed DeepSeek-V3.2 recipe is better than GRPO as published", "recipe seed_deepseek_v32", "recipe grpo"
    ),
    Claim(
        "DeepSeek-V3.2's own recipe is better than the printed one", "recipe deepseek_v32", "recipe seed_deepseek_v32"
    ),
    Claim("Weights by the future KL (FIPO) are better than PPO's clip alone", "4 epochs, FIPO", "4 epochs"),
    Claim("Turning the ratio of good tokens over (ASPO) is better than PPO's clip", "4 epochs, ASPO", "4 epochs"),
    Claim("Bounded gradients beyond the clip (CE-GPPO) are better than none", "4 epochs, CE-GPPO", "4 epochs"),
    Claim("Answers weighted by their length (LUSPO) are better than alike (GSPO)", "recipe luspo", "recipe gspo"),
    Claim("Token ratios are better than sequence products", "4 epochs", "4 epochs, sequence-product ratio"),
]


def run(variant: str, seed: int) -> dict[str, Any]:
    """Train one variant with one seed, unless it is done already; its measures in shares."""
    folder = FOLDER / f"{list(VARIANTS).index(variant):02d}-{seed}"
    result = folder.with_suffix(".json")
    arguments = arguments_of(variant)
    stated = {"variant": variant, "arguments": arguments, "seed": seed}
    if result.is_file() and json.loads(result.read_text())["stated"] == stated:
        measures: dict[str, Any] = json.loads(result.read_text())["measures"]
        return measures
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    command = [sys.executable, "-m", "groupwise", "train", *arguments]
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
    """What a finished run is compared by: its model on unseen problems, and its metrics."""
    summary = json.loads((folder / "summary.json").read_text())
    greedy, sampled = accuracies_of(str(folder / "model"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {
        "sampled": sampled.accuracy.value,
        "greedy": greedy.accuracy.value,
        "format": sampled.format_rate.value,
        # Of the last steps that trained: a destroyed policy has no group with signal any more.
        "entropy": statistics.mean([line["policy/entropy"] for line in lines if "policy/entropy" in line][-5:]),
        "sampled_tokens": summary["sampled_tokens"],
        "gain_per_100k_tokens": (sampled.accuracy.value - start_accuracy()) / summary["sampled_tokens"] * 1e5,
    }


@functools.cache
def start_accuracy() -> float:
    """Sampled accuracy of the bundled model."""
    return accuracies_of("bundled")[1].accuracy.value


def accuracies_of(model: str) -> tuple[Measurement, Measurement]:
    """Greedy, and sampled at temperature 1."""
    config = compose_train_config(["demo", f"problems.eval_problems={EVAL_PROBLEMS}"])
    policy = load_policy(model)
    engine = make_engine(config, policy)
    renderer = PromptRenderer(policy.tokenizer, config.prompt)
    problems = eval_problems(config.problems, {})
    with Grader(config, policy.tokenizer, policy.think_ids) as grader:

        def at(temperature: float, samples: int) -> Measurement:
            sampling = SamplingParams(temperature, config.sampling.max_new_tokens, policy.stop_ids)
            return measure(policy, engine, renderer, grader, problems, sampling, samples, seed=0)

        return at(0.0, 1), at(1.0, EVAL_SAMPLES)


# Two-sided 5 % of Student's t with two degrees of freedom: three seeds can show large effects only.
STUDENT_T = 4.3

HEAD = """# What shows on the bundled model

Made by `python benchmarks/evidence.py`: {seeds} seeds, 40 steps of 16 problems × 8 samples from the bundled model,
measured on {problems} unseen problems × {samples} samples at temperature 1. One small model on one kind of problem:
what does not show here may show elsewhere, and the other way round. A claim *shows* where the mean difference over
seeds is more than {student_t} standard errors, the two-sided 5 % of Student's t for three seeds; with so few, only
large effects can. That is the risk of one claim: of {claims} that are all untrue about {by_chance:.0f} would show by
chance. In bold are those that show at 5 % for the whole table, beyond {corrected_t:.0f} standard errors (Bonferroni).

| claim | compared | difference in sampled accuracy, points | verdict |
|---|---|---|---|
"""

VARIANTS_HEAD = """
## All variants

Mean ± standard deviation over seeds. Base: token mean, clip 0.2/0.28, no KL, no division by the deviation, format
weight 0.2, active sampling, learning rate 6e-4, one epoch. *Hot*: learning rate 1e-3, 4 epochs × 2 minibatches, no
clipping of the gradient, no refill; at 2e-3, which was tried first, all three are destroyed (1.0, 2.3, 0.7 %).
*Recipe*: the recipe's objective, filter and KL on the same work, with 2 epochs × 2 minibatches.

| variant | sampled % | greedy % | format % | entropy, nats | tokens sampled, thousands |
|---|---|---|---|---|---|
"""


def two_sided_t(probability: float) -> float:
    """The bound that |t| exceeds with this probability, for two degrees of freedom."""
    inside = 1 - probability
    return inside * math.sqrt(2 / (1 - inside**2))


def verdict(claim: Claim, results: dict[str, list[dict[str, Any]]]) -> tuple[str, float, float]:
    """Whether the claim shows, the mean difference, and its standard error over seeds (the same ones on both sides)."""
    pairs = zip(results[claim.better], results[claim.worse], strict=True)
    differences = [better[claim.measure] - worse[claim.measure] for better, worse in pairs]
    mean = statistics.mean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    if abs(mean) <= STUDENT_T * error:
        return "does not show", mean, error
    word = "shows" if mean > 0 else "shows the opposite"
    return f"**{word}**" if abs(mean) > two_sided_t(0.05 / len(CLAIMS)) * error else word, mean, error


def document(results: dict[str, list[dict[str, Any]]]) -> str:
    """The whole of docs/evidence.md."""
    text = HEAD.format(
        seeds=len(SEEDS),
        problems=EVAL_PROBLEMS,
        samples=EVAL_SAMPLES,
        student_t=STUDENT_T,
        claims=len(CLAIMS),
        by_chance=0.05 * len(CLAIMS),
        corrected_t=two_sided_t(0.05 / len(CLAIMS)),
    )
    for claim in CLAIMS:
        word, mean, error = verdict(claim, results)
        unit = "" if claim.measure == "sampled" else " per 100,000 tokens"
        compared = f"{claim.better} – {claim.worse}"
        text += f"| {claim.text} | {compared} | {100 * mean:+.1f} ± {100 * error:.1f}{unit} | {word} |\n"
    text += VARIANTS_HEAD
    for variant, runs in results.items():
        cells = [spread([run[key] for run in runs], 100, 1) for key in ("sampled", "greedy", "format")]
        cells += [
            spread([run["entropy"] for run in runs], 1, 3),
            spread([run["sampled_tokens"] for run in runs], 1e-3, 0),
        ]
        text += f"| {variant} | {' | '.join(cells)} |\n"
    text += "\nThe options of each variant, in addition to those of all (" + f"`{' '.join(COMMON)}`):\n\n"
    for variant in results:
        options = " ".join(VARIANTS[variant]) or "none"
        text += f"- {variant}: `{options}`\n"
    return text


def spread(values: list[float], scale: float, digits: int) -> str:
    """Mean ± standard deviation."""
    return f"{scale * statistics.mean(values):.{digits}f} ± {scale * statistics.stdev(values):.{digits}f}"


def main() -> None:
    """Run what is missing, then write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, each on one thread")
    jobs = parser.parse_args().jobs
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with ThreadPoolExecutor(jobs) as pool:
        pending = {(variant, seed): pool.submit(run, variant, seed) for seed in SEEDS for variant in VARIANTS}
        results = {variant: [pending[variant, seed].result() for seed in SEEDS] for variant in VARIANTS}
    DOC.write_text(document(results), encoding="utf-8")
    print(f"wrote {DOC}")


if __name__ == "__main__":
    main()
