"""Episodes of several turns: what was sampled is trained on, and what stands between is context and nothing else."""

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.objective.metric import merge_metrics
from groupwise.ranks import Ranks
from groupwise.train.step_batch import count_step, micro_batches
from groupwise.train.update import accumulate_gradient, update
from tests.support.episodes import (
    CONSTANT_LENGTH,
    REDUCTIONS,
    TEMPERATURE,
    TrainGroup,
    TrainSequence,
    batch_of,
    config_of,
    config_with,
    gradient_of,
    sequences_of,
)
from tests.support.tiny import build, gradients, plain_scores, policy_of, random_ids, relative_difference

# Prompt, and the spans of each episode: sampled tokens, context, sampled tokens, and so on.
SPANS = [(5, ((4, 3, 2), (6,), (1, 5, 1, 2, 3))), (2, ((2, 1, 1), (1,))), (9, ((3, 2, 4, 1, 2), (2, 6, 5)))]


def episode_groups(model: PreTrainedModel) -> list[TrainGroup]:
    """Old log-probabilities are up to 0.4 nats away, so that the clip binds."""
    generator = np.random.default_rng(3)
    groups = []
    for prompt_length, episodes in SPANS:
        prompt, made = random_ids(generator, prompt_length), []
        for spans in episodes:
            ids = random_ids(generator, sum(spans))
            sampled_T = np.concatenate([np.full(n, i % 2 == 0) for i, n in enumerate(spans)])
            with torch.no_grad():
                logps_N = plain_scores(model, prompt, ids, TEMPERATURE)[0].numpy()[sampled_T]
            old_N, sampler_N = (logps_N + generator.uniform(-0.4, 0.4, (2, len(logps_N)))).astype(np.float32)
            made.append(TrainSequence(ids, float(generator.normal()), old_N, sampler_N, sampled=sampled_T))
        groups.append(TrainGroup(prompt, tuple(made), kl_coefficient=0.1))
    return groups


def weight_of(groups: Sequence[TrainGroup], group: TrainGroup, sequence: TrainSequence, reduction: str) -> float:
    """Of each sampled token, from the definitions; context counts nowhere."""
    episodes = len(sequences_of(groups))
    return {
        "token_mean": 1 / sum(len(s.old_logps) for s in sequences_of(groups)),
        "sequence_mean_token_mean": 1 / (episodes * len(sequence.old_logps)),
        "sequence_mean_token_sum": 1 / episodes,
        "constant_length": 1 / (episodes * CONSTANT_LENGTH),
        "group_token_mean": 1 / (len(groups) * sum(len(s.old_logps) for s in group.sequences)),
    }[reduction]


def plain_loss(model: PreTrainedModel, groups: Sequence[TrainGroup], reduction: str) -> Tensor:
    """PPO's clipped loss over every token of every episode on the plain model, with weight 0 on the context."""
    loss = torch.zeros((), dtype=torch.float64)
    for group in groups:
        for sequence in group.sequences:
            assert sequence.sampled is not None
            new_T, _ = plain_scores(model, group.prompt_ids, sequence.ids, TEMPERATURE)
            sampled_T = torch.from_numpy(sequence.sampled)
            old_T = torch.zeros_like(new_T).masked_scatter(sampled_T, torch.from_numpy(sequence.old_logps).to(new_T))
            weight_T = weight_of(groups, group, sequence, reduction) * sampled_T
            ratio_T = (new_T - old_T).exp()
            objective_T = torch.minimum(ratio_T * sequence.advantage, ratio_T.clamp(0.8, 1.28) * sequence.advantage)
            loss = loss - (weight_T * objective_T).sum()
    return loss


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_gradient_is_the_plain_models_with_weight_0_on_the_context(reduction: str, architecture: str) -> None:
    model = build(architecture)
    groups = episode_groups(model)
    reference = copy.deepcopy(model)
    plain_loss(reference, groups, reduction).backward()
    expected = gradients(reference)
    divisions = set()
    for micro_batch_tokens in (10_000, 25, 1):
        divisions.add(len(micro_batches(batch_of(groups), micro_batch_tokens)))
        found = gradient_of(model, groups, config_of(micro_batch_tokens, reduction))
        assert relative_difference(found, expected) < 1e-5
    assert len(divisions) == 3
    # A gradient that also trained on the context would be another one.
    everywhere = copy.deepcopy(model)
    for group in groups:
        for sequence in group.sequences:
            new_T, _ = plain_scores(everywhere, group.prompt_ids, sequence.ids, TEMPERATURE)
            (-sequence.advantage * new_T.mean()).backward()
    assert relative_difference(gradients(everywhere), expected) > 0.1


def test_only_sampled_tokens_lie_on_the_token_axis() -> None:
    groups = episode_groups(build("llama"))
    batch = batch_of(groups)
    sampled = [s.ids[s.sampled] for s in sequences_of(groups) if s.sampled is not None]
    assert batch.packed().target_ids_N.tolist() == np.concatenate(sampled).tolist()
    assert batch.lengths_E.tolist() == [len(ids) for ids in sampled]
    # Five spans, the first, third and fifth sampled.
    assert batch.take(np.array([2])).turn_N.tolist() == [0, 1, 2, 2, 2]
    assert count_step(batch, Ranks()).tokens == sum(map(len, sampled))


def test_no_measurement_sees_the_context() -> None:
    """Ratio, KL, entropy and engine gap are means over the sampled tokens."""
    model = build("llama")
    groups = episode_groups(model)
    batch = batch_of(groups)
    measured = accumulate_gradient(policy_of(model), batch, count_step(batch, Ranks()), config_of(10_000))
    merged = merge_metrics(part.metrics for part in measured)
    new, entropies = [], []
    for group in groups:
        for sequence in group.sequences:
            with torch.no_grad():
                logps_T, entropies_T = plain_scores(model, group.prompt_ids, sequence.ids, TEMPERATURE)
            new.append(logps_T[sequence.sampled])
            entropies.append(entropies_T[sequence.sampled])
    assert batch.old_logps_N is not None
    log_ratio_N = torch.cat(new) - batch.old_logps_N
    expected = {
        "policy/ratio_mean": log_ratio_N.exp().mean(),
        "policy/approx_kl_k1": -log_ratio_N.mean(),
        "policy/entropy": torch.cat(entropies).mean(),
        "engine/logp_gap_max": (torch.cat(new) - batch.sampler_logps_N).abs().max(),
    }
    for name, value in expected.items():
        assert float(merged[name].value) == pytest.approx(float(value), rel=1e-4), name


def test_a_whole_update_does_not_depend_on_the_division() -> None:
    """With a reference, the trainer's own old log-probabilities, picked tokens, minibatches and epochs."""
    model = build("llama").double()
    reference = policy_of(build("llama", seed=1).double())
    batch = batch_of(episode_groups(model))
    after = []
    for micro_batch_tokens in (10_000, 25, 1):
        config = config_with(
            batch={"minibatches_per_step": 2, "epochs_per_step": 2, "micro_batch_tokens": micro_batch_tokens},
            objective={"old_logps": "trainer", "reduction": "sequence_mean_token_mean"},
            kl={"coefficient": 0.1, "in_reward": True},
            entropy={"tokens": {"type": "top_entropy", "fraction": 0.5}},
        )
        policy = policy_of(model)
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.5)
        update(policy, reference, optimizer, batch, 1, config, Ranks())
        after.append(dict(policy.model.state_dict()))
    assert relative_difference(after[0], dict(model.state_dict())) > 1e-3
    for weights in after[1:]:
        assert relative_difference(weights, after[0]) < 1e-6
