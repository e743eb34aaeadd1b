"""Runs with code of the user's own: the weights are those of the built-in; its metrics; what happens when it fails."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import groupwise
from groupwise.errors import DataError, UsageError
from groupwise.own_code import OwnCodeError
from tests.support.commands import groupwise as command
from tests.support.commands import tree
from tests.support.runs import Quiet, assert_same_run, interrupt_at, metrics, model_files, resume, train

OWN_CISPO = str(Path("examples/own_cispo.py").resolve())
CISPO = ["objective.surrogate={type: cispo, cap: 1.02}"]
OWN = [f"objective.surrogate={{type: function, path: '{OWN_CISPO}:own_cispo', options: {{cap: 1.02}}}}"]
STALE = ["batch.epochs_per_step=2"]
PLAIN = "def mine(inputs):\n    return -inputs.ratio_N * inputs.advantages_N\n"
# The checks, the plan and the try-out of memory call it as well as steps.
FAILS = """
import os

def mine(inputs):
    print("noise")
    if os.path.exists("fail"):
        raise ZeroDivisionError("a fault of the code")
    return -inputs.ratio_N * inputs.advantages_N
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own(code: str, file: str = "my_loss.py") -> str:
    Path(file).write_text(code, encoding="utf-8")
    return f"objective.surrogate={{type: function, path: '{file}:mine'}}"


def test_own_cispo_trains_the_weights_of_cispo(folder: Path) -> None:
    train(folder / "ours", *CISPO, *STALE)
    train(folder / "own", *OWN, *STALE)
    assert model_files(folder / "own") == model_files(folder / "ours")
    assert tree(folder / "own" / "rollouts") == tree(folder / "ours" / "rollouts")
    lines = metrics(folder / "own")
    weights = [line.pop("policy/own/weight") for line in lines]
    assert lines == metrics(folder / "ours")
    assert any(line["policy/clip_fraction_high_positive"] > 0 for line in lines)
    assert all(0.9 < weight < 1.02 for weight in weights)


def test_an_interrupted_run_resumes_to_the_same(folder: Path) -> None:
    train(folder / "whole", *OWN, *STALE)
    train(folder / "cut", *OWN, *STALE, reporter=Quiet(interrupt_at(2)))
    reporter = Quiet()
    resume(folder / "cut", reporter=reporter)
    assert_same_run(folder / "cut", folder / "whole")
    assert not any("changed since" in note for note in reporter.notes)
    (sha256,) = json.loads((folder / "cut" / "context.json").read_text())["own_code"].values()
    assert len(sha256) == 64


def test_a_failure_names_step_and_code_and_leaves_the_checkpoint(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(step: int) -> None:
        if step == 3:
            Path("fail").touch()

    with pytest.raises(OwnCodeError) as caught:
        train(folder / "run", own(FAILS), reporter=Quiet(fail))
    text = str(caught.value)
    assert text.startswith("surrogate my_loss.py:mine failed: ZeroDivisionError: a fault of the code (")
    assert "my_loss.py:7)" in text
    assert caught.value.__notes__ == [
        "The run stopped in step 4 of 4, at micro-batch 1 of 1; step 3 is saved. Fix the cause and resume: "
        f"groupwise train --resume {folder / 'run'}, with --allow-change rewards if that changes a reward function"
    ]
    assert sorted(path.name for path in (folder / "run" / "checkpoints").iterdir()) == ["step_000002", "step_000003"]
    printed = capfd.readouterr()
    assert "noise" not in printed.out
    assert "noise" in printed.err
    Path("fail").unlink()
    own(FAILS + "# mended\n")
    reporter = Quiet()
    with pytest.raises(DataError, match=r"objective\.surrogate: the source of my_loss.py:mine"):
        resume(folder / "run")
    assert resume(folder / "run", reporter=reporter, allowed=["objective.surrogate"])["steps"] == 4
    (note,) = (note for note in reporter.notes if "changed since the run began" in note)
    assert "my_loss.py:mine (sha256 " in note


def test_wrong_shapes_are_found_in_training_too(folder: Path) -> None:
    """A function that behaves in the checks."""
    code = PLAIN.replace("return ", "x = ") + "    return x.sum() if __import__('os').path.exists('fail') else x\n"
    with pytest.raises(OwnCodeError, match=r"returned loss_N of shape \(\); expected one number for each token"):
        train(folder / "run", own(code), reporter=Quiet(lambda _: Path("fail").touch()))


def test_nothing_is_loaded_for_code_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    setting = own("def mine(inputs):\n    return (inputs.ratio_N * inputs.advantages_N).mean()\n")
    for arguments in (["train"], ["train", "--dry-run"], ["explain"]):
        ended = command(capsys, *arguments, "model.path=nowhere", setting)
        assert ended.code == 2
        assert "on a small batch it returned loss_N of shape ()" in " ".join((ended.out + ended.err).split())
    assert not Path("runs").exists()


def test_an_estimator_and_a_mask_of_ones_own(folder: Path) -> None:
    Path("own.py").write_text(
        "def centred(rewards_PG):\n    return rewards_PG - rewards_PG.mean(-1, keepdim=True)\n\n\n"
        "def good(inputs):\n    return inputs.advantages_N >= 0\n",
        encoding="utf-8",
    )
    train(folder / "ours")
    train(folder / "own", "advantage.estimator={type: function, path: own.py:centred}")
    assert model_files(folder / "own") == model_files(folder / "ours")
    train(folder / "masked", "off_policy_mask={type: function, path: own.py:good}")
    for line in metrics(folder / "masked"):
        assert 0 <= line["policy/off_policy_masked_fraction"] < 1
    assert any(line["policy/off_policy_masked_fraction"] > 0 for line in metrics(folder / "masked"))
    assert model_files(folder / "masked") != model_files(folder / "ours")


def test_a_run_from_objects() -> None:
    def mine(inputs: groupwise.SurrogateInputs, times: float = 1.0) -> Any:
        return -times * inputs.ratio_N * inputs.advantages_N

    options: dict[str, Any] = {"run.steps": 2, "problems.eval_problems": 0, "batch.prompts_per_step": 2}
    run = groupwise.train("demo", objective={"surrogate": mine}, output="run", quiet=True, **options)
    assert "path: object:mine" in (run.folder / "config.yaml").read_text()
    again = groupwise.resume("run", objective={"surrogate": mine}, quiet=True, run={"steps": 3})
    assert [line["step"] for line in metrics(again.folder)] == [1, 2, 3]

    def other(inputs: groupwise.SurrogateInputs) -> Any:
        return -inputs.ratio_N * inputs.advantages_N

    with pytest.raises(UsageError, match="a resumed run keeps its configuration"):
        groupwise.resume("run", objective={"surrogate": other}, quiet=True)
