"""LUSPO (2602.05261) is GSPO's loss under a reduction: loss and gradient of nine tokens by hand, and when it is not."""

from typing import Any

import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.compose import compose_train_config
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.ratios.gspo_token import GspoToken
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.ratios.sequence_geometric_mean import SequenceGeometricMean
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.reductions.reduction import Reduction, ReductionInputs, count_totals
from groupwise.objective.reductions.sequence_mean_token_sum import SequenceMeanTokenSum
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates.ppo_clip import PpoClip

LENGTHS = torch.tensor([4, 2, 3])
OLD = torch.tensor([-0.2107, -1.6094, -0.6931, -2.3026, -0.1054, -0.9163, -0.5108, -3.2189, -0.3567]).double()
NEW = torch.tensor([-0.0513, -0.5108, -0.7985, -1.89, -0.9163, -0.7985, -0.4005, -1.204, -1.0498]).double()
ADVANTAGES = torch.tensor([1.0, -0.75, 0.5], dtype=torch.float64)
PAPER, WIDE = PpoClip(clip_low=2e-3, clip_high=2.5e-3), PpoClip(clip_low=0.5, clip_high=0.5)


def loss_and_gradient(
    surrogate: PpoClip, ratio: RatioLevel, reduction: Reduction, advantages_N: Tensor | None = None
) -> tuple[float, Tensor]:
    new_N = NEW.clone().requires_grad_()
    of_answers_N = ADVANTAGES.repeat_interleave(LENGTHS)
    inputs = LossInputs(
        new_logps_N=new_N,
        old_logps_N=OLD,
        lengths_E=LENGTHS,
        advantages_N=of_answers_N if advantages_N is None else advantages_N,
        weights_N=reduction.token_weights(ReductionInputs(LENGTHS, count_totals(LENGTHS))),
    )
    loss = policy_loss(Objective(ratio=ratio, surrogate=surrogate), inputs).loss
    (gradient_N,) = torch.autograd.grad(loss, new_N)
    return loss.item(), gradient_N


def by_hand(low: float, high: float, advantages: Tensor) -> tuple[float, list[float]]:
    """Equations 6 to 8: -(1/G) Σ_i L_i·min(s_i·A_i, clip(s_i)·A_i), whose slope is -s_i·A_i/G at every token."""
    total, slopes, start = 0.0, [], 0
    for length, advantage in zip(LENGTHS.tolist(), advantages.tolist(), strict=True):
        s = float(((NEW - OLD)[start : start + length].sum() / length).exp())
        kept = min(s * advantage, min(max(s, 1 - low), 1 + high) * advantage)
        total -= length * kept / len(LENGTHS)
        slopes += [-s * advantage / len(LENGTHS) * (kept == s * advantage)] * length
        start += length
    return total, slopes


def close(actual: Tensor | float, expected: list[float] | float, tolerance: float = 1e-6) -> None:
    actual_N, expected_N = (torch.as_tensor(value, dtype=torch.float64) for value in (actual, expected))
    torch.testing.assert_close(actual_N, expected_N, rtol=5 * tolerance, atol=tolerance)


def test_golden() -> None:
    loss, gradient_N = loss_and_gradient(PAPER, SequenceGeometricMean(), SequenceMeanTokenSum())
    close(loss, -1.33892)
    assert gradient_N.tolist() == [0.0] * 9
    loss, gradient_N = loss_and_gradient(WIDE, SequenceGeometricMean(), SequenceMeanTokenSum())
    close(loss, -2.36831)
    close(gradient_N, [-0.492967] * 4 + [0.176781] * 2 + [0.0] * 3)


@pytest.mark.parametrize("surrogate", [PAPER, WIDE, PpoClip(clip_low=0.1, clip_high=0.7)])
@pytest.mark.parametrize("ratio", [SequenceGeometricMean(), GspoToken()])
def test_it_is_the_equation_of_the_paper(surrogate: PpoClip, ratio: RatioLevel) -> None:
    loss, slopes = by_hand(surrogate.clip_low, surrogate.clip_high, ADVANTAGES)
    actual, gradient_N = loss_and_gradient(surrogate, ratio, SequenceMeanTokenSum())
    close(actual, loss, 1e-14)
    close(gradient_N, slopes, 1e-14)


def test_the_mean_over_tokens_is_the_same_up_to_a_factor() -> None:
    loss, gradient_N = loss_and_gradient(WIDE, SequenceGeometricMean(), TokenMean())
    close(loss, -0.789436)
    close(gradient_N, [-0.164322] * 4 + [0.058927] * 2 + [0.0] * 3)


def test_token_ratios_or_advantages_of_tokens_are_something_else() -> None:
    loss, _ = by_hand(0.5, 0.5, ADVANTAGES)
    assert abs(loss_and_gradient(WIDE, TokenRatio(), SequenceMeanTokenSum())[0] - loss) > 0.1
    # The same means over each answer, other numbers within it.
    uneven_N = ADVANTAGES.repeat_interleave(LENGTHS) * torch.tensor([0, 2, 0, 2, 0, 2, 1, 1, 1])
    even, uneven = (
        loss_and_gradient(WIDE, GspoToken(), SequenceMeanTokenSum(), advantages_N)[1]
        for advantages_N in (None, uneven_N)
    )
    assert float((even - uneven).abs().max()) > 0.1


def said(**objective: Any) -> list[str]:
    tree = {"objective": objective, "batch": {"minibatches_per_step": 4}}
    return [finding.message for finding in contradictions(TrainConfig.model_validate(tree))]


LUSPO = {"surrogate": {"clip_low": 2e-3, "clip_high": 2.5e-3}, "reduction": "sequence_mean_token_sum"}


def test_findings() -> None:
    assert said(ratio="sequence_geometric_mean", **LUSPO) == said(ratio="gspo_token", **LUSPO) == []
    (text,) = said(ratio="token", **LUSPO)
    assert "0.0025 away from 1 stops nearly every one that has moved" in text
    assert "objective.ratio=sequence_geometric_mean" in text
    (text,) = said(ratio="sequence_geometric_mean", **(LUSPO | {"reduction": "token_mean"}))
    assert "LUSPO by its length" in text
    config = compose_train_config(["luspo", "kl.coefficient=0.01", "kl.in_reward=true"])
    assert any("differs from token to token" in finding.message for finding in contradictions(config))
