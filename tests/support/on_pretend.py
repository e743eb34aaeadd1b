"""The program of the tests on a pretend device: `python -m tests.support.on_pretend FOLDER` runs there and on the CPU.

In a process of its own, since the device is torch's accelerator from then on. It leaves the folders of the runs, and in
waits.json how often the process waited for the device.
"""

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from groupwise.model.device import choose_device
from groupwise.model.load import load_policy
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.training import loop, update
from groupwise.training.update import Updated
from tests.support import pretend
from tests.support.runs import Quiet, interrupt_at, resume, train

OPTIONS = [
    "model.compute_dtype=float32",
    "kl.coefficient=0.1",
    "active_sampling.filter=none",
    "optimizer.warmup_steps=0",
    "batch.minibatches_per_step=2",
    "batch.micro_batch_tokens=64",
]


def of_sampling(tokens: int) -> int:
    """The waits for so many tokens of 4 answers, of which none ends before."""
    policy = load_policy("bundled", device=choose_device("auto").device)
    engine = InProcessEngine(policy, batch_sequences=4)
    requests = [SampleRequest(np.arange(5, 9 + p), (2 * p, 2 * p + 1)) for p in range(2)]
    with pretend.counted() as waits:
        engine.generate(requests, SamplingParams(temperature=1.0, max_new_tokens=tokens, stop_ids=()))
    return waits.total()


def of_updates(folder: Path, micro_batch_tokens: int) -> list[int]:
    """The waits of the updates of each step."""
    made: list[int] = []

    def counted(*arguments: Any) -> Updated:
        with pretend.counted() as waits:
            result = update.update(*arguments)
        made.append(waits.total())
        return result

    more = ["kl.coefficient=0", "batch.minibatches_per_step=1", f"batch.micro_batch_tokens={micro_batch_tokens}"]
    with patch.object(loop, "update", counted):
        train(folder, *OPTIONS, *more, "run.steps=2")
    return made


def of_a_mixture() -> str:
    """What is said of a sum of two devices' tensors."""
    try:
        torch.ones(3, device=choose_device("auto").device) + torch.ones(3)
    except RuntimeError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    """All runs."""
    # Before the first backward pass, which makes a queue for each device.
    pretend.install()
    train(folder / "cpu", *OPTIONS, "model.device=cpu")
    said = Quiet()
    train(folder / "device", *OPTIONS, reporter=said)
    train(folder / "resumed", *OPTIONS, reporter=Quiet(interrupt_at(2)))
    resume(folder / "resumed")
    waits = {
        "sampling": {tokens: of_sampling(tokens) for tokens in (4, 12)},
        "updates": {tokens: of_updates(folder / f"updates{tokens}", tokens) for tokens in (32, 1024)},
    }
    (folder / "said.json").write_text(json.dumps({"waits": waits, "notes": said.notes, "mixed": of_a_mixture()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
