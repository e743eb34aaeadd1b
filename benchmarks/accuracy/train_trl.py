"""A run of TRL's GRPOTrainer on the demo's recipe with snapshots of its weights: started by time_to_accuracy.py.

Problems, prompts, rewards and the schedule of the learning rate are groupwise's own; TRL samples, scores and updates.
"""

import json
import resource
import sys
import time
from importlib import resources
from typing import Any

import datasets
import numpy as np
import torch
import transformers
import trl
from of_trl import PLAIN, Times
from recipe import Asked, Progress
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from groupwise.completion import Completion
from groupwise.config import TrainConfig
from groupwise.data.sources import open_sources
from groupwise.grading.grader import Grader
from groupwise.model.prompt import PromptRenderer
from groupwise.training.learning_rate import lr_factor


class Rewards:
    """Pays what groupwise's grader pays. accuracy: share of right answers of the last call."""

    def __init__(self, asked: Asked, config: TrainConfig, tokenizer: Any) -> None:
        self._config = config
        self._stop_ids = (tokenizer.eos_token_id,)
        think, think_end = tokenizer.encode("<think></think>", add_special_tokens=False)
        self._renderer = PromptRenderer(tokenizer, config.prompt)
        self._stream = open_sources(config.problems, {}, asked.seed).stream
        self._grader = Grader(config, tokenizer, (think, think_end))
        self.accuracy = 0.0
        self.__name__ = "groupwise"

    def problems(self, count: int) -> list[dict[str, Any]]:
        """The first problems of the stream, as rows of TRL's data set."""
        return [
            {
                "prompt": [{"role": turn.role, "content": turn.content} for turn in self._stream.at(position).messages],
                "position": position,
            }
            for position in range(count)
        ]

    def __call__(self, completion_ids: list[list[int]], position: list[int], **_: Any) -> list[float]:
        """The totals of consecutive groups."""
        samples = self._config.batch.samples_per_prompt
        totals: list[float] = []
        right = 0
        for first in range(0, len(position), samples):
            problem = self._stream.at(position[first])
            completions = [self._completion(ids) for ids in completion_ids[first : first + samples]]
            prompt = self._renderer.render(problem.messages)
            graded = self._grader.grade(position[first], problem, prompt, completions, self._stop_ids)
            totals += graded.totals_G.tolist()
            right += int(graded.kept_right.sum())
        self.accuracy = right / len(position)
        return totals

    def _completion(self, ids: list[int]) -> Completion:
        reason = "stop" if ids and ids[-1] in self._stop_ids else "length"
        return Completion(np.asarray(ids, dtype=np.int64), np.zeros(len(ids), dtype=np.float32), reason, 0)


class Watch(TrainerCallback):
    """Counts a step after all its epochs, and looks at the weights between two of them."""

    def __init__(self, progress: Progress, rewards: Rewards, epochs: int) -> None:
        self._progress, self._rewards, self._epochs = progress, rewards, epochs
        self._times = Times()
        self._updates = 0
        self.startup_cpu = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """The first step begins."""
        self.startup_cpu = time.process_time()
        self._times.begin()

    def on_step_end(self, _: Any, __: Any, control: Any, model: Any, **___: Any) -> None:
        """An update ends, and perhaps a step; what is done with the weights is not counted."""
        self._updates += 1
        if self._updates % self._epochs:
            return
        self._times.end()
        taken = self._times.steps[-1]
        weights = model.named_parameters()
        if self._progress.after_step(taken["wall"], taken["cpu"], self._rewards.accuracy, weights):
            control.should_training_stop = True
        self._times.begin()


def main(asked: Asked) -> None:
    """Train until the goal has been passed, and write what it took."""
    torch.set_num_threads(asked.threads)
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    config = asked.config()
    batch, options, objective = config.batch, config.optimizer, config.objective
    path = str(resources.files("groupwise") / "bundled" / "model")
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="sdpa", dtype=torch.float32)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=options.lr,
        betas=(options.beta1, options.beta2),
        eps=options.epsilon,
        weight_decay=options.weight_decay,
        fused=True,
    )

    def factor(update: int) -> float:
        step = update // batch.epochs_per_step
        return lr_factor(step, asked.steps, options.warmup_steps, options.schedule, options.final_lr_fraction)

    rewards = Rewards(asked, config, tokenizer)
    progress = Progress(asked)
    watch = Watch(progress, rewards, batch.epochs_per_step)
    # One step more than is taken: the loader reads ahead.
    rows = rewards.problems((asked.steps + 1) * batch.prompts_per_step)
    sequences = batch.prompts_per_step * batch.samples_per_prompt
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=trl.GRPOConfig(
            **PLAIN,
            output_dir=asked.folder,
            seed=asked.seed,
            learning_rate=options.lr,
            max_grad_norm=options.max_grad_norm,
            per_device_train_batch_size=asked.trl_rows,
            gradient_accumulation_steps=sequences // asked.trl_rows,
            num_generations=batch.samples_per_prompt,
            num_iterations=batch.epochs_per_step,
            max_completion_length=config.sampling.max_new_tokens,
            max_steps=asked.steps * batch.epochs_per_step,
            temperature=config.sampling.temperature,
            epsilon=objective.surrogate.clip_low,
            epsilon_high=objective.surrogate.clip_high,
            scale_rewards="none",
            mask_truncated_completions=objective.mask_truncated,
            bf16=False,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[watch],
        optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)),
    )
    trainer.train()
    progress.write(
        startup_cpu=watch.startup_cpu,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        versions={"trl": trl.__version__, "torch": torch.__version__, "transformers": transformers.__version__},
    )


if __name__ == "__main__":
    main(Asked(**json.loads(sys.argv[1])))
