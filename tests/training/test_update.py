"""The optimizer steps of one training step: no division of the work changes what is learned."""

import copy
import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import get_scheduler

from groupwise.config import TrainConfig
from groupwise.config.checks import notes
from groupwise.model.load import Policy, load_policy
from groupwise.model.reference import frozen_copy
from groupwise.objective.metric import Metric, merge_metrics
from groupwise.objective.reductions.reduction import StepTotals
from groupwise.ranks import Ranks
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.training.learning_rate import lr_factor
from groupwise.training.step_batch import StepBatch, count_step, micro_batches
from groupwise.training.streams import with_old_logps, with_ref_logps
from groupwise.training.update import (
    accumulate_gradient,
    minibatches,
    optimizer_step,
    update,
)
from tests.support.episodes import (
    REDUCTIONS,
    SHAPES,
    TEMPERATURE,
    TrainGroup,
    TrainSequence,
    batch_of,
    config_of,
    config_with,
    gradient_of,
    reference_loss,
    train_groups,
)
from tests.support.tiny import (
    arithmetic_prompts,
    build,
    gradients,
    plain_scores,
    policy_of,
    relative_difference,
)

# The division into micro-batches


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_gradient_does_not_depend_on_micro_batches(
    reduction: str, architecture: str, precision: torch.dtype
) -> None:
    """1 × 16, about 4 × 4, and 16 × 1 sequences, against the loss written out on the plain model.

    In float32 the order of summation alone moves the gradient of a weight by up to 2e-6 of its norm.
    """
    model = build(architecture).to(precision)
    groups = train_groups(model)
    reference = copy.deepcopy(model)
    reference_loss(reference, groups, reduction).backward()
    expected = gradients(reference)

    divisions = {}
    for micro_batch_tokens in (10_000, 40, 1):
        config = config_of(micro_batch_tokens, reduction)
        divisions[len(micro_batches(batch_of(groups), micro_batch_tokens))] = gradient_of(model, groups, config)
    assert min(divisions) == 1
    # One for each of the 16 sequences, but that those of one token have no inputs and ride along with others.
    assert max(divisions) == 14
    assert len(divisions) == 3
    whole = divisions[1]
    for gradient in divisions.values():
        assert relative_difference(gradient, whole) < (1e-6 if precision == torch.float64 else 5e-6)
        assert relative_difference(gradient, expected) < 1e-5


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_loss_metric_is_that_of_the_whole_step(reduction: str) -> None:
    model = build("llama")
    groups = train_groups(model)
    batch = batch_of(groups)
    expected = float(reference_loss(model, groups, reduction).detach())
    for micro_batch_tokens in (10_000, 40, 1):
        config = config_of(micro_batch_tokens, reduction)
        measured = accumulate_gradient(policy_of(model), batch, count_step(batch, Ranks()), config)
        assert float(merge_metrics(part.metrics for part in measured)["policy/loss"].value) == pytest.approx(
            expected, rel=1e-5
        )


def test_measurements_do_not_depend_on_micro_batches() -> None:
    model = build("llama")
    batch = batch_of(train_groups(model))
    merged = []
    for micro_batch_tokens in (10_000, 40, 1):
        config = config_of(micro_batch_tokens)
        measured = accumulate_gradient(policy_of(model), batch, count_step(batch, Ranks()), config)
        merged.append(
            {name: float(metric.value) for name, metric in merge_metrics(part.metrics for part in measured).items()}
        )
    clipped = [value for name, value in merged[0].items() if "clip_fraction" in name]
    assert sum(value > 0 for value in clipped) == 2
    for other in merged[1:]:
        assert other == pytest.approx(merged[0], rel=1e-5, abs=1e-6)


def test_a_gradient_adds_to_the_one_that_is_there() -> None:
    """As it has to over ranks: parts of the step, each counted by the whole, add up to the whole."""
    model = build("qwen3")
    groups = train_groups(model)
    config = config_of(40)
    totals = count_step(batch_of(groups), Ranks())
    policy = policy_of(model)
    for group in groups:
        accumulate_gradient(policy, batch_of([group]), totals, config)
    assert relative_difference(gradients(policy.model), gradient_of(model, groups, config)) < 1e-6


# Cutting


def numbered_groups(shapes: list[tuple[int, list[int]]]) -> list[TrainGroup]:
    """Every value of a sequence is its own number, so that a mixed-up one shows."""
    numbers = itertools.count()
    groups = []
    for prompt, lengths in shapes:
        sequences = []
        for length in lengths:
            number = next(numbers)
            values = np.full(length, number, dtype=np.float32)
            sequences.append(TrainSequence(np.full(length, number), float(number), values, values))
        groups.append(TrainGroup(np.full(prompt, 99), tuple(sequences)))
    return groups


@given(
    st.lists(st.tuples(st.integers(1, 30), st.lists(st.integers(1, 40), min_size=1, max_size=9)), max_size=8),
    st.integers(1, 200),
)
@settings(deadline=None, max_examples=200)
def test_cutting_keeps_every_sequence_once_and_the_budget(shapes: list[tuple[int, list[int]]], budget: int) -> None:
    groups = numbered_groups(shapes)
    step = batch_of(groups)
    seen = []
    for episodes in micro_batches(step, budget):
        batch = step.take(episodes)
        of_group = [batch.prompt_ids_P[int(batch.group_E[part[0]])] for part in batch.groups()]
        prompts = sorted(map(len, of_group))
        inputs = [len(ids) - 1 for ids in batch.token_ids_B]
        # Only a sequence that is too long by itself may break the budget, and then it stands alone, but for sequences
        # of the same prompt that have one token and so no inputs.
        assert sum(prompts[:-1]) + sum(inputs) <= budget or (len(prompts) == 1 and sum(map(bool, inputs)) == 1)
        for prompt_ids, part in zip(of_group, batch.groups(), strict=True):
            seen += [(int(batch.token_ids_B[e][0]), len(batch.token_ids_B[e]), len(prompt_ids)) for e in part]
    expected = [(int(s.advantage), len(s.ids), len(group.prompt_ids)) for group in groups for s in group.sequences]
    assert sorted(seen) == expected


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        # 512 + 8 · 75 tokens, of which the prompt is free.
        ([(512, [76] * 8)], [[(512, 8)]]),
        # Behind a prompt that is larger than the budget, 1024 tokens of answers, 13 · 75, and not one answer a pass.
        ([(3000, [76] * 26)], [[(3000, 13)], [(3000, 13)]]),
        # Of several prompts the longest is free: 300 + 16 · 45 = 1020 beside one of 512, but 512 + 16 · 45 is too much.
        ([(300, [46] * 8), (512, [46] * 8)], [[(300, 8), (512, 8)]]),
        ([(512, [46] * 8), (512, [46] * 8)], [[(512, 8)], [(512, 8)]]),
        # 1024 beside the prompt is not too much; the longest answers come first.
        ([(5, [513] * 2)], [[(5, 2)]]),
        ([(5, [4] * 2), (7, [1000])], [[(7, 1), (5, 2)]]),
        # An answer that is longer than the budget stands alone.
        ([(10, [1000, 2000, 20])], [[(10, 2)], [(10, 1)]]),
    ],
)
def test_the_longest_prompt_of_a_micro_batch_is_free(
    shapes: list[tuple[int, list[int]]], expected: list[list[tuple[int, int]]]
) -> None:
    step = batch_of(numbered_groups(shapes))
    batches = [step.take(episodes) for episodes in micro_batches(step, 1024)]
    prompts = [len(ids) for ids in step.prompt_ids_P]
    found = [[(prompts[int(batch.group_E[part[0]])], len(part)) for part in batch.groups()] for batch in batches]
    assert found == expected


def test_every_token_counts_where_a_prompt_is_read_for_each_answer() -> None:
    step = batch_of(numbered_groups([(300, [46] * 8), (10, [4] * 3), (10, [2000])]))
    found = [len(episodes) for episodes in micro_batches(step, 1024, prompts_once=False)]
    # 2009 tokens; two answers of 345 at a time, and the last two with three of 13.
    assert found == [1, 2, 2, 2, 5]


def test_a_slice_holds_all_values_in_one_order() -> None:
    step = batch_of(numbered_groups([(3, [2, 1]), (5, [4])]))
    for episodes, numbers, lengths in (
        ([0, 1, 2], [0, 0, 1, 2, 2, 2, 2], [2, 1, 4]),
        ([2, 1, 0], [2, 2, 2, 2, 1, 0, 0], [4, 1, 2]),
        ([1], [1], [1]),
    ):
        batch = step.take(np.array(episodes))
        packed = batch.packed()
        assert packed.lengths_B.tolist() == batch.lengths_E.tolist() == lengths
        assert packed.target_ids_N.tolist() == numbers
        assert batch.old_logps_N is not None
        for values_N in (batch.advantages_N, batch.old_logps_N, batch.sampler_logps_N):
            assert values_N.tolist() == numbers


# Minibatches and epochs


def step_config(minibatches_per_step: int, epochs: int, seed: int = 0, prompts: int = 16) -> TrainConfig:
    return config_with(
        run={"seed": seed},
        batch={
            "minibatches_per_step": minibatches_per_step,
            "epochs_per_step": epochs,
            "prompts_per_step": prompts,
            "micro_batch_tokens": 40,
        },
        optimizer={"max_grad_norm": 1e9},
    )


@pytest.mark.parametrize(("parts", "epochs", "count"), [(1, 1, 4), (3, 2, 7), (4, 3, 4), (2, 1, 5)])
def test_every_epoch_visits_every_group_once(parts: int, epochs: int, count: int) -> None:
    batch = batch_of(numbered_groups([(1, [1])] * count))
    divided = minibatches(batch, step_config(parts, epochs), 3, Ranks())
    assert len(divided) == parts * epochs
    for epoch in range(epochs):
        of_epoch = divided[epoch * parts : (epoch + 1) * parts]
        assert sorted(number for part in of_epoch for number in numbers_of(part)) == list(range(count))
        sizes = [len(part.groups()) for part in of_epoch]
        assert max(sizes) - min(sizes) <= 1


def numbers_of(batch: StepBatch) -> list[int]:
    """The numbers of its episodes, each of one token."""
    return batch.advantages_N.int().tolist()


def order_of(seed: int, step: int, epochs: int = 2) -> list[list[int]]:
    batch = batch_of(numbered_groups([(1, [1])] * 12))
    return [numbers_of(part) for part in minibatches(batch, step_config(3, epochs, seed), step, Ranks())]


def test_the_order_follows_from_seed_step_and_epoch() -> None:
    torch.manual_seed(1)
    first = order_of(0, 1)
    torch.manual_seed(2)
    assert order_of(0, 1) == first
    assert order_of(0, 1, epochs=3)[:6] == first
    assert order_of(0, 2) != first
    assert order_of(1, 1) != first
    assert first[:3] != first[3:]


def test_each_minibatch_is_normalised_by_its_own_totals() -> None:
    """Two minibatches, twice: the weights are those of four plain gradient steps on the loss written out."""
    model = build("llama")
    groups = train_groups(model)
    config = step_config(2, 2)
    reference = copy.deepcopy(model)
    for part in minibatches(batch_of(groups), config, 5, Ranks()):
        reference.zero_grad()
        of_part = [groups[p] for p in dict.fromkeys(part.group_E.tolist())]
        reference_loss(reference, of_part, "token_mean").backward()
        with torch.no_grad():
            for weight in reference.parameters():
                assert weight.grad is not None
                weight -= 0.05 * weight.grad

    policy = policy_of(model)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.05)
    metrics = update(policy, None, optimizer, batch_of(groups), 5, config, Ranks()).metrics
    assert metrics["optimizer/updates"].value == 4
    moved = {name: weight - before for (name, weight), before in zip(
        policy.model.state_dict().items(), model.state_dict().values(), strict=True)}  # fmt: skip
    expected = {name: weight - before for (name, weight), before in zip(
        reference.state_dict().items(), model.state_dict().values(), strict=True)}  # fmt: skip
    assert relative_difference(moved, expected) < 1e-4


# What may act on a step beside the plain policy gradient; none of it may see how the work is divided.
AXES: dict[str, dict[str, Any]] = {
    "plain": {},
    "trainer": {"objective": {"old_logps": "trainer"}},
    "group token mean, trainer": {"objective": {"old_logps": "trainer", "reduction": "group_token_mean"}},
    "group token mean, kl": {"objective": {"reduction": "group_token_mean"}, "kl": {"coefficient": 0.1}},
    "sequence ratio": {"objective": {"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_mean"}},
    "kl in the reward": {"kl": {"coefficient": 0.1, "in_reward": True}},
    "kl of its own reduction": {"kl": {"coefficient": 0.1, "reduction": "sequence_mean_token_mean"}},
    "engine correction": {"engine_correction": {"type": "tis", "cap": 1.1}},
    "off-policy mask": {"off_policy_mask": {"type": "sequence", "reference": "old"}},
    "top entropy": {"entropy": {"tokens": {"type": "top_entropy", "fraction": 0.5}}},
    "clip-cov": {"entropy": {"covariance": {"type": "clip_cov", "fraction": 0.2, "low": -9.0}}},
    "kl-cov": {"entropy": {"covariance": {"type": "kl_cov", "fraction": 0.2}}},
    "entropy bonus": {"entropy": {"bonus": {"type": "fixed", "coefficient": 0.1}}},
}


@pytest.mark.parametrize("axis", AXES)
def test_the_micro_batch_size_changes_nothing_after_several_minibatches(axis: str) -> None:
    """In double precision: four steps of this size make a difference in the weights up to a hundred times larger, so
    that float32 would measure the condition of the case.
    """
    model = build("llama").double()
    other = frozen_copy(policy_of(build("llama", seed=1).double()))
    groups = train_groups(model)
    groups[1] = replace(groups[1], sequences=(replace(groups[1].sequences[0], trained=False),))
    after, measured = [], []
    for micro_batch_tokens in (10_000, 40, 1):
        config = config_with(
            batch={"minibatches_per_step": 2, "epochs_per_step": 2, "micro_batch_tokens": micro_batch_tokens},
            **copy.deepcopy(AXES[axis]),
        )
        own = [
            replace(group, kl_coefficient=config.kl.coefficient * (index % 3 != 2))
            for index, group in enumerate(groups)
        ]
        policy = policy_of(model)
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.5)
        reference = other if config.kl.coefficient else None
        updated = update(policy, reference, optimizer, batch_of(own), 1, config, Ranks(), config.entropy.bonus.start)
        after.append(dict(policy.model.state_dict()))
        measured.append({name: float(metric.value) for name, metric in updated.metrics.items()})
    assert relative_difference(after[0], dict(model.state_dict())) > 1e-3
    for weights, values in zip(after[1:], measured[1:], strict=True):
        assert relative_difference(weights, after[0]) < 1e-6
        assert values == pytest.approx(measured[0], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("axis", [axis for axis in AXES if axis not in ("plain", "engine correction")])
def test_each_axis_changes_the_update(axis: str) -> None:
    """Otherwise the test above would show nothing."""
    model = build("llama")
    after = []
    for sections in (AXES["plain"], AXES[axis]):
        config = config_with(batch={"minibatches_per_step": 2, "epochs_per_step": 2}, **copy.deepcopy(sections))
        policy = policy_of(model)
        own = [replace(group, kl_coefficient=config.kl.coefficient) for group in train_groups(model)]
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.5)
        reference = frozen_copy(policy_of(build("llama", seed=1))) if config.kl.coefficient else None
        update(policy, reference, optimizer, batch_of(own), 1, config, Ranks(), config.entropy.bonus.start)
        after.append(dict(policy.model.state_dict()))
    assert relative_difference(after[1], after[0]) > 1e-4


def test_groups_without_signal_count_and_are_not_forwarded() -> None:
    model = build("llama")
    groups = train_groups(model)
    silent = [replace(group, sequences=tuple(replace(s, advantage=0.0) for s in group.sequences)) for group in groups]
    config = config_of(10_000)
    changes = []
    for step_groups in (groups, [*groups, *silent]):
        policy = policy_of(model)
        rows = []
        policy.model.model.layers[0].register_forward_hook(lambda module, args, output: rows.append(args[0].shape[1]))  # noqa: ARG005, B023
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.1)
        update(policy, None, optimizer, batch_of(step_groups), 1, config, Ranks())
        changes.append(
            {n: w.detach() - b for (n, w), b in zip(policy.model.named_parameters(), model.parameters(), strict=True)}
        )
        assert len(rows) == 1
        assert rows[0] == sum(prompt + sum(lengths) - len(lengths) for prompt, lengths in SHAPES)
    # Twice the tokens in the denominator, and nothing more in the numerator.
    assert relative_difference({name: 2 * change for name, change in changes[1].items()}, changes[0]) < 1e-3


def test_sequences_that_are_not_trained_leave_numerator_and_denominator() -> None:
    model = build("llama")
    groups = train_groups(model)
    last = groups[-1]
    masked = [
        *groups[:-1],
        replace(last, sequences=tuple(replace(s, trained=i < 3) for i, s in enumerate(last.sequences))),
    ]
    absent = [*groups[:-1], replace(last, sequences=last.sequences[:3])]
    assert count_step(batch_of(masked), Ranks()) == count_step(batch_of(absent), Ranks())
    for reduction in REDUCTIONS:
        config = config_of(40, reduction)
        assert relative_difference(gradient_of(model, masked, config), gradient_of(model, absent, config)) < 5e-6


# The first optimizer step


def sampled_groups(policy: Policy) -> list[TrainGroup]:
    """Groups of the bundled model, as its engine sampled and recorded them."""
    prompts = arithmetic_prompts(policy, 3)
    requests = [SampleRequest(prompt, tuple(range(6))) for prompt in prompts]
    answers = InProcessEngine(policy, 64).generate(requests, SamplingParams(TEMPERATURE, 40, policy.stop_ids))
    generator = np.random.default_rng(0)
    return [
        TrainGroup(
            prompt,
            tuple(TrainSequence(c.ids, float(generator.normal()), c.logps, c.logps) for c in completions),
        )
        for prompt, completions in zip(prompts, answers, strict=True)
    ]


@pytest.mark.parametrize("updates", [{}, {"epochs_per_step": 2}, {"minibatches_per_step": 2}])
def test_bounds_act_exactly_where_it_is_not_said_that_they_cannot(updates: dict[str, int]) -> None:
    after = []
    for clip in (0.2, 0.001):
        surrogate = {"type": "ppo_clip", "clip_low": clip, "clip_high": clip}
        config = config_with(objective={"surrogate": surrogate, "old_logps": "trainer"}, batch=updates)
        policy = load_policy("bundled")
        optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-3)
        update(policy, None, optimizer, batch_of(sampled_groups(policy)), 1, config, Ranks())
        after.append(torch.cat([weight.detach().flatten() for weight in policy.model.parameters()]))
    assert torch.equal(*after) == bool(notes(config)) == (not updates)


@pytest.mark.parametrize("old_logps", ["sampler", "trainer"])
def test_at_step_0_the_ratio_is_1_and_the_engine_agrees(old_logps: str) -> None:
    policy = load_policy("bundled")
    config = config_with(objective={"old_logps": old_logps}, batch={"micro_batch_tokens": 150})
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-3)
    metrics = update(policy, None, optimizer, batch_of(sampled_groups(policy)), 1, config, Ranks()).metrics
    tolerance = 1e-5 if old_logps == "sampler" else 2e-6
    assert float(metrics["policy/ratio_min"].value) == pytest.approx(1, abs=tolerance)
    assert float(metrics["policy/ratio_max"].value) == pytest.approx(1, abs=tolerance)
    assert float(metrics["engine/logp_gap_max"].value) < 1e-5
    assert 0 < float(metrics["engine/logp_gap_mean"].value) < 1e-5
    assert all(float(metrics[name].value) == 0 for name in metrics if "clip_fraction" in name)


def test_the_engine_is_compared_with_the_weights_that_sampled_alone() -> None:
    """Later epochs move away from the sampler; the gap of the engine must not grow with them."""
    policy = load_policy("bundled")
    config = config_with(batch={"epochs_per_step": 3}, optimizer={"max_grad_norm": 10.0})
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-2)
    metrics = update(policy, None, optimizer, batch_of(sampled_groups(policy)), 1, config, Ranks()).metrics
    assert float(metrics["policy/ratio_max"].value) > 1.1
    assert float(metrics["engine/logp_gap_max"].value) < 1e-5


def test_the_trainer_scores_as_the_engine_recorded() -> None:
    policy = load_policy("bundled")
    batch = batch_of(sampled_groups(policy))
    for micro_batch_tokens in (1, 60, 10_000):
        config = config_with(
            objective={"old_logps": "trainer"}, batch={"epochs_per_step": 2, "micro_batch_tokens": micro_batch_tokens}
        )
        rescored = with_old_logps(policy, batch, config)
        assert rescored.old_logps_N is not None
        assert rescored.old_entropies_N is not None
        assert not torch.equal(rescored.old_logps_N, batch.sampler_logps_N)
        torch.testing.assert_close(rescored.old_logps_N, batch.sampler_logps_N, atol=1e-5, rtol=0)
        assert rescored.old_entropies_N.shape == batch.sampler_logps_N.shape


@pytest.mark.parametrize(("old_logps", "epochs"), [("sampler", 1), ("sampler", 2), ("trainer", 1), ("trainer", 2)])
@pytest.mark.parametrize("selects", [False, True])
def test_one_place_decides_which_log_probabilities_are_old(old_logps: str, epochs: int, selects: bool) -> None:
    """Those of the engine, of a pass before the updates, or (None) of the very pass that is trained on."""
    model = build("llama")
    groups = [
        replace(group, sequences=tuple(replace(s, old_logps=s.sampler_logps) for s in group.sequences))
        for group in train_groups(model)
    ]
    batch = batch_of(groups)
    entropy = {"tokens": {"type": "top_entropy", "fraction": 0.5}} if selects else {}
    config = config_with(objective={"old_logps": old_logps}, batch={"epochs_per_step": epochs}, entropy=entropy)
    decided = with_old_logps(policy_of(model), batch, config)
    if old_logps == "sampler":
        assert decided.old_logps_N is batch.old_logps_N
    elif epochs == 1:
        assert decided.old_logps_N is None
    else:
        assert decided.old_logps_N is not None
        own = [plain_scores(model, g.prompt_ids, s.ids, TEMPERATURE)[0] for g in groups for s in g.sequences]
        torch.testing.assert_close(decided.old_logps_N, torch.cat(own).detach().float(), atol=1e-5, rtol=0)
    assert (decided.old_entropies_N is not None) == (selects or (old_logps == "trainer" and epochs == 2))


def test_the_reference_scores_only_what_has_a_coefficient() -> None:
    policy = load_policy("bundled")
    groups = sampled_groups(policy)
    groups = [replace(groups[0], kl_coefficient=0.1), groups[1], replace(groups[2], kl_coefficient=0.2)]
    # Of a group without a coefficient the old log-probabilities are taken over, whatever they are.
    groups[1] = replace(groups[1], sequences=tuple(replace(s, old_logps=s.old_logps - 7) for s in groups[1].sequences))
    reference = frozen_copy(policy)
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.05)
    batch = batch_of(groups)
    scored = with_ref_logps(reference, batch, config_with(batch={"micro_batch_tokens": 60}))
    assert scored.ref_logps_N is not None
    # The reference is still the policy that sampled.
    moved_N = 7.0 * (batch.group_E == 1).repeat_interleave(batch.lengths_E)
    torch.testing.assert_close(scored.ref_logps_N, batch.sampler_logps_N - moved_N, atol=1e-5, rtol=0)


# The update itself


def test_the_gradient_is_clipped_to_its_norm() -> None:
    model = build("llama")
    groups = train_groups(model)
    expected = gradient_of(model, groups, config_of(10_000))
    norm = math.sqrt(sum(float(gradient.double().square().sum()) for gradient in expected.values()))
    policy = policy_of(model)
    batch = batch_of(groups)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=1.0)
    accumulate_gradient(policy, batch, count_step(batch, Ranks()), config_of(10_000))
    metrics, fault = optimizer_step(policy, optimizer, norm / 4, Ranks())
    assert fault == ""
    assert metrics["optimizer/grad_norm"].value == pytest.approx(norm, rel=1e-5)
    assert metrics["optimizer/grad_clipped_fraction"].value == 1
    moved = {name: before - weight for (name, weight), before in zip(
        policy.model.named_parameters(), model.parameters(), strict=True)}  # fmt: skip
    quarter = {name: gradient / 4 for name, gradient in expected.items()}
    assert relative_difference({name: weight.detach() for name, weight in moved.items()}, quarter) < 1e-3


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(poison: float) -> None:
    model = build("llama")
    groups = train_groups(model)
    policy = policy_of(model)
    batch = batch_of(groups)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=0.1, weight_decay=0.5)
    accumulate_gradient(policy, batch, count_step(batch, Ranks()), config_of(10_000))
    optimizer_step(policy, optimizer, 1.0, Ranks())
    weights = copy.deepcopy(policy.model.state_dict())
    moments = copy.deepcopy(optimizer.state_dict()["state"])

    accumulate_gradient(policy, batch, count_step(batch, Ranks()), config_of(10_000))
    gradient = next(policy.model.parameters()).grad
    assert gradient is not None
    gradient[0, 0] = poison
    metrics, fault = optimizer_step(policy, optimizer, 1.0, Ranks())

    name, weight = next(iter(policy.trainable()))
    kind = "NaN" if math.isnan(poison) else "infinite"
    assert fault == f"the gradient is not finite: {name} (1 of {weight.numel()} values, {kind})"
    assert metrics["optimizer/skipped_fraction"] == Metric(1.0, "mean")
    merged = merge_metrics([metrics])
    assert "optimizer/grad_norm" not in merged
    assert all(torch.equal(weight, weights[name]) for name, weight in policy.model.state_dict().items())
    for index, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(state[key], moments[index][key]) for key in state)
    assert all(weight.grad is None for weight in policy.model.parameters())


def test_a_skipped_update_is_counted_and_the_next_one_is_not_touched_by_it() -> None:
    model = build("llama")
    groups = train_groups(model)
    broken = [
        replace(group, sequences=tuple(replace(s, advantage=math.nan) for s in group.sequences)) for group in groups
    ]
    policy, untouched = policy_of(model), policy_of(model)
    for one, several in ((policy, [broken, groups]), (untouched, [groups])):
        optimizer = torch.optim.SGD(one.model.parameters(), lr=0.1)
        measured = [update(one, None, optimizer, batch_of(part), 1, config_of(40), Ranks()).metrics for part in several]
        if one is policy:
            assert [float(metrics["optimizer/skipped_fraction"].value) for metrics in measured] == [1.0, 0.0]
    for name, weight in policy.model.state_dict().items():
        assert torch.equal(weight, untouched.model.state_dict()[name])


def test_no_groups_change_nothing() -> None:
    policy = policy_of(build("llama"))
    before = copy.deepcopy(policy.model.state_dict())
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=0.1, weight_decay=0.5)
    metrics = update(policy, None, optimizer, batch_of([]), 1, config_of(100), Ranks()).metrics
    assert metrics == {"optimizer/updates": Metric(0, "max")}
    assert all(torch.equal(weight, before[name]) for name, weight in policy.model.state_dict().items())


def test_frozen_weights_stay() -> None:
    policy = load_policy("bundled", trainable="all_but_embeddings")
    frozen = policy.model.get_input_embeddings().weight
    before = frozen.detach().clone()
    optimizer = torch.optim.AdamW([weight for _, weight in policy.trainable()], lr=1e-2)
    update(policy, None, optimizer, batch_of(sampled_groups(policy)), 1, config_with(), Ranks())
    assert torch.equal(frozen, before)
    # The head shares them.
    assert policy.head.weight is frozen
    assert all(weight is not frozen for _, weight in policy.trainable())


def test_totals_count_sequences_and_tokens() -> None:
    groups = numbered_groups([(3, [2, 1]), (5, [4])])
    assert count_step(batch_of(groups), Ranks()) == StepTotals(sequences=3, tokens=7, groups=2)
    assert count_step(batch_of([]), Ranks()) == StepTotals(sequences=0, tokens=0, groups=0)


# The learning rate


def test_the_learning_rate_rises_to_its_peak_and_falls_to_its_fraction() -> None:
    linear = [lr_factor(step, 10, 3, "linear", 0.1) for step in range(12)]
    assert linear[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert linear[3:10] == pytest.approx([1 - 0.9 * k / 7 for k in range(1, 8)])
    assert linear[10:] == [pytest.approx(0.1)] * 2
    cosine = [lr_factor(step, 5, 0, "cosine", 0.0) for step in range(5)]
    assert cosine == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 5)) for k in range(5)])
    assert [lr_factor(step, 3, 2, "constant", 0.3) for step in range(4)] == [0.5, 1, 1, 1]
    assert lr_factor(0, 1, 0, "linear", 0.0) == 1
    assert lr_factor(5, 3, 10, "linear", 0.0) == pytest.approx(0.6)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize("warmup", [0, 1, 2, 7])
@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_a_fall_to_0_is_that_of_transformers_and_every_step_trains(schedule: Any, warmup: int, steps: int) -> None:
    """Of transformers' own schedule whose peak is at the same step; theirs trains nothing in its first."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    peak = max(warmup, 1) - 1
    made = get_scheduler(schedule, optimizer, num_warmup_steps=peak, num_training_steps=steps)
    theirs = []
    for _ in range(steps):
        theirs.append(made.get_last_lr()[0])
        optimizer.step()
        made.step()
    ours = [lr_factor(step, steps, warmup, schedule, 0.0) for step in range(steps)]
    assert min(ours) > 0
    assert ours[peak:] == pytest.approx(theirs[peak:])
    assert ours[:peak] == pytest.approx([(step + 1) / warmup for step in range(peak)][:steps])


@pytest.mark.parametrize("fraction", [0.0, 0.1])
def test_a_longer_run_has_the_rates_of_that_length_from_the_first_new_step_on(fraction: float) -> None:
    """A run of 4 of 8 steps that is made 12 long goes on as one of 12 steps, without a rise or a step at 0."""
    first = [lr_factor(step, 8, 2, "linear", fraction) for step in range(4)]
    rest = [lr_factor(step, 12, 2, "linear", fraction) for step in range(4, 12)]
    assert min(first + rest) > 0
    assert rest == sorted(rest, reverse=True)
    assert rest[-1] == pytest.approx(fraction or 1 / 11)
