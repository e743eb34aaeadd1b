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
from groupwise.training.step_batch import count_step, micro_batches
from groupwise.training.update import accumulate_gradient, update
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

# Prompt, and the spans of each sequence: sampled tokens, context, sampled tokens, and so on. One that begins with
# context is a further sequence of the episode before.
SPANS = [
    (5, ((4, 3, 2), (6,), (1, 5, 1, 2, 3))),
    (2, ((2, 1, 1), (0, 3, 2, 1, 1), (1,))),
    (9, ((3, 2, 4, 1, 2), (2, 6, 5))),
]
RATIOS = ("token", "sequence_geometric_mean", "gspo_token", "sequence_product")


def episode_groups(model: PreTrainedModel) -> list[TrainGroup]:
    """Old log-probabilities are up to 0.4 nats away, so that the clip binds."""
    generator = np.random.default_rng(3)
    groups = []
    for prompt_length, episodes in SPANS:
        prompt, made = random_ids(generator, prompt_length), list[TrainSequence]()
        for spans in episodes:
            ids = random_ids(generator, sum(spans))
            sampled_T = np.concatenate([np.full(n, i % 2 == 0) for i, n in enumerate(spans)])
            with torch.no_grad():
                logps_N = plain_scores(model, prompt, ids, TEMPERATURE)[0].numpy()[sampled_T]
            old_N, sampler_N = (logps_N + generator.uniform(-0.4, 0.4, (2, len(logps_N)))).astype(np.float32)
            continues = spans[0] == 0
            advantage = made[-1].advantage if continues else float(generator.normal())
            made.append(TrainSequence(ids, advantage, old_N, sampler_N, sampled=sampled_T, continues=continues))
        groups.append(TrainGroup(prompt, tuple(made), kl_coefficient=0.1))
    return groups


def episodes_of(group: TrainGroup) -> list[list[TrainSequence]]:
    episodes: list[list[TrainSequence]] = []
    for sequence in group.sequences:
        if not sequence.continues:
            episodes.append([])
        episodes[-1].append(sequence)
    return episodes


def tokens_of(sequences: Sequence[TrainSequence]) -> int:
    return sum(len(sequence.old_logps) for sequence in sequences)


def weight_of(
    groups: Sequence[TrainGroup], group: TrainGroup, episode: Sequence[TrainSequence], reduction: str
) -> float:
    """Of each sampled token, from the definitions; context counts nowhere."""
    episodes = sum(len(episodes_of(each)) for each in groups)
    return {
        "token_mean": 1 / tokens_of(sequences_of(groups)),
        "sequence_mean_token_mean": 1 / (episodes * tokens_of(episode)),
        "sequence_mean_token_sum": 1 / episodes,
        "constant_length": 1 / (episodes * CONSTANT_LENGTH),
        "group_token_mean": 1 / (len(groups) * tokens_of(group.sequences)),
    }[reduction]


def plain_loss(model: PreTrainedModel, groups: Sequence[TrainGroup], reduction: str, ratio: str) -> Tensor:
    """PPO's clipped loss over every token of every episode on the plain model, with weight 0 on the context."""
    loss = torch.zeros((), dtype=torch.float64)
    for group in groups:
        for episode in episodes_of(group):
            new_T = torch.cat([plain_scores(model, group.prompt_ids, s.ids, TEMPERATURE)[0] for s in episode])
            sampled_T = torch.cat([torch.from_numpy(s.sampled) for s in episode if s.sampled is not None])
            old_N = torch.cat([torch.from_numpy(s.old_logps) for s in episode]).to(new_T)
            difference_T = (new_T - torch.zeros_like(new_T).masked_scatter(sampled_T, old_N)) * sampled_T
            log_ratio_T = {
                "token": difference_T,
                "sequence_geometric_mean": difference_T.sum() / tokens_of(episode),
                "gspo_token": difference_T.sum().detach() / tokens_of(episode) + new_T - new_T.detach(),
                "sequence_product": difference_T.sum(),
            }[ratio]
            ratio_T, advantage = log_ratio_T.exp(), episode[0].advantage
            objective_T = torch.minimum(ratio_T * advantage, ratio_T.clamp(0.8, 1.28) * advantage)
            loss = loss - (weight_of(groups, group, episode, reduction) * sampled_T * objective_T).sum()
    return loss


def expected_gradient(
    model: PreTrainedModel, groups: Sequence[TrainGroup], reduction: str, ratio: str = "token"
) -> dict[str, Tensor]:
    reference = copy.deepcopy(model)
    plain_loss(reference, groups, reduction, ratio).backward()
    return gradients(reference)


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_gradient_is_the_plain_models_with_weight_0_on_the_context(reduction: str, architecture: str) -> None:
    model = build(architecture)
    groups = episode_groups(model)
    expected = expected_gradient(model, groups, reduction)
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


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean_token_mean"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_ratios_of_whole_answers_are_those_of_episodes(ratio: str, reduction: str) -> None:
    """Over all sampled spans of an episode and both of its sequences, whatever the micro-batches."""
    model = build("llama")
    groups = episode_groups(model)
    expected = expected_gradient(model, groups, reduction, ratio)
    for micro_batch_tokens in (10_000, 1):
        config = config_with(
            batch={"micro_batch_tokens": micro_batch_tokens}, objective={"ratio": ratio, "reduction": reduction}
        )
        assert relative_difference(gradient_of(model, groups, config), expected) < 1e-5
    if ratio != "token":
        assert relative_difference(expected_gradient(model, groups, reduction), expected) > 1e-2


def test_only_sampled_tokens_lie_on_the_token_axis() -> None:
    groups = episode_groups(build("llama"))
    batch = batch_of(groups)
    sampled = [s.ids[s.sampled] for s in sequences_of(groups) if s.sampled is not None]
    assert batch.packed().target_ids_N.tolist() == np.concatenate(sampled).tolist()
    assert batch.lengths_E.tolist() == [tokens_of(episode) for group in groups for episode in episodes_of(group)]
    # Five spans, the first, third and fifth sampled; and an episode of two sequences with two sampled spans each.
    assert batch.take(np.array([2])).turn_N.tolist() == [0, 1, 2, 2, 2]
    both = batch.take(np.array([6, 3]))
    assert both.take(np.array([1])).turn_N.tolist() == [0, 0, 1, 2, 2, 3]
    assert both.episode_B.tolist() == [0, 1, 1]
    first, second = (s.ids[s.sampled] for s in groups[1].sequences[:2] if s.sampled is not None)
    assert both.packed().target_ids_N.tolist()[-6:] == [*first, *second]
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
