"""How cost grows with samples, prompt, answer and batch: `python benchmarks/growth.py [--size 1.5m] [--json FILE]`.

One axis at a time is doubled twice from a base of 8 problems × 8 samples, prompts of 64 tokens and answers of 64, with
random weights. Every answer has full length, so that each token costs what theory says:

- sampling a token costs one pass over the weights and its attention, a prompt's token the same once for its group;
- training on a token costs three times that;
- training holds the activations of one micro-batch, whatever the batch; the engine's cache holds every prompt once and
  the answers of the sequences that run.

So seconds per counted operation and the memory of training are flat, and the cache is flat per token that it holds.
Attention is counted with the positions that a token sees. Rounds are interleaved over the points; medians are shown,
each relative to the base.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from versus.workload import SHAPES, Shape, save_model

BASE = {"problems": 8, "samples": 8, "prompt": 64, "answer": 64}
FLAT = 0.15


def main() -> None:
    """Measure every point and print the table, or one point where it is named."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", choices=list(SHAPES), default="1.5m")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--json", default="")
    made.add_argument("--point", default="", help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.point:
        print(json.dumps(measure(json.loads(options.point), options)))
        return
    with tempfile.TemporaryDirectory(prefix="growth_") as folder:
        save_model(options.size, Path(folder))
        points = [BASE] + [{**BASE, axis: BASE[axis] * factor} for axis in BASE for factor in (2, 4)]
        found: list[list[dict[str, float]]] = [[] for _ in points]
        for _ in range(options.rounds):
            for point, records in zip(points, found, strict=True):
                records.append(in_process({**point, "model": folder}, options))
    medians = [{name: statistics.median(r[name] for r in records) for name in records[0]} for records in found]
    print(table(options.size, points, medians))
    if options.json:
        rows = [{"point": point, **values} for point, values in zip(points, medians, strict=True)]
        Path(options.json).write_text(json.dumps({"size": options.size, "points": rows}, indent=1) + "\n")


def in_process(point: dict[str, Any], options: argparse.Namespace) -> dict[str, float]:
    """One point in a process of its own, so that its memory is its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, __file__, "--size", options.size, "--threads", str(options.threads)]
    done = subprocess.run(
        [*command, "--point", json.dumps(point)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(point: dict[str, Any], options: argparse.Namespace) -> dict[str, float]:
    """Nanoseconds of CPU per thousand counted operations, and bytes, of sampling and of training."""
    import numpy as np
    import torch

    from groupwise.compose import compose_train_config
    from groupwise.policy.load import load_policy
    from groupwise.rollout.engine import SampleRequest, SamplingParams
    from groupwise.rollout.inprocess import InProcessEngine
    from groupwise.train.micro_batch import TrainGroup, TrainSequence
    from groupwise.train.update import update
    from groupwise.train.world import World

    torch.set_num_threads(options.threads)
    policy = load_policy(point["model"])
    vocabulary = SHAPES[options.size].vocabulary
    generator = np.random.default_rng(0)
    prompts = generator.integers(3, vocabulary, (point["problems"], point["prompt"]))
    requests = [
        SampleRequest(ids, tuple(range(p * point["samples"], (p + 1) * point["samples"])))
        for p, ids in enumerate(prompts)
    ]
    sampling = SamplingParams(temperature=1.0, max_new_tokens=point["answer"], stop_ids=())
    engine = InProcessEngine(policy, batch_sequences=1024)
    config = compose_train_config(["problems.eval_problems=0"])
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-5, fused=True)

    def groups() -> list[TrainGroup]:
        return [
            TrainGroup(
                request.prompt_ids,
                tuple(
                    TrainSequence(completion.ids, advantage=(-1.0) ** g, old_logps=completion.logps,
                                  sampler_logps=completion.logps)
                    for g, completion in enumerate(completions)
                ),
            )
            for request, completions in zip(requests, engine.generate(requests, sampling), strict=True)
        ]  # fmt: skip

    # The first pass makes the optimizer's state and warms the allocator.
    update(policy, None, optimizer, groups()[:1], 1, config, World())
    before = reset_peak()
    start = time.process_time()
    sampled = groups()
    sampling_seconds, sampling_bytes = time.process_time() - start, peak() - before
    before = reset_peak()
    start = time.process_time()
    update(policy, None, optimizer, sampled, 2, config, World())
    training_seconds, training_bytes = time.process_time() - start, peak() - before
    operations = counted(SHAPES[options.size], point)
    held = point["problems"] * (point["prompt"] + point["samples"] * point["answer"])
    return {
        "sampling_time": sampling_seconds / operations * 1e12,
        "training_time": training_seconds / (3 * operations) * 1e12,
        "cache_bytes_per_token": sampling_bytes / held,
        "training_bytes": float(training_bytes),
    }


def counted(shape: Shape, point: dict[str, Any]) -> float:
    """Operations of one forward pass over all tokens, each prompt once, with attention to the positions seen."""
    width = shape.hidden // shape.heads * shape.key_heads
    linear = shape.layers * (
        2 * shape.hidden * shape.hidden + 2 * shape.hidden * width + 3 * shape.hidden * shape.intermediate
    )
    prompt, answer = point["prompt"], point["answer"]
    answers = point["samples"] * answer
    seen = prompt * prompt / 2 + answers * (prompt + answer / 2)
    each = 2 * linear * (prompt + answers) + 2 * shape.vocabulary * shape.hidden * answers
    return float(point["problems"] * (each + 4 * shape.hidden * shape.layers * seen))


def reset_peak() -> int:
    """Forget the largest resident size so far (Linux); the present one in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Largest resident size since the last reset, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def table(size: str, points: list[dict[str, int]], medians: list[dict[str, float]]) -> str:
    """Every point relative to the base, as Markdown; what is above the base by more than 15 % is marked."""
    lines = [
        f"{size}, relative to {BASE}: time per counted operation and memory, (!) where more than {FLAT:.0%} above it\n",
        "| changed | sampling time | training time | cache per token | training memory |",
        "|---|---|---|---|---|",
    ]
    for point, values in zip(points, medians, strict=True):
        changed = ", ".join(f"{axis} {value}" for axis, value in point.items() if value != BASE[axis]) or "base"
        shown = [values[name] / medians[0][name] for name in values]
        lines.append(f"| {changed} | " + " | ".join(f"{x:.2f}{' (!)' if x > 1 + FLAT else ''}" for x in shown) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
