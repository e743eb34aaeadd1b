"""Logs of other trainers in the shapes that these write: cut off, resumed, on other scales, under other names."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from groupwise.cli import app
from groupwise.errors import DataError
from groupwise.health.catalogue import RULES
from groupwise.health.conditions import Context
from groupwise.health.logs import read_steps
from groupwise.health.rules import findings, not_judged
from groupwise.health.steps import StepRow, rows_of

ESC = "\x1b"


def trl(step: int, right: float, **more: Any) -> dict[str, Any]:
    """An entry of GRPOTrainer's log_history; the weight of the format is 0.5."""
    return {
        "clip_ratio/high_max": 0.02, "clip_ratio/high_mean": 0.004, "clip_ratio/low_mean": 0.002,
        "clip_ratio/low_min": 0.0, "clip_ratio/region_mean": 0.006, "completions/clipped_ratio": 0.01,
        "completions/max_length": 900.0, "completions/mean_length": 300.0, "completions/min_length": 40.0,
        "entropy": 0.4, "epoch": step / 100, "frac_reward_zero_std": 0.25, "grad_norm": 0.3, "learning_rate": 1e-6,
        "loss": 0.01, "num_tokens": 1e5, "reward": right + 0.4, "reward_std": 0.5,
        "rewards/format_reward/mean": 0.8, "rewards/format_reward/std": 0.1, "rewards/math_reward/mean": right,
        "rewards/math_reward/std": 0.4, "sampling/sampling_logp_difference/mean": 0.002, "step": step,
        **more,
    }  # fmt: skip


def state(*entries: Mapping[str, Any]) -> str:
    return json.dumps({"best_metric": None, "global_step": 5, "log_history": entries, "max_steps": 10}, indent=2)


def read(folder: Path, text: str, name: str = "log") -> list[StepRow]:
    (folder / name).write_text(text)
    return read_steps(folder / name)


def correct(rows: list[StepRow]) -> dict[int, float | None]:
    return {row.step: None if row.correctness is None else round(row.correctness, 6) for row in rows}


def test_trl(tmp_path: Path) -> None:
    entries = [trl(1, 0.25), trl(2, 0.5), {"eval_rewards/accuracy_reward/mean": 0.5, "eval_loss": 0.1, "step": 2},
               {"step": 2, "train_runtime": 9.5, "train_loss": 0.02}]  # fmt: skip
    one, two = read(tmp_path, state(*entries))
    # The name says which part of the reward is the task, whatever its weight in the sum.
    assert (one.correctness, one.components, one.entropy, one.truncated) == (0.25, {"format_reward": 0.8}, 0.4, 0.01)
    assert (one.clipped, one.clipped_low, one.clipped_high, one.equal) == (0.006, 0.002, 0.004, 0.25)
    assert (one.length, one.longest, one.engine_gap, one.not_finite) == (300.0, 900.0, 0.002, 0.0)
    assert two.eval_accuracy == 0.5


def test_trl_with_one_reward_of_any_name(tmp_path: Path) -> None:
    """What the parts leave of the sum would be 0, and no answer right."""
    entries = [{"step": step, "reward": 0.5, "rewards/my_function/mean": 0.5, "loss": 0.0} for step in range(1, 41)]
    rows = read(tmp_path, state(*entries))
    assert rows[0].correctness == 0.5
    assert rows[0].components == {}
    assert findings(rows, Context()) == []


def test_a_state_that_is_cut_off(tmp_path: Path) -> None:
    whole = state(trl(1, 0.25), trl(2, 0.5), trl(3, 0.75))
    cut = whole[: whole.rindex('"entropy"')]
    assert correct(read(tmp_path, cut)) == {1: 0.25, 2: 0.5}


def test_what_transformers_prints_has_no_steps(tmp_path: Path) -> None:
    entries = [{name: value for name, value in trl(step, step / 10).items() if name != "step"} for step in (1, 2)]
    entries[1]["grad_norm"] = math.nan
    text = "\n".join(f"  5%|▌  | 5/100 [00:23<05:51]\n{entry}\n" for entry in entries)
    assert correct(read(tmp_path, text)) == {1: 0.1, 2: 0.2}


def printed(step: int, **numbers: Any) -> str:
    """As verl prints a step under Ray."""
    parts = {"global_seqlen/min": 1024, **numbers}
    said = " - ".join([f"step:{step}", *(f"{name}:{value}" for name, value in parts.items())])
    return f"{ESC}[36m(TaskRunner pid=4071){ESC}[0m {said}"


def test_what_verl_prints(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        "\n".join(
            [
                "(TaskRunner pid=4071) Training Progress:   1%|  | 1/100",
                printed(0, **{"val-core/openai/gsm8k/reward/mean@1": "np.float64(0.25)", "val-aux/x/mean@1": "0.9"}),
                printed(1, **{"actor/entropy": "np.float32(0.21)", "critic/score/mean": 0.5, "critic/score/min": 0.0,
                              "actor/pg_clipfrac": "1.5e-05", "actor/ppo_kl": "-2e-06", "actor/grad_norm": "nan",
                              "response_length/clip_ratio": 0.125, "response_length/max": 512}),
                printed(2, **{"actor/lr": 1e-6, "critic/score/mean": 0.6, "actor/entropy": "np.float32(0.2"}),
            ]
        ),
    )  # fmt: skip
    assert [row.step for row in rows] == [0, 1, 2]
    assert rows[0].eval_accuracy == 0.25
    assert (rows[1].entropy, rows[1].clipped, rows[1].kl_old, rows[1].truncated) == (0.21, 1.5e-5, -2e-6, 0.125)
    assert (rows[1].grad_norm, rows[1].not_finite) == (None, 1.0)
    # The number that was not written to its end is none.
    assert (rows[2].entropy, rows[2].correctness) == (None, 0.6)


def test_a_score_of_minus_1_for_a_wrong_answer_is_a_fraction_of_right_ones(tmp_path: Path) -> None:
    """As DAPO's: a mean of -0.5 is a quarter right, and far from none."""
    lines = [
        {"step": step, "data": {"critic/score/mean": -0.5, "critic/score/min": -1, "critic/score/max": 1,
                                "val-core/aime/acc/mean@32": 0.1, "val-core/aime/reward/mean@32": -0.8}}
        for step in range(1, 41)
    ]  # fmt: skip
    rows = read(tmp_path, "\n".join(map(json.dumps, lines)) + '\n{"step": 41, "data": {"cri')
    assert set(correct(rows).values()) == {0.25}
    assert rows[0].eval_accuracy == 0.1
    assert findings(rows, Context()) == []
    none_right = [{"step": step, "critic/score/mean": -1.0} for step in range(1, 41)]
    assert [one.rule for one in findings(rows_of(none_right, "log"), Context())] == ["nothing_right"]


def test_percent(tmp_path: Path) -> None:
    """A series is percent or is not: 0.8 among greater ones is 0.8 %."""
    text = "step,accuracy,entropy,eval_acc\n1,50.0,0.3,0.8\n2,25.0,0.3,46.2\n"
    rows = read(tmp_path, text)
    assert [row.eval_accuracy for row in rows] == pytest.approx([0.008, 0.462])
    assert [row.correctness for row in rows] == [1.0, 0.5]


def test_prime_rl(tmp_path: Path) -> None:
    """Orchestrator and trainer write lines of their own; rewards are of environments."""
    lines = [
        {"step": 0, "reward/all/mean": 0.25, "reward/math/mean": 0.25, "reward/code/mean": 0.1, "solve_none/all": 0.5,
         "solve_all/all": 0.125, "is_truncated/all/mean": 0.05, "decode_len/all/mean": 200.0,
         "decode_len/all/max": 400.0, "metrics/math/correct_answer": 0.2, "metrics/math/num_turns": 3.0},
        {"step": 0, "loss/mean": 0.1, "entropy/mean": 0.4, "mismatch_kl/mean": 0.001, "optim/grad_norm": 0.2},
        {"step": 0, "eval/aime/avg@8": 0.5, "eval/math500/avg@1": 0.7},
    ]  # fmt: skip
    (row,) = read(tmp_path, "\n".join(map(json.dumps, lines)))
    assert (row.correctness, row.components) == (0.2, {})
    assert (row.all_wrong, row.all_right, row.truncated, row.length, row.longest) == (0.5, 0.125, 0.05, 200.0, 400.0)
    assert (row.entropy, row.engine_gap, row.grad_norm) == (0.4, 0.001, 0.2)
    assert row.eval_accuracy == pytest.approx(0.6)


def test_counts_of_groups_are_shares_where_all_kinds_are_counted() -> None:
    whole = {"step": 1, "reward": 0.5, "batch/solve_all": 4, "batch/solve_none": 10, "batch/solve_partial": 6}
    (row,) = rows_of([whole], "log")
    assert (row.all_right, row.all_wrong) == (0.2, 0.5)
    (row,) = rows_of([{name: value for name, value in whole.items() if "partial" not in name}], "log")
    assert (row.all_right, row.all_wrong) == (None, None)


def test_exports_of_wandb(tmp_path: Path) -> None:
    """Of a chart, with the run's name and extremes in the head; and of the whole history by its API."""
    head = '"Step","my run-7 - train/reward","my run-7 - train/reward__MIN","my run-7 - train/reward__MAX"'
    assert correct(read(tmp_path, f'{head}\n"1","0.25","0.25","0.25"\n"2","","",""\n"3","0.5","0.5","0.5"\n')) == {
        1: 0.25,
        2: None,
        3: 0.5,
    }
    history = [
        {"_step": 0, "train/global_step": 10, "train/reward": 0.5, "train/rewards/accuracy_reward/mean": 0.25},
        {"_step": 1, "train/global_step": 10, "train/reward": None, "eval/rewards/accuracy_reward/mean": 0.75},
        {"_step": 2, "train/global_step": 20, "train/reward": "NaN", "train/rewards/accuracy_reward/mean": 0.5},
    ]
    for text in (json.dumps(history), "\n".join(map(json.dumps, history))):
        rows = read(tmp_path, text)
        assert correct(rows) == {10: 0.25, 20: 0.5}
        assert rows[0].eval_accuracy == 0.75
    with pytest.raises(DataError, match="columns of several runs, a, b: leave those of one"):
        read(tmp_path, "Step,a - reward,b - reward\n1,0.5,0.6\n")


def test_ranks_and_empty_cells_and_lines_too_long_or_cut_off(tmp_path: Path) -> None:
    assert correct(read(tmp_path, "step,rank0/reward,note\n1,0.25,\n2,,nothing\n3,0.5,a,b,c\n4,0.")) == {
        1: 0.25,
        2: None,
        3: 0.5,
    }
    assert correct(read(tmp_path, "\ufeffstep;reward\n1;0.25\n2;inf\n")) == {1: 0.25, 2: None}


def test_steps_that_were_done_again_count_as_they_were_done_last(tmp_path: Path) -> None:
    """What the abandoned steps after the resumption measured is of no run."""
    first = [{"step": step, "reward": 0.1, "entropy": 0.9} for step in range(1, 11)]
    again = [{"step": step, "reward": 0.8} for step in range(6, 9)]
    rows = read(tmp_path, "\n".join(map(json.dumps, [*first, *again])))
    assert correct(rows) == dict.fromkeys(range(1, 6), 0.1) | dict.fromkeys(range(6, 9), 0.8)
    assert [row.entropy for row in rows] == [0.9] * 5 + [None] * 3
    # The newest first is an order too, and no run that is resumed again and again.
    assert correct(read(tmp_path, "\n".join(map(json.dumps, first[::-1])))) == dict.fromkeys(range(1, 11), 0.1)


def test_a_log_of_every_tenth_step_is_judged(tmp_path: Path) -> None:
    def lines(right: float) -> Iterator[dict[str, Any]]:
        for step in range(10, 401, 10):
            yield trl(step, right if step > 200 else 0.6, entropy=0.4 if step <= 200 else 6.0)

    found = {one.rule: one.first_step for one in findings(read(tmp_path, state(*lines(0.0))), Context())}
    # A line is the mean of its ten steps: one is a window of ten, three are one of thirty.
    assert found["entropy_explosion"] == 210
    assert found["nothing_right"] == 230
    assert found["reward_drop"] == 220


def test_not_finite(tmp_path: Path) -> None:
    entries = [trl(step, 0.5, grad_norm=math.nan if step > 20 else 0.3) for step in range(1, 41)]
    found = {one.rule: one.first_step for one in findings(read(tmp_path, state(*entries)), Context())}
    assert found == {"not_finite": 25}


def test_what_a_log_does_not_let_be_judged_is_said(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("step,accuracy\n" + "".join(f"{step},0.{5 + step % 2}\n" for step in range(1, 41)))
    lacking = not_judged(read_steps(file))
    judged = {rule.name for rule in RULES} - {name for names in lacking.values() for name in names}
    assert judged == {"nothing_right", "reward_drop"}
    assert lacking["no entropy"] == ["uniform_output", "entropy_explosion", "entropy_collapse"]
    asked = CliRunner().invoke(app, ["diagnose", str(file)])
    assert asked.exit_code == 0
    assert "not judged: uniform_output, entropy_explosion, entropy_collapse (no entropy); " in asked.stdout
    assert asked.stdout.endswith("40 steps, no findings\n")
    assert json.loads(CliRunner().invoke(app, ["diagnose", str(file), "--json"]).stdout)["not_judged"] == lacking
    few = not_judged([StepRow(step=step, correctness=0.5) for step in range(1, 6)])
    assert few["fewer than 30 steps"] == ["nothing_right", "reward_drop"]
    once = not_judged(
        [StepRow(step=step, correctness=0.5, eval_accuracy=0.5 if step == 3 else None) for step in (1, 2, 3)]
    )
    assert once["only one held-out accuracy"] == ["eval_drop"]


@pytest.mark.slow
def test_event_files_of_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    def written(steps: range, right: float) -> None:
        writer = SummaryWriter(str(tmp_path / "runs"))
        for step in steps:
            writer.add_scalar("train/reward", right + 0.25, step)
            writer.add_scalar("train/rewards/accuracy_reward/mean", right, step)
        writer.close()

    written(range(1, 6), 0.25)
    (first,) = (tmp_path / "runs").iterdir()
    first.rename(first.with_name(first.name.replace("events.out.tfevents.", "events.out.tfevents.0")))
    written(range(4, 5), 0.5)
    assert correct(read_steps(tmp_path)) == {1: 0.25, 2: 0.25, 3: 0.25, 4: 0.5}
    assert read_steps(next((tmp_path / "runs").iterdir()))
