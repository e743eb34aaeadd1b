"""How cost grows with samples, prompt, answer and batch: `python benchmarks/growth.py [--size 1.5m] [--json FILE]`.

One axis at a time is doubled twice from a base of 8 problems × 8 samples, prompts of 64 tokens and answers of 64, with
random weights. Every answer has full length, so that each token costs what theory says:

- sampling a token costs one pass over the weights and its attention, a prompt's token the same once for its group;
- training on a token costs three times that;
- the engine's cache holds every prompt once and the answers of the sequences that run;
- training holds the activations of one micro-batch, whatever the batch.

So these numbers are flat: seconds per counted operation of sampling and of training, bytes of sampling per token that
the cache holds, and bytes of training, without the gradient, per token of the largest micro-batch. Attention is counted
with the positions that a token sees. A number below the base is a fixed cost that is shared by more tokens.

Seconds per operation of sampling are flat only while the products with the weights dominate: an answer's own keys and
values serve one token each time they are read, so that long answers are bound by memory and not by arithmetic. Beside
it stands the time over what the machine allows: the operations at its rate in matrix products and, at its rate of
reading, every step's weights, prompts once for a group, and answers so far. Both rates are measured in every process.

Time is CPU time, the median of interleaved rounds. Memory is the growth of the resident size to its peak, measured in
processes of their own, in which the C library gives back at once what is freed (glibc on Linux).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from versus.workload import SHAPES, Shape, matmul_rate, save_model

BASE = {"problems": 8, "samples": 8, "prompt": 64, "answer": 64}
FLAT = 0.15
# Larger pieces are mapped apart and unmapped when they are freed.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
FLOAT32 = 4


def main() -> None:
    """Measure every point and print the table, or one point where it is named."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", choices=list(SHAPES), default="1.5m")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--json", default="")
    made.add_argument("--what", choices=("time", "memory"), help=argparse.SUPPRESS)
    made.add_argument("--point", default="", help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.point:
        measure = {"time": times, "memory": memory}[options.what]
        print(json.dumps(measure(Work.of(json.loads(options.point), options))))
        return
    points = [BASE] + [{**BASE, axis: BASE[axis] * factor} for axis in BASE for factor in (2, 4)]
    found: list[list[dict[str, float]]] = [[] for _ in points]
    with tempfile.TemporaryDirectory(prefix="growth_") as folder:
        save_model(options.size, Path(folder))
        held = [in_process("memory", {**point, "model": folder}, options) for point in points]
        for turn in range(options.rounds):
            for point, records in zip(points, found, strict=True):
                records.append(in_process("time", {**point, "model": folder}, options))
            print(f"round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
    rows = [
        {name: statistics.median(record[name] for record in records) for name in records[0]} | of_memory
        for records, of_memory in zip(found, held, strict=True)
    ]
    print(table(options.size, points, rows))
    if options.json:
        named = [{"point": point, **values} for point, values in zip(points, rows, strict=True)]
        Path(options.json).write_text(json.dumps({"size": options.size, "points": named}, indent=1) + "\n")


def in_process(what: str, point: dict[str, Any], options: argparse.Namespace) -> dict[str, float]:
    """One point in a process of its own, so that its memory is its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads), "OMP_WAIT_POLICY": "PASSIVE"}
    if what == "memory":
        environment |= GIVE_BACK
    command = [sys.executable, __file__, "--size", options.size, "--threads", str(options.threads), "--what", what]
    done = subprocess.run(
        [*command, "--point", json.dumps(point)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


@dataclass
class Work:
    """A point of the sweep with everything loaded."""

    point: dict[str, Any]
    shape: Shape
    policy: Any
    engine: Any
    optimizer: Any
    config: Any
    requests: list[Any]
    updates: int = 0

    @staticmethod
    def of(point: dict[str, Any], options: argparse.Namespace) -> "Work":
        """Load the model and draw the prompts."""
        import numpy as np
        import torch

        from groupwise.config.compose import compose_train_config
        from groupwise.model.load import load_policy
        from groupwise.rollout.engine import SampleRequest
        from groupwise.rollout.inprocess import InProcessEngine

        torch.set_num_threads(options.threads)
        shape = SHAPES[options.size]
        policy = load_policy(point["model"])
        samples = point["samples"]
        prompts = np.random.default_rng(0).integers(3, shape.vocabulary, (point["problems"], point["prompt"]))
        return Work(
            point=point,
            shape=shape,
            policy=policy,
            engine=InProcessEngine(policy, batch_sequences=1024),
            optimizer=torch.optim.AdamW(policy.model.parameters(), lr=1e-5, fused=True),
            config=compose_train_config(["problems.eval_problems=0"]),
            requests=[
                SampleRequest(ids, tuple(range(p * samples, (p + 1) * samples))) for p, ids in enumerate(prompts)
            ],
        )

    def sample(self, requests: list[Any], answer_tokens: int) -> Any:
        """A StepBatch of answers that all have full length."""
        import numpy as np

        from groupwise.rollout.engine import SamplingParams
        from groupwise.training.step_batch import step_batch

        sampling = SamplingParams(temperature=1.0, max_new_tokens=answer_tokens, stop_ids=())
        groups: list[Any] = [
            SimpleNamespace(
                prompt=SimpleNamespace(ids=request.prompt_ids),
                completions=completions,
                problem=SimpleNamespace(domain=""),
                dropped_G=[False] * len(completions),
            )
            for request, completions in zip(requests, self.engine.generate(requests, sampling), strict=True)
        ]
        advantages_PG = np.array([[(-1.0) ** g for g in range(len(group.completions))] for group in groups])
        return step_batch(groups, advantages_PG, self.config)

    def train(self, batch: Any) -> None:
        """One optimizer step."""
        from groupwise.ranks import Ranks
        from groupwise.training.update import update

        self.updates += 1
        update(self.policy, None, self.optimizer, batch, self.updates, self.config, Ranks())


def times(work: Work) -> dict[str, float]:
    """CPU seconds of sampling and of training per 10¹² counted operations, and of sampling over what is allowed."""
    import torch

    answer = work.point["answer"]
    # Makes the optimizer's state and warms the allocator.
    work.train(work.sample(work.requests[:1], answer))
    operations = counted(work.shape, work.point)
    bytes_read = traffic(work.shape, work.point, sum(weight.numel() for _, weight in work.policy.trainable()))
    allowed = operations / matmul_rate(torch.float32) + bytes_read / read_rate()
    start = time.process_time()
    batch = work.sample(work.requests, answer)
    sampled = time.process_time()
    work.train(batch)
    trained = time.process_time()
    return {
        "sampling_time": (sampled - start) / operations * 1e12,
        "sampling_over_machine": (sampled - start) / allowed,
        "training_time": (trained - sampled) / (3 * operations) * 1e12,
    }


def memory(work: Work) -> dict[str, float]:
    """Bytes of sampling per token in the cache, and of training per token of the largest micro-batch."""
    from groupwise.training.step_batch import micro_batches

    # Small, so that it makes the optimizer's state and what else stays, and leaves nothing to be used again.
    first = work.requests[0]
    work.train(work.sample([type(first)(first.prompt_ids[:2], first.seeds[:2])], 2))
    before = reset_peak()
    batch = work.sample(work.requests, work.point["answer"])
    sampling_bytes = peak() - before
    before = reset_peak()
    work.train(batch)
    gradient_bytes = FLOAT32 * sum(weight.numel() for _, weight in work.policy.trainable())
    training_bytes = peak() - before - gradient_bytes
    held = work.point["problems"] * (work.point["prompt"] + work.point["samples"] * work.point["answer"])
    parts = micro_batches(batch, work.config.batch.micro_batch_tokens)
    largest = max(batch.take(part).packed().token_ids_1T.numel() for part in parts)
    return {
        "cache_bytes_per_token": sampling_bytes / held,
        "training_bytes_per_token": training_bytes / largest,
        "micro_batch_tokens": float(largest),
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


def traffic(shape: Shape, point: dict[str, Any], parameters: int) -> float:
    """Bytes that decoding reads at least: in every step all weights, every prompt's keys and values once, and those of
    every answer so far."""
    token = 2 * shape.layers * (shape.hidden // shape.heads * shape.key_heads)
    prompt, answer = point["prompt"], point["answer"]
    held = point["problems"] * (prompt + point["samples"] * (answer + 1) / 2)
    return FLOAT32 * answer * (parameters + token * held)


def read_rate(rows: int = 8192, columns: int = 8192, repeats: int = 9) -> float:
    """Bytes a CPU second that a product of a large matrix with a vector reads, median."""
    import torch

    matrix, vector = torch.ones(rows, columns), torch.ones(columns)
    torch.mv(matrix, vector)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        torch.mv(matrix, vector)
        seconds.append(time.process_time() - start)
    return FLOAT32 * rows * columns / statistics.median(seconds)


def reset_peak() -> int:
    """Forget the largest resident size so far (Linux); the present one in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    """Largest resident size since the last reset, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


COLUMNS = {
    "sampling_time": "sampling, CPU s per 10¹² operations",
    "sampling_over_machine": "sampling, over what the machine allows",
    "training_time": "training, CPU s per 10¹² operations",
    "cache_bytes_per_token": "sampling, bytes per token in the cache",
    "training_bytes_per_token": "training, bytes per token of a micro-batch",
}


def table(size: str, points: list[dict[str, int]], rows: list[dict[str, float]]) -> str:
    """The base and every other point relative to it, as Markdown; what is more than 15 % above the base is marked."""
    base = rows[0]
    lines = [
        f"{size}, base {BASE}; the others relative to it, (!) where more than {FLAT:.0%} above\n",
        f"| changed | {' | '.join(COLUMNS.values())} | tokens in the largest micro-batch |",
        "|---" * (len(COLUMNS) + 2) + "|",
        f"| base | {' | '.join(f'{base[name]:.3g}' for name in COLUMNS)} | {base['micro_batch_tokens']:.0f} |",
    ]
    for point, values in zip(points[1:], rows[1:], strict=True):
        changed = ", ".join(f"{axis} {value}" for axis, value in point.items() if value != BASE[axis])
        shown = [values[name] / base[name] for name in COLUMNS]
        lines.append(
            f"| {changed} | {' | '.join(f'{x:.2f}' + (' (!)' if x > 1 + FLAT else '') for x in shown)} "
            f"| {values['micro_batch_tokens']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
