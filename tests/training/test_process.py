"""Scores of spans: from the function to the advantages of tokens, in groups by hand and in whole runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import groupwise
from groupwise.completion import Completion, Prompt
from groupwise.config import TrainConfig
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.grader import Grader
from groupwise.grading.reward_options import FunctionOptions
from groupwise.model.load import load_policy
from groupwise.problem import Message, Problem
from groupwise.ranks import Ranks
from groupwise.training.advantages import Advantages, advantages_of
from groupwise.training.collect import Collected, passes_filter
from groupwise.training.process import process_metrics, with_process_advantages
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.rollout_rows import group_rows
from groupwise.training.step_batch import StepBatch, step_batch
from tests.api.program import OPTIONS
from tests.support.runs import Quiet, assert_same_run, interrupt_at, resume, train

# Of `\boxe` `d{` digit `}` and the token that stops it: spans of the first two and of the digit, or none where it is 9.
DIGITS = """
def digits(text):
    if text[-2] == "9":
        return []
    if text[-2] == "0":
        raise ValueError("nought")
    return [(0, 7, 1.0), (7, 8, int(text[-2]))]


def not_five(text):
    return 1.0 / (int(text[-2]) - 5)
"""


def config_of(folder: Path, **sections: Any) -> TrainConfig:
    (folder / "own.py").write_text(DIGITS)
    function = {"path": f"{folder}/own.py:digits", "returns": "character_spans", "weight": 0.5}
    function |= sections.pop("function", {})
    sections.setdefault("active_sampling", {"filter": "total"})
    return TrainConfig.model_validate({"rewards": {"functions": {"digits": function}}, **sections})


def graded(config: TrainConfig, *answers: str) -> GradedGroup:
    """A group of boxed answers to a problem whose answer is 7."""
    policy = load_policy("bundled")
    problem = Problem("p", (Message("user", "3+4"),), "7")
    completions = []
    for answer in answers:
        ids = [*policy.tokenizer.encode(f"\\boxed{{{answer}}}", add_special_tokens=False), *policy.stop_ids]
        assert len(ids) == 5
        completions.append(Completion(np.array(ids), np.zeros(5, dtype=np.float32), "stop", 0))
    with Grader(config, policy.tokenizer, policy.think_ids) as grader:
        return grader.grade(0, problem, Prompt(np.array([5]), "", False), completions, policy.stop_ids, step=1)


def made_of(groups: Sequence[GradedGroup], config: TrainConfig) -> tuple[StepBatch, Advantages]:
    """The batch with the advantages of its tokens, and the mean of each answer."""
    batch = config.batch.model_copy(update={"samples_per_prompt": len(groups[0].completions) if groups else 2})
    config = config.model_copy(update={"batch": batch})
    advantages_PG = advantages_of(groups, config, Ranks())
    return with_process_advantages(step_batch(groups, advantages_PG, config), groups, advantages_PG, config)


def test_by_hand(tmp_path: Path) -> None:
    """Scores 1 7 and 1 3 have the mean 3 and squares of distances 4 16 4 0; the right answer is ½ above the mean."""
    config = config_of(tmp_path)
    group = graded(config, "7", "3")
    k = group.names_K.index("digits")
    assert [score.spans for score in (row[k] for row in group.scores_GK)] == [
        ((0, 2, 1.0), (2, 3, 7.0)),
        ((0, 2, 1.0), (2, 3, 3.0)),
    ]
    assert group.rewards_GK[:, k].tolist() == [4.0, 2.0]
    assert group.totals_G.tolist() == [1.0, 0.0], "spans are no part of the total"
    batch, means_PG = made_of([group], config)
    scale = 0.5 / (np.sqrt(24 / 3) + 1e-4)
    first = [0.5 + scale * 2, 0.5 + scale * 2, 0.5 + scale * 4, 0.5, 0.5]
    second = [-0.5 - scale * 2, -0.5 - scale * 2, -0.5, -0.5, -0.5]
    assert batch.advantages_N.tolist() == pytest.approx([*first, *second], rel=1e-6)
    assert means_PG.tolist() == [pytest.approx([np.mean(first), np.mean(second)], rel=1e-12)]
    (metric,) = process_metrics(batch, config).values()
    assert metric.value == pytest.approx((np.std(first) + np.std(second)) / 2, rel=1e-6)
    metrics = rollout_metrics(Collected([group], [group], 1), config)
    assert metrics["reward/digits/spans"].value == 2.0
    assert metrics["reward/digits/mean"].value == 3.0
    rows = group_rows(group, means_PG[0].tolist(), {}, True)
    assert rows[0]["spans"] == {"digits": [[0, 2, 1.0], [2, 3, 7.0]]}


def test_the_limit_is_of_the_sum(tmp_path: Path) -> None:
    """An answer of 0.5 and a span of 1.06 times 0.5: the limit of 0.8 is of each token."""
    config = config_of(tmp_path, advantage={"clip": 0.8})
    batch, _ = made_of([graded(config, "7", "3")], config)
    whole, _ = made_of([graded(config, "7", "3")], config_of(tmp_path))
    assert float(whole.advantages_N.abs().max()) > 1.0
    assert batch.advantages_N.tolist() == pytest.approx(whole.advantages_N.clamp(-0.8, 0.8).tolist(), rel=1e-6)


def test_an_answer_that_could_not_be_judged_is_in_no_mean(tmp_path: Path) -> None:
    """Of 7, 3 and one that fails the two others get what they get alone; a failure is no span with a score of 0."""
    config = config_of(tmp_path, function={"on_error": "drop_sample"})
    alone, _ = made_of([graded(config, "7", "3")], config)
    group = graded(config, "7", "0", "3")
    assert group.dropped_G.tolist() == [False, True, False]
    beside, _ = made_of([group], config)
    assert beside.advantages_N[5:10].tolist() == [0.0] * 5
    others = [*beside.advantages_N[:5].tolist(), *beside.advantages_N[10:].tolist()]
    assert others == alone.advantages_N.tolist()
    (failure,) = group.failures()
    assert failure["reason"].startswith("raised: ValueError: nought")


def test_spans_of_an_answer_that_another_reward_could_not_judge_are_in_no_mean(tmp_path: Path) -> None:
    """The spans of 5 were scored, and its other reward failed."""
    other = {"path": f"{tmp_path}/own.py:not_five", "weight": 0.0, "on_error": "drop_sample"}
    plain = config_of(tmp_path)
    rewards = plain.rewards.model_copy(
        update={"functions": plain.rewards.functions | {"other": FunctionOptions.model_validate(other)}}
    )
    config = plain.model_copy(update={"rewards": rewards})
    group = graded(config, "7", "5", "3")
    k = group.names_K.index("digits")
    assert group.dropped_G.tolist() == [False, True, False]
    assert len(group.scores_GK[1][k].spans) == 2
    beside, _ = made_of([group], config)
    alone, _ = made_of([graded(plain, "7", "3")], plain)
    assert beside.advantages_N[5:10].tolist() == [0.0] * 5
    assert [*beside.advantages_N[:5].tolist(), *beside.advantages_N[10:].tolist()] == alone.advantages_N.tolist()
    assert rollout_metrics(Collected([group], [group], 1), config)["reward/digits/mean"].value == 3.0


@pytest.mark.parametrize("estimator", ["opo", "max_rl", {"type": "group", "baseline": "leave_one_out"}])
def test_what_spans_add_is_the_same_with_every_estimator(tmp_path: Path, estimator: Any) -> None:
    plain, other = config_of(tmp_path), config_of(tmp_path, advantage={"estimator": estimator})
    group = graded(plain, "7", "3")
    added = []
    for config in (plain, other):
        sized = config.model_copy(update={"batch": config.batch.model_copy(update={"samples_per_prompt": 2})})
        batch, _ = made_of([group], config)
        added.append(
            batch.advantages_N.double()
            - torch.from_numpy(advantages_of([group], sized, Ranks())[0]).repeat_interleave(5)
        )
    torch.testing.assert_close(added[1], added[0], atol=1e-6, rtol=0)
    assert float(added[0].abs().max()) > 0.5


@pytest.mark.parametrize(
    ("filter_", "answers", "passes"),
    [
        # Both wrong: correctness and total are equal, and the scores of their spans are not.
        ("total", ("2", "3"), True),
        ("any_component", ("2", "3"), True),
        ("correctness", ("2", "3"), False),
        ("correctness", ("7", "3"), True),
        # Nothing differs: a span of 1 twice each, or none.
        ("total", ("1", "1"), False),
        ("total", ("9", "9"), False),
    ],
)
def test_spans_that_differ_are_signal(tmp_path: Path, filter_: str, answers: tuple[str, str], passes: bool) -> None:
    config = config_of(tmp_path, active_sampling={"filter": filter_})
    group = graded(config, *answers)
    assert passes_filter(group, config) == passes
    same_total = group.totals_G[0] == group.totals_G[1]
    metrics = rollout_metrics(Collected([], [group], 1), config)
    assert metrics["groups/zero_std"].value == float(same_total and answers in (("1", "1"), ("9", "9")))


def test_a_weight_of_0_only_measures(tmp_path: Path) -> None:
    config = config_of(tmp_path, function={"weight": 0.0}, active_sampling={"filter": "correctness"})
    group = graded(config, "7", "3")
    assert group.rewards_GK[:, group.names_K.index("digits")].tolist() == [4.0, 2.0]
    batch, _ = made_of([group], config)
    assert batch.advantages_N.tolist() == [0.5] * 5 + [-0.5] * 5
    assert process_metrics(batch, config) == {}


def test_a_rank_without_groups(tmp_path: Path) -> None:
    batch, means = made_of([], config_of(tmp_path))
    assert batch.advantages_N.shape == (0,)
    assert means.shape == (0, 2)
    assert process_metrics(batch, config_of(tmp_path)) == {}


PIECES = [
    "rewards.functions.pieces.path=tests.support.span_rewards:pieces",
    "rewards.functions.pieces.returns=character_spans",
    "active_sampling.filter=total",
    "run.rollouts_every_steps=1",
]


def test_a_run_with_spans_alone_has_the_advantages_of_the_paper(tmp_path: Path) -> None:
    """Without a reward for the answer: each token has what the spans to come have, by the equation."""
    alone = ["rewards.correctness.weight=0", "rewards.format.weight=0", "run.steps=1"]
    assert train(tmp_path / "run", *PIECES, *alone) is not None
    rows = groupwise.open_run(tmp_path / "run").rollouts(1)
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["position"], []).append(row)
    compared = 0
    for group in groups.values():
        scores = [span[2] for row in group for span in row.get("spans", {}).get("pieces", [])]
        mean, deviation = np.mean(scores), np.std(scores, ddof=1) + 1e-4
        for row in group:
            if row["advantage"] is None:
                continue
            spans = row.get("spans", {}).get("pieces", [])
            expected = [
                sum((score - mean) / deviation for _, end, score in spans if end - 1 >= t) for t in range(row["tokens"])
            ]
            assert row["token_advantages"] == pytest.approx(expected, abs=1e-4)
            compared += len(set(row["token_advantages"])) > 2
            if spans and row["finish_reason"] == "stop":
                assert spans[-1][1] == row["tokens"], "the last span has the token that stopped the answer"
    assert compared > 5


class Whole:
    """A function that no worker can load, of all completions of a problem at once."""

    async def __call__(self, ids: list[list[int]], progress: float) -> list[list[tuple[int, int, float]]]:
        return [[(0, len(own), len(own) + progress)] if own else [] for own in ids]


def test_an_object_scores_spans(tmp_path: Path) -> None:
    """One span over the whole answer, scored by its length and the progress of the run, in the batch form."""
    function = {"path": Whole(), "returns": "token_spans", "call": "batch", "weight": 0.5}
    options: dict[str, Any] = {**OPTIONS, "run.steps": 2, "active_sampling.filter": "total"}
    run = groupwise.train(rewards={"whole": function}, output=tmp_path / "run", quiet=True, **options)
    for step, progress in ((1, 0.0), (2, 1.0)):
        trained = 0
        for row in run.rollouts(step):
            ids = row["tokens"] - (row["finish_reason"] == "stop")
            assert row.get("spans", {}).get("whole", []) == ([[0, row["tokens"], ids + progress]] if ids else [])
            # One span that ends with the answer: all tokens have the same.
            if values := row.get("token_advantages"):
                assert len(set(values)) == 1
                trained += 1
        assert trained > 4
        spans = [len(row.get("spans", {})) for row in run.rollouts(step)]
        assert run.metrics["reward/whole/spans"][step - 1] == pytest.approx(np.mean(spans))


@pytest.mark.slow
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert train(whole, *PIECES) is not None
    assert train(stopped, *PIECES, reporter=Quiet(interrupt_at(1))) is None
    assert resume(stopped) is not None
    assert_same_run(stopped, whole)
