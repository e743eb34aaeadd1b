"""Sampled accuracy on held-out problems: reads the file of a snapshot from each line of its input, and answers.

Started by each of the trainers, in a process of its own. Every snapshot is asked the same problems with the same random
numbers, whoever trained it. An empty line stands for the bundled model as it is.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from groupwise.config.compose import compose_train_config
from groupwise.data.sources import eval_problems
from groupwise.evaluation.measure import measure
from groupwise.grading.grader import Grader
from groupwise.model.load import load_policy
from groupwise.model.prompt import PromptRenderer
from groupwise.rollout.engine import SamplingParams, make_engine


class Examiner:
    """The bundled model, which takes over the weights of a snapshot."""

    def __init__(self, problems: int, samples: int) -> None:
        self._config = compose_train_config(["demo", f"problems.eval_problems={problems}"])
        self._samples = samples
        self._policy = load_policy(self._config.model.path)
        self._engine = make_engine(self._config, self._policy)
        self._renderer = PromptRenderer(self._policy.tokenizer, self._config.prompt)
        grader = Grader(self._config, self._policy.tokenizer, self._policy.think_ids)
        self._grader = grader.for_measuring()
        self._problems = eval_problems(self._config.problems, {})
        self._version = 0

    def load(self, file: Path) -> None:
        """Take over the weights; ValueError for those of another model."""
        weights, own = load_file(file), dict(self._policy.model.named_parameters())
        if weights.keys() != own.keys():
            raise ValueError(f"{file} has other weights than the bundled model: {weights.keys() ^ own.keys()}")
        with torch.no_grad():
            for name, weight in own.items():
                weight.copy_(weights[name])
        self._version += 1
        self._engine.load_weights(self._policy.model.named_parameters(), self._version)

    def accuracy(self) -> float:
        """Share of right answers among those sampled at the temperature of training."""
        policy, options = self._policy, self._config.sampling
        sampling = SamplingParams(options.temperature, options.max_new_tokens, policy.stop_ids)
        measured = measure(
            policy, self._engine, self._renderer, self._grader, self._problems, sampling, self._samples, seed=0
        )
        return measured.accuracy.value


def main(problems: int, samples: int, threads: int) -> None:
    """Answer until the input ends."""
    torch.set_num_threads(threads)
    examiner = Examiner(problems, samples)
    for line in sys.stdin:
        if file := line.strip():
            examiner.load(Path(file))
        print(json.dumps(examiner.accuracy()), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
