"""TRL's part of gpu_check.py: GRPO with its own loop, with the sizes that are asked for."""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Steps(TrainerCallback):  # type: ignore[misc]
    """When each step ended, and the mean length of its answers."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.lengths: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.perf_counter())

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        if "completions/mean_length" in logs:
            self.lengths.append(logs["completions/mean_length"])


def reward(completions: list[Any], **_: Any) -> list[float]:
    """Something that differs within a group."""
    return [float(len(str(completion)) % 7) for completion in completions]


asked = json.loads(sys.argv[1])
sequences = asked["prompts"] * asked["samples"]
rows = [{"prompt": [{"role": "user", "content": f"Compute {n} + {n + 1}."}]} for n in range(512)]
seen = Steps()
config = GRPOConfig(
    output_dir=asked["folder"],
    max_steps=asked["steps"],
    per_device_train_batch_size=sequences,
    num_generations=asked["samples"],
    max_completion_length=asked["max_new"],
    bf16=not asked["on_cpu"],
    use_cpu=asked["on_cpu"],
    use_vllm=asked["vllm"],
    logging_steps=1,
    save_strategy="no",
    report_to=[],
    beta=0.0,
)
GRPOTrainer(asked["model"], reward, args=config, train_dataset=Dataset.from_list(rows), callbacks=[seen]).train()
seconds = [end - begin for begin, end in zip(seen.ends, seen.ends[1:], strict=False)]
rates = [length * sequences / step for length, step in zip(seen.lengths[1:], seconds, strict=False)]
result = {
    "seconds": statistics.median(seconds),
    "tokens_per_second": statistics.median(rates),
    "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
}
(Path(asked["folder"]) / "result.json").write_text(json.dumps(result))
