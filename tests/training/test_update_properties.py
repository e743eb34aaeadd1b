"""What the gradient of a step must and must not depend on: properties of the real path, whatever the options."""

import copy
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from groupwise.completion import Completion, Prompt
from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup, graded_group
from groupwise.grading.records import Score
from groupwise.objective.surrogates import SurrogateOption
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.training.advantages import advantages_of
from groupwise.training.collect import passes_filter
from groupwise.training.step_batch import count_step, step_batch
from groupwise.training.streams import with_step_values
from groupwise.training.update import accumulate_gradient
from tests.objective.fixture import techniques
from tests.support.episodes import (
    REDUCTIONS,
    TrainGroup,
    TrainSequence,
    batch_of,
    config_with,
    gradient_of,
    labelled,
    reference_loss,
    sequences_of,
    train_groups,
)
from tests.support.tiny import build, gradients, plain_scores, policy_of, random_ids, relative_difference

RATIOS = ("token", "sequence_geometric_mean", "gspo_token", "sequence_product", "none")
SURROGATES: list[Surrogate] = techniques(SurrogateOption)
COMBINATIONS = [(s.type, ratio) for s in SURROGATES for ratio in RATIOS if s.needs_ratio in ("", ratio)]


def options_of(reduction: str, surrogate: str = "ppo_clip", ratio: str = "token", micro: int = 10_000) -> TrainConfig:
    return config_with(
        batch={"micro_batch_tokens": micro},
        objective={"reduction": reduction, "surrogate": surrogate, "ratio": ratio},
    )


def scaled(tensors: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: factor * tensor for name, tensor in tensors.items()}


# The order of groups and of sequences


def shuffled(groups: Sequence[TrainGroup], seed: int) -> list[TrainGroup]:
    order = random.Random(seed)
    mixed = [replace(g, sequences=tuple(order.sample(g.sequences, len(g.sequences)))) for g in groups]
    return order.sample(mixed, len(mixed))


# Log-probabilities and loss are float32 whatever the model is: below 1e-7 nothing can be told.
@pytest.mark.slow
@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-7)])
@pytest.mark.parametrize(
    ("surrogate", "ratio"), [("ppo_clip", "token"), ("ppo_clip", "sequence_geometric_mean"), ("gmpo", "token")]
)
def test_the_order_of_groups_and_sequences_does_not_matter(
    surrogate: str, ratio: str, precision: torch.dtype, tolerance: float
) -> None:
    model = build("qwen3").to(precision)
    groups = train_groups(model)
    for reduction in REDUCTIONS:
        for micro in (10_000, 40):
            config = options_of(reduction, surrogate, ratio, micro)
            expected = gradient_of(model, groups, config)
            for seed in range(2):
                assert relative_difference(gradient_of(model, shuffled(groups, seed), config), expected) < tolerance


@pytest.mark.slow
@pytest.mark.parametrize(("surrogate", "ratio"), COMBINATIONS)
def test_no_surrogate_sees_the_division_into_micro_batches(surrogate: str, ratio: str) -> None:
    model = build("llama")
    groups = labelled(train_groups(model))
    for reduction in REDUCTIONS:
        whole, parts = (
            gradient_of(model, groups, options_of(reduction, surrogate, ratio, micro)) for micro in (10_000, 30)
        )
        assert relative_difference(parts, whole) < 1e-5


# Groups without signal


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_group_without_signal_counts_in_the_denominators(reduction: str) -> None:
    model = build("llama")
    groups = train_groups(model)
    lengths = (3, 8)
    generator = np.random.default_rng(1)
    silent = TrainGroup(
        random_ids(generator, 4),
        tuple(TrainSequence(random_ids(generator, n), 0.0, *(np.full(n, -1, np.float32),) * 2) for n in lengths),
    )
    tokens, sequences = sum(len(s.ids) for s in sequences_of(groups)), len(sequences_of(groups))
    share = {
        "token_mean": tokens / (tokens + sum(lengths)),
        "sequence_mean_token_mean": sequences / (sequences + len(lengths)),
        "sequence_mean_token_sum": sequences / (sequences + len(lengths)),
        "constant_length": sequences / (sequences + len(lengths)),
        "group_token_mean": len(groups) / (len(groups) + 1),
    }[reduction]
    alone = gradient_of(model, groups, options_of(reduction))
    beside = gradient_of(model, [*groups, silent], options_of(reduction))
    assert relative_difference(beside, scaled(alone, share)) < 1e-5


# Rewards


def graded(totals: Sequence[float], lengths: Sequence[int] | None = None, seed: int = 0) -> GradedGroup:
    """A group with these total rewards, as correctness; answers of more than 5 tokens are truncated."""
    generator = np.random.default_rng(seed)
    lengths = [3] * len(totals) if lengths is None else lengths
    completions = [
        Completion(
            ids=random_ids(generator, length),
            logps=generator.uniform(-2, -0.1, length).astype(np.float32),
            finish_reason="length" if length > 5 else "stop",
            version=0,
        )
        for length in lengths
    ]
    return graded_group(
        position=seed,
        problem=Problem(f"p{seed}", (Message("user", "?"),), answer="1"),
        prompt=Prompt(random_ids(generator, 4), "", opened=False),
        completions=tuple(completions),
        texts_G=("",) * len(totals),
        verdicts_G=(None,) * len(totals),
        columns={
            "correctness": [Score(total, "scored") for total in totals],
            "format": [Score(0.0, "scored") for _ in totals],
        },
        config=TrainConfig(),
    )


SIZE = 4
ROWS = st.lists(
    st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.2]), min_size=SIZE, max_size=SIZE), min_size=2, max_size=5
)


def advantages(rows: Sequence[Sequence[float]], **options: Any) -> Any:
    sections = {"batch": {"samples_per_prompt": SIZE}, "advantage": {"estimator": {"type": "group", **options}}}
    config = TrainConfig.model_validate(sections)
    return advantages_of([graded(row, seed=p) for p, row in enumerate(rows)], config, Ranks())


@given(ROWS, st.floats(-5, 5))
@settings(deadline=None, max_examples=100)
def test_what_a_whole_group_is_paid_more_does_not_matter(rows: list[list[float]], more: float) -> None:
    raised = [[reward + more for reward in rows[0]], *rows[1:]]
    for baseline in ("group_mean", "leave_one_out"):
        for scale in ("none", "group_std"):
            before, after = (advantages(paid, baseline=baseline, scale=scale) for paid in (rows, raised))
            np.testing.assert_allclose(after, before, atol=1e-9, rtol=0)
    before, after = (advantages(paid, baseline="none") for paid in (rows, raised))
    np.testing.assert_allclose(after[0] - before[0], more, atol=1e-12)
    np.testing.assert_array_equal(after[1:], before[1:])


@given(ROWS, st.floats(0.5, 50))
@settings(deadline=None, max_examples=100)
def test_the_unit_of_the_rewards_does_not_matter_where_they_are_scaled(rows: list[list[float]], unit: float) -> None:
    larger = [[unit * reward for reward in row] for row in rows]
    for scale in ("group_std", "batch_std"):
        before, after = (advantages(paid, scale=scale, std_epsilon=1e-12) for paid in (rows, larger))
        np.testing.assert_allclose(after, before, atol=1e-8, rtol=1e-8)
    before, after = (advantages(paid) for paid in (rows, larger))
    np.testing.assert_allclose(after, unit * before, atol=1e-12, rtol=1e-12)


def test_a_filtered_group_leaves_no_trace() -> None:
    """Equal rewards whose mean is not exact in binary: no rounding may pass for a signal."""
    taught, silent = graded([0, 1, 1, 0, 0, 0, 0, 1]), graded([0.1 + 0.2] * 8, seed=1)
    for what in ("correctness", "total", "any_component", "none"):
        config = TrainConfig.model_validate({"active_sampling": {"filter": what}})
        assert [passes_filter(group, config) for group in (taught, silent)] == [True, what == "none"]
    for scale in ("none", "group_std", "batch_std"):
        estimator = {"type": "group", "scale": scale}
        sections = {"batch": {"samples_per_prompt": 8}, "advantage": {"estimator": estimator}}
        config = TrainConfig.model_validate(sections)
        assert not advantages_of([taught, silent], config, Ranks())[1].any()


# Truncated answers


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_masked_answers_count_in_the_baseline_and_nowhere_else(reduction: str) -> None:
    """Numerator and denominator are those of a step without them, with the advantages of a step with them."""
    model, group_sizes = build("llama"), ([3, 9, 5, 7], [8, 2, 4, 1])
    sections: dict[str, Any] = {
        "batch": {"samples_per_prompt": SIZE},
        "kl": {"coefficient": 0.3, "importance": "none"},
        "objective": {"reduction": reduction, "mask_truncated": True},
    }
    config = config_with(**sections)
    groups = [graded([0, 1, 1, 0], lengths, seed) for seed, lengths in enumerate(group_sizes)]
    made = step_batch(groups, advantages_of(groups, config, Ranks()), config)
    referred = replace(made, ref_logps_N=made.sampler_logps_N - 0.5)
    absent = referred.take(np.flatnonzero(made.lengths_E.numpy() <= 5))
    assert referred.trained_E.tolist() == [n <= 5 for lengths in group_sizes for n in lengths]
    assert set(absent.advantages_N.abs().tolist()) == {0.5}
    found = []
    for batch in (referred, absent):
        policy = policy_of(model)
        accumulate_gradient(policy, batch, count_step(batch, Ranks()), config, entropy_coefficient=0.1)
        found.append(gradients(policy.model))
    assert relative_difference(*found) < 1e-5


# Extremes


@pytest.mark.parametrize(("surrogate", "ratio"), COMBINATIONS)
def test_log_ratios_of_200_stay_finite(surrogate: str, ratio: str) -> None:
    model = build("llama")
    signs = itertools.cycle([200.0, -200.0, 0.0])
    groups = [
        replace(
            group,
            sequences=tuple(
                replace(
                    s, old_logps=s.old_logps + np.float32(next(signs)), ref_logps=s.old_logps - np.float32(next(signs))
                )
                for s in group.sequences
            ),
            kl_coefficient=0.1,
        )
        for group in labelled(train_groups(model))
    ]
    batch = batch_of(groups)
    for importance in ("none", "token", "sequence_product"):
        config = config_with(
            objective={"surrogate": surrogate, "ratio": ratio, "old_logps": "sampler"},
            engine_correction={"type": "tis", "level": "sequence_product"},
            kl={"coefficient": 0.1, "importance": importance},
        )
        policy = policy_of(model)
        given = with_step_values(policy, batch, config, Ranks())[0] if config.has_step_values else batch
        measured = accumulate_gradient(policy, given, count_step(batch, Ranks()), config)
        assert all(np.isfinite(float(metric.value)) for part in measured for metric in part.metrics.values())
        assert all(bool(gradient.isfinite().all()) for gradient in gradients(policy.model).values())


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_answers_of_one_token_behind_a_prompt_of_one_token(reduction: str) -> None:
    model = build("qwen3")
    generator = np.random.default_rng(3)
    groups = []
    # Behind one token alone attention has nothing to choose from; the other prompt gives it a gradient.
    for prompt_tokens, advantage in ((1, 1.0), (5, -0.5)):
        prompt, ids = random_ids(generator, prompt_tokens), [random_ids(generator, 1) for _ in range(3)]
        with torch.no_grad():
            old = [plain_scores(model, prompt, one, 0.9)[0].float().numpy() for one in ids]
        sequences = [
            TrainSequence(one, advantage * (i - 1), row, row) for i, (one, row) in enumerate(zip(ids, old, strict=True))
        ]
        groups.append(TrainGroup(prompt, tuple(sequences)))
    reference = copy.deepcopy(model)
    reference_loss(reference, groups, reduction).backward()
    for micro in (10_000, 1):
        found = gradient_of(model, groups, options_of(reduction, micro=micro))
        assert relative_difference(found, gradients(reference)) < 1e-5
