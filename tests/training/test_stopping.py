"""Runs that are stopped, or fail, in every phase of a step: the last complete step is saved, and resumed from."""

import errno
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from groupwise.errors import MemoryLimitError
from groupwise.evaluation import measure
from groupwise.grading.grader import Grader
from groupwise.model.decoder import Decoder
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.training import leaving, loop, streams, update
from groupwise.training import run as training_run
from tests.support.commands import SMALL
from tests.support.runs import Quiet, assert_same_run, metrics, resume, train

# An evaluation after steps 2 and 4; old log-probabilities take a pass of their own; four updates in a step.
ONCE = [
    *SMALL,
    "run.steps=3",
    "sampling.max_new_tokens=12",
    "problems.eval_every_steps=2",
    "problems.eval_problems=3",
    "run.checkpoint_every_steps=0",
]
OFTEN = [*ONCE, "batch.epochs_per_step=2", "batch.minibatches_per_step=2"]
STEPS = 3
KINDS = {"once": ONCE, "often": OFTEN}

# A function that is called in the phase, once or more.
PHASES: dict[str, tuple[Any, str]] = {
    "sampling": (Decoder, "step"),
    "grading": (Grader, "result"),
    "a training pass": (update, "policy_loss"),
    "the update": (torch.optim.AdamW, "step"),
    "handing over weights": (InProcessEngine, "load_weights"),
    "metrics": (loop, "over_ranks"),
    "the evaluation": (measure, "measure"),
    "records": (loop, "write"),
    "the checkpoint": (leaving, "save_checkpoint"),
}


@pytest.fixture(scope="module", params=list(KINDS))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """The options of a run, and the run that nothing disturbed."""
    run = tmp_path_factory.mktemp(request.param) / "run"
    train(run, options=KINDS[request.param])
    return KINDS[request.param], run


def at(
    patch: pytest.MonkeyPatch, phase: str, act: Callable[[], None], step: int = 2, call: int = 1, after: bool = False
) -> None:
    """Do something at a call of a phase in a step, before it or behind it."""
    owner, name = PHASES[phase]
    original, calls, current = getattr(owner, name), 0, 0
    collected = loop.collected_groups

    def begun(run: Any) -> Any:
        nonlocal current
        current = run.state.step + 1
        return collected(run)

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += current == step
        is_now = current == step and calls == call
        if is_now and not after:
            act()
        result = original(*arguments, **named)
        if is_now and after:
            act()
        return result

    patch.setattr(loop, "collected_groups", begun)
    patch.setattr(owner, name, called)


def press(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def fail(error: BaseException) -> None:
    raise error


def saved(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "the checkpoint"])
def test_a_signal_in_any_phase(
    whole: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    options, expected = whole
    run, reporter = tmp_path / "run", Quiet()
    # The second update of four, the second group, the second way to measure.
    several = (
        "sampling",
        "grading",
        "the evaluation",
        *(("a training pass", "the update") if options is OFTEN else ()),
    )
    call = 2 if phase in several else 1
    with monkeypatch.context() as patch:
        at(patch, phase, press, call=call)
        began = time.monotonic()
        assert train(run, options=options, reporter=reporter) is None
    assert time.monotonic() - began < 60
    # Between several updates the step is thrown away; from the last micro-batch of the only one on it is finished.
    is_finished = phase in ("handing over weights", "metrics", "the evaluation", "records")
    step = 2 if is_finished or (phase in ("a training pass", "the update") and options is ONCE) else 1
    assert saved(run) == [f"step_{step:06d}"]
    assert f"stopped after step {step} of {STEPS} (SIGTERM); resume it with: groupwise train" in reporter.notes[-1]
    # Where it is left before its evaluation, the line of the step is still to come.
    assert len(metrics(run)) == (2 if phase == "records" else 1)
    resume(run)
    assert_same_run(run, expected)


@pytest.mark.parametrize("phase", list(PHASES))
def test_a_second_signal_saves_nothing(
    whole: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    options, expected = whole
    run, reporter = tmp_path / "run", Quiet()

    def press_twice() -> None:
        press()
        press()

    with monkeypatch.context() as patch:
        at(patch, phase, press_twice, step=STEPS if phase == "the checkpoint" else 2)
        assert train(run, "run.checkpoint_every_steps=1", options=options, reporter=reporter) is None
    newest = 2 if phase == "the checkpoint" else 1
    assert saved(run)[-1] == f"step_{newest:06d}"
    assert f"stopped after step {newest} of {STEPS} (SIGTERM)" in reporter.notes[-1]
    resume(run)
    assert_same_run(run, expected)


@pytest.mark.parametrize("phase", list(PHASES))
def test_an_error_in_any_phase(
    whole: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """Where the weights have moved and the step is not complete, the checkpoint before it stays the newest."""
    options, expected = whole
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        at(patch, phase, partial(fail, ZeroDivisionError("a fault")), step=STEPS if phase == "the checkpoint" else 2)
        with pytest.raises(ZeroDivisionError) as caught:
            train(run, options=options)
    (note,) = (note for note in caught.value.__notes__ if "The run stopped" in note)
    assert f"groupwise train --resume {run}" in note
    moved = phase in ("handing over weights", "metrics") or phase == "the update"
    if phase == "the evaluation":
        expected_names, step = ["step_000002"], 2
    elif phase == "the checkpoint":
        expected_names, step = ["step_000003"], 3
    elif phase == "records" or (moved and options is ONCE):
        expected_names, step = [], 2
    else:
        expected_names, step = ["step_000001"], 2
    assert saved(run) == expected_names
    assert ("the newest checkpoint is an earlier one" in note) == (expected_names == [])
    if phase != "the checkpoint":
        assert f"in step {step} of {STEPS}" in note or phase in ("the evaluation", "records")
    resume(run)
    assert_same_run(run, expected)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(leaving, "save_checkpoint", lambda *_: fail(full))
    with pytest.raises(OSError, match="No space left") as caught:
        train(run)
    assert [note.split(";")[0] for note in caught.value.__notes__] == [
        "Step 2 could not be saved.",
        "The run stopped in step 2 of 4, at its end",
    ]
    assert saved(run) == []


def out_of_memory() -> None:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to")


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["a training pass", "the update"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_smaller_micro_batches_where_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, phase: str
) -> None:
    """From the first step on it is the run with micro-batches of half the size, to the last bit."""
    options = [*KINDS[kind], "batch.micro_batch_tokens=200"]
    if phase == "the update" and kind == "once":
        at(monkeypatch, phase, out_of_memory, step=1)
        with pytest.raises(MemoryLimitError, match="nothing can be divided further"):
            train(tmp_path / "run", options=options)
        return
    reporter = Quiet()
    with monkeypatch.context() as patch:
        at(patch, phase, out_of_memory, step=1, call=1 if kind == "once" else 2)
        assert train(tmp_path / "run", options=options, reporter=reporter) is not None
    train(tmp_path / "half", "batch.micro_batch_tokens=100", options=options)
    assert [note for note in reporter.notes if "out of memory" in note] == [
        "out of memory: micro-batches of 100 tokens from now on, were 200 ([enforce fail at alloc_cpu.cpp] "
        "DefaultCPUAllocator: can't allocate memory: you tried to)"
    ]
    assert {line["optimizer/micro_batch_tokens"] for line in metrics(tmp_path / "run")} == {100}
    assert_same_run(tmp_path / "run", tmp_path / "half")


def test_the_smaller_size_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, reporter = [*ONCE, "batch.micro_batch_tokens=200"], Quiet()
    with monkeypatch.context() as patch:
        at(patch, "a training pass", out_of_memory, step=2)
        at(patch, "sampling", press, step=3)
        assert train(tmp_path / "run", options=options, reporter=reporter) is None
    resume(tmp_path / "run")
    sizes = [line["optimizer/micro_batch_tokens"] for line in metrics(tmp_path / "run")]
    assert sizes == [200, 100, 100]


@pytest.mark.parametrize("phase", ["sampling", "the evaluation"])
def test_fewer_answers_at_once_where_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    reporter = Quiet()
    with monkeypatch.context() as patch:
        at(patch, phase, out_of_memory, call=2)
        assert train(tmp_path / "run", "engine.batch_sequences=8", options=ONCE, reporter=reporter) is not None
    (note,) = (note for note in reporter.notes if "out of memory" in note)
    assert note.startswith("out of memory: 4 answers at once are sampled from now on")
    assert len(metrics(tmp_path / "run")) == 3


def test_one_answer_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(streams, "score", lambda *_: out_of_memory())
        patch.setattr(update, "score", lambda *_: out_of_memory())
        with pytest.raises(MemoryLimitError, match=r"Try batch\.activation_checkpointing=true"):
            train(run)
    assert saved(run) == ["step_000000"]
    with monkeypatch.context() as patch:
        patch.setattr(loop, "collect", lambda *_: out_of_memory())
        with pytest.raises(MemoryLimitError, match="while one answer was sampled"):
            resume(run)
    assert resume(run) is not None


def test_stop_after(tmp_path: Path) -> None:
    reporter = Quiet(lambda _: time.sleep(0.6))
    assert train(tmp_path / "run", "run.stop_after=2s", "run.steps=40", reporter=reporter) is None
    done = len(metrics(tmp_path / "run"))
    assert 1 <= done < 5
    assert f"stopped after step {done} of 40 (run.stop_after=2s); resume it with" in reporter.notes[-1]
    assert saved(tmp_path / "run")[-1] == f"step_{done:06d}"
    assert not (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
def test_stop_after_in_the_middle_of_a_step(
    whole: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, expected = whole
    with monkeypatch.context() as patch:
        at(patch, "sampling", lambda: time.sleep(8), step=2)
        assert train(tmp_path / "run", "run.stop_after=8s", options=options) is None
    assert saved(tmp_path / "run") == ["step_000001"]
    resume(tmp_path / "run", "run.stop_after=")
    assert_same_run(tmp_path / "run", expected)


def test_a_signal_in_the_last_measurement(
    whole: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, expected = whole
    measured, calls = measure.measure_all, 0

    def pressing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            press()
        return measured(*arguments)

    reporter = Quiet()
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "measure_all", pressing)
        assert train(tmp_path / "run", options=options, reporter=reporter) is None
    assert "stopped after step 3 of 3" in reporter.notes[-1]
    assert resume(tmp_path / "run")["steps"] == 3
    assert_same_run(tmp_path / "run", expected)
