"""Steps of TRL's GRPOTrainer on the shared work, measured: started by versus_trl.py with TRL's interpreter."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRL_EXPERIMENTAL_SILENCE="1")

import datasets
import torch
import transformers
import trl
from transformers import LlamaForCausalLM, LogitsProcessorList, PreTrainedTokenizerFast, TrainerCallback
from workload import EOS, PAD, SHAPES, Workload, matmul_rate, reward, words, write_record

# Settings that every run of TRL's has here; it is slower with gradient checkpointing.
PLAIN: dict[str, Any] = {
    "use_cpu": True,
    "report_to": "none",
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
    "shuffle_dataset": False,
    "dataloader_pin_memory": False,
    "gradient_checkpointing": False,
    "loss_type": "dapo",
    "beta": 0.0,
    "top_k": 0,
    "top_p": 1.0,
}


class Times:
    """Wall and CPU seconds by name, of the running step and of all finished ones."""

    def __init__(self) -> None:
        self.steps: list[dict[str, float]] = []
        self._running: dict[str, float] = {}
        self.begin()

    def begin(self) -> None:
        """A step begins."""
        self._start = time.perf_counter(), time.process_time()

    def end(self, **more: float) -> None:
        """It ends, and the next one begins."""
        wall, cpu = time.perf_counter() - self._start[0], time.process_time() - self._start[1]
        self.steps.append({**self._running, "wall": wall, "cpu": cpu, **more})
        self._running = {}
        self.begin()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """A part of a step."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        for key, value in ((f"{name}_wall", time.perf_counter() - wall), (f"{name}_cpu", time.process_time() - cpu)):
            self._running[key] = self._running.get(key, 0.0) + value

    def wrap(self, owner: Any, method: str, name: str) -> None:
        """Count every call of a method as a part."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            with self.of(name):
                return inner(*arguments, **named)

        setattr(owner, method, timed)


class EndsOnSchedule:
    """Logits processor: a row ends with its scheduled token, and never before."""

    def __init__(self, lengths: list[int], prompt_width: int) -> None:
        self._lengths = torch.tensor(lengths)
        self._prompt_width = prompt_width

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores[:, [EOS, PAD]] = -torch.inf
        ending = self._lengths == ids.shape[1] - self._prompt_width + 1
        scores[ending] = -torch.inf
        scores[ending, EOS] = 0.0
        return scores


def main(options: dict[str, Any]) -> None:
    """Run the steps and write what they took."""
    torch.set_num_threads(options["threads"])
    transformers.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    work = Workload(**options["work"])
    shape = SHAPES[work.size]
    rows = work.prompts * work.samples
    bfloat16 = options["precision"] == "bfloat16"
    model = LlamaForCausalLM.from_pretrained(options["model"], attn_implementation="sdpa", dtype=torch.float32)
    # One step more than is taken: the loader reads ahead.
    prompts = [words(ids) for ids in work.prompt_ids(options["steps"] + 1)]
    times = Times()
    made: dict[str, float] = {}

    class Steps(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            times.begin()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.end(**made)

    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completion_ids, **_: [reward(ids) for ids in completion_ids],
        args=trl.GRPOConfig(
            **PLAIN,
            output_dir=options["scratch"],
            seed=0,
            learning_rate=1e-5,
            lr_scheduler_type="constant",
            per_device_train_batch_size=shape.trl_rows,
            gradient_accumulation_steps=rows // shape.trl_rows,
            num_generations=work.samples,
            max_completion_length=work.max_new,
            max_steps=options["steps"],
            temperature=1.0,
            bf16=bfloat16,
        ),
        train_dataset=datasets.Dataset.from_dict({"prompt": prompts}),
        processing_class=PreTrainedTokenizerFast.from_pretrained(options["model"]),
        callbacks=[Steps()],
    )

    generate = trainer.model.generate

    def scheduled(input_ids: torch.Tensor, **named: Any) -> Any:
        ends = EndsOnSchedule(work.lengths(len(times.steps)), input_ids.shape[1])
        with times.of("generate"):
            return generate(input_ids=input_ids, logits_processor=LogitsProcessorList([ends]), **named)

    trainer.model.generate = scheduled
    times.wrap(trainer, "_generate_single_turn", "sampling")
    times.wrap(trainer, "_generate_and_score_completions", "rollout")
    score = trainer._generate_and_score_completions

    def counted(inputs: Any) -> Any:
        out = score(inputs)
        made["answer_tokens"] = float(out["completion_mask"].sum())
        made["prompt_tokens"] = float(out["prompt_mask"][:: work.samples].sum())
        return out

    trainer._generate_and_score_completions = counted
    trainer.train()
    for step in times.steps:
        for clock in ("wall", "cpu"):
            step[f"training_{clock}"] = step[clock] - step[f"rollout_{clock}"]
    write_record(
        options["result"],
        {
            "steps": times.steps,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"trl": trl.__version__, "torch": torch.__version__, "transformers": transformers.__version__},
            "rates": {name: matmul_rate(getattr(torch, name)) for name in ("float32", "bfloat16")},
        },
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
