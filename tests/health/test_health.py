"""Rules on steps that are made up, one for each, and on logs of real runs; readers of the logs of other trainers."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from groupwise.errors import DataError
from groupwise.health.catalogue import RULES
from groupwise.health.conditions import Context
from groupwise.health.finding import HealthFinding
from groupwise.health.logs import read_steps
from groupwise.health.rules import findings, not_judged
from groupwise.health.steps import StepRow, rows_of
from groupwise.track.metrics import declared
from groupwise.training import health_guard
from tests.support.runs import Quiet, train

LOGS = Path(__file__).parents[3] / "shared" / "data" / "real_grpo_logs"
CONTEXT = Context(vocabulary=512, eval_problems=500)


def healthy(step: int) -> dict[str, Any]:
    """A run that learns: the reward rises to 0.8, the entropy falls from 0.3 to 0.06, with noise."""
    noise = random.Random(step).uniform(-0.05, 0.05)
    progress = min(step / 100, 1.0)
    return {
        "step": step,
        "correctness": 0.2 + 0.6 * progress + noise,
        "components": {"format": 0.5 + 0.5 * progress},
        "entropy": 0.3 - 0.24 * progress + noise / 10,
        "truncated": 0.02,
        "eval_accuracy": 0.2 + 0.6 * progress if step % 25 == 0 else None,
        "all_right": 0.4 * progress,
        "all_wrong": 0.3 * (1 - progress),
        "equal": 0.3,
        "kl_old": 0.001,
        "clipped": 0.01,
        "clipped_low": 0.004,
        "clipped_high": 0.006,
        "engine_gap": 1e-6,
        "grad_norm": 0.1 + noise,
        "advantage_mean": 0.0,
        "advantage_std": 0.4,
        "shares": {"correctness": 0.95, "format": 0.05},
        "length": 25.0,
        "longest": 64.0,
        "repetition": 0.01,
        "answers": 3.0,
        "ungraded": 0.0,
        "agreement": 1.0,
        "ends_trained": 1.0,
        "unknown_ids": 0.0,
        "first_pass": 1e-7,
        "not_finite": 0.0,
    }


def made(steps: int = 160, **changes: Any) -> list[StepRow]:
    """A healthy run in which some numbers are a function of the step."""
    rows = []
    for step in range(1, steps + 1):
        values = healthy(step) | {name: change(step) for name, change in changes.items()}
        rows.append(StepRow(**values))
    return rows


def late(value: Any, name: str, since: int = 81) -> Any:
    """The healthy number before, another from this step on."""
    return lambda step: value if step >= since else healthy(step)[name]


def fired(rows: list[StepRow]) -> dict[str, int]:
    return {one.rule: one.first_step for one in findings(rows, CONTEXT)}


def test_a_healthy_run_has_no_findings() -> None:
    assert fired(made()) == {}


FIRES: list[tuple[str, int, dict[str, Any]]] = [
    # The median of ten is over the limit when the sixth value is: five steps behind the change, or six.
    ("uniform_output", 86, {"entropy": late(6.0, "entropy")}),
    ("entropy_explosion", 86, {"entropy": late(2.0, "entropy")}),
    ("nothing_right", 110, {"correctness": late(0.0, "correctness")}),
    ("all_truncated", 98, {"truncated": late(1.0, "truncated")}),
    ("often_truncated", 86, {"truncated": late(1.0, "truncated")}),
    ("eval_drop", 100, {"eval_accuracy": lambda step: (0.5 if step >= 90 else 0.7) if step % 25 == 0 else None}),
    ("reward_divergence", 96, {"correctness": late(0.05, "correctness")}),
    ("too_easy", 93, {"all_right": late(1.0, "all_right")}),
    ("too_hard", 95, {"all_wrong": late(1.0, "all_wrong")}),
    ("policy_drift", 86, {"kl_old": late(0.2, "kl_old")}),
    ("clipping", 86, {"clipped": late(0.3, "clipped"), "kl_old": late(0.01, "kl_old")}),
    ("engine_gap", 83, {"engine_gap": late(0.1, "engine_gap")}),
    ("no_gradient", 90, {"grad_norm": late(0.0, "grad_norm")}),
    ("gradient_spikes", 103, {"grad_norm": lambda step: 5.0 if step in (83, 93, 103) else 0.1 + step % 3 / 100}),
    ("reward_drop", 98, {"correctness": late(0.05, "correctness")}),
    # The mean of 20 is below 0.4 as soon as 13 of them are 0.1.
    ("reward_dominated", 93, {"shares": late({"correctness": 0.1, "format": 0.9}, "shares")}),
    ("repetition", 86, {"repetition": late(0.9, "repetition")}),
    ("one_answer", 99, {"answers": late(1.0, "answers")}),
    (
        "length_growth",
        88,
        {"length": late(60.0, "length"), "truncated": late(0.3, "truncated"), "correctness": lambda _: 0.5},
    ),
    ("ungraded", 83, {"ungraded": late(0.5, "ungraded")}),
    ("advantages_against_rewards", 84, {"agreement": late(0.0, "agreement")}),
    ("ends_not_trained", 83, {"ends_trained": late(0.0, "ends_trained")}),
    ("unknown_ids", 81, {"unknown_ids": late(0.001, "unknown_ids")}),
    ("first_pass_ratio", 83, {"first_pass": late(0.5, "first_pass")}),
    # The median of 30 lies between the numbers before and behind the change when there are 15 of each.
    ("form_over_task", 95, {"entropy": late(0.6, "entropy"), "correctness": lambda _: 0.5}),
    ("biased_advantages", 87, {"advantage_mean": late(0.25, "advantage_mean")}),
    ("not_finite", 85, {"not_finite": late(1.0, "not_finite")}),
    # 18 of 20 groups are above 0.9 only if nearly all of the 20 steps are: 0.3 + 0.7 · n / 20 > 0.9 from 18 on.
    ("equal_rewards", 98, {"equal": late(1.0, "equal")}),
    # 0.01 + (0.4 - 0.01) · n / 20 > 0.05 from 3 on, and 0.4 · n > 20 · 0.004 · 20 from 4 on.
    ("one_sided_clipping", 84, {"clipped_high": late(0.4, "clipped_high")}),
    ("one_sided_clipping", 84, {"clipped_low": late(0.4, "clipped_low")}),
    # 25 of 64 tokens, then all: (25 / 64) · (1 - n / 10) + n / 10 > 0.9 from 9 on.
    (
        "pressed_into_limit",
        89,
        {"truncated": lambda step: 0.4 if step < 20 else 0.0, "longest": late(25.0, "longest")},
    ),
    ("no_progress", 80, {"correctness": lambda step: 0.3 + random.Random(step).uniform(-0.05, 0.05)}),
    (
        "entropy_collapse",
        81,
        {
            "entropy": lambda step: 0.3 if step < 41 else 0.01,
            "correctness": lambda step: 0.3 + random.Random(step).uniform(-0.05, 0.05),
        },
    ),
]


@pytest.mark.parametrize(("rule", "first", "changes"), FIRES)
def test_each_rule_fires_as_soon_as_it_can(rule: str, first: int, changes: Mapping[str, Any]) -> None:
    found = fired(made(**changes))
    assert rule in found
    assert abs(found[rule] - first) <= 2
    # What is there now was not there before the change.
    assert rule not in fired(made(79, **changes))


def test_every_rule_is_fired_above() -> None:
    assert {rule for rule, _, _ in FIRES} == {rule.name for rule in RULES}


@pytest.mark.parametrize(("rule", "first", "changes"), FIRES)
def test_each_rule_needs_what_it_says(rule: str, first: int, changes: Mapping[str, Any]) -> None:
    """It fires with that alone, and without any of it says that it cannot judge."""
    (needs,) = (one.needs for one in RULES if one.name == rule)
    rows = made(**changes)
    alone = [StepRow(step=row.step, **{name: getattr(row, name) for name in needs}) for row in rows]
    assert abs(fired(alone)[rule] - first) <= 2
    for name in needs:
        absent: dict[str, Any] = {name: {} if name in ("components", "shares") else None}
        without = [replace(row, **absent) for row in rows]
        assert rule not in fired(without)
        assert any(rule in rules for rules in not_judged(without).values())
    assert not any(rule in rules for rules in not_judged(rows).values())


def test_an_entropy_that_falls_while_nothing_is_learned() -> None:
    flat = lambda step: 0.3 + random.Random(step).uniform(-0.05, 0.05)  # noqa: E731
    rows = made(entropy=lambda step: 0.3 if step < 40 else 0.01, correctness=flat)
    assert "entropy_collapse" in fired(rows)
    assert "entropy_collapse" not in fired(made(entropy=lambda step: 0.3 if step < 40 else 0.01))


def test_every_rule_says_what_it_means() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for one in findings(made(entropy=late(6.0, "entropy"), correctness=late(0.0, "correctness")), CONTEXT):
        assert one.evidence
        assert one.meaning
        assert one.last_step == 160
        assert json.loads(json.dumps(one.to_json()))["rule"] == one.rule


def test_clipping_within_narrow_bounds_is_usual() -> None:
    """GSPO clips a ratio that is 0.0003 away from 1: the policy has hardly moved."""
    assert "clipping" not in fired(made(clipped=lambda _: 0.3))


def test_a_form_that_is_learned_together_with_the_task_is_no_finding() -> None:
    """Correctness rises, or nothing becomes random, or there is no other reward."""
    random_late: dict[str, Any] = {"entropy": late(0.6, "entropy")}
    assert "form_over_task" not in fired(made(**random_late))
    assert "form_over_task" not in fired(made(correctness=lambda _: 0.5))
    assert "form_over_task" not in fired(made(**random_late, correctness=lambda _: 0.5, components=lambda _: {}))


def test_a_run_that_stands_still_says_so_after_the_first_30_steps_and_50_more() -> None:
    flat: dict[str, Any] = {"correctness": lambda step: 0.3 + random.Random(step).uniform(-0.05, 0.05)}
    assert fired(made(**flat))["no_progress"] == 80
    # Nothing can be learned from groups of equal answers, which other rules tell.
    assert "no_progress" not in fired(made(**flat, all_right=lambda _: 0.0, all_wrong=lambda _: 0.8))


def test_an_evaluation_is_judged_by_its_own_error() -> None:
    fall: dict[str, Any] = {"eval_accuracy": lambda step: {50: 0.7, 100: 0.5}.get(step)}
    assert fired(made(**fall, eval_error=lambda _: 0.04))["eval_drop"] == 100
    # 0.2 is less than three times √2 · 0.05.
    assert "eval_drop" not in fired(made(**fall, eval_error=lambda _: 0.05))
    # Of 20 problems three errors are 3 · √((0.21 + 0.25) / 20) = 0.45.
    assert "eval_drop" not in fired(made(**fall, eval_count=lambda _: 20))


def test_from_all_to_none_is_a_drop() -> None:
    """Both have a standard error of 0 in the sample."""
    fall: dict[str, Any] = {"eval_accuracy": lambda step: {50: 1.0, 100: 0.0}.get(step), "eval_error": lambda _: 0.0}
    assert fired(made(**fall))["eval_drop"] == 100


def test_a_weight_of_0_for_correctness_is_a_choice() -> None:
    shares = {"correctness": 0.0, "own": 1.0}
    assert "reward_dominated" not in fired(made(shares=lambda _: shares))


def test_what_a_run_of_groupwise_writes_is_read() -> None:
    line = {
        "step": 3, "reward/correctness/mean": 0.5, "reward/correctness/variance_fraction": 0.9,
        "reward/mine/variance_fraction": 0.1, "completion/tokens": 20.0, "completion/repetition": 0.1,
        "groups/unique_answers": 2.5, "completion/ungraded_fraction": 0.25, "advantage/reward_correlation": 0.99,
        "policy/trained_end_fraction": 1.0, "completion/unknown_id_fraction": 0.0,
        "policy/first_pass_ratio_deviation": 1e-7, "eval/sampled/accuracy": 0.4, "eval/sampled/problems": 64,
        "eval/sampled/standard_error": 0.05,
    }  # fmt: skip
    assert set(line) - {"reward/mine/variance_fraction"} <= {name for name in line if declared(name)}
    (row,) = rows_of([line], "log")
    assert row.shares == {"correctness": 0.9, "mine": 0.1}
    assert (row.length, row.repetition, row.answers, row.ungraded) == (20.0, 0.1, 2.5, 0.25)
    assert (row.agreement, row.ends_trained, row.unknown_ids, row.first_pass) == (0.99, 1.0, 0.0, 1e-7)
    assert (row.eval_accuracy, row.eval_count, row.eval_error) == (0.4, 64, 0.05)


def test_gaps_in_a_log_are_no_shorter_windows() -> None:
    """Ten steps are ten steps, however many of them a log has."""
    rows = [row for row in made(entropy=late(2.0, "entropy")) if row.step % 2 == 0]
    assert abs(fired(rows)["entropy_explosion"] - 86) <= 2


@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs are not here")
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("7_3_plus_tracking_metrics.csv", {"entropy_explosion": 239, "eval_drop": 450, "reward_drop": 252}),
        ("7_4_plus_clip_ratio_metrics.csv", {}),
        (
            "7_6_plus_format_reward_metrics.csv",
            # The best measurement is that of step 50: it is stopped 53 steps behind it.
            {
                "form_over_task": 103,
                "eval_drop": 149,
                "entropy_explosion": 159,
                "reward_drop": 168,
                "reward_divergence": 180,
            },
        ),
    ],
)
def test_real_runs(file: str, expected: dict[str, int]) -> None:
    found = findings(read_steps(LOGS / file), Context())
    assert {one.rule: one.first_step for one in found} == expected
    assert [one.rule for one in found if one.severity != "critical"] == ["reward_drop"] * ("reward_drop" in expected)


def test_logs_of_other_trainers(tmp_path: Path) -> None:
    trl = {"step": 7, "reward": 1.1, "rewards/accuracy_reward/mean": 0.6, "rewards/format_reward/mean": 0.5,
           "entropy": 0.4, "completions/clipped_ratio": 0.25, "grad_norm": 0.3}  # fmt: skip
    state = tmp_path / "trainer_state.json"
    state.write_text(json.dumps({"global_step": 7, "log_history": [trl, {"step": 7, "eval_accuracy": 0.5}]}))
    (row,) = read_steps(state)
    assert (row.correctness, row.components, row.truncated) == (0.6, {"format_reward": 0.5}, 0.25)
    console = tmp_path / "verl.log"
    console.write_text(
        "(TaskRunner) some words\n"
        "step:3 - actor/entropy:0.21 - critic/score/mean:0.5 - response_length/clip_ratio:0.1 - actor/ppo_kl:-1.5e-05\n"
        "step:4 - actor/entropy:0.2 - critic/score/mean:0.55 - response_length/clip_ratio:0.0 - actor/ppo_kl:2e-4\n"
    )
    first, second = read_steps(console)
    assert (first.step, first.entropy, first.correctness, first.kl_old) == (3, 0.21, 0.5, -1.5e-05)
    assert (second.step, second.truncated) == (4, 0.0)
    lines = tmp_path / "verl.jsonl"
    lines.write_text(json.dumps({"step": 2, "data": {"critic/score/mean": 0.3}}) + "\n" + '{"step": 3, "da')
    assert [(row.step, row.correctness) for row in read_steps(lines)] == [(2, 0.3)]
    table = tmp_path / "log.csv"
    table.write_text("step,reward_avg,format_reward_avg,eval_acc\n1,1.25,0.5,46.2\n1,,,\n2,1.0,0.25,\n")
    one, two = read_steps(table)
    assert (one.correctness, one.eval_accuracy, two.correctness) == (0.75, 0.462, 0.75)


@pytest.mark.parametrize("text", ["", "hello\n", "a,b\n1,2\n", '{"step": 1, "lr": 0.1}\n', "[1, 2]"])
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log"
    file.write_text(text)
    with pytest.raises(DataError, match="has no steps with a reward"):
        read_steps(file)
    with pytest.raises(DataError, match="is neither the folder of a run"):
        read_steps(tmp_path / "nowhere")


def test_steps_that_stand_there_twice_count_once() -> None:
    rows = rows_of([{"step": 2, "reward": 0.1}, {"step": 1, "reward": 0.2}, {"step": 2, "reward": 0.3}], "log")
    assert [(row.step, row.correctness) for row in rows] == [(1, 0.2), (2, 0.3)]


def test_a_long_run_is_asked_about_every_hundredth_of_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def noted(rows: Sequence[StepRow], _: Context) -> list[HealthFinding]:
        asked.extend(row.step for row in rows[-1:])
        return []

    monkeypatch.setattr(health_guard, "findings", noted)
    health = health_guard.Health(tmp_path, 0, CONTEXT)
    for step in range(1, 2001):
        assert list(health.after({"step": step, "reward/correctness/mean": 0.5})) == []
    assert asked[:101] == [*range(5, 501, 5), 505]
    # Rounded up to the next multiple of five.
    assert all(max(5, last // 100) <= now - last < max(5, last // 100) + 5 for last, now in pairwise(asked))
    assert asked[-1] - asked[-2] == 20
    assert health.found == []


@pytest.mark.slow
def test_a_run_that_is_cut_off_says_so_and_stops(tmp_path: Path) -> None:
    broken = ["demo", "run.steps=40", "problems.eval_problems=0", "sampling.max_new_tokens=3"]
    shown: list[Sequence[str]] = []

    class Told(Quiet):
        def health(self, found: Sequence[str]) -> None:
            shown.append(found)

    told = Told()
    with pytest.raises(Exception, match="all_truncated"):
        train(tmp_path / "run", options=[*broken, "guards.health=stop", "guards.steps_without_update=0"], reporter=told)
    assert max(row.step for row in read_steps(tmp_path / "run")) == 20
    # Asked at the steps 5, 10, 15 and 20.
    assert len(shown) >= 4
    assert shown[0] == []
    assert shown[-1][0] == "critical all_truncated from step 20"
