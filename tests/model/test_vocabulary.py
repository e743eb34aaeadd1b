"""P6: rows of the head that the tokenizer has no token for are neither sampled nor scored, by anything."""

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from groupwise.config.compose import compose_train_config
from groupwise.model.choose_backend import run_by
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.prompt import PromptRenderer
from groupwise.model.reference import frozen_copy
from groupwise.model.save import save_model
from groupwise.model.score import SamplingMask, Scores, Scoring, score
from groupwise.model.startup_check import check_scoring
from groupwise.problem import Message
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.track.plan import plan_lines
from tests.support.tiny import arithmetic_prompts

TOKENS, ROWS = 512, 640


@pytest.fixture(scope="module", params=["packed", "plain"])
def padded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """The bundled model with 128 rows more, which would take most of the probability."""
    policy = load_policy("bundled")
    policy.model.resize_token_embeddings(ROWS)
    with torch.no_grad():
        weight_VD = policy.model.get_input_embeddings().weight
        weight_VD[TOKENS:] = 1.2 * weight_VD[TOKENS - 128 : TOKENS]
    folder: Path = tmp_path_factory.mktemp("padded")
    save_model(policy, folder)
    loaded = load_policy(str(folder))
    return run_by(loaded, "plain", "sdpa") if request.param == "plain" else loaded


def scores_of(policy: Policy, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
    generator = np.random.default_rng(3)
    draws = [generator.integers(0, TOKENS, length) for length in (9, 7, 12)]
    return score(policy, pack([SequenceGroup(draws[0], (draws[1], draws[2]))], policy.device), scoring, mask)


def test_the_vocabulary_is_the_tokenizers(padded: Policy) -> None:
    assert padded.vocabulary == TOKENS
    assert load_policy("bundled").vocabulary == TOKENS
    with torch.no_grad():
        ids = torch.from_numpy(arithmetic_prompts(padded, 1)[0]).unsqueeze(0)
        plain = AutoModelForCausalLM.from_pretrained(padded.name, dtype=torch.float32)
        outside = plain(input_ids=ids).logits[0, -1].softmax(-1)[TOKENS:].sum()
    assert outside > 0.1


@pytest.mark.parametrize("options", [{}, {"top_k": 600}, {"top_p": 0.99}, {"record_kept": True}])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 1.5])
def test_the_engine_samples_what_it_would_without_these_rows(
    padded: Policy, temperature: float, options: dict[str, Any]
) -> None:
    bundled = load_policy("bundled")
    sampling = replace(SamplingParams(temperature, 24, bundled.stop_ids), **options)
    asked = [SampleRequest(ids, (1, 2, 3)) for ids in arithmetic_prompts(bundled, 3)]
    ours, expected = (InProcessEngine(policy, 16).generate(asked, sampling) for policy in (padded, bundled))
    for one, other in zip(chain(*ours), chain(*expected), strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        np.testing.assert_allclose(one.logps, other.logps, atol=1e-5)
        assert one.ids.max() < TOKENS


@pytest.mark.parametrize("scoring", [Scoring(1.0, 5), Scoring(0.7, 100, square_sums=True), Scoring(1.3, 5, True)])
def test_every_scorer_agrees(padded: Policy, scoring: Scoring) -> None:
    """The pass in tiles and the one with logits, whose gradient reaches none of these rows; the reference."""
    expected = scores_of(load_policy("bundled"), scoring)
    for policy in (padded, frozen_copy(padded)):
        found = scores_of(policy, scoring)
        for name, values_N in vars(expected).items():
            if values_N is not None:
                torch.testing.assert_close(vars(found)[name], values_N, atol=1e-5, rtol=1e-5)
    found = scores_of(padded, scoring)
    (found.logps_N + 0.1 * found.entropies_N).sum().backward()
    gradient_VD = padded.model.get_output_embeddings().weight.grad
    padded.model.zero_grad(set_to_none=True)
    assert not gradient_VD[TOKENS:].any()
    assert gradient_VD[:TOKENS].any()


def test_kept_sets_end_where_the_vocabulary_does(padded: Policy) -> None:
    tokens = 19
    mask = SamplingMask(torch.arange(TOKENS).repeat(tokens), torch.full((tokens,), TOKENS))
    whole = scores_of(padded, Scoring(1.0, 100))
    torch.testing.assert_close(scores_of(padded, Scoring(1.0, 100), mask).logps_N, whole.logps_N, atol=1e-5, rtol=1e-5)


def test_the_check_at_the_start_and_the_plan(padded: Policy) -> None:
    assert check_scoring(padded) < 1e-4
    config = compose_train_config(["demo"])
    first = PromptRenderer(padded.tokenizer, config.prompt).render([Message("user", "1 + 1 = ?")])
    line = plan_lines(config, padded, "problems", 0, 9, first)[0]
    assert line.endswith("the tokenizer has no tokens for 128 of 640 ids, which are never sampled")
    assert "never sampled" not in plan_lines(config, load_policy("bundled"), "problems", 0, 9, first)[0]
