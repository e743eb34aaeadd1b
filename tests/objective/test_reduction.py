"""Token weights, and what they are for: no split of a step changes its loss or gradient."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from groupwise.objective.corrections.mis import Mis
from groupwise.objective.corrections.tis import Tis
from groupwise.objective.kl.k1 import K1
from groupwise.objective.kl.k2 import K2
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.masks.off_policy import SequenceMask
from groupwise.objective.metric import merge_metrics
from groupwise.objective.ratios.sequence_geometric_mean import SequenceGeometricMean
from groupwise.objective.ratios.sequence_product import SequenceProduct
from groupwise.objective.reductions import ReductionOption
from groupwise.objective.reductions.constant_length import ConstantLength
from groupwise.objective.reductions.group_token_mean import GroupTokenMean
from groupwise.objective.reductions.reduction import (
    Reduction,
    ReductionInputs,
    StepTotals,
    count_totals,
    group_token_totals,
)
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.sequence_mean_token_sum import SequenceMeanTokenSum
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.vespo import Vespo
from tests.objective.fixture import close, techniques

REDUCTIONS: list[Reduction] = techniques(ReductionOption)
of_each_reduction = pytest.mark.parametrize("reduction", REDUCTIONS, ids=lambda reduction: reduction.type)
TWO_LENGTHS = torch.tensor([10, 1000])


def test_weights_of_a_short_and_a_long_answer() -> None:
    """The short answer's tokens cost 1, the long one's 0."""
    loss_N = torch.cat([torch.ones(10), torch.zeros(1000)]).double()
    expected: dict[Reduction, float] = {
        TokenMean(): 10 / 1010,
        SequenceMeanTokenMean(): 0.5,
        SequenceMeanTokenSum(): 5.0,
        ConstantLength(): 10 / (2 * 2000),
        ConstantLength(tokens=500): 10 / (2 * 500),
    }
    for reduction, value in expected.items():
        weights_N = reduction.token_weights(ReductionInputs(TWO_LENGTHS, count_totals(TWO_LENGTHS), 2000))
        assert weights_N.dtype == torch.float64
        assert (weights_N * loss_N).sum().item() == pytest.approx(value, rel=1e-12)


def test_group_token_mean_is_a_mean_over_groups_of_token_means() -> None:
    lengths_E, group_E = torch.tensor([1, 3, 10, 30]), torch.tensor([0, 0, 1, 1])
    tokens_P = group_token_totals(lengths_E, group_E, 2)
    assert tokens_P.tolist() == [4, 40]
    totals = replace(count_totals(lengths_E), groups=2)
    weights_N = GroupTokenMean().token_weights(ReductionInputs(lengths_E, totals, group_tokens_E=tokens_P[group_E]))
    close(weights_N, [1 / 8] * 4 + [1 / 80] * 40)


@of_each_reduction
def test_truncated_answers_leave_numerator_and_denominator_both(reduction: Reduction) -> None:
    """The masked step weighs its remaining sequences exactly as the step that never had the masked one."""
    lengths_E, group_E = torch.tensor([4, 2, 7, 3]), torch.tensor([0, 0, 1, 1])
    trained_E = torch.tensor([True, True, False, True])

    def weights(lengths_E: Tensor, group_E: Tensor, trained_E: Tensor | None) -> Tensor:
        tokens_P = group_token_totals(lengths_E, group_E, 2, trained_E)
        totals = replace(count_totals(lengths_E, trained_E), groups=int((tokens_P > 0).sum()))
        return reduction.token_weights(ReductionInputs(lengths_E, totals, 8, tokens_P[group_E]), trained_E)

    masked_N = weights(lengths_E, group_E, trained_E)
    assert masked_N[6:13].tolist() == [0.0] * 7
    never_N = weights(lengths_E[trained_E], group_E[trained_E], None)
    assert torch.equal(torch.cat([masked_N[:6], masked_N[13:]]), never_N)


def test_totals_add_up() -> None:
    assert StepTotals(2, 10, 1) + StepTotals(3, 5, 2) == StepTotals(5, 15, 3)
    assert count_totals(torch.tensor([3, 0, 4])) == StepTotals(3, 7)
    assert count_totals(torch.tensor([3, 0, 4]), torch.tensor([False, True, True])) == StepTotals(2, 4)


@of_each_reduction
def test_empty_sequences_and_empty_steps_are_finite(reduction: Reduction) -> None:
    lengths_E = torch.tensor([0, 1, 0])
    totals = replace(count_totals(lengths_E), groups=1)
    weights_N = reduction.token_weights(ReductionInputs(lengths_E, totals, 4, torch.tensor([1, 1, 1])))
    assert weights_N.isfinite().all()
    assert weights_N.shape == (1,)
    no_tokens = ReductionInputs(lengths_E, StepTotals(0, 0, 1), 4, torch.zeros(3, dtype=torch.long))
    none_trained = reduction.token_weights(no_tokens, torch.zeros(3, dtype=torch.bool))
    assert none_trained.tolist() == [0.0]


def test_refusals() -> None:
    inputs = ReductionInputs(TWO_LENGTHS, count_totals(TWO_LENGTHS))
    with pytest.raises(ValueError, match="at least 1 token, got 0"):
        ConstantLength().token_weights(inputs)
    with pytest.raises(ValueError, match="group_tokens_E"):
        GroupTokenMean().token_weights(inputs)


# A step of ragged groups, cut into micro-batches. Everything that an objective may use is switched on.

GROUP_SIZE = 4
OBJECTIVES = [
    Objective(),
    Objective(
        surrogate=PpoClip(clip_high=0.2, dual_clip=2.0),
        correction=Tis(cap=2.0),
        off_policy_mask=SequenceMask(threshold_nats=0.1),
    ),
    Objective(ratio=SequenceGeometricMean(), surrogate=Cispo(), correction=Mis(level="sequence_product")),
    Objective(ratio=SequenceProduct(), surrogate=Vespo(), kl_estimator=K2(), kl_importance="none"),
    Objective(
        surrogate=Gmpo(log_clip_low=0.2, log_clip_high=0.28), kl_estimator=K1(), kl_importance="sequence_product"
    ),
]


def make_step(lengths: list[int], reduction: Reduction, seed: int) -> LossInputs:
    generator = torch.Generator().manual_seed(seed)
    lengths_E, num_tokens = torch.tensor(lengths), sum(lengths)

    def noise(scale: float, *shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    old_N = -noise(1.0, num_tokens).abs()
    group_E = torch.arange(len(lengths)) // GROUP_SIZE
    tokens_P = group_token_totals(lengths_E, group_E, int(group_E.max()) + 1)
    totals = replace(count_totals(lengths_E), groups=int((tokens_P > 0).sum()))
    return LossInputs(
        new_logps_N=old_N + noise(0.3, num_tokens),
        old_logps_N=old_N,
        ref_logps_N=old_N + noise(0.3, num_tokens),
        sampler_logps_N=old_N + noise(0.3, num_tokens),
        lengths_E=lengths_E,
        advantages_N=noise(1.0, len(lengths)).repeat_interleave(lengths_E),
        weights_N=reduction.token_weights(ReductionInputs(lengths_E, totals, 16, tokens_P[group_E])),
        entropy_N=noise(1.0, num_tokens).abs(),
        policy_mask_N=noise(1.0, num_tokens) > -1.0,
        kl_coefficient_E=noise(0.1, len(lengths)).abs(),
        entropy_coefficient=0.01,
        drift_coefficient_N=noise(0.1, num_tokens).abs(),
    )


def take(step: LossInputs, episodes: list[int]) -> tuple[LossInputs, Tensor]:
    """The step's episodes in another order or number, and where their tokens were."""
    ends = step.lengths_E.cumsum(0).tolist()
    starts = [end - length for end, length in zip(ends, step.lengths_E.tolist(), strict=True)]
    tokens = torch.tensor([t for s in episodes for t in range(starts[s], ends[s])], dtype=torch.long)
    chosen: dict[str, Any] = {}
    for name, value in vars(step).items():
        if isinstance(value, Tensor):
            chosen[name] = value[tokens] if name.endswith("_N") else value[torch.tensor(episodes, dtype=torch.long)]
    return replace(step, **chosen), tokens


def gradient_of(objective: Objective, parts: list[tuple[LossInputs, Tensor]], num_tokens: int) -> tuple[Any, ...]:
    """Summed loss, gradient put back in the order of the whole step, and merged metrics."""
    loss, gradient_N, metrics = torch.zeros((), dtype=torch.float64), torch.zeros(num_tokens, dtype=torch.float64), []
    for part, tokens in parts:
        new_N = part.new_logps_N.clone().requires_grad_()
        outputs = policy_loss(objective, replace(part, new_logps_N=new_N))
        outputs.loss.backward()
        assert new_N.grad is not None
        loss, gradient_N[tokens] = loss + outputs.loss.detach(), new_N.grad.double()
        metrics.append(outputs.metrics)
    return loss, gradient_N, merge_metrics(metrics)


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=9).filter(lambda lengths: sum(lengths) > 0),
    data=st.data(),
)
@of_each_reduction
def test_order_and_micro_batches_change_nothing(reduction: Reduction, lengths: list[int], data: st.DataObject) -> None:
    step = make_step(lengths, reduction, seed=data.draw(st.integers(0, 1000)))
    objective = data.draw(st.sampled_from(OBJECTIVES))
    order = data.draw(st.permutations(range(len(lengths))))
    size = data.draw(st.integers(1, len(lengths)))
    whole = gradient_of(objective, [(step, torch.arange(sum(lengths)))], sum(lengths))
    pieces = [take(step, order[i : i + size]) for i in range(0, len(order), size)]
    split = gradient_of(objective, pieces, sum(lengths))
    torch.testing.assert_close(split[0], whole[0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(split[1], whole[1], rtol=1e-12, atol=1e-13)
    assert split[2].keys() == whole[2].keys()
    for name, metric in whole[2].items():
        assert split[2][name].value == pytest.approx(metric.value, rel=1e-9, abs=1e-12), name
        if metric.reduction != "sum":
            assert split[2][name].weight == metric.weight, name


@pytest.mark.parametrize("splits", [[16], [4, 4, 4, 4], [1] * 16])
@of_each_reduction
def test_micro_batches_in_float32(reduction: Reduction, splits: list[int]) -> None:
    lengths = [1, 7, 3, 12, 5, 2, 9, 30, 4, 4, 17, 1, 6, 8, 2, 21]
    step = make_step(lengths, reduction, seed=0)
    single = replace(step, **{n: v.float() for n, v in vars(step).items() if n.endswith("logps_N")})
    whole = gradient_of(Objective(), [(single, torch.arange(sum(lengths)))], sum(lengths))
    ends = torch.tensor(splits).cumsum(0).tolist()
    pieces = [take(single, list(range(end - size, end))) for end, size in zip(ends, splits, strict=True)]
    split = gradient_of(Objective(), pieces, sum(lengths))
    torch.testing.assert_close(split[1], whole[1], rtol=1e-6, atol=1e-9)


@of_each_reduction
def test_a_group_without_signal_only_thins_the_rest(reduction: Reduction) -> None:
    """Its own gradient is 0; what the others have left is their share of the denominator."""
    lengths, more = [3, 1, 4, 2], [5, 5, 5, 5]
    step = make_step(lengths + more, reduction, seed=3)
    advantages_N = torch.cat([step.advantages_N[:10], torch.zeros(20, dtype=torch.float64)])
    larger = replace(step, advantages_N=advantages_N, kl_coefficient_E=None, drift_coefficient_N=None)
    smaller, _ = take(larger, [0, 1, 2, 3])
    smaller = replace(smaller, weights_N=make_step(lengths, reduction, seed=3).weights_N)
    _, with_it, _ = gradient_of(Objective(), [(larger, torch.arange(30))], 30)
    _, without, _ = gradient_of(Objective(), [(smaller, torch.arange(10))], 10)
    assert with_it[10:].abs().max() == 0
    share = 10 / 30 if isinstance(reduction, TokenMean) else 4 / 8
    torch.testing.assert_close(with_it[:10], share * without, rtol=1e-12, atol=1e-15)
