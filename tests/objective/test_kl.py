"""KL terms: golden values, and expected gradients on a policy small enough to enumerate."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from groupwise.objective.kl.k1 import K1
from groupwise.objective.kl.k2 import K2
from groupwise.objective.kl.k3 import K3
from groupwise.objective.kl.kl_estimator import Importance, KlEstimator, kl_to_go
from groupwise.objective.loss import LossInputs, Objective, policy_loss
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.sequence_mean_token_sum import SequenceMeanTokenSum
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.segments import segment_sum
from tests.objective.fixture import GOLDEN, LENGTHS, NEW_MINUS_OLD, NEW_MINUS_REF, OLD, close, golden, weights

FORMS: list[tuple[str, KlEstimator, Importance]] = [
    ("k1", K1(), "none"),
    ("k2", K2(), "none"),
    ("k3", K3(), "none"),
    ("r*k1", K1(), "token"),
    ("r*k3", K3(), "token"),
]


@pytest.mark.parametrize(("name", "estimator", "importance"), FORMS, ids=[form[0] for form in FORMS])
def test_golden(name: str, estimator: KlEstimator, importance: Importance) -> None:
    new_N = (OLD + NEW_MINUS_OLD).requires_grad_()
    kl_N = estimator.per_token(new_N, OLD, (new_N - NEW_MINUS_REF).detach(), LENGTHS, importance)
    close(kl_N, golden(f"kl.{name}"))
    close((weights(TokenMean()) * kl_N).sum(), GOLDEN[f"kl.{name}.token_mean"])
    loss = (weights(SequenceMeanTokenMean()) * kl_N).sum()
    close(loss, GOLDEN[f"kl.{name}.seq_mean_token_mean"])
    (gradient_N,) = torch.autograd.grad(loss, new_N)
    close(gradient_N, golden(f"kl.{name}.grad(seq_mean_token_mean)"))


def test_golden_of_the_sequence_sums() -> None:
    new_N = OLD + NEW_MINUS_OLD
    cases: list[tuple[Importance, str]] = [
        ("none", "kl.SEED_seq_sum_k1_mean"),
        ("sequence_product", "kl.SEED_seq_reweighted"),
    ]
    for importance, name in cases:
        kl_N = K1().per_token(new_N, OLD, new_N - NEW_MINUS_REF, LENGTHS, importance)
        close((weights(SequenceMeanTokenSum()) * kl_N).sum(), GOLDEN[name])


def test_k3_stays_finite_and_pulls_towards_the_reference() -> None:
    delta = torch.tensor([-200.0, -20.0, -19.0, 0.0, 200.0], requires_grad=True)
    value = K3().estimate(delta)
    (gradient,) = torch.autograd.grad(value.sum(), delta)
    assert value.isfinite().all()
    assert (value >= 0).all()
    assert gradient[0] == gradient[1] < gradient[2] < gradient[3] == 0 < gradient[4]


def test_k3_of_a_small_difference_is_right_in_float32() -> None:
    delta = torch.tensor([1e-3, -1e-4])
    assert K3().estimate(delta).tolist() == pytest.approx([5e-7, 5e-9], rel=1e-3)


# A policy over sequences of two tokens out of three: a first row of logits, and one for each first token.


@dataclass
class Policy:
    first_V: Tensor
    second_VV: Tensor

    @staticmethod
    def random(seed: int) -> "Policy":
        generator = torch.Generator().manual_seed(seed)
        first, second = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((3,), (3, 3)))
        return Policy(first.requires_grad_(), second.requires_grad_())

    def logps_N(self) -> Tensor:
        """Of the tokens of all nine sequences, end to end."""
        first, second = self.first_V.log_softmax(-1), self.second_VV.log_softmax(-1)
        return torch.stack([torch.stack([first[a], second[a, b]]) for a in range(3) for b in range(3)]).flatten()

    def probabilities_E(self) -> Tensor:
        return segment_sum(self.logps_N(), TWO).exp()

    def gradient(self, value: Tensor) -> Tensor:
        parts = torch.autograd.grad(value, [self.first_V, self.second_VV], retain_graph=True)

        return torch.cat([part.flatten() for part in parts])


TWO = torch.full((9,), 2)
NEW, OTHER, REF = Policy.random(1), Policy.random(2), Policy.random(3)


def kl_sequence(p: Policy, q: Policy) -> Tensor:
    return (p.probabilities_E() * (p.probabilities_E() / q.probabilities_E()).log()).sum()


def reverse_gradient() -> Tensor:
    return NEW.gradient(kl_sequence(NEW, REF))


def forward_gradient() -> Tensor:
    return NEW.gradient(kl_sequence(REF, NEW))


def local_gradient(sampler: Policy) -> Tensor:
    """Of the KL at each state, states weighted as `sampler` visits them: no credit for later states."""
    p, q = NEW.second_VV.log_softmax(-1), REF.second_VV.log_softmax(-1)
    second = (p.exp() * (p - q)).sum(-1) @ sampler.first_V.softmax(-1).detach()
    p, q = NEW.first_V.log_softmax(-1), REF.first_V.log_softmax(-1)
    return NEW.gradient((p.exp() * (p - q)).sum() + second)


def expected_gradient(sampler: Policy, estimator: KlEstimator, importance: Importance) -> Tensor:
    """Of the KL term of `policy_loss`, over all sequences that `sampler` may draw, each weighted by its probability."""
    outputs = policy_loss(
        Objective(kl_estimator=estimator, kl_importance=importance),
        LossInputs(
            new_logps_N=NEW.logps_N(),
            old_logps_N=sampler.logps_N().detach(),
            ref_logps_N=REF.logps_N().detach(),
            lengths_E=TWO,
            advantages_N=torch.zeros(18),
            weights_N=sampler.probabilities_E().detach().repeat_interleave(2),
            kl_coefficient_E=torch.ones(9),
        ),
    )
    return NEW.gradient(outputs.loss)


def same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-14)


def test_the_policies_differ() -> None:
    assert reverse_gradient().norm() > 0.1
    assert (reverse_gradient() - forward_gradient()).norm() > 0.1
    assert (reverse_gradient() - local_gradient(NEW)).norm() > 0.01


def test_k1_as_a_loss_has_no_gradient_on_policy() -> None:
    assert expected_gradient(NEW, K1(), "none").abs().max() < 1e-15


def test_k1_as_a_loss_forgets_the_reference_off_policy() -> None:
    """It lowers the likelihood of the samples, whatever the reference is."""
    likelihood = NEW.gradient(OTHER.probabilities_E().detach() @ segment_sum(NEW.logps_N(), TWO))
    same(expected_gradient(OTHER, K1(), "none"), likelihood)


def test_k2_as_a_loss_is_the_local_gradient_on_policy() -> None:
    same(expected_gradient(NEW, K2(), "none"), local_gradient(NEW))


@pytest.mark.parametrize("sampler", [NEW, OTHER], ids=["on_policy", "off_policy"])
@pytest.mark.parametrize(("estimator", "importance"), [(K1(), "token"), (K3(), "token"), (K2(), "token_detached")])
def test_token_weighted_forms_are_the_local_gradient(
    estimator: KlEstimator, importance: Importance, sampler: Policy
) -> None:
    same(expected_gradient(sampler, estimator, importance), local_gradient(sampler))


@pytest.mark.parametrize("sampler", [NEW, OTHER], ids=["on_policy", "off_policy"])
def test_sequence_weighted_k1_is_exact(sampler: Policy) -> None:
    same(expected_gradient(sampler, K1(), "sequence_product"), reverse_gradient())


@pytest.mark.parametrize("sampler", [NEW, OTHER], ids=["on_policy", "off_policy"])
def test_a_detached_ratio_brings_back_the_zero_of_k1(sampler: Policy) -> None:
    assert expected_gradient(sampler, K1(), "token_detached").abs().max() < 1e-15


def test_estimates_of_whole_sequences_on_policy() -> None:
    delta_E = segment_sum(NEW.logps_N() - REF.logps_N().detach(), TWO)
    probability_E = NEW.probabilities_E().detach()
    zero = torch.zeros(12, dtype=torch.float64)
    expected: list[tuple[KlEstimator, Tensor]] = [(K1(), zero), (K2(), reverse_gradient()), (K3(), forward_gradient())]
    for estimator, gradient in expected:
        same(NEW.gradient((probability_E * estimator.estimate(delta_E)).sum()), gradient)


def test_weighted_estimates_of_whole_sequences_off_policy() -> None:
    delta_E = segment_sum(NEW.logps_N() - REF.logps_N().detach(), TWO)
    old_E = OTHER.probabilities_E().detach()
    ratio_E = NEW.probabilities_E() / old_E
    for weighted_E in (
        ratio_E * K1().estimate(delta_E),
        ratio_E * K3().estimate(delta_E),
        ratio_E.detach() * K2().estimate(delta_E),
    ):
        same(NEW.gradient((old_E * weighted_E).sum()), reverse_gradient())


def test_k3_per_token_is_the_forward_divergence_of_each_state() -> None:
    p, q = NEW.second_VV.log_softmax(-1), REF.second_VV.log_softmax(-1)
    second = (q.exp() * (q - p)).sum(-1) @ NEW.first_V.softmax(-1).detach()
    p, q = NEW.first_V.log_softmax(-1), REF.first_V.log_softmax(-1)
    same(expected_gradient(NEW, K3(), "none"), NEW.gradient((q.exp() * (q - p)).sum() + second))


def test_k1_in_the_reward_is_exact_on_policy() -> None:
    """As an advantage per token, through the same policy term as any other reward."""
    old_N = NEW.logps_N().detach()
    outputs = policy_loss(
        Objective(),
        LossInputs(
            new_logps_N=NEW.logps_N(),
            old_logps_N=old_N,
            lengths_E=TWO,
            advantages_N=torch.zeros(18),
            kl_cost_N=kl_to_go(old_N, REF.logps_N(), TWO),
            weights_N=NEW.probabilities_E().detach().repeat_interleave(2),
        ),
    )
    same(NEW.gradient(outputs.loss), reverse_gradient())


def test_kl_to_go() -> None:
    delta_N = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    to_go = kl_to_go(delta_N, torch.zeros(5), torch.tensor([2, 0, 3]))
    assert to_go.tolist() == [3.0, 2.0, 28.0, 24.0, 16.0]
