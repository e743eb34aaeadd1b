"""M2PO (2510.01161): golden values by hand, algorithm 1 as a loop, ties, and budgets of optimizer steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.loss import Objective
from groupwise.objective.masks.m2po import M2po
from groupwise.objective.masks.policy_mask import MaskInputs
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.objective.surrogates.reinforce import Reinforce
from groupwise.ranks import Ranks
from groupwise.training.update import update
from tests.support.episodes import batch_of, changed, config_of, gradient_of, train_groups
from tests.support.nine_tokens import ADVANTAGES, ENGINE, LENGTHS, NEW, OLD, check
from tests.support.tiny import build, policy_of, relative_difference


def of(mask: M2po, new_N: Tensor, behaviour_N: Tensor, advantages_N: Tensor) -> StepValues:
    """What the mask computes from these tokens, each an answer of its group, the other stream being far away."""
    one_E = torch.ones(len(new_N), dtype=torch.int64)
    far_N = behaviour_N - 7
    old_N, sampler_N = (behaviour_N, far_N) if mask.reference == "old" else (far_N, behaviour_N)
    tokens = (new_N - old_N, new_N, old_N, sampler_N, advantages_N)
    return mask.of_step(StepTokens(*tokens, one_E, one_E.cumsum(0) - 1, one_E.double()))


GRADIENT = [-0.130312, 0.0, -0.0999961, 0.0, 0.0, 0.0937516, -0.0620341, 0.0, -0.0277791]


@pytest.mark.parametrize(
    ("mask", "behaviour_N", "loss", "gradient_N", "moments"),
    [
        (M2po(reference="old"), OLD, -0.226369, GRADIENT, (1.02202, 0.01879)),
        (
            M2po(reference="old", threshold=0.2),
            OLD,
            -0.39423,
            [*GRADIENT[:3], -0.16786, *GRADIENT[4:]],
            (1.02202, 0.06927),
        ),
        (
            M2po(),
            ENGINE,
            -0.220075,
            [-0.127171, 0.0, -0.104171, 0.0, 0.0, 0.0986865, -0.0600323, 0.0, -0.0273874],
            (1.20379, 0.012116),
        ),
    ],
    ids=["old", "old 0.2", "engine"],
)
def test_golden(
    mask: M2po, behaviour_N: Tensor, loss: float, gradient_N: list[float], moments: tuple[float, float]
) -> None:
    values = of(mask, NEW, behaviour_N, ADVANTAGES)
    check(Objective(surrogate=Reinforce(), off_policy_mask=mask), behaviour_N, loss, gradient_N, values.values_N)
    # With π_old six moved on: (log r)² = 0.02541 1.20692 0.17024 0.65756 0.01217 4.05982; the first and fifth are kept.
    found = [float(metric.value) for metric in values.metrics.values()]
    assert found == pytest.approx(moments, rel=1e-3)


def algorithm_1(square_N: list[float], threshold: float) -> list[bool]:
    """The paper's loop: drop the largest while the mean is above the threshold."""
    left = sorted(range(len(square_N)), key=lambda n: square_N[n])
    while left and np.mean([square_N[n] for n in left]) > threshold:
        left.pop()
    return [n in left for n in range(len(square_N))]


@pytest.mark.parametrize("seed", range(20))
def test_it_ends_with_what_the_loop_of_the_paper_ends_with(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_ratio_N = torch.randn(40, generator=generator, dtype=torch.float64) * 10 ** -(seed % 4)
    advantages_N = torch.randn(40, generator=generator, dtype=torch.float64).round()
    moved_on_N = advantages_N * log_ratio_N > 0
    kept_N = of(M2po(threshold=0.03), log_ratio_N, torch.zeros(40).double(), advantages_N).values_N
    assert kept_N[~moved_on_N].all()
    assert kept_N[moved_on_N].tolist() == algorithm_1(log_ratio_N[moved_on_N].square().tolist(), 0.03)


def test_ties_are_dropped_together_whatever_the_order() -> None:
    # Squares of 0.25, 1 and 1: 0.25 and one of 1 have the mean 0.625; which one is nobody's to say.
    log_ratio_N = torch.tensor([1.0, 0.5, -1.0, 0.5]).double()
    advantages_N = torch.tensor([1.0, 2.0, -1.0, 0.0]).double()
    for order in ([0, 1, 2, 3], [2, 3, 1, 0], [1, 2, 0, 3]):
        kept_N = of(M2po(threshold=0.625), log_ratio_N[order], torch.zeros(4).double(), advantages_N[order]).values_N
        assert kept_N.tolist() == [n in (1, 3) for n in order]
    # A mean of exactly the threshold stays.
    kept_N = of(M2po(threshold=0.75), log_ratio_N, torch.zeros(4).double(), advantages_N).values_N
    assert kept_N.all()


def test_what_has_no_moment() -> None:
    nothing = of(M2po(), torch.zeros(0), torch.zeros(0), torch.zeros(0))
    assert nothing.values_N.tolist() == []
    # No advantage, no change, or moved back: never left out, however far.
    idle = of(M2po(), torch.tensor([5.0, 0.0, -5.0]), torch.zeros(3), torch.tensor([0.0, 1.0, 1.0]))
    assert idle.values_N.tolist() == [True] * 3
    assert [float(metric.weight) for metric in idle.metrics.values()] == [0.0, 0.0]
    # A single token beyond the budget is all that there is, and goes.
    alone = of(M2po(), torch.tensor([0.3]), torch.zeros(1), torch.ones(1))
    assert alone.values_N.tolist() == [False]
    assert [(metric.value, metric.weight) for metric in alone.metrics.values()] == [(pytest.approx(0.09), 1), (0.0, 0)]


def test_it_needs_what_it_computed() -> None:
    with pytest.raises(ValueError, match="step_N"):
        M2po().kept(MaskInputs(NEW, OLD, ENGINE, ADVANTAGES, LENGTHS))


def with_mask(config: TrainConfig, mask: M2po) -> TrainConfig:
    objective = config.objective.model_copy(update={"surrogate": Reinforce()})
    return config.model_copy(update={"objective": objective, "off_policy_mask": mask})


def test_micro_batches_change_nothing() -> None:
    model, groups = build("llama"), train_groups(build("llama"))
    mask = M2po(reference="old", threshold=0.02)
    # Copies of an answer are equal to the last bit: both are left out, or both are kept.
    groups[1] = replace(groups[1], sequences=(*groups[1].sequences, *groups[1].sequences))
    expected = gradient_of(model, groups, with_mask(config_of(10_000), mask))
    for micro in (40, 30):
        assert relative_difference(gradient_of(model, groups, with_mask(config_of(micro), mask)), expected) < 1e-5
    unmasked = gradient_of(model, groups, with_mask(config_of(30), M2po(reference="old", threshold=9.0)))
    assert relative_difference(unmasked, expected) > 0.1


def test_every_optimizer_step_has_a_budget_of_its_tokens() -> None:
    model = build("llama")
    groups = train_groups(model)
    # Half of the groups have hardly moved: a budget of the whole batch would leave out fewer of the others.
    groups[:2] = changed(groups[:2], lambda s: replace(s, old_logps=s.sampler_logps + np.float32(0.01)))
    seen: list[StepTokens] = []

    class Watching(M2po):
        def of_step(self, step: StepTokens) -> StepValues:
            seen.append(step)
            return super().of_step(step)

    mask = Watching(reference="old", threshold=0.02)
    config = with_mask(config_of(30, minibatches_per_step=2, epochs_per_step=1), mask)
    policy, batch = policy_of(model), batch_of(groups)
    optimizer = torch.optim.SGD([weight for _, weight in policy.trainable()], lr=0.0)
    measured = update(policy, None, optimizer, batch, 1, config, Ranks()).metrics
    assert len(seen) == 2
    assert sum(len(step.new_logps_N) for step in seen) == len(batch.advantages_N)
    squares, lost = [], 0
    for step in seen:
        log_ratio_N = (step.new_logps_N - step.old_logps_N).double()
        square_N = log_ratio_N.square()[step.advantages_N * log_ratio_N > 0].tolist()
        lost += len(square_N) - sum(algorithm_1(square_N, 0.02))
        squares += square_N
    assert 0 < lost != len(squares) - sum(algorithm_1(squares, 0.02))
    masked = measured["policy/off_policy_masked_fraction"]
    assert float(masked.value) * float(masked.weight) == pytest.approx(lost)
    assert float(measured["policy/second_moment"].value) == pytest.approx(np.mean(squares))
    assert 0 < float(measured["policy/second_moment_kept"].value) <= 0.02


def findings(mask: object, **batch: int) -> list[str]:
    sections = {"objective": {"surrogate": "reinforce"}, "batch": batch, "off_policy_mask": mask}
    return [" ".join(finding.keys) for finding in contradictions(TrainConfig.model_validate(sections))]


def test_findings() -> None:
    assert findings("m2po", minibatches_per_step=2) == []
    assert findings("m2po") == ["off_policy_mask.reference batch.minibatches_per_step"]
    assert findings("none", minibatches_per_step=2)[0].startswith("batch.epochs_per_step")
