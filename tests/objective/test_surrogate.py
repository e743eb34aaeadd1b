from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from groupwise.objective.loss import Objective
from groupwise.objective.ratios import RatioOption
from groupwise.objective.ratios.no_ratio import NoRatio
from groupwise.objective.ratios.ratio import RatioLevel
from groupwise.objective.ratios.sequence_geometric_mean import SequenceGeometricMean
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates import SurrogateOption
from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.dppo import Dppo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.reinforce import Reinforce
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.seed_clip import SeedClip
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs, SurrogateOutputs
from groupwise.objective.surrogates.topr import Topr
from groupwise.objective.surrogates.vespo import Vespo
from tests.objective.fixture import (
    GOLDEN,
    LENGTHS,
    NEW_MINUS_OLD,
    OLD,
    close,
    golden,
    inputs,
    loss_and_gradient,
    techniques,
)

RATIOS_BY_NAME: dict[str, RatioLevel] = {ratio.type: ratio for ratio in techniques(RatioOption)}
DUAL = PpoClip(clip_low=0.2, clip_high=0.2, dual_clip=3.0)
PPO, SEED = PpoClip(clip_low=0.2, clip_high=0.2), SeedClip(clip_high=0.2)

RATIOS = torch.tensor([0.3, 0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 2.0, 5.0], dtype=torch.float64)


@dataclass(frozen=True)
class OfRatio(SurrogateInputs):
    """Ratios as they are, without the rounding of a logarithm and back."""

    given_N: Tensor = field(default_factory=lambda: torch.zeros(0))

    @property
    def ratio_N(self) -> Tensor:
        return self.given_N


def of_ratio(surrogate: Surrogate, ratio_N: Tensor, advantages_N: Tensor) -> SurrogateOutputs:
    """What a surrogate makes of these ratios, the old policy having probability 1."""
    new_N, lengths_E = ratio_N.log(), torch.tensor([ratio_N.numel()])
    return surrogate.loss(OfRatio(new_N, new_N, torch.zeros_like(new_N), advantages_N, lengths_E, given_N=ratio_N))


def slope(advantage: float, loss: Tensor, ratio_N: Tensor) -> list[float]:
    """d objective / d r in units of the advantage's size."""
    (gradient,) = torch.autograd.grad(-loss.sum(), ratio_N)
    return (gradient / abs(advantage)).tolist()


def test_ratio_golden() -> None:
    ratio_N = TokenRatio().log_ratio(OLD + NEW_MINUS_OLD, OLD, LENGTHS).exp()
    close(ratio_N, golden("ratio"))
    sequence_N = SequenceGeometricMean().log_ratio(OLD + NEW_MINUS_OLD, OLD, LENGTHS).exp()
    close(sequence_N[[0, 2, 5, 9]], [row[0] for row in GOLDEN["gspo.s_i"]])


@pytest.mark.parametrize("level", ["token", "sequence_geometric_mean", "gspo_token", "sequence_product", "none"])
def test_ratio_levels(level: str) -> None:
    new_N = (OLD + NEW_MINUS_OLD).requires_grad_()
    log_ratio_N = RATIOS_BY_NAME[level].log_ratio(new_N, OLD, LENGTHS)
    parts = torch.tensor_split(NEW_MINUS_OLD, LENGTHS.cumsum(0)[:-1])
    expected = {
        "token": NEW_MINUS_OLD,
        "sequence_geometric_mean": torch.cat([p.mean().expand_as(p) for p in parts]),
        "gspo_token": torch.cat([p.mean().expand_as(p) for p in parts]),
        "sequence_product": torch.cat([p.sum().expand_as(p) for p in parts]),
        "none": torch.zeros_like(NEW_MINUS_OLD),
    }[level]
    close(log_ratio_N, expected)
    (gradient_N,) = torch.autograd.grad(log_ratio_N[5], new_N)
    own = {"token": 1.0, "sequence_geometric_mean": 0.25, "gspo_token": 1.0, "sequence_product": 1.0, "none": 1.0}
    others = {"sequence_geometric_mean": 0.25, "sequence_product": 1.0}.get(level, 0.0)
    close(gradient_N, [0.0] * 5 + [own[level]] + [others] * 3 + [0.0])


@pytest.mark.parametrize("advantage", [0.7, -0.7])
def test_ppo_is_the_minimum_for_both_signs(advantage: float) -> None:
    ratio_N = RATIOS.clone().requires_grad_()
    A = torch.full_like(RATIOS, advantage)
    ours = of_ratio(PPO, ratio_N, A)
    printed = -torch.minimum(ratio_N * A, ratio_N.clamp(0.8, 1.2) * A)
    close(ours.loss_N, printed)
    assert slope(advantage, ours.loss_N, ratio_N) == pytest.approx(slope(advantage, printed, ratio_N))


def test_where_the_clip_cuts_the_gradient() -> None:
    """Rows: below the band, in it, above it."""
    for advantage, expected in ((1.0, [1, 1, 1, 1, 1, 1, 0, 0, 0]), (-1.0, [0, 0, 0, -1, -1, -1, -1, -1, -1])):
        ratio_N = RATIOS.clone().requires_grad_()
        terms = of_ratio(PPO, ratio_N, torch.full_like(RATIOS, advantage))
        assert slope(advantage, terms.loss_N, ratio_N) == expected
        assert (terms.low_N | terms.high_N).tolist() == [s == 0 for s in expected]


def test_each_bound_acts_on_one_sign() -> None:
    ratio_N = torch.tensor([0.5, 1.25, 1.3])
    good = of_ratio(PpoClip(clip_low=0.2, clip_high=0.28), ratio_N, torch.ones(3))
    bad = of_ratio(PpoClip(clip_low=0.2, clip_high=0.28), ratio_N, -torch.ones(3))
    assert good.loss_N.tolist() == pytest.approx([-0.5, -1.25, -1.28])
    assert bad.loss_N.tolist() == pytest.approx([0.8, 1.25, 1.3])
    assert (good.high_N.tolist(), bad.low_N.tolist()) == ([False, False, True], [True, False, False])
    assert not good.low_N.any()
    assert not bad.high_N.any()


def test_a_token_without_advantage_is_never_clipped() -> None:
    terms = of_ratio(DUAL, RATIOS, torch.zeros_like(RATIOS))
    assert not (terms.low_N | terms.high_N).any()
    assert terms.loss_N.abs().max() == 0


def test_dual_clip_bounds_a_bad_token_from_above() -> None:
    ratio_N = RATIOS.clone().requires_grad_()
    A = -torch.ones_like(RATIOS)
    terms = of_ratio(DUAL, ratio_N, A)
    printed = -torch.maximum(torch.minimum(ratio_N * A, ratio_N.clamp(0.8, 1.2) * A), 3.0 * A)
    close(terms.loss_N, printed)
    assert slope(-1.0, terms.loss_N, ratio_N) == [0, 0, 0, -1, -1, -1, -1, -1, 0]
    assert terms.high_N.tolist() == [False] * 8 + [True]


def printed_max(ratio_N: Tensor, A: Tensor, low: float, high: float, pre_clamp: bool) -> Tensor:
    """The formula with max for A < 0, literally; its token variant clamps the ratio first."""
    ratio_N = ratio_N.clamp(max=1 + high) if pre_clamp else ratio_N
    unclipped, clipped = ratio_N * A, ratio_N.clamp(1 - low, 1 + high) * A
    return -torch.where(A >= 0, torch.minimum(unclipped, clipped), torch.maximum(unclipped, clipped))


@pytest.mark.parametrize("pre_clamp", [False, True])
@pytest.mark.parametrize("advantage", [0.7, -0.7])
@pytest.mark.parametrize("low", [0.0, 0.1, 0.2, 0.5, 0.9])
def test_the_lower_bound_of_the_printed_maximum_does_nothing(low: float, advantage: float, pre_clamp: bool) -> None:
    ratio_N = RATIOS.clone().requires_grad_()
    A = torch.full_like(RATIOS, advantage)
    ours = of_ratio(SEED, ratio_N, A)
    printed = printed_max(ratio_N, A, low, 0.2, pre_clamp)
    close(ours.loss_N, printed)
    assert slope(advantage, ours.loss_N, ratio_N) == pytest.approx(slope(advantage, printed, ratio_N))


def test_where_the_printed_maximum_differs_from_ppo() -> None:
    for advantage, differs in ((1.0, False), (-1.0, True)):
        A = torch.full_like(RATIOS, advantage)
        ours, ppo = of_ratio(SEED, RATIOS, A), of_ratio(PPO, RATIOS, A)
        outside = (RATIOS < 0.8) | (RATIOS > 1.2)
        assert torch.equal(ours.loss_N != ppo.loss_N, outside & differs)
    # A bad token at r = 0.5 is still pushed down, and one at r = 2 is not corrected: the reverse of PPO.
    ratio_N = torch.tensor([0.5, 2.0], requires_grad=True)
    assert slope(-1.0, of_ratio(SEED, ratio_N, -torch.ones(2)).loss_N, ratio_N) == [-1, 0]
    assert slope(-1.0, of_ratio(PPO, ratio_N, -torch.ones(2)).loss_N, ratio_N) == [0, -1]


def probability_after(surrogate: Surrogate, start: float, old: float) -> float:
    """Probability of one bad token after 200 steps of gradient descent on its logit."""
    logit = torch.tensor([start / (1 - start)], dtype=torch.float64).log().requires_grad_()
    bad = -torch.ones(1, dtype=torch.float64)
    for _ in range(200):
        terms = of_ratio(surrogate, logit.sigmoid() / old, bad)
        (gradient,) = torch.autograd.grad(terms.loss_N.sum(), logit)
        logit = (logit - 0.1 * gradient).detach().requires_grad_()
    return logit.detach().sigmoid().item()


def test_two_hundred_steps_on_one_bad_token() -> None:
    # Started on policy: PPO stops just below its lower bound, the maximum never does.
    assert 0.15 < probability_after(PPO, 0.25, 0.25) < 0.2
    assert probability_after(SEED, 0.25, 0.25) < 0.02
    # Started at r = 2: PPO brings the token back down, the maximum leaves it where it is.
    assert 0.15 < probability_after(PPO, 0.5, 0.25) < 0.2
    assert probability_after(SEED, 0.5, 0.25) == 0.5


def test_reinforce_is_the_advantage_times_the_score() -> None:
    objective = Objective(ratio=NoRatio(), surrogate=Reinforce())
    of = inputs(TokenMean())
    outputs, gradient_N = loss_and_gradient(objective, of)
    close(gradient_N, -of.advantages_N / 10)
    close(outputs.loss, -of.advantages_N.mean())


def test_on_policy_all_token_surrogates_have_the_policy_gradient() -> None:
    new_N = OLD.clone().requires_grad_()
    A = torch.tensor([0.5, -1.5] * 5, dtype=torch.float64)
    of = SurrogateInputs(TokenRatio().log_ratio(new_N, OLD, LENGTHS), new_N, OLD, A, LENGTHS)
    of = replace(of, step_N=torch.tensor([0.6, 1.2]).expand(10, 2))
    for surrogate in (
        PpoClip(clip_low=0.2, clip_high=0.28),
        Bapo(),
        Cispo(cap=5.0),
        Sapo(temperature_positive=1.0, temperature_negative=1.05),
        Reinforce(),
        SEED,
        Dppo(tv_low=0.2, tv_high=0.2),
        Vespo(k_positive=2.0, lambda_positive=3.0, k_negative=3.0, lambda_negative=2.0),
    ):
        terms = surrogate.loss(of)
        (gradient_N,) = torch.autograd.grad(terms.loss_N.sum(), new_N, retain_graph=True)
        close(gradient_N, -A)


def test_gmpo_bounds_one_side_by_sign() -> None:
    new_N = torch.tensor([0.5, 0.1, -0.5, 0.1], requires_grad=True)
    advantages_N, lengths_E = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([2, 2])
    of = SurrogateInputs(new_N, new_N, torch.zeros(4), advantages_N, lengths_E)
    terms = Gmpo(log_clip_low=0.4, log_clip_high=0.4).loss(of)
    assert terms.loss_N.tolist() == pytest.approx([-(2.718281828**0.25)] * 2 + [2.718281828**-0.15] * 2)
    (gradient_N,) = torch.autograd.grad(terms.loss_N.sum(), new_N)
    assert (gradient_N == 0).tolist() == [True, False, True, False]


def test_cispo_bounds_the_weight_and_keeps_the_gradient() -> None:
    new_N = torch.tensor([0.1, 1.0, 3.0]).log().requires_grad_()
    of = SurrogateInputs(new_N, new_N, torch.zeros(3), torch.tensor([1.0, -1.0, 1.0]), torch.tensor([3]))
    terms = Cispo(cap=2.0, floor=0.5).loss(of)
    (gradient_N,) = torch.autograd.grad(terms.loss_N.sum(), new_N)
    assert gradient_N.tolist() == [-0.5, 1.0, -2.0]
    assert (terms.low_N.tolist(), terms.high_N.tolist()) == ([True, False, False], [False, False, True])


# Where every ratio is 1

OTHER_VALUES = {
    "dual_clip": 3.0,
    "floor": 0.5,
    "influence_low": 0.5,
    "safety": "clamp",
    "balance": "odds",
    "contributions": "clipped",
    "weighted_by_old": True,
    "order": "low_first",
    "low_start": 0.7,
    "low_end": 0.95,
    "reference": "old",
}


@pytest.mark.parametrize("surrogate", techniques(SurrogateOption), ids=lambda surrogate: surrogate.type)
@pytest.mark.parametrize("advantage", [1.5, -0.75])
def test_what_is_said_to_do_nothing_at_ratio_1_changes_no_gradient(surrogate: Surrogate, advantage: float) -> None:
    def gradient(one: Surrogate) -> list[float]:
        new_N = OLD.clone().requires_grad_()
        given = SurrogateInputs(new_N - OLD, new_N, OLD, torch.full_like(OLD, advantage), LENGTHS, OLD)
        if one.has_step_values:
            group_E = torch.zeros_like(LENGTHS)
            A = given.advantages_N
            step = StepTokens(torch.zeros_like(OLD), OLD, OLD, OLD, A, LENGTHS, group_E, group_E.double())
            given = replace(given, step_N=one.of_step(step).values_N)
        one.loss(given).loss_N.sum().backward()
        assert new_N.grad is not None
        return new_N.grad.tolist()

    options = [name for name in type(surrogate).model_fields if name != "type"]
    assert set(surrogate.without_effect_at_one()) <= set(options)
    assert bool(surrogate.without_effect_at_one()) == (surrogate.bounds_ratio and bool(options))
    for name in surrogate.without_effect_at_one():
        changed = surrogate.model_copy(update={name: OTHER_VALUES.get(name, 2 * getattr(surrogate, name) or 1.5)})
        assert name in changed.without_effect_at_one()
        assert gradient(changed) == pytest.approx(gradient(surrogate), rel=1e-12)


@pytest.mark.parametrize("surrogate", [Cispo(cap=0.2), Cispo(floor=1.5), Topr(cap=0.5), Topr(floor=1.2, cap=2.0)])
def test_bounds_that_act_at_ratio_1_are_not_said_to_do_nothing(surrogate: Surrogate) -> None:
    assert surrogate.without_effect_at_one() == []


def test_dppo_drops_by_the_probability_and_not_by_its_ratio() -> None:
    # A rare token triples, a likely one rises by a third; the same the other way round.
    old_N = torch.tensor([0.01, 0.6, 0.03, 0.8], dtype=torch.float64).log()
    new_N = torch.tensor([0.03, 0.85, 0.01, 0.55], dtype=torch.float64).log()
    advantages_N, lengths_E = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64), torch.tensor([4])
    outputs = Dppo().loss(SurrogateInputs(new_N - old_N, new_N, old_N, advantages_N, lengths_E))
    assert outputs.high_N.tolist() == [False, True, False, False]
    assert outputs.low_N.tolist() == [False, False, False, True]
    close(outputs.loss_N, [-3.0, 0.0, 1 / 3, 0.0])
