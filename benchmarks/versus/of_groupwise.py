"""Steps of groupwise's own training loop on the shared work, measured: started by versus_trl.py."""

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers
from workload import EOS, STAND_IN, Workload, matmul_rate, reward, words, write_record

from groupwise import __version__
from groupwise.completion import Completion
from groupwise.config.compose import compose_train_config
from groupwise.data.stream import epoch_order
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader, PendingGroup
from groupwise.rollout import inprocess
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import Tracker
from groupwise.training import loop
from groupwise.training.checkpoint import TrainState
from groupwise.training.setup import assemble, prepare

Timed = tuple[float, float]


def now() -> Timed:
    """Wall and CPU seconds."""
    return time.perf_counter(), time.process_time()


@dataclass
class Laps:
    """Seconds of the engine and of the update in the running step."""

    engine: Timed = (0.0, 0.0)
    update: Timed = (0.0, 0.0)

    def add(self, name: str, start: Timed) -> None:
        """Count the time since `start`."""
        end, before = now(), getattr(self, name)
        setattr(self, name, tuple(b + e - s for b, e, s in zip(before, end, start, strict=True)))


class Silent(Tracker):
    """Keeps nothing but the lines of the steps, each with the seconds of its parts."""

    def __init__(self, laps: Laps) -> None:
        self._laps = laps
        self.steps: list[dict[str, float]] = []
        self._start = now()

    def begin(self) -> None:
        """The first step begins."""
        self._start = now()

    def step(self, metrics: dict[str, Any]) -> None:
        """A step ends, and the next one begins."""
        end = now()
        wall, cpu = (e - s for e, s in zip(end, self._start, strict=True))
        laps = self._laps
        self.steps.append(
            {
                "wall": wall,
                "cpu": cpu,
                "sampling_wall": laps.engine[0],
                "sampling_cpu": laps.engine[1],
                "training_wall": laps.update[0],
                "training_cpu": laps.update[1],
                "answer_tokens": float(metrics["tokens/sampled"]),
                "logp_gap_mean": metrics["engine/logp_gap_mean"],
            }
        )
        laps.engine = laps.update = (0.0, 0.0)
        self._start = end


class ScheduledEngine(RolloutEngine):
    """The engine, timed, with answers that end where the schedule says.

    The schedule travels in the uniform numbers: 2 is added to that of a row's last token. What the engine draws there
    is replaced by the end, with the log-probability that the model gives it; an end that is drawn elsewhere by a word.
    """

    def __init__(self, engine: RolloutEngine, work: Workload, laps: Laps) -> None:
        self._engine, self._work, self._laps = engine, work, laps
        self.version = engine.version
        self._ends: dict[int, int] = {}
        self._calls = 0
        self._uniforms, self._draw = inprocess.uniforms, inprocess.draw
        patch.multiple(inprocess, uniforms=self.uniforms, draw=self.draw).start()

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """See `RolloutEngine`; counted as sampling."""
        start = now()
        self._engine.load_weights(weights, version)
        self.version = version
        self._laps.add("engine", start)

    def sleep(self) -> None:
        """See `RolloutEngine`."""
        self._engine.sleep()

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        """See `RolloutEngine`."""
        seeds = [seed for request in requests for seed in request.seeds]
        self._ends = dict(zip(seeds, self._work.lengths(self._calls), strict=True))
        self._calls += 1
        groups = self._engine.stream(requests, sampling)
        while True:
            start = now()
            group = next(groups, None)
            self._laps.add("engine", start)
            if group is None:
                return
            yield group

    def uniforms(self, seeds: Sequence[int], tokens: int) -> torch.Tensor:
        """The engine's numbers with the schedule in them."""
        numbers_BT = self._uniforms(seeds, tokens)
        for row, seed in enumerate(seeds):
            if (end := self._ends[seed]) <= tokens:
                numbers_BT[row, end - 1] += 2.0
        return numbers_BT

    def draw(self, logits_BV: torch.Tensor, uniform_B: torch.Tensor, sampling: SamplingParams) -> Any:
        """What the engine draws, but for the ends."""
        token_B, logp_B, kept_BV = self._draw(logits_BV, uniform_B % 2.0, sampling)
        wanted_B = torch.where(uniform_B >= 2.0, EOS, torch.where(token_B == EOS, STAND_IN, token_B))
        logp_B = logp_B + (logits_BV.gather(1, torch.stack([wanted_B, token_B], 1)) @ torch.tensor([1.0, -1.0]))
        return wanted_B, logp_B, kept_BV


class IdGrader(Grader):
    """Grades as always, and then pays for ids: answers of random weights would all be worth the same."""

    @staticmethod
    def of(grader: Grader) -> "IdGrader":
        """With everything that the run's grader has."""
        made = IdGrader.__new__(IdGrader)
        made.__dict__.update(vars(grader))
        return made

    def result(self, pending: PendingGroup) -> GradedGroup:
        """See `Grader`."""
        graded = super().result(pending)
        totals_G = np.array([reward(completion.ids.tolist()) for completion in graded.completions])
        return replace(graded, totals_G=totals_G)


def timed(laps: Laps, inner: Callable[..., Any]) -> Callable[..., Any]:
    """The function, counted as an update."""

    def call(*arguments: Any, **named: Any) -> Any:
        start = now()
        made = inner(*arguments, **named)
        laps.add("update", start)
        return made

    return call


def main(options: dict[str, Any]) -> None:
    """Run the steps and write what they took."""
    work = Workload(**options["work"])
    scratch = Path(options["scratch"])
    prompts = work.prompt_ids(options["steps"])
    # The loop draws the rows of a file in an order of its own.
    rows = {
        int(row): {"problem": words(ids), "answer": "1"}
        for row, ids in zip(epoch_order(len(prompts), 0, 0), prompts, strict=True)
    }
    file = scratch / "problems.jsonl"
    file.write_text("".join(json.dumps(rows[row]) + "\n" for row in range(len(prompts))))
    config = compose_train_config(
        [
            f"model.path={options['model']}",
            f"model.compute_dtype={options['precision']}",
            "prompt.template=plain",
            f"problems.train={file}",
            "problems.eval_problems=0",
            "rewards.correctness.math.answer=last_number",
            f"sampling.max_new_tokens={work.max_new}",
            f"batch.prompts_per_step={work.prompts}",
            f"batch.samples_per_prompt={work.samples}",
            "active_sampling.filter=total",
            "active_sampling.refill=false",
            "optimizer.lr=1e-5",
            f"run.steps={options['steps']}",
            "run.checkpoint_every_steps=0",
            "run.rollouts_every_steps=0",
            f"run.threads={options['threads']}",
            *options["overrides"],
        ]
    )
    laps = Laps()
    silent = Silent(laps)
    prepared = prepare(config, silent, threads=0)
    engine = ScheduledEngine(prepared.engine, work, laps)
    sampler = replace(prepared.sampler, engine=engine, grader=IdGrader.of(prepared.sampler.grader))
    prepared = replace(prepared, engine=engine, sampler=sampler)
    folder = RunFolder.create(str(scratch / "run"), "versus")
    run = assemble(config, prepared, folder, TrainState(), silent)
    loop.update = timed(laps, loop.update)
    loop.checkpoint = lambda _: None
    silent.begin()
    try:
        loop.train(run)
    finally:
        prepared.sampler.grader.close()
    for step, sampled in enumerate(silent.steps):
        own = prompts[step * work.prompts : (step + 1) * work.prompts]
        sampled["prompt_tokens"] = float(sum(map(len, own)))
    write_record(
        options["result"],
        {
            "steps": silent.steps,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {
                "groupwise": __version__,
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
            "rates": {name: matmul_rate(getattr(torch, name)) for name in ("float32", "bfloat16")},
        },
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
