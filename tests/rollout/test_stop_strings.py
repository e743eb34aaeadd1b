"""Texts that end completions, in the engine: the tokens that it sampled anyway, up to the one that completes a text."""

from dataclasses import replace
from itertools import chain
from typing import Literal

import pytest
import torch

from groupwise.model.choose_backend import run_by
from groupwise.model.load import load_policy
from groupwise.rollout.inprocess import InProcessEngine
from tests.support.sampling import recorded, requests, sampling, scored
from tests.support.tiny import arithmetic_prompts


@pytest.mark.parametrize("stops", [("boxed{",), ("ink>",), ("+ ", "="), ("</think>", "7"), ("}", "\\"), ("zebra",)])
@pytest.mark.parametrize("record_kept", [False, True])
@pytest.mark.parametrize(("batch_sequences", "backend"), [(3, "packed"), (256, "packed"), (7, "plain")])
def test_completions_end_with_the_token_that_completes_a_text(
    stops: tuple[str, ...], record_kept: bool, batch_sequences: int, backend: Literal["packed", "plain"]
) -> None:
    policy = load_policy("bundled")
    policy = run_by(policy, "plain", "sdpa") if backend == "plain" else policy
    asked = requests((8, 4, 1, 5), arithmetic_prompts(policy, 4))
    how = sampling(1.0, 40, policy.stop_ids, record_kept=record_kept)
    engine = InProcessEngine(policy, batch_sequences)
    answers = engine.generate(asked, replace(how, stop=stops))
    torch.testing.assert_close(recorded(answers), scored(policy, asked, answers, 1.0), atol=1e-5, rtol=0)
    ended = 0
    for one, other in zip(chain(*answers), chain(*engine.generate(asked, how)), strict=True):
        texts = [policy.tokenizer.decode(other.ids[:n].tolist()) for n in range(1, len(other.ids) + 1)]
        first = next((n for n, text in enumerate(texts, start=1) if any(stop in text for stop in stops)), None)
        assert one.ids.tolist() == other.ids[:first].tolist()
        assert one.finish_reason == ("stop" if first else other.finish_reason)
        assert one.kept is None or len(one.kept.counts_T) == len(one.ids)
        ended += first is not None
    assert (ended == 0) == (stops == ("zebra",))


def test_a_text_at_the_limit_of_tokens_still_ends() -> None:
    policy = load_policy("bundled")
    asked = requests((1,), arithmetic_prompts(policy, 1))
    how = replace(sampling(0.0, 40, policy.stop_ids), stop=("</think>",))
    ((whole,),) = InProcessEngine(policy, 1).generate(asked, how)
    ((limited,),) = InProcessEngine(policy, 1).generate(asked, replace(how, max_new_tokens=len(whole.ids)))
    assert limited.ids.tolist() == whole.ids.tolist()
    assert limited.finish_reason == "stop"
    ((shorter,),) = InProcessEngine(policy, 1).generate(asked, replace(how, max_new_tokens=len(whole.ids) - 1))
    assert shorter.finish_reason == "length"
