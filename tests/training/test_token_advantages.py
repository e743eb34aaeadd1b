"""A baseline for each token: from the trainer's pass to the loss, whatever the division of the work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.model.load import Policy
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline, TokenReturns
from groupwise.objective.segments import segment_mean
from groupwise.ranks import Ranks
from groupwise.training import streams
from groupwise.training.streams import with_old_logps, with_token_advantages
from groupwise.training.update import update
from tests.support.episodes import TEMPERATURE, TrainGroup, batch_of, changed, config_with, train_groups
from tests.support.runs import Quiet, assert_same_run, interrupt_at, metrics, resume, train
from tests.support.tiny import build, plain_logits, policy_of


def config_of(micro_batch_tokens: int = 40, clip: float = 0.0, **sections: Any) -> TrainConfig:
    batch = {"micro_batch_tokens": micro_batch_tokens, **sections.pop("batch", {})}
    advantage = {"estimator": {"type": "optimal_token_baseline", **sections.pop("estimator", {})}, "clip": clip}
    return config_with(batch=batch, advantage=advantage, **sections)


def rewarded(groups: list[TrainGroup]) -> list[TrainGroup]:
    """Rewards of 1.05 and 0.1 in turn, as the floats that they are."""
    rewards = iter([1.05, 0.1, 0.1] * 8)
    return changed(groups, lambda sequence: replace(sequence, reward=next(rewards)))


def token_advantages(policy: Policy, groups: list[TrainGroup], config: TrainConfig) -> Tensor:
    batch = batch_of(groups)
    # Groups of these tests differ in size, which those of a step do not.
    made, means = with_token_advantages(policy, batch, np.zeros((1, len(batch.lengths_E))), config)
    expected_E = segment_mean(made.advantages_N.double(), batch.lengths_E)
    torch.testing.assert_close(torch.from_numpy(means)[0], expected_E, atol=1e-6, rtol=0)
    return made.advantages_N


def by_hand(model: Any, groups: list[TrainGroup]) -> Tensor:
    """From all logits of the plain model."""
    made = []
    for group in groups:
        logits = [plain_logits(model, group.prompt_ids, s.ids).detach().double() / TEMPERATURE for s in group.sequences]
        logps = [part.log_softmax(-1) for part in logits]
        chosen = [part[torch.arange(len(s.ids)), s.ids] for part, s in zip(logps, group.sequences, strict=True)]
        lengths_E = torch.tensor([len(s.ids) for s in group.sequences])
        rewards_E = torch.tensor([s.reward for s in group.sequences], dtype=torch.float64)
        squares_N = torch.cat([part.exp().square().sum(-1) for part in logps])
        one_group = torch.zeros(len(lengths_E), dtype=torch.int64)
        tokens = TokenReturns(
            rewards_E.repeat_interleave(lengths_E), torch.cat(chosen), squares_N, lengths_E, one_group
        )
        made.append(OptimalTokenBaseline().of(tokens))
    return torch.cat(made)


@pytest.mark.parametrize("micro_batch_tokens", [1, 40, 10_000])
def test_of_every_division_into_micro_batches(micro_batch_tokens: int) -> None:
    model = build("llama").double()
    groups = rewarded(train_groups(model))
    advantages_N = token_advantages(policy_of(model), groups, config_of(micro_batch_tokens))
    torch.testing.assert_close(advantages_N, by_hand(model, groups).float(), atol=1e-6, rtol=0)
    # The second group is one answer.
    assert advantages_N[30:34].tolist() == [0.0] * 4
    assert int((advantages_N == 0).sum()) < len(advantages_N) / 2


def test_an_answer_that_is_not_trained_on_is_in_no_baseline() -> None:
    model = build("llama").double()
    groups = rewarded(train_groups(model))
    first = groups[0].sequences
    # One whose reward failed has none.
    lost = replace(first[1], trained=False, reward=float("nan"))
    mixed = [replace(groups[0], sequences=(first[0], lost, *first[2:])), *groups[1:]]
    without = [replace(groups[0], sequences=(first[0], *first[2:])), *groups[1:]]
    advantages_N = token_advantages(policy_of(model), mixed, config_of())
    start, end = len(first[0].ids), len(first[0].ids) + len(first[1].ids)
    assert advantages_N[start:end].tolist() == [0.0] * (end - start)
    others_N = torch.cat([advantages_N[:start], advantages_N[end:]])
    torch.testing.assert_close(others_N, token_advantages(policy_of(model), without, config_of()), atol=1e-6, rtol=0)


def test_each_token_is_clipped_by_itself() -> None:
    model = build("llama").double()
    groups = rewarded(train_groups(model))
    plain_N = token_advantages(policy_of(model), groups, config_of())
    clipped_N = token_advantages(policy_of(model), groups, config_of(clip=0.3))
    assert float(plain_N.abs().max()) > 0.3
    torch.testing.assert_close(clipped_N, plain_N.clamp(-0.3, 0.3))


@pytest.mark.parametrize("selects", [False, True])
def test_one_pass_serves_baselines_and_old_log_probabilities(monkeypatch: pytest.MonkeyPatch, selects: bool) -> None:
    model = build("llama").double()
    policy, groups = policy_of(model), rewarded(train_groups(model))
    passes: list[bool] = []
    original = streams.scored

    def noted(*arguments: Any, **named: Any) -> Any:
        passes.append(named.get("square_sums", False))
        return original(*arguments, **named)

    monkeypatch.setattr(streams, "scored", noted)
    entropy = {"tokens": {"type": "top_entropy", "fraction": 0.5}} if selects else {}
    config = config_of(objective={"old_logps": "trainer"}, batch={"epochs_per_step": 2}, entropy=entropy)
    batch, _ = with_token_advantages(policy, batch_of(groups), np.zeros((1, 16)), config)
    decided = with_old_logps(policy, batch, config)
    assert decided.old_logps_N is not None
    torch.testing.assert_close(decided.old_logps_N, batch.trainer_logps_N)
    update(policy, None, torch.optim.SGD(policy.model.parameters(), lr=0.1), batch, 1, config, Ranks())
    assert passes == [True]


def test_estimators_of_whole_answers_make_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama")
    batch, advantages_PG = batch_of(train_groups(model)), np.ones((1, 16))
    monkeypatch.setattr(streams, "scored", lambda *_: pytest.fail("a pass was made"))
    made, same_PG = with_token_advantages(policy_of(model), batch, advantages_PG, config_with())
    assert made is batch
    assert same_PG is advantages_PG


def test_a_rank_without_groups() -> None:
    batch = batch_of([])
    made, means = with_token_advantages(policy_of(build("llama")), batch, np.zeros((0, 4)), config_of())
    assert made.advantages_N.shape == (0,)
    assert means.shape == (0, 4)


def test_engine_weights_multiply_what_a_token_counts() -> None:
    model = build("llama").double()
    groups = rewarded(train_groups(model))
    far = changed(groups, lambda s: replace(s, sampler_logps=s.old_logps))
    objective, correction = {"old_logps": "trainer"}, {"type": "tis", "cap": 1.1}
    sections: dict[str, Any] = {"objective": objective, "engine_correction": correction}
    plain_N = token_advantages(policy_of(model), far, config_of(**sections))
    weighted_N = token_advantages(policy_of(model), far, config_of(estimator={"engine_weights": True}, **sections))
    same_N = token_advantages(policy_of(model), groups, config_of(estimator={"engine_weights": True}, **sections))
    torch.testing.assert_close(same_N, plain_N, atol=1e-6, rtol=0)
    assert float((weighted_N - plain_N).abs().max()) > 1e-3


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    options = ["advantage.estimator=optimal_token_baseline", "objective.old_logps=trainer"]
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, *options) is not None
    assert train(stopped, *options, reporter=Quiet(interrupt_at(1))) is None
    assert resume(stopped) is not None
    assert_same_run(stopped, whole)
    assert all(line["optimizer/grad_norm"] > 0 for line in metrics(whole))
