"""Cases of how the rewards of a group become advantages."""

import copy
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.objective.advantages.gdpo import Gdpo
from groupwise.objective.advantages.group import Group
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline
from groupwise.objective.advantages.pass_at_k import PassAtK
from groupwise.objective.advantages.reinforce_plus_plus import ReinforcePlusPlus
from groupwise.objective.corrections.tis import Tis
from tests.options import own_cases
from tests.options.case import Case
from tests.options.observed import component, totals, what_was_sampled
from tests.options.runs import Floats, Trace


def advantages(trace: Trace) -> Floats:
    return trace.grid(lambda row: row["advantage"])


def deviation(rewards: Floats, trace: Trace, axis: int | None) -> Any:
    options = trace.config.advantage.estimator
    assert isinstance(options, Group | Gdpo)
    return rewards.std(axis=axis, ddof=options.std_ddof, keepdims=axis is not None) + options.std_epsilon


def group_expected(trace: Trace) -> Floats:
    options, total_PG = trace.config.advantage.estimator, totals(trace)
    assert isinstance(options, Group)
    size = total_PG.shape[1]
    others_PG = (total_PG.sum(axis=1, keepdims=True) - total_PG) / (size - 1)
    baseline_PG = {
        "group_mean": total_PG.mean(axis=1, keepdims=True),
        "leave_one_out": others_PG,
        "none": np.zeros_like(total_PG),
    }[options.baseline]
    scale = {
        "none": 1.0,
        "group_std": deviation(total_PG, trace, 1),
        "batch_std": deviation(total_PG, trace, None),
    }[options.scale]
    return np.asarray((total_PG - baseline_PG) / scale)


def gdpo_expected(trace: Trace) -> Floats:
    options = trace.config.rewards
    summed_PG = np.zeros_like(totals(trace))
    for name, weight in (("correctness", options.correctness.weight), ("format", options.format.weight)):
        part_PG = component(trace, name)
        summed_PG += weight * (part_PG - part_PG.mean(axis=1, keepdims=True)) / deviation(part_PG, trace, 1)
    return np.asarray((summed_PG - summed_PG.mean()) / deviation(summed_PG, trace, None))


def pass_at_k_expected(trace: Trace) -> Floats:
    """Every choice of k answers is rewarded if one of them is right; an answer gets the mean over its choices."""
    estimator, rows = trace.config.advantage.estimator, []
    assert isinstance(estimator, PassAtK)
    k = estimator.k
    for right_G in component(trace, "correctness") == 1:
        choices = list(itertools.combinations(range(len(right_G)), k))
        rewards = np.array([float(right_G[list(choice)].any()) for choice in choices])
        own = [
            np.mean([r for choice, r in zip(choices, rewards, strict=True) if g in choice]) for g in range(len(right_G))
        ]
        spread = rewards.std()
        rows.append((np.array(own) - rewards.mean()) / spread if spread else np.zeros(len(right_G)))
    return np.array(rows)


def opo_expected(trace: Trace) -> Floats:
    """The reward of each token of a group is compared with the mean over all of its tokens."""
    rows = []
    for group, total_G in zip(trace.groups(), totals(trace), strict=True):
        of_tokens = np.concatenate([np.full(len(c.ids), t) for c, t in zip(group.completions, total_G, strict=True)])
        rows.append(total_G - of_tokens.mean())
    return np.array(rows)


def reinforce_plus_plus_expected(trace: Trace) -> Floats:
    options, total_PG = trace.config.advantage.estimator, totals(trace)
    assert isinstance(options, ReinforcePlusPlus)
    centred_PG = total_PG - (total_PG.mean(axis=1, keepdims=True) if options.baseline == "group_mean" else 0)
    counted = centred_PG.ravel()
    if options.unit == "token":
        counted = counted.repeat([len(ids) for ids in trace.sampled_ids()])
    variance, epsilon = counted.var(ddof=options.std_ddof), options.epsilon
    deviation = {
        "floor": np.sqrt(np.maximum(variance, epsilon)),
        "variance": np.sqrt(variance + epsilon),
        "std": np.sqrt(variance) + epsilon,
    }[options.epsilon_in]
    return np.asarray((centred_PG - counted.mean()) / deviation)


def token_baseline_expected(trace: Trace) -> Floats:
    """The mean over each answer's tokens of the reward less a baseline, which is worked out token by token."""
    options = trace.config.advantage.estimator
    assert isinstance(options, OptimalTokenBaseline)
    policy = replace(trace.policy, model=copy.deepcopy(trace.policy.model))
    policy.model.load_state_dict(trace.before, strict=False)
    scoring, rows = Scoring(trace.config.sampling.temperature, 8, square_sums=True), []
    for group, total_G in zip(trace.groups(), totals(trace), strict=True):
        ids_G = tuple(completion.ids for completion in group.completions)
        with torch.no_grad():
            scores = score(policy, pack([SequenceGroup(group.prompt.ids, ids_G)], policy.device), scoring)
        assert scores.square_sums_N is not None
        logps_N = scores.logps_N.double().numpy()
        weights_N = 1 - 2 * np.exp(logps_N) + scores.square_sums_N.double().numpy()
        if options.engine_weights:
            correction = trace.config.engine_correction
            assert isinstance(correction, Tis)
            engine_N = np.concatenate([completion.logps for completion in group.completions])
            weights_N = weights_N * np.minimum(np.exp(logps_N - engine_N), correction.cap) ** 2
        until_GL = [np.cumsum(part) for part in np.split(weights_N, np.cumsum([len(ids) for ids in ids_G])[:-1])]
        row = []
        for g, ids in enumerate(ids_G):
            of_tokens = []
            for t in range(len(ids)):
                alive = [i for i, other in enumerate(ids_G) if len(other) > t]
                baseline = np.average(total_G[alive], weights=[until_GL[i][t] for i in alive])
                alone = len(alive) == 1 and options.tail == "return"
                of_tokens.append(total_G[g] if alone else total_G[g] - baseline)
            row.append(np.mean(of_tokens))
        rows.append(row)
    return np.array(rows)


def expected(trace: Trace) -> Floats:
    options, total_PG = trace.config.advantage, totals(trace)
    mean_P1 = total_PG.mean(axis=1, keepdims=True)
    made = {
        "group": lambda: group_expected(trace),
        "gdpo": lambda: gdpo_expected(trace),
        "max_rl": lambda: (total_PG - mean_P1) / np.where(mean_P1 == 0, 1, mean_P1),
        "function": lambda: own_cases.advantages(trace.config, total_PG),
        "opo": lambda: opo_expected(trace),
        "optimal_token_baseline": lambda: token_baseline_expected(trace),
        "pass_at_k": lambda: pass_at_k_expected(trace),
        "reinforce_plus_plus": lambda: reinforce_plus_plus_expected(trace),
    }[options.estimator.type]()
    return np.asarray(np.clip(made, -options.clip, options.clip) if options.clip else made)


def token_advantages(trace: Trace) -> Floats:
    return np.concatenate([row["token_advantages"] for row in trace.rows()])


def process_expected(trace: Trace) -> Floats:
    """The advantage of the answer, and for each token the normalised scores of the spans that it is not behind."""
    options, made = trace.config.advantage.process, []
    own_PG = expected(trace)
    samples = trace.config.batch.samples_per_prompt
    for p, own_G in enumerate(own_PG):
        rows = trace.rows()[p * samples : (p + 1) * samples]
        scores = np.array([score for row in rows for _, _, score in row["spans"]["pieces"]])
        deviation = scores.std(ddof=options.std_ddof) + options.std_epsilon if options.scale == "group_std" else 1.0
        for row, own in zip(rows, own_G, strict=True):
            to_come = [
                sum((s - scores.mean()) / deviation for _, end, s in row["spans"]["pieces"] if end > t)
                for t in range(row["tokens"])
            ]
            made += [own + one for one in to_come]
    return np.array(made)


PIECES = ("rewards.functions.pieces.path={functions}:pieces", "rewards.functions.pieces.returns=character_spans")


def process_case(*values: str) -> Case:
    return Case(values, token_advantages, process_expected, base=PIECES, same=what_was_sampled)


SCALED = ("advantage.estimator.scale=group_std",)
ONE_REWARD = ("rewards.format.weight=0.0",)


def case(*values: str, base: tuple[str, ...] = (), beside: dict[str, tuple[str, ...]] | None = None) -> Case:
    return Case(values, advantages, expected, base=base, same=what_was_sampled, beside=beside or {})


CASES = {
    "advantage.estimator": case(
        "group",
        "gdpo",
        "max_rl",
        "opo",
        "optimal_token_baseline",
        "reinforce_plus_plus",
        "{type: function, path: '{own}:scaled'}",
        "{type: pass_at_k, k: 2}",
        beside={"{type: pass_at_k, k: 2}": ("rewards.format.weight=0.0",)},
    ),
    "advantage.estimator.baseline (group)": case("group_mean", "leave_one_out", "none"),
    "advantage.estimator.scale (group)": case("none", "group_std", "batch_std"),
    "advantage.estimator.k (pass_at_k)": case("2", "3", base=ONE_REWARD),
    "advantage.estimator.path (function)": case("{own}:centred", "{own}:scaled"),
    "advantage.estimator.options (function)": case(
        "{times: 1.0}", "{times: 0.5}", base=("advantage.estimator.path={own}:centred",)
    ),
    "advantage.process.scale": process_case("group_std", "none"),
    "advantage.process.std_ddof": process_case("0", "1"),
    "advantage.process.std_epsilon": process_case("1e-4", "0.3"),
    "advantage.clip": case("0.0", "0.5", base=SCALED),
    "advantage.estimator.std_ddof (group)": case("0", "1", base=SCALED),
    "advantage.estimator.std_epsilon (group)": case("1e-4", "0.3", base=SCALED),
    "advantage.estimator.std_ddof (gdpo)": case("0", "1"),
    "advantage.estimator.std_epsilon (gdpo)": case("1e-4", "0.3"),
    "advantage.estimator.tail (optimal_token_baseline)": case("zero", "return"),
    "advantage.estimator.engine_weights (optimal_token_baseline)": case(
        "false",
        "true",
        base=("model.compute_dtype=bfloat16", "objective.old_logps=trainer", "engine_correction={type: tis, cap: 1.5}"),
    ),
    "advantage.estimator.baseline (reinforce_plus_plus)": case("group_mean", "none"),
    "advantage.estimator.unit (reinforce_plus_plus)": case("token", "answer"),
    "advantage.estimator.std_ddof (reinforce_plus_plus)": case("0", "1"),
    "advantage.estimator.epsilon (reinforce_plus_plus)": case("1e-8", "0.9"),
    "advantage.estimator.epsilon_in (reinforce_plus_plus)": case(
        "floor", "variance", "std", base=("advantage.estimator.epsilon=0.9",)
    ),
}
