"""What a technique computes from the whole optimizer step reaches its tokens, whatever the micro-batches."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.explaining.costs import costs_of
from groupwise.objective.kl.penalty import KlOptions
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.metric import Metric
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.real import Real
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.ranks import Ranks
from groupwise.training.step_batch import StepBatch
from groupwise.training.streams import with_step_values
from groupwise.training.update import update
from tests.support.episodes import (
    TEMPERATURE,
    batch_of,
    changed,
    config_of,
    gradient_of,
    labelled,
    lengths_scored,
    train_groups,
)
from tests.support.tiny import build, gradients, plain_scores, policy_of, relative_difference


class BelowMean(PolicyMask):
    """Keeps the tokens whose |log r| is not above the mean of the step, which no part of it knows."""

    type: Literal["below_mean"] = "below_mean"
    has_step_values = True

    def of_step(self, step: StepTokens) -> StepValues:
        mean = step.log_ratio_N.abs().mean()
        return StepValues(step.log_ratio_N.abs() <= mean, {"policy/mean_of_step": Metric(float(mean), "mean")})

    def kept(self, inputs: MaskInputs) -> Tensor:
        assert inputs.step_N is not None
        return inputs.step_N

    def formula(self) -> str:
        return "1 where |log r| is not above the mean of the step"


def masked(config: TrainConfig) -> TrainConfig:
    return config.model_copy(update={"off_policy_mask": BelowMean()})


def drift_of(batch: StepBatch) -> Tensor:
    """log(π/π_old) of each token, from the plain model."""
    rows = []
    for group, ids in zip(batch.group_E.tolist(), batch.token_ids_B, strict=True):
        rows.append(plain_scores(build("llama"), batch.prompt_ids_P[group], ids, TEMPERATURE)[0].detach())
    assert batch.old_logps_N is not None
    return torch.cat(rows) - batch.old_logps_N


def test_a_mask_of_the_whole_step_does_not_see_the_micro_batches() -> None:
    model, groups = build("llama"), train_groups(build("llama"))
    last = groups[-1].sequences[-1]
    groups[-1] = replace(groups[-1], sequences=(*groups[-1].sequences[:-1], replace(last, trained=False)))
    batch = batch_of(groups)
    drift_N, trained_N = drift_of(batch).abs(), batch.trained_E.repeat_interleave(batch.lengths_E)
    kept_N = (drift_N <= drift_N[trained_N].mean()).numpy()
    assert 0.2 < kept_N.mean() < 0.8
    parts = iter(np.split(kept_N, batch.lengths_E.cumsum(0)[:-1].numpy()))
    by_hand = changed(groups, lambda sequence: replace(sequence, policy_mask=next(parts)))
    for micro in (10_000, 30):
        config = config_of(micro)
        found, expected = gradient_of(model, groups, masked(config)), gradient_of(model, by_hand, config)
        assert relative_difference(found, expected) < 1e-5
        assert relative_difference(expected, gradient_of(model, groups, config)) > 0.1


def test_the_step_is_what_is_trained_and_is_measured() -> None:
    model, groups = build("llama"), train_groups(build("llama"))
    groups[0] = replace(groups[0], sequences=tuple(replace(s, trained=False, reward=9.0) for s in groups[0].sequences))
    groups[1] = replace(groups[1], sequences=tuple(replace(s, reward=0.5) for s in groups[1].sequences))
    seen: list[StepTokens] = []

    class Watching(BelowMean):
        def of_step(self, step: StepTokens) -> StepValues:
            seen.append(step)
            return super().of_step(step)

    config = config_of(30).model_copy(update={"off_policy_mask": Watching()})
    policy, batch = policy_of(model), batch_of(groups)
    trained_N = batch.trained_E.repeat_interleave(batch.lengths_E)
    with_step_values(policy, batch, config, Ranks())
    (step,) = seen
    assert step.lengths_E.tolist() == batch.lengths_E[batch.trained_E].tolist()
    assert step.group_E.tolist() == (batch.group_E[batch.trained_E] - 1).tolist()
    assert step.rewards_E.tolist() == [0.5] + [0.0] * (len(step.rewards_E) - 1)
    torch.testing.assert_close(step.log_ratio_N, drift_of(batch)[trained_N].float(), atol=1e-5, rtol=0)
    optimizer = torch.optim.SGD([weight for _, weight in policy.trainable()], lr=1e-3)
    measured = update(policy, None, optimizer, batch, 1, config, Ranks()).metrics
    mean = float(drift_of(batch)[trained_N].abs().mean())
    assert abs(float(measured["policy/mean_of_step"].value) - mean) < 1e-5


def test_a_loss_of_whole_groups_does_not_see_the_micro_batches() -> None:
    """REAL through the equation and the plain model, with groups of one class and an answer that is not trained."""
    model, groups = build("llama"), labelled(train_groups(build("llama")))
    last = groups[-1].sequences[-1]
    groups[-1] = replace(groups[-1], sequences=(*groups[-1].sequences[:-1], replace(last, trained=False)))
    loss = torch.zeros(())
    for group in groups:
        moved: dict[float, list[Tensor]] = {0.0: [], 1.0: []}
        for s in group.sequences:
            new_T = plain_scores(model, group.prompt_ids, s.ids, TEMPERATURE)[0]
            if s.trained:
                moved[s.reward].append((new_T - torch.from_numpy(s.old_logps)).mean() / 0.5)
        if all(moved.values()):
            wrong, right = (torch.stack(answers) for answers in moved.values())
            loss = loss + (1 + (-right).exp().sum()).log() + (1 + wrong.exp().sum()).log()
    assert loss.item() > 0
    (loss / len(groups)).backward()
    expected = gradients(model)
    for micro in (10_000, 30):
        config = with_surrogate(Real(), config_of(micro, "sequence_mean_token_mean"))
        assert relative_difference(gradient_of(model, groups, config), expected) < 1e-5


def with_surrogate(surrogate: Surrogate, config: TrainConfig, old_logps: str = "sampler") -> TrainConfig:
    objective = config.objective.model_copy(update={"surrogate": surrogate, "old_logps": old_logps})
    return config.model_copy(update={"objective": objective})


@pytest.mark.parametrize(
    ("surrogate", "passes"), [(Real(), False), (Bapo(), False), (Bapo(weighted_by_old=True), True)]
)
def test_a_ratio_of_1_needs_no_pass(surrogate: Surrogate, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one update and the trainer's own log-probabilities; the values are those that the pass would have given."""
    groups = labelled(train_groups(build("llama")))
    policy, batch = policy_of(build("llama")), replace(batch_of(groups), old_logps_N=None)
    config = with_surrogate(surrogate, config_of(10_000))
    with_pass, metrics = with_step_values(policy, batch, config, Ranks())
    calls = lengths_scored(monkeypatch)
    config = with_surrogate(surrogate, config, "trainer")
    without, same_metrics = with_step_values(policy, batch, config, Ranks())
    assert bool(calls) == passes
    assert (without.surrogate_step_N, with_pass.surrogate_step_N) != (None, None)
    torch.testing.assert_close(without.surrogate_step_N, with_pass.surrogate_step_N)
    assert {name: metric.value for name, metric in same_metrics.items()} == pytest.approx(
        {name: metric.value for name, metric in metrics.items()}
    )
    assert ("pass before every optimizer step" in [cost.name for cost in costs_of(config, None)]) == passes


def test_a_kl_in_the_reward_is_in_the_advantages_that_a_surrogate_sees() -> None:
    model = build("llama")
    groups = changed(train_groups(model), lambda one: replace(one, ref_logps=one.old_logps - np.float32(0.25)))
    groups = [replace(group, kl_coefficient=0.1) for group in groups]
    seen: list[StepTokens] = []

    class Watching(Bapo):
        def of_step(self, step: StepTokens) -> StepValues:
            seen.append(step)
            return super().of_step(step)

    kl = KlOptions(coefficient=0.1, in_reward=True)
    config = with_surrogate(Watching(), config_of(10_000)).model_copy(update={"kl": kl})
    batch = batch_of(groups)
    with_step_values(policy_of(model), batch, config, Ranks())
    # log(π_old/π_ref) is 0.25 for every token: the cost of a token is 0.025 for each from it to the end.
    to_go_N = torch.cat([torch.arange(n, 0, -1) for n in batch.lengths_E.tolist()])
    torch.testing.assert_close(seen[0].advantages_N, batch.advantages_N - 0.025 * to_go_N, atol=1e-5, rtol=0)
