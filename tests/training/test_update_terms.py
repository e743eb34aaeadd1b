"""Each term of the loss on the real path, against the same term written out on the model's plain logits."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.config import TrainConfig
from groupwise.model.load import Policy, load_policy
from groupwise.model.reference import fingerprint_weights, frozen_copy, refresh
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.metric import merge_metrics
from groupwise.ranks import Ranks
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.training.step_batch import count_step
from groupwise.training.streams import with_old_logps, with_ref_logps, with_selection
from groupwise.training.update import accumulate_gradient, update
from tests.support.episodes import (
    TEMPERATURE,
    TrainGroup,
    TrainSequence,
    batch_of,
    changed,
    config_with,
    sequences_of,
    silenced,
    train_groups,
)
from tests.support.tiny import arithmetic_prompts, build, gradients, plain_scores, policy_of, relative_difference

# The term of one token: its log-probabilities, entropies, the sequence and the group.
Term = Callable[[Tensor, Tensor, TrainSequence, TrainGroup], Tensor]


def by_autograd(model: PreTrainedModel, groups: Sequence[TrainGroup], term: Term) -> dict[str, Tensor]:
    """Gradient of the mean of a term over all tokens of the step, from the textbook's log-probabilities."""
    twin = copy.deepcopy(model)
    tokens = sum(len(sequence.ids) for sequence in sequences_of(groups))
    for group in groups:
        for sequence in group.sequences:
            logps_T, entropies_T = plain_scores(twin, group.prompt_ids, sequence.ids, TEMPERATURE)
            (term(logps_T, entropies_T, sequence, group).sum() / tokens).backward()
    return gradients(twin)


def by_update(
    model: PreTrainedModel, groups: Sequence[TrainGroup], config: TrainConfig, entropy_coefficient: float = 0.0
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Gradient and measurements of the real path, in micro-batches."""
    policy = policy_of(model)
    batch = with_old_logps(policy, batch_of(groups), config)
    measured = accumulate_gradient(policy, batch, count_step(batch, Ranks()), config, entropy_coefficient)
    merged = merge_metrics(part.metrics for part in measured)
    return gradients(policy.model), {name: float(metric.value) for name, metric in merged.items()}


def sum_of(one: dict[str, Tensor], other: dict[str, Tensor], factor: float = 1.0) -> dict[str, Tensor]:
    return {name: tensor + factor * other[name] for name, tensor in one.items()}


def referred(groups: Sequence[TrainGroup], *coefficients: float) -> list[TrainGroup]:
    """With a reference some tenths of a nat away."""
    generator = np.random.default_rng(9)

    def refer(sequence: TrainSequence) -> TrainSequence:
        moved = generator.normal(0, 0.3, len(sequence.ids)).astype(np.float32)
        return replace(sequence, ref_logps=sequence.old_logps + moved)

    made = changed(groups, refer)
    return [replace(group, kl_coefficient=coefficients[p % len(coefficients)]) for p, group in enumerate(made)]


def old(sequence: TrainSequence) -> Tensor:
    return torch.from_numpy(sequence.old_logps).double()


def ref(sequence: TrainSequence) -> Tensor:
    assert sequence.ref_logps is not None
    return torch.from_numpy(sequence.ref_logps).double()


def weighted_k3(logps_T: Tensor, _: Tensor, sequence: TrainSequence, group: TrainGroup) -> Tensor:
    """DeepSeek-V3.2's r·k3, r live."""
    delta_T = logps_T - ref(sequence)
    return group.kl_coefficient * (logps_T - old(sequence)).exp() * ((-delta_T).exp() - 1 + delta_T)


# KL


@pytest.mark.parametrize("estimator", ["k2", "k3"])
@pytest.mark.parametrize("importance", ["none", "token", "sequence_product"])
def test_a_policy_that_is_its_reference_pays_nothing(estimator: str, importance: str) -> None:
    model = build("llama")
    groups = train_groups(model)
    policy = policy_of(model)
    config = config_with(kl={"coefficient": 0.5, "estimator": estimator, "importance": importance})
    penalised = [replace(group, kl_coefficient=0.5) for group in groups]
    scored = with_ref_logps(frozen_copy(policy), batch_of(penalised), config)
    policy = policy_of(model)
    found_parts = accumulate_gradient(policy, scored, count_step(scored, Ranks()), config)
    merged = merge_metrics(part.metrics for part in found_parts)
    found, measured = gradients(policy.model), {name: float(metric.value) for name, metric in merged.items()}
    assert measured["policy/kl_loss"] == pytest.approx(0, abs=1e-10)
    assert measured["policy/kl_ref_k3"] == pytest.approx(0, abs=1e-10)
    plain, _ = by_update(model, groups, config_with())
    assert relative_difference(found, plain) < 1e-5


def test_only_the_domains_that_have_a_coefficient_are_penalised() -> None:
    domains = {"code": {"kl_coefficient": 0.0}, "proofs": {"kl_coefficient": 0.4}}
    config = config_with(kl={"coefficient": 0.1}, domains=domains)
    coefficients = [config.kl_coefficient_of(domain) for domain in ("math", "code", "proofs", "")]
    assert coefficients == [0.1, 0.0, 0.4, 0.1]
    model = build("llama")
    groups = silenced(referred(train_groups(model), *coefficients[:3]))
    found, measured = by_update(model, groups, config)
    assert relative_difference(found, by_autograd(model, groups, weighted_k3)) < 1e-5
    # Every sequence of a group without a coefficient is without a gradient, although it is forwarded with the others.
    apart = [replace(group, kl_coefficient=float(p == 1)) for p, group in enumerate(groups)]
    only, _ = by_update(model, [apart[1]], config)
    tokens, own = (sum(len(s.ids) for s in sequences_of(part)) for part in (groups, [groups[1]]))
    beside, _ = by_update(model, apart, config)
    assert relative_difference(beside, {name: gradient * own / tokens for name, gradient in only.items()}) < 1e-5
    assert measured["policy/policy_loss"] == 0


@pytest.mark.parametrize("in_reward", [False, True])
def test_the_divergence_is_that_of_the_domains_that_have_a_coefficient(in_reward: bool) -> None:
    model = build("llama")
    groups = referred(train_groups(model), 0.1, 0.0, 0.0)
    config = config_with(kl={"coefficient": 0.1, "in_reward": in_reward})
    _, measured = by_update(model, groups, config)
    known = [(group, sequence) for group in groups if group.kl_coefficient for sequence in group.sequences]
    assert 0 < len(known) < len(sequences_of(groups))
    with torch.no_grad():
        scored = [plain_scores(model, group.prompt_ids, sequence.ids, TEMPERATURE)[0] for group, sequence in known]
    delta_N = torch.cat([logps_T - ref(one) for logps_T, (_, one) in zip(scored, known, strict=True)])
    assert measured["policy/kl_ref_k1"] == pytest.approx(float(delta_N.mean()), rel=1e-5)
    assert measured["policy/kl_ref_k3"] == pytest.approx(float(((-delta_N).exp() - 1 + delta_N).mean()), rel=1e-5)
    _, unknown = by_update(model, [replace(group, kl_coefficient=0.0) for group in groups], config)
    assert "policy/kl_ref_k3" not in unknown


def test_kl_in_the_reward_is_what_is_still_to_be_paid() -> None:
    """A - β Σ_{t' ≥ t} (log π_old - log π_ref), with the gradient of a plain policy gradient."""
    model = build("llama")
    groups = referred(train_groups(model), 0.2)
    config = config_with(
        kl={"coefficient": 0.2, "in_reward": True},
        objective={"surrogate": "reinforce"},
        batch={"micro_batch_tokens": 40},
    )

    def term(logps_T: Tensor, _: Tensor, sequence: TrainSequence, __: TrainGroup) -> Tensor:
        cost_T = old(sequence) - ref(sequence)
        to_go_T = torch.stack([cost_T[t:].sum() for t in range(len(cost_T))])
        return -(logps_T - old(sequence)).exp() * (sequence.advantage - 0.2 * to_go_T)

    found, measured = by_update(model, groups, config)
    assert relative_difference(found, by_autograd(model, groups, term)) < 1e-5
    assert "policy/kl_loss" not in measured


def moved_policy() -> tuple[Policy, Policy, list[TrainGroup], TrainConfig]:
    model = build("llama")
    policy = policy_of(model)
    config = config_with(kl={"coefficient": 0.1}, optimizer={"max_grad_norm": 10.0})
    return policy, frozen_copy(policy), [replace(group, kl_coefficient=0.1) for group in train_groups(model)], config


def test_the_reference_stays_until_it_is_refreshed() -> None:
    policy, reference, groups, config = moved_policy()
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.5)
    before = fingerprint_weights(reference)
    losses = []
    for step in (1, 2):
        metrics = update(policy, reference, optimizer, batch_of(groups), step, config, Ranks()).metrics
        losses.append(float(metrics["policy/kl_loss"].value))
    assert losses[0] == pytest.approx(0, abs=1e-10)
    assert losses[1] > 1e-5
    assert fingerprint_weights(reference) == before != fingerprint_weights(policy)
    assert all(weight.grad is None and not weight.requires_grad for weight in reference.model.parameters())

    refresh(reference, policy)
    assert fingerprint_weights(reference) == fingerprint_weights(policy)
    metrics = update(policy, reference, optimizer, batch_of(groups), 3, config, Ranks()).metrics
    assert float(metrics["policy/kl_loss"].value) == pytest.approx(0, abs=1e-10)
    # It is a copy, and does not follow.
    assert fingerprint_weights(reference) != fingerprint_weights(policy)


# What multiplies the policy term


def test_the_off_policy_mask_leaves_the_kl_alone() -> None:
    """The gradient with both is that of the masked policy term plus that of the KL without a policy term."""
    model = build("llama")
    groups = referred(train_groups(model), 0.3)
    masked: dict[str, Any] = {"off_policy_mask": {"type": "sequence", "reference": "old", "threshold_nats": 0.05}}
    penalised: dict[str, Any] = {"kl": {"coefficient": 0.3}}

    def left(sequence: TrainSequence, group: TrainGroup) -> bool:
        with torch.no_grad():
            logps_T, _ = plain_scores(model, group.prompt_ids, sequence.ids, TEMPERATURE)
        return sequence.advantage < 0 and float((old(sequence) - logps_T).mean()) > 0.05

    gone = [[left(sequence, group) for sequence in group.sequences] for group in groups]
    assert 1 <= sum(map(sum, gone)) < sum(sequence.advantage < 0 for sequence in sequences_of(groups))
    kept = [
        replace(
            g,
            sequences=tuple(replace(s, advantage=0.0) if out else s for s, out in zip(g.sequences, outs, strict=True)),
        )
        for g, outs in zip(groups, gone, strict=True)
    ]
    both, measured = by_update(model, groups, config_with(**masked, **penalised))
    policy_alone, _ = by_update(model, kept, config_with())
    kl_alone, _ = by_update(model, silenced(groups), config_with(**penalised))
    assert relative_difference(both, sum_of(policy_alone, kl_alone)) < 1e-5
    tokens = sum(len(sequence.ids) for sequence in sequences_of(groups))
    lost = sum(
        len(s.ids)
        for g, outs in zip(groups, gone, strict=True)
        for s, out in zip(g.sequences, outs, strict=True)
        if out
    )
    assert measured["policy/off_policy_masked_fraction"] == pytest.approx(lost / tokens)


def apart_from_the_engine(groups: Sequence[TrainGroup]) -> list[TrainGroup]:
    generator = np.random.default_rng(4)

    def move(sequence: TrainSequence) -> TrainSequence:
        moved = generator.normal(0, 0.5, len(sequence.ids)).astype(np.float32)
        return replace(sequence, sampler_logps=sequence.sampler_logps + moved)

    return changed(groups, move)


@pytest.mark.parametrize("form", ["tis", "mis"])
def test_the_engine_correction_multiplies_each_token(form: str) -> None:
    """min(ρ, C), or ρ inside of the band and 0 outside, with ρ = π_old/π_sampler of the trainer's own π_old."""
    model = build("llama")
    groups = apart_from_the_engine(train_groups(model))
    low, high = 0.7, 1.3
    config = config_with(
        engine_correction={"type": "tis", "cap": high} if form == "tis" else {"type": "mis", "low": low, "high": high},
        objective={"old_logps": "trainer", "surrogate": "reinforce"},
        batch={"micro_batch_tokens": 40},
    )
    limited = []

    def term(logps_T: Tensor, _: Tensor, sequence: TrainSequence, __: TrainGroup) -> Tensor:
        # With one optimizer step the old policy is the one that is scored: the ratio is 1 and has its gradient.
        rho_T = (logps_T.detach() - torch.from_numpy(sequence.sampler_logps).double()).exp()
        factor_T = rho_T.clamp(max=high) if form == "tis" else rho_T * ((rho_T >= low) & (rho_T <= high))
        limited.append(float((factor_T != rho_T).sum()))
        return -factor_T * (logps_T - logps_T.detach()).exp() * sequence.advantage

    expected = by_autograd(model, groups, term)
    found, measured = by_update(model, groups, config)
    assert relative_difference(found, expected) < 1e-5
    tokens = sum(len(sequence.ids) for sequence in sequences_of(groups))
    assert measured["engine/weight_limited_fraction"] == pytest.approx(sum(limited) / tokens)
    assert 0.1 < sum(limited) / tokens < 0.9


# Entropy


@pytest.mark.parametrize("chunk_tokens", [5, 1000])
def test_the_bonus_has_the_gradient_of_the_entropy(chunk_tokens: int) -> None:
    model = build("qwen3")
    groups = silenced(train_groups(model))
    config = config_with(batch={"micro_batch_tokens": 40, "logits_chunk_tokens": chunk_tokens})
    found, measured = by_update(model, groups, config, entropy_coefficient=0.3)
    expected = by_autograd(model, groups, lambda _, entropies_T, __, ___: -0.3 * entropies_T)
    assert relative_difference(found, expected) < 1e-5
    assert measured["policy/entropy_loss"] == pytest.approx(-0.3 * measured["policy/entropy"], rel=1e-5)


def test_the_coefficient_moves_towards_the_target_and_stays_in_its_bounds() -> None:
    bonus = TargetBonus(target_nats=0.5, coefficient_step=0.01, max_coefficient=0.035)
    coefficient, seen = 0.0, []
    for observed in [0.1] * 5 + [0.5] + [0.9] * 5:
        coefficient = bonus.next_coefficient(coefficient, observed)
        seen.append(coefficient)
    assert seen == pytest.approx([0.01, 0.02, 0.03, 0.035, 0.035, 0.035, 0.025, 0.015, 0.005, 0.0, 0.0])


@pytest.mark.parametrize(
    "chosen",
    [
        {"tokens": {"type": "top_entropy", "fraction": 0.3}},
        {"covariance": {"type": "clip_cov", "fraction": 0.2, "low": -9.0}},
        {"covariance": {"type": "kl_cov", "fraction": 0.2}},
    ],
)
def test_the_same_tokens_are_picked_whatever_the_micro_batches(chosen: dict[str, Any]) -> None:
    model = build("llama")
    groups, policy = train_groups(model), policy_of(model)
    picked = []
    for micro_batch_tokens in (10_000, 40, 1):
        config = config_with(entropy=chosen, batch={"micro_batch_tokens": micro_batch_tokens})
        known = with_old_logps(policy, batch_of(groups), config)
        made = with_selection(known, config.entropy, 7, Ranks())
        picked.append([[] if part_N is None else part_N.tolist() for part_N in (made.policy_mask_N, made.drift_N)])
    assert picked[0] == picked[1] == picked[2]
    tokens = len(picked[0][0])
    (options,) = chosen.values()
    share = options["fraction"]
    if "tokens" in chosen:
        assert known.old_entropies_N is not None
        entropies = known.old_entropies_N.numpy()
        assert sum(picked[0][0]) == pytest.approx(share * tokens, abs=1)
        mask = np.array(picked[0][0]) == 1
        assert entropies[mask].min() > entropies[~mask].max()
    elif options["type"] == "clip_cov":
        assert tokens - sum(picked[0][0]) == int(share * tokens)
    else:
        assert sum(value > 0 for value in picked[0][1]) == int(share * tokens)


@pytest.mark.parametrize("moved", [0.0, 0.3])
def test_kl_cov_penalises_what_has_moved_and_not_what_is_rounded(moved: float) -> None:
    """On the policy that sampled the penalty is 0, although its log-probabilities are not the same to the last bit."""
    model = build("llama")
    signs = np.random.default_rng(2)

    def away(sequence: TrainSequence) -> TrainSequence:
        sign_T = signs.choice([-1, 1], len(sequence.ids)).astype(np.float32)
        return replace(sequence, old_logps=sequence.sampler_logps + np.float32(moved) * sign_T)

    groups = changed(silenced(train_groups(model)), away)
    drifting = changed(groups, lambda sequence: replace(sequence, drift=np.full(len(sequence.ids), 0.7, np.float32)))
    found, measured = by_update(model, drifting, config_with(batch={"micro_batch_tokens": 40}))
    if moved == 0:
        assert measured["policy/approx_kl_k3"] < 1e-9
        assert not any(bool(gradient.any()) for gradient in found.values())
    else:
        expected = by_autograd(model, groups, lambda logps_T, _, sequence, __: 0.7 * (logps_T - old(sequence)).abs())
        assert relative_difference(found, expected) < 1e-5


# The keep-sampling mask


@pytest.mark.parametrize(
    "filtered", [{"top_k": 4}, {"top_p": 0.8}, {"min_p": 0.1}, {"top_k": 6, "top_p": 0.9, "min_p": 0.05}]
)
def test_scoring_over_the_kept_sets_finds_what_was_sampled_from(filtered: dict[str, Any]) -> None:
    """At step 0 the ratio is 1 with the sets, and further from it the stricter the filter without them."""
    policy = load_policy("bundled")
    sampling = SamplingParams(1.2, 30, policy.stop_ids, record_kept=True, **filtered)
    requests = [SampleRequest(prompt, tuple(range(5))) for prompt in arithmetic_prompts(policy, 3)]
    answers = InProcessEngine(policy, 64).generate(requests, sampling)
    groups = [
        TrainGroup(
            request.prompt_ids,
            tuple(TrainSequence(c.ids, 1.0 - 2 * (i % 2), c.logps, c.logps, kept=c.kept) for i, c in enumerate(group)),
        )
        for request, group in zip(requests, answers, strict=True)
    ]
    config = config_with(
        sampling={"temperature": 1.2, "max_new_tokens": 30, "replay_mask": True, **filtered},
        batch={"micro_batch_tokens": 100, "logits_chunk_tokens": 16},
    )
    measured = []
    for step in (groups, changed(groups, lambda sequence: replace(sequence, kept=None))):
        policy.model.zero_grad(set_to_none=True)
        batch = batch_of(step)
        parts = accumulate_gradient(policy, batch, count_step(batch, Ranks()), config, entropy_coefficient=0.1)
        assert all(bool(gradient.isfinite().all()) for gradient in gradients(policy.model).values())
        merged = merge_metrics(part.metrics for part in parts)
        measured.append({name: float(metric.value) for name, metric in merged.items()})
    replayed, without = measured
    assert replayed["engine/logp_gap_max"] < 1e-5
    assert replayed["policy/ratio_min"] == pytest.approx(1, abs=1e-5)
    assert replayed["policy/ratio_max"] == pytest.approx(1, abs=1e-5)
    assert np.isfinite(replayed["policy/entropy"])
    # Over fewer tokens the same policy is less uncertain, and every token that was drawn is likelier.
    assert replayed["policy/entropy"] < without["policy/entropy"]
    assert without["engine/logp_gap_max"] > 0.05
    assert without["policy/ratio_max"] < 1 + 1e-5
    if "top_p" in filtered and "top_k" not in filtered:
        # A set that holds the share p of the probability: no gap is larger than log(1/p).
        assert without["engine/logp_gap_max"] < np.log(1 / filtered["top_p"]) + 1e-5
