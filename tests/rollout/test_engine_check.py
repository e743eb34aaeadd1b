"""The check of an engine before it samples."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from groupwise.completion import Completion
from groupwise.errors import DataError
from groupwise.model.choose_backend import choose_backend
from groupwise.model.load import Policy
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.engine_check import STEPS, check_engine
from groupwise.rollout.inprocess import InProcessEngine
from tests.model.test_startup_check import phi3
from tests.support.tiny import build, policy_of

PROMPT = np.arange(2, 20)
SAMPLING = SamplingParams(temperature=0.8, max_new_tokens=60, stop_ids=(1,), top_k=3, record_kept=True)


class Noted(InProcessEngine):
    """Keeps what it was asked and answered; `off` is added to every log-probability of the last request."""

    def __init__(self, policy: Policy, off: float = 0.0) -> None:
        super().__init__(policy, 64)
        self.off, self.asked, self.lengths = off, list[SampleRequest](), list[int]()

    def stream(
        self, requests: Sequence[SampleRequest], sampling: SamplingParams
    ) -> Iterator[tuple[int, list[Completion]]]:
        self.asked = list(requests)
        for index, answers in super().stream(requests, sampling):
            off = np.float32(self.off if index == len(requests) - 1 else 0.0)
            self.lengths += [len(answer.ids) for answer in answers]
            yield index, [replace(answer, logps=answer.logps + off) for answer in answers]


def test_an_engine_that_agrees_is_measured_on_short_and_long_sequences() -> None:
    policy = policy_of(build("qwen3"))
    engine = Noted(policy)
    gap = check_engine(engine, policy, PROMPT, 100, SAMPLING, 7)
    assert 0 < gap.mean < gap.largest < 1e-4
    assert gap.tokens == 100
    assert [len(request.prompt_ids) for request in engine.asked] == [18, 9, 100 - STEPS]
    # Neither the end of an answer nor a filter makes the sample smaller.
    assert engine.lengths == [STEPS] * 8
    assert check_engine(Noted(policy), policy, PROMPT, 100, SAMPLING, 7) == gap


@pytest.mark.parametrize("off", [0.01, float("nan")])
def test_an_engine_that_disagrees_in_long_sequences_is_refused(off: float) -> None:
    policy = policy_of(build("qwen3"))
    with pytest.raises(DataError, match=f"differ from the trainer's by {off:.3g} nats in float32, at most 0.001 is"):
        check_engine(Noted(policy, off), policy, PROMPT, 100, SAMPLING, 7)


def test_n2_angles_that_switch_are_found_by_the_engine_too() -> None:
    with pytest.raises(DataError, match=r"with sequences of up to 90 tokens \(rotary scaling: longrope\)"):
        check_engine(Noted(phi3(48)), phi3(48), PROMPT, 90, SAMPLING, 7)


def test_n2_the_other_back_end_agrees_with_its_engine() -> None:
    policy, _ = choose_backend(phi3(48), "auto", 90)
    gap = check_engine(InProcessEngine(policy, 64), policy, PROMPT, 90, SAMPLING, 7)
    assert gap.largest < 1e-4


def test_in_bfloat16_the_gap_is_measured_and_not_judged() -> None:
    policy = policy_of(build("qwen3"), compute_dtype=torch.bfloat16)
    gap = check_engine(Noted(policy, 0.01), policy, PROMPT, 100, SAMPLING, 7)
    assert 1e-3 < gap.mean < 0.5
    with pytest.raises(DataError, match="in bfloat16"):
        check_engine(Noted(policy, float("nan")), policy, PROMPT, 100, SAMPLING, 7)
