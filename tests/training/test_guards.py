"""What is broken is said at once, and stops the run where going on cannot help: one test for each kind."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from groupwise.errors import BrokenRunError, DataError
from groupwise.model.size import model_folder
from groupwise.training import loop, update
from groupwise.training.run import compose_and_start, resume_run
from tests.support.commands import groupwise as command
from tests.support.runs import Quiet, metrics, resume, train

TINY = [
    "demo", "run.threads=1", "problems.eval_problems=0", "batch.prompts_per_step=4", "batch.samples_per_prompt=4",
    "sampling.max_new_tokens=32", "run.checkpoint_every_steps=1", "run.steps=12", "optimizer.warmup_steps=0",
]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def broken(output: Path, *more: str, options: list[str] = TINY) -> tuple[BrokenRunError, list[str]]:
    """The error that stops a run, and what was said before."""
    reporter = Quiet()
    with pytest.raises(BrokenRunError) as caught:
        train(output, *more, options=options, reporter=reporter)
    return caught.value, warnings(reporter)


def warnings(reporter: Quiet) -> list[str]:
    """What was said to be wrong, but for what is wrong with the options."""
    return [note for note in reporter.notes if note.startswith(("warning: step", "warning: reward function"))]


def checkpoints(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def tensors_in(run: Path) -> dict[str, Tensor]:
    return {
        f"{file.parent.name}/{file.name}/{name}": tensor
        for file in run.rglob("*.safetensors")
        if file.name != "failed_step.safetensors"
        for name, tensor in load_file(file).items()
    }


# N1: weights


def test_n1_a_rate_that_makes_weights_infinite_stops_in_its_step(folder: Path) -> None:
    error, _ = broken(folder / "run", "optimizer.lr=1e38")
    assert error.exit_code == 4
    text = str(error)
    assert text.startswith("step 1 of 12: weights are not finite after the update: model.embed_tokens.weight (")
    assert "of 46 tensors" in text
    assert "No checkpoint was made before" in text
    assert "optimizer.lr=1e+38 is too high" in text
    assert checkpoints(folder / "run") == []
    assert not (folder / "run" / "model").exists()
    # What the message says to do.
    assert f"--resume {folder / 'run'} --allow-change optimizer.lr optimizer.lr=RATE" in text
    summary = resume_run(str(folder / "run"), ["optimizer.lr=1e-3", "run.steps=2"], Quiet(), ["optimizer.lr"])
    assert summary is not None
    assert summary["steps"] == 2


def test_n1_a_rate_that_destroys_the_model_is_said_and_stops(folder: Path) -> None:
    error, notes = broken(folder / "run", "optimizer.lr=1000")
    assert notes[0].startswith("warning: step 1 made the weights ")
    assert "optimizer.lr=1000 is too high" in notes[0]
    text = str(error)
    assert text.startswith(
        "3 steps in a row without an update. Of the last one's 16 groups 0 were admitted and 0 failed"
    )
    assert "Before that, step 1 made the weights" in text
    assert "stopped after step 4 of 12, which is in a checkpoint" in text
    assert checkpoints(folder / "run")[-1] == "step_000004"
    assert all(bool(tensor.isfinite().all()) for tensor in tensors_in(folder / "run").values())


def poisoned_update(at_step: int, value: float) -> Callable[..., Any]:
    """The update of one step leaves a weight at this value."""
    own = update.update

    def poisoning(policy: Any, reference: Any, optimizer: Any, batch: Any, number: int, *more: Any) -> Any:
        updated = own(policy, reference, optimizer, batch, number, *more)
        if number == at_step:
            with torch.no_grad():
                policy.model.model.norm.weight[3] = value
        return updated

    return poisoning


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_never_enter_a_checkpoint(
    value: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "update", poisoned_update(3, value))
    error, _ = broken(folder / "run")
    kind = "NaN" if math.isnan(value) else "infinite"
    assert f"model.norm.weight (1 of 96 values, {kind}) of 1 tensors" in str(error)
    assert str(folder / "run" / "checkpoints" / "step_000002") in str(error)
    assert checkpoints(folder / "run")[-1] == "step_000002"
    assert all(bool(tensor.isfinite().all()) for tensor in tensors_in(folder / "run").values())
    assert [line["step"] for line in metrics(folder / "run")] == [1, 2]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert resume(folder / "run", "run.steps=4")["steps"] == 4


def test_the_batch_of_a_failed_step_is_left_to_look_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    own = poisoned_update(2, math.nan)

    def noted(*given: Any) -> Any:
        seen.append(given[3])
        return own(*given)

    monkeypatch.setattr(loop, "update", noted)
    error, _ = broken(folder / "run")
    file = folder / "run" / "failed_step.safetensors"
    assert f"Its batch is in {file}." in str(error)
    found, batch = load_file(file), seen[-1]
    ids = torch.from_numpy(np.concatenate(batch.token_ids_B))
    assert torch.equal(found["token_ids_B"], ids)
    assert found["token_ids_B/lengths"].tolist() == [len(part) for part in batch.token_ids_B]
    assert torch.equal(found["prompt_ids_P"], torch.from_numpy(np.concatenate(batch.prompt_ids_P)))
    for name in ("advantages_N", "sampler_logps_N", "rewards_E", "group_E", "trained_E"):
        assert torch.equal(found[name], getattr(batch, name)), name
    with safe_open(file, "pt") as opened:
        header = opened.metadata()
    assert header["step"] == "2"
    assert header["reason"].startswith("weights are not finite")
    assert len(header["problems"].split()) >= 4


def test_weights_that_are_finite_and_give_no_numbers_stop_the_next_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such weights pass the norm, and their products do not: the checkpoint has them, and is not named."""

    def huge(policy: Any, *given: Any) -> Any:
        updated = own(policy, *given)
        if given[3] == 2:
            with torch.no_grad():
                layer = policy.model.model.layers[0]
                layer.post_attention_layernorm.weight.mul_(1e17)
                layer.mlp.gate_proj.weight.mul_(1e4)
                layer.mlp.up_proj.weight.mul_(1e4)
        return updated

    own = update.update
    monkeypatch.setattr(loop, "update", huge)
    error, _ = broken(folder / "run")
    text = str(error)
    assert text.startswith("step 3 of 12: ")
    assert "log-probabilities of the engine are not finite although every weight is finite" in text
    assert str(folder / "run" / "checkpoints" / "step_000001") in text
    logps = load_file(folder / "run" / "failed_step.safetensors")["sampler_logps_N"]
    assert len(logps) > 0
    assert not bool(logps.isfinite().all())


@pytest.mark.parametrize("what", ["rewards", "advantages"])
def test_rewards_and_advantages_that_are_not_finite_stop_before_the_update(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from groupwise.training.step_batch import step_batch

    def poisoned(*given: Any) -> Any:
        batch = step_batch(*given)
        (batch.rewards_E if what == "rewards" else batch.advantages_N)[0] = math.inf
        return batch

    monkeypatch.setattr(loop, "step_batch", poisoned)
    error, _ = broken(folder / "run")
    assert "step 1 of 12: 1 of " in str(error)
    assert f"{what} are not finite" in str(error)
    assert checkpoints(folder / "run") == []


# Updates that are skipped


def poisoned_gradients(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """The gradient of these optimizer steps, counted from 1, is not finite."""
    own, count = update.accumulate_gradient, iter(range(1, 1000))

    def poisoning(policy: Any, *given: Any) -> Any:
        measured = own(policy, *given)
        if next(count) in steps:
            policy.model.model.norm.weight.grad[0] = math.nan
        return measured

    monkeypatch.setattr(update, "accumulate_gradient", poisoning)


def test_skipped_updates_are_said_and_stop_the_run_after_several_in_a_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two updates in a step: one is skipped alone, and then three in a row.
    poisoned_gradients(monkeypatch, {2, 6, 7, 8})
    error, notes = broken(folder / "run")
    why = "the gradient is not finite: model.norm.weight (1 of 96 values, NaN)"
    assert notes == [f"warning: step {step}: an update is skipped: {why}" for step in (1, 3)]
    assert str(error).startswith(f"3 updates in a row are skipped: {why}.\nThe run stopped after step 4 of 12")
    assert "guards.skipped_updates=0" in str(error)
    assert [line["optimizer/skipped_fraction"] for line in metrics(folder / "run")] == [0.5, 0.0, 0.5, 1.0]
    assert checkpoints(folder / "run")[-1] == "step_000004"
    assert all(bool(tensor.isfinite().all()) for tensor in tensors_in(folder / "run").values())


def test_skipped_updates_are_told_only_where_that_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned_gradients(monkeypatch, set(range(1, 9)))
    reporter = Quiet()
    train(folder / "run", "run.steps=4", "guards.skipped_updates=0", options=TINY, reporter=reporter)
    assert sum("an update is skipped" in note for note in reporter.notes) == 1


# N3, N4: rewards


def function(code: str, path: str = "mine.py") -> list[str]:
    Path(path).write_text(code, encoding="utf-8")
    return [f"rewards.functions.mine.path={path}:mine"]


LONGER_FAIL = """
def mine(text):
    if len(text) > 15 and "So it is" not in text:
        raise ValueError("too long for me")
    return len(text)
"""


def test_n3_a_reward_that_fails_for_most_answers_is_said_and_stops(folder: Path) -> None:
    error, notes = broken(folder / "run", *function(LONGER_FAIL))
    assert notes[0].startswith("warning: step 1: the reward 'mine' could not judge ")
    assert "too long for me" in notes[0]
    text = str(error)
    assert text.startswith("the reward 'mine' could not judge ")
    assert "answers, in 3 steps in a row; for example " in text
    assert "guards.steps_of_failing_reward=0" in text
    assert error.exit_code == 4
    assert checkpoints(folder / "run")[-1] == "step_000003"
    failures = (folder / "run" / "failures.jsonl").read_text().splitlines()
    assert {json.loads(line)["step"] for line in failures} == {1, 2, 3}


def test_n3_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, "train", *TINY, *function(LONGER_FAIL), "run.output=run")
    assert ended.code == 4
    assert ended.err.startswith("error: the reward 'mine' could not judge ")


def test_a_reward_that_fails_for_some_answers_goes_on(folder: Path) -> None:
    rarely = "def mine(text):\n    if text.count('7') > 1:\n        raise ValueError\n    return float(len(text))\n"
    reporter = Quiet()
    rewards = [*function(rarely), "rewards.functions.mine.on_error=drop_sample"]
    train(folder / "run", *rewards, "run.steps=4", options=TINY, reporter=reporter)
    failed = [line["grading/mine/failed"] for line in metrics(folder / "run")]
    assert sum(failed) > 0
    assert not any("could not judge" in note for note in reporter.notes)


WRONG_COLUMN = "def mine(row):\n    return float(bool(row.get('answers')))\n"


def test_n4_a_column_that_is_not_there_is_said_before_training(folder: Path) -> None:
    reporter = Quiet()
    train(folder / "run", *function(WRONG_COLUMN), "run.steps=4", options=TINY, reporter=reporter)
    found = warnings(reporter)
    assert found[0] == (
        "warning: reward function mine (mine.py:mine) reads row['answers'] (did you mean 'answer'?), which no problem "
        "has; they have answer, domain, id, question"
    )
    assert "the reward 'mine' gave 0 to all " in found[1]
    assert len(found) == 2


def test_n4_a_constant_reward_stops_where_that_is_asked_for(folder: Path) -> None:
    constant = "def mine(text):\n    return 0.25\n"
    error, _ = broken(folder / "run", *function(constant), "guards.constant_reward=stop")
    assert str(error).startswith("the reward 'mine' gave 0.25 to all ")


# N6, and steps without an update

HOPELESS = "def mine(text):\n    return 0.0\n"
JUDGES = ["rewards.correctness.grader=mine", "rewards.correctness.math.answer=marked", "rewards.format.weight=0"]


def test_n6_what_was_sampled_is_measured_without_signal_too(folder: Path) -> None:
    """−log p of all answers, by the rollouts' own tokens; where nothing is filtered it lies near the entropy."""
    rewards = [*function(HOPELESS), *JUDGES]
    train(folder / "none", *rewards, "run.steps=2", options=TINY)
    for line in metrics(folder / "none"):
        assert line["optimizer/updates"] == 0
        assert "policy/entropy" not in line
        assert line["completion/neg_logp"] > 0.1
        assert line["optimizer/weight_norm"] > 1
    train(folder / "all", "run.steps=2", "active_sampling.filter=none", "kl.coefficient=1e-6", options=TINY)
    for line in metrics(folder / "all"):
        assert line["completion/neg_logp"] == pytest.approx(line["policy/entropy"], rel=0.25)


def test_steps_without_an_update_are_said_and_stop_the_run(folder: Path) -> None:
    rewards = [*function(HOPELESS), *JUDGES]
    error, notes = broken(folder / "run", *rewards, "guards.steps_without_update=5", "batch.prompts_per_step=2")
    assert "guards.steps_without_update=0 to be told only" in str(error)
    assert any(note.startswith("warning: step 3: 3 steps in a row without an update") for note in notes)
    assert str(error).startswith("5 steps in a row without an update. Of the last one's 8 groups 0 were admitted")
    assert "100 % are all wrong" in str(error)
    # The guards are no part of what a step computes.
    assert resume(folder / "run", "guards.steps_without_update=0", "run.steps=9")["steps"] == 9
    reporter = Quiet()
    train(
        folder / "told", *rewards, "guards.steps_without_update=0", "run.steps=11", "batch.prompts_per_step=2",
        options=TINY, reporter=reporter,
    )  # fmt: skip
    assert sum("without an update" in note for note in reporter.notes) == 1


# Engine and trainer


def other_weights(monkeypatch: pytest.MonkeyPatch, at: int, factor: float) -> None:
    """The trainer scores with other weights than the engine sampled with in one step."""
    own = update.update

    def shifted(policy: Any, reference: Any, optimizer: Any, batch: Any, number: int, *more: Any) -> Any:
        if number == at:
            with torch.no_grad():
                policy.model.model.norm.weight.mul_(factor)
        return own(policy, reference, optimizer, batch, number, *more)

    monkeypatch.setattr(loop, "update", shifted)


def test_an_engine_that_disagrees_in_float32_stops_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_weights(monkeypatch, 2, 1.01)
    error, _ = broken(folder / "run")
    assert "step 2 of 12: engine and trainer disagree with the same weights: by 0." in str(error)
    assert "at most 0.001 is expected" in str(error)
    assert checkpoints(folder / "run") == ["step_000001"]
    # The token that is named is where the difference is the largest.
    words = str(error).split("at token ")[1].split()
    token, length, prompt = int(words[0]), int(words[5]), int(words[11].rstrip(";"))
    batch = load_file(folder / "run" / "failed_step.safetensors")
    assert length in batch["lengths_E"].tolist()
    assert 0 <= token < length
    assert prompt in batch["prompt_ids_P/lengths"].tolist()


def test_an_engine_that_disagrees_is_told_only_where_that_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_weights(monkeypatch, 2, 1.01)
    reporter = Quiet()
    train(folder / "run", "guards.engine_gap=warn", "run.steps=3", options=TINY, reporter=reporter)
    (note,) = (note for note in reporter.notes if "disagree" in note)
    assert note.startswith("warning: step 2: engine and trainer disagree")


def test_in_bfloat16_the_gap_of_the_start_is_the_measure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reduced = ["model.compute_dtype=bfloat16", "run.steps=3"]
    train(folder / "sound", *reduced, options=TINY)
    gaps = [line["engine/logp_gap_mean"] for line in metrics(folder / "sound")]
    assert all(1e-4 < gap < 0.1 for gap in gaps)
    other_weights(monkeypatch, 2, 1.5)
    error, _ = broken(folder / "run", *reduced)
    assert "on average" in str(error)
    assert "10 times that of the start" in str(error)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    error, _ = broken(folder / "strict", *reduced, "guards.engine_gap_factor=0.01")
    assert str(error).startswith("step 1 of 3: engine and trainer disagree")


# N5: at the start


def test_n5_a_damaged_model_is_named_as_such(folder: Path) -> None:
    shutil.copytree(model_folder("bundled"), folder / "damaged")
    file = folder / "damaged" / "model.safetensors"
    tensors = load_file(file)
    name = sorted(tensors)[-1]
    tensors[name].view(-1)[:2] = math.nan
    file.unlink()
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(DataError) as caught:
        compose_and_start([*TINY, "model.path=damaged"], True, Quiet())
    assert f"weights are not finite: {name} (2 of {tensors[name].numel()} values, NaN)" in str(caught.value)
    assert "architecture" not in str(caught.value)
