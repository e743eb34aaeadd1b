"""BAPO (2510.18927): bounds, scores, steps, loss and gradient of fourteen tokens by hand, and where the search ends."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates.bapo import Bapo
from tests.objective.five_answers import ADVANTAGES, OLD, close, inputs_of, loss_of_step, part_of, step_of

KINDS = ("clipped", "gradient")
PRINTED = {"contributions": "clipped"}
PAPER = {**PRINTED, "weighted_by_old": True}
CODE = {**PRINTED, "balance": "odds", "order": "low_first", "low_end": 0.8, "low_step": 0.05, "high_end": 2.0}

# Options, bounds, score, steps of the search, loss.
GOLDEN: list[tuple[dict[str, Any], tuple[float, float], float, int, float]] = [
    (PAPER, (0.6, 1.2), 0.563141, 0, 0.237748),
    ({**PAPER, "target": 0.567}, (0.6, 1.4), 0.567827, 4, 0.221081),
    ({**PRINTED, "target": 0.355}, (0.6, 1.3), 0.355534, 2, 0.229415),
    ({**PRINTED, "balance": "printed", "target": 1.2}, (0.6, 1.3), 1.23051, 2, 0.229415),
    (PRINTED, (0.9, 3.0), 0.357433, 51, 0.235875),
    ({}, (0.9, 3.0), 0.39307, 51, 0.235875),
    ({**CODE, "target": 1.0}, (0.8, 2.0), 0.565117, 20, 0.227541),
    ({**CODE, "target": 0.545}, (0.8, 1.35), 0.547495, 7, 0.236762),
]

# -A·r/14, 0 where clipped.
WIDENED = [-0.0553254, -0.0352771, 0, -0.0500605, 0.0873642, 0.0151816, 0.0185429, 0.262457, 0.0263136]
WIDENED += [-0.0332998, 0, 0, 0.0368019, 0.0436215]
AT_THE_ENDS = [-0.0553254, -0.0352771, -0.0710393, -0.0500605, 0.0873642, 0, 0, 0.262457, 0.0263136]
AT_THE_ENDS += [-0.0332998, -0.050681, 0, 0.0368019, 0.0436215]


@pytest.mark.parametrize(("options", "bounds", "score", "steps", "loss"), GOLDEN)
def test_golden(options: dict[str, Any], bounds: tuple[float, float], score: float, steps: int, loss: float) -> None:
    bapo = Bapo(**options)
    values = bapo.of_step(step_of())
    assert values.values_N.tolist() == [list(bounds)] * len(OLD)
    assert bapo.searched(step_of())[0] == steps
    after = values.metrics["policy/bapo_share_after"].value
    assert isinstance(after, float)
    close(bapo.balance_of(after, 1 - after), score)
    assert [values.metrics[f"policy/bapo_{name}"].value for name in ("low", "high", "steps")] == [*bounds, steps]
    close(loss_of_step(bapo, step_of())[0], loss)


@pytest.mark.parametrize(
    ("options", "expected"), [({**PAPER, "target": 0.567}, WIDENED), (PRINTED, AT_THE_ENDS), ({}, AT_THE_ENDS)]
)
def test_gradient_golden(options: dict[str, Any], expected: list[float]) -> None:
    close(loss_of_step(Bapo(**options), step_of())[1], expected)


@pytest.mark.parametrize(
    ("options", "at_start", "at_ends"),
    [
        (PRINTED, (3.83548, 7.16395), (4.13956, 7.44181)),
        ({}, (2.43548, 6.86395), (4.13956, 6.39181)),
        ({"weighted_by_old": True, **PRINTED}, (1.47148, 1.14151), None),
    ],
)
def test_what_good_and_bad_tokens_weigh(
    options: dict[str, Any], at_start: tuple[float, float], at_ends: tuple[float, float] | None
) -> None:
    steps, (before, after) = Bapo(**options, target=10.0).searched(step_of())
    assert steps == 51
    close(torch.tensor(before), at_start[0] / sum(at_start))
    if at_ends:
        close(torch.tensor(after), at_ends[0] / sum(at_ends))


def test_steps_are_counted() -> None:
    """Adding 0.02 up in floats stops at 0.88; a last step that is too long is cut."""
    assert [Bapo().bounds_after(steps) for steps in (0, 36, 37, 51)] == [
        (0.6, 1.2),
        (0.6, 3.0),
        (0.62, 3.0),
        (0.9, 3.0),
    ]
    uneven = Bapo(low_step=0.2, high_step=1.0, order="low_first")
    assert [uneven.bounds_after(n) for n in range(5)] == [(0.6, 1.2), (0.8, 1.2), (0.9, 1.2), (0.9, 2.2), (0.9, 3.0)]
    assert Bapo(low_start=0.9, high_end=1.2).bounds_after(0) == (0.9, 1.2)


GOOD, BAD = part_of(step_of(), 0, 3), part_of(step_of(), 1, 2, 4)
NOTHING, SILENT = part_of(step_of()), replace(step_of(), advantages_N=torch.zeros(14))


@pytest.mark.parametrize("balance", ["share", "odds", "printed"])
@pytest.mark.parametrize("contributions", ["gradient", "clipped"])
@pytest.mark.parametrize(
    ("step", "steps", "share"), [(GOOD, 0, 1.0), (BAD, 51, 0.0), (NOTHING, 0, None), (SILENT, 0, None)]
)
def test_steps_of_one_sign_or_none(
    step: StepTokens, steps: int, share: float | None, contributions: Any, balance: Any
) -> None:
    bapo = Bapo(contributions=contributions, balance=balance)
    values = bapo.of_step(step)
    assert values.values_N.shape == (len(step.log_ratio_N), 2)
    assert bapo.searched(step) == (steps, (share, share))
    assert ("policy/bapo_share_after" in values.metrics) == (share is not None)


def test_tokens_without_an_advantage_count_nowhere() -> None:
    weightless = replace(step_of(), advantages_N=ADVANTAGES.clone().index_fill(0, torch.tensor([4, 5]), 0.0))
    without = part_of(step_of(), 0, 2, 3, 4)
    assert Bapo().searched(weightless) == Bapo().searched(without)


def share_of(**options: Any) -> float:
    """P/(P+Q) after the search."""
    share = Bapo(**options).searched(step_of())[1][1]
    assert share is not None
    return share


def test_raising_the_lower_bound_never_helps_a_clipped_sum() -> None:
    """It runs away from the target, and towards it where clipped tokens do not count."""
    clipped, gradient = (
        [share_of(contributions=kind, low_end=end, target=10.0) for end in (0.6, 0.7, 0.9)] for kind in KINDS
    )
    assert clipped == sorted(clipped, reverse=True)
    assert gradient == sorted(gradient)
    assert gradient[0] < gradient[2]
    assert clipped[0] > clipped[2]


def test_equal_targets_are_one_test() -> None:
    for share in (0.2, 0.25, 0.3, 1 / 3):
        targets = {"share": share, "odds": share / (1 - share), "printed": share / (1 - 2 * share)}
        options = [{"balance": balance, "target": target} for balance, target in targets.items()]
        assert len({Bapo.model_validate(of).searched(step_of()) for of in options}) == 1
    # Above 1 the printed form is low again where good tokens are many.
    assert Bapo(balance="printed").balance_of(10.0, 1.0) < 1.2 < Bapo(balance="odds").balance_of(10.0, 1.0)


def test_a_dual_clip_bounds_bad_tokens_and_takes_them_out_of_the_balance() -> None:
    # Tokens 4 and 7 are bad and have ratios of 3.7 and 11.
    bapo = Bapo(dual_clip=3.0)
    steps, (share, _) = bapo.searched(step_of())
    assert steps == 0
    close(torch.tensor(share), 2.43548 / (2.43548 + 6.86395 - (3.6693 + 11.0232) / 3))
    fixed_N = loss_of_step(Bapo(low_end=0.6, high_end=1.2), step_of())[1]
    gradient_N = loss_of_step(bapo, step_of())[1]
    assert gradient_N.ne(fixed_N).nonzero().flatten().tolist() == [4, 7]
    assert gradient_N[[4, 7]].tolist() == [0.0, 0.0]


def test_bounds_of_the_step_are_needed() -> None:
    with pytest.raises(ValueError, match="needs step_N"):
        Bapo().loss(inputs_of(OLD))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, []),
        ({"low_start": 0.95}, [("error", "objective.surrogate.low_start")]),
        ({"high_end": 1.1}, [("error", "objective.surrogate.high_start")]),
        ({"low_end": 1.1}, [("error", "objective.surrogate.low_end")]),
        ({"high_start": 0.9}, [("error", "objective.surrogate.high_start")]),
        ({"target": 1.0}, [("error", "objective.surrogate.target")]),
        ({"target": 1.0, "balance": "odds"}, []),
        ({"dual_clip": 0.9}, [("error", "objective.surrogate.dual_clip")]),
        (PRINTED, [("warning", "objective.surrogate.contributions")]),
        ({**PRINTED, "low_end": 0.6}, []),
    ],
)
def test_findings(options: dict[str, Any], found: list[tuple[str, str]]) -> None:
    config = TrainConfig.model_validate({"objective": {"surrogate": {"type": "bapo", **options}}})
    assert [(finding.level, finding.keys[0]) for finding in contradictions(config)] == found
