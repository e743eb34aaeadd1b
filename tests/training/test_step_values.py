"""What a technique computes from the whole optimizer step reaches its tokens, whatever the micro-batches."""

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.metric import Metric
from groupwise.objective.step_tokens import StepTokens, StepValues
from groupwise.ranks import Ranks
from groupwise.training.step_batch import StepBatch
from groupwise.training.streams import with_step_values
from groupwise.training.update import update
from tests.support.episodes import TEMPERATURE, batch_of, changed, config_of, gradient_of, train_groups
from tests.support.tiny import build, plain_scores, policy_of, relative_difference


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
