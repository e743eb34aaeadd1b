"""What is measured of completions as such, by hand, and however they are divided over ranks."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from groupwise.completion import Completion, FinishReason
from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.records import Verdict
from groupwise.model.load import Policy
from groupwise.ranks import Ranks
from groupwise.training.advantages import reward_agreement
from groupwise.training.completion_metrics import completion_metrics, repetition
from groupwise.training.loop import over_ranks
from groupwise.training.rollout_metrics import reward_metrics
from groupwise.training.step_batch import step_batch
from groupwise.training.update import Updated
from groupwise.training.update_metrics import end_metrics
from tests.support.fakes import Pay, fake_sampler
from tests.training.test_collect import FAILED, RIGHT, WRONG, config_of

NOTHING = Updated({}, np.empty(0, dtype=np.float32))
POLICY = cast(Policy, SimpleNamespace(stop_ids=(9,), vocabulary=100))


def completion(*ids: int, reason: FinishReason = "stop") -> Completion:
    return Completion(np.array(ids), np.full(len(ids), -1.0, np.float32), reason, 0)


def group_of(position: int, pay: list[Pay], *completions: Completion, answers: tuple[str, ...] = ()) -> GradedGroup:
    sampler = fake_sampler(config_of(samples=len(pay)), lambda _: pay)
    (group,) = sampler.groups([position], 1)
    verdicts = tuple(Verdict("wrong" if answer else "no_answer", 0.0, answer) for answer in answers)
    return replace(group, completions=completions, verdicts_G=verdicts or group.verdicts_G)


GROUPS = [
    group_of(
        0, [RIGHT, WRONG], completion(1, 2, 3, 9), completion(5, 5, 5, 5, 5, 5, reason="length"), answers=("7", "")
    ),
    # A text ended the first, and the second has an id without a token.
    group_of(1, [WRONG, RIGHT], completion(1, 2), completion(100, 1, 9), answers=("8", "8")),
]


def test_by_hand() -> None:
    values = over_ranks(
        [completion_metrics(GROUPS, POLICY), reward_metrics(GROUPS, config_of())], NOTHING, Ranks(), GROUPS
    )
    lengths = np.array([4, 6, 2, 3])
    expected = {
        "completion/stop_id_fraction": 2 / 4,
        "completion/ungraded_fraction": 0.0,
        "completion/unknown_id_fraction": 1 / 15,
        # Of two completions of four tokens or more, one run that is new, and three of which two are not.
        "completion/repetition": (0 + 2 / 3) / 2,
        "groups/unique_answers": (2 + 1) / 2,
        "completion/tokens_right": (4 + 3) / 2,
        "completion/tokens_wrong": (6 + 2) / 2,
        "completion/tokens_p10": 2 + 0.3,
        "completion/tokens_p50": 3.5,
        "completion/tokens_p90": 4 + 0.7 * 2,
        "completion/tokens_max": 6.0,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert values["completion/tokens_p90"] == pytest.approx(np.quantile(lengths, 0.9))


def test_the_division_over_ranks_changes_nothing() -> None:
    parts = [
        part
        for own in (GROUPS[:1], GROUPS[1:], [])
        for part in (completion_metrics(own, POLICY), reward_metrics(own, config_of()))
    ]
    whole = [completion_metrics(GROUPS, POLICY), reward_metrics(GROUPS, config_of())]
    assert over_ranks(parts, NOTHING, Ranks()) == pytest.approx(over_ranks(whole, NOTHING, Ranks()), rel=1e-12)


def test_completions_that_a_reward_failed_on_are_counted() -> None:
    group = group_of(0, [RIGHT, FAILED], completion(1, 9), completion(2, 9))
    assert completion_metrics([group], POLICY)["completion/ungraded_fraction"].value == 0.5
    assert completion_metrics([], POLICY) == {}


def test_repetition_is_what_counting_finds() -> None:
    drawn = np.random.default_rng(0)
    ids_B = [drawn.integers(0, 3, size=size) for size in (3, 4, 5, 40, 400)]
    expected = []
    for ids in ids_B[1:]:
        runs = [tuple(ids[at : at + 4]) for at in range(len(ids) - 3)]
        expected.append(1 - len(set(runs)) / len(runs))
    assert repetition(ids_B).tolist() == pytest.approx(expected)
    assert repetition([np.array([1, 2, 3])]).size == 0


@pytest.mark.parametrize(("order", "expected"), [((0, 1, 2, 3), 1.0), ((3, 2, 1, 0), -1.0)])
def test_advantages_are_compared_with_rewards(order: tuple[int, ...], expected: float) -> None:
    group = group_of(0, [(1.0, 0.5), (1.0, 0.0), (0.0, 0.5), (0.0, 0.0)], *(completion(1, 9) for _ in range(4)))
    centred = group.totals_G - group.totals_G.mean()
    batch = step_batch([group], 3 * centred[list(order)][None], config_of(samples=4))
    values = over_ranks([reward_agreement(batch)], NOTHING, Ranks())
    # Totals of 1.1, 1, 0.1, 0 in reverse order are their mean minus themselves.
    assert values == {"advantage/reward_correlation": pytest.approx(expected)}


def test_ends_without_a_weight_are_counted() -> None:
    batch = step_batch(GROUPS, np.ones((2, 2)), config_of())
    weights_N = torch.ones(15)
    assert end_metrics(batch, weights_N, (9,))["policy/trained_end_fraction"].value == 1.0
    # The last token of the first completion.
    weights_N[3] = 0
    found = end_metrics(batch, weights_N, (9,))["policy/trained_end_fraction"]
    assert (float(found.value), found.weight) == (0.5, 2)
    assert end_metrics(batch, weights_N, (77,))["policy/trained_end_fraction"].weight == 0
