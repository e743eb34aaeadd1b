"""What the guards cost, in CPU seconds of a step with and without them: `python benchmarks/guard_cost.py`.

The calls of the guards are timed inside of a run, and what remains is the same step without them: no second run is
needed, on a machine that may be busy otherwise. Models have random weights. The norm of the gradient is left out: with
or without guards it is what the gradient is clipped by.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from versus.workload import save_model

from groupwise.track.tracker import Tracker
from groupwise.training import guards, rollout_metrics, update
from groupwise.training.run import compose_and_start

OPTIONS = [
    "demo", "run.threads=1", "run.checkpoint_every_steps=0", "run.rollouts_every_steps=0", "problems.eval_problems=0",
    "prompt.template=plain", "batch.prompts_per_step=8", "batch.samples_per_prompt=8", "batch.minibatches_per_step=1",
    "sampling.max_new_tokens=64", "active_sampling.filter=none", "kl.coefficient=1e-6", "guards.steps_without_update=0",
]  # fmt: skip
CALLS = [
    (guards.Guards, "check_batch"),
    (guards.Guards, "check_update"),
    (guards.Guards, "check_step"),
    (update, "largest_gap"),
    (rollout_metrics, "neg_logp"),
]


class Timed:
    """CPU seconds of the guards in each step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = [{}]
        for owner, name in CALLS:
            setattr(owner, name, self._timed(getattr(owner, name), name))

    def _timed(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = time.process_time()
            result = call(*arguments)
            step = self.steps[-1]
            step[name] = step.get(name, 0.0) + time.process_time() - start
            if name == "check_step":
                self.steps.append({})
            return result

        return timed


def main() -> None:
    """Measure every size and print the table."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--steps", type=int, default=6)
    options = made.parse_args()
    torch.set_num_threads(1)
    timed = Timed()
    print("CPU seconds of a step, medians; the first step, which warms up, is left out")
    print("| model | without guards | with | more | " + " | ".join(name for _, name in CALLS) + " |")
    for size in ("1.5m", "25m"):
        timed.steps[:] = [{}]
        with tempfile.TemporaryDirectory() as folder:
            model, run = Path(folder) / "model", Path(folder) / "run"
            save_model(size, model)
            arguments = [*OPTIONS, f"model.path={model}", f"run.output={run}", f"run.steps={options.steps}"]
            compose_and_start(arguments, False, Tracker())
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        # `check_step` comes behind the step's own clock.
        spent = [sum(step.values()) for step in timed.steps]
        with_guards = [
            line["time/step_cpu_seconds"] + step.get("check_step", 0.0)
            for line, step in zip(lines, timed.steps, strict=False)
        ]
        without = [whole - own for whole, own in zip(with_guards, spent, strict=False)]
        parts = [f"{1e3 * statistics.median(step[name] for step in timed.steps[1:-1]):.2f} ms" for _, name in CALLS]
        more = statistics.median(own / rest for own, rest in zip(spent[1:], without[1:], strict=False))
        cells = [
            size,
            f"{statistics.median(without[1:]):.3f} s",
            f"{statistics.median(with_guards[1:]):.3f} s",
            f"{more:.2%}",
            *parts,
        ]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
