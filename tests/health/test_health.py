"""Rules on steps that are made up, one for each, and on logs of real runs; readers of the logs of other trainers."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from groupwise.errors import DataError
from groupwise.health.conditions import Context
from groupwise.health.rules import RULES, findings
from groupwise.health.steps import StepRow, read_steps, rows_of
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
        "kl_old": 0.001,
        "clipped": 0.01,
        "engine_gap": 1e-6,
        "grad_norm": 0.1 + noise,
        "advantage_mean": 0.0,
        "advantage_std": 0.4,
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


@pytest.mark.parametrize(
    ("rule", "first", "changes"),
    [
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
        ("clipping", 86, {"clipped": late(0.3, "clipped")}),
        ("engine_gap", 83, {"engine_gap": late(0.1, "engine_gap")}),
        ("no_gradient", 90, {"grad_norm": late(0.0, "grad_norm")}),
        ("gradient_spikes", 103, {"grad_norm": lambda step: 5.0 if step in (83, 93, 103) else 0.1 + step % 3 / 100}),
        ("biased_advantages", 87, {"advantage_mean": late(0.25, "advantage_mean")}),
    ],
)
def test_each_rule_fires_as_soon_as_it_can(rule: str, first: int, changes: Mapping[str, Any]) -> None:
    found = fired(made(**changes))
    assert rule in found
    assert abs(found[rule] - first) <= 2
    # What is there now was not there before the change.
    assert rule not in fired(made(80, **changes))


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


def test_gaps_in_a_log_are_no_shorter_windows() -> None:
    """Ten steps are ten steps, however many of them a log has."""
    rows = [row for row in made(entropy=late(2.0, "entropy")) if row.step % 2 == 0]
    assert abs(fired(rows)["entropy_explosion"] - 86) <= 2


@pytest.mark.skipif(not LOGS.is_dir(), reason="the logs are not here")
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("7_3_plus_tracking_metrics.csv", {"entropy_explosion": 239, "eval_drop": 450}),
        ("7_4_plus_clip_ratio_metrics.csv", {}),
        (
            "7_6_plus_format_reward_metrics.csv",
            {"eval_drop": 149, "entropy_explosion": 159, "reward_divergence": 180},
        ),
    ],
)
def test_real_runs(file: str, expected: dict[str, int]) -> None:
    found = findings(read_steps(LOGS / file), Context())
    assert {one.rule: one.first_step for one in found} == expected
    assert {one.severity for one in found} <= {"critical"}


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


@pytest.mark.slow
def test_a_run_that_is_cut_off_says_so_and_stops(tmp_path: Path) -> None:
    broken = ["demo", "run.steps=40", "problems.eval_problems=0", "sampling.max_new_tokens=3"]
    told = Quiet()
    with pytest.raises(Exception, match="all_truncated"):
        train(tmp_path / "run", options=[*broken, "guards.health=stop", "guards.steps_without_update=0"], reporter=told)
    assert max(row.step for row in read_steps(tmp_path / "run")) == 20
