"""A loop of one's own around the steps of a run: the same run, left and stopped in every way."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.stopping import now
from groupwise.training import run as training_run
from tests.api.program import OPTIONS, Counted
from tests.support.runs import assert_same_run, metrics


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> groupwise.Run:
    return groupwise.train(output=tmp_path_factory.mktemp("reference") / "run", quiet=True, **OPTIONS)


def steps(folder: Path, **more: Any) -> groupwise.Steps:
    return groupwise.steps(output=folder / "run", quiet=True, **{**OPTIONS, **more})


def test_a_loop_of_ones_own_is_the_same_run(reference: groupwise.Run, tmp_path: Path) -> None:
    with steps(tmp_path) as loop:
        seen = []
        for step in loop:
            seen.append(step)
            assert loop.run.metrics[-1]["reward/total/mean"] == step.metrics["reward/total/mean"]
        run = loop.run
    assert_same_run(run.folder, reference.folder)
    assert [step.number for step in seen] == [1, 2, 3]
    assert run.summary["steps"] == 3
    for step in seen:
        assert step.rollouts == run.rollouts(step.number)
        admitted = [row for row in step.rollouts if row["advantage"] is not None]
        assert len(admitted) == 4 * len(step.admitted)
        assert len(step.sampled) >= len(step.admitted) == len(step.advantages_PG)
    trained, _ = run.load_model()
    for (name, weight), (_, own) in zip(trained.named_parameters(), step.model.named_parameters(), strict=True):
        assert weight.equal(own), name
    asked = step.tokenizer("3 + 4 = ?", return_tensors="pt")
    written = [model.generate(**asked, max_new_tokens=8, do_sample=False)[0] for model in (trained, step.copy_model())]
    assert written[0].equal(written[1])
    assert step.tokenizer.decode(step.tokenizer.encode("3 + 4")) == "3 + 4"
    assert list(loop) == []


def test_a_loop_that_is_left_can_be_resumed(reference: groupwise.Run, tmp_path: Path) -> None:
    for step in steps(tmp_path):
        if step.number == 2:
            break
    run = groupwise.open_run(tmp_path / "run")
    assert not run.is_finished
    assert len(run.metrics) == 2
    rest = [step.number for step in groupwise.steps(resume=run, quiet=True)]
    assert rest == [3]
    assert_same_run(run.folder, reference.folder)
    assert list(groupwise.steps(resume=run, quiet=True)) == []


def test_an_error_in_the_loop_leaves_a_checkpoint(reference: groupwise.Run, tmp_path: Path) -> None:
    def fails() -> None:
        with steps(tmp_path) as loop:
            for step in loop:
                assert 1 / (step.number - 1) > 0

    with pytest.raises(ZeroDivisionError):
        fails()
    assert metrics(tmp_path / "run")[-1]["step"] == 1
    assert groupwise.resume(tmp_path / "run", quiet=True).is_finished
    assert_same_run(tmp_path / "run", reference.folder)


def test_a_run_that_is_stopped_is_finished(reference: groupwise.Run, tmp_path: Path) -> None:
    for step in steps(tmp_path):
        if step.number == 2:
            step.stop()
    run = groupwise.open_run(tmp_path / "run")
    assert run.is_finished
    assert run.summary["steps"] == len(run.metrics) == 2
    assert run.load_model()[0] is not None
    assert len(groupwise.resume(run, quiet=True).metrics) == 3
    assert_same_run(tmp_path / "run", reference.folder)


def test_ctrl_c_during_a_step_and_in_the_loop(reference: groupwise.Run, tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)

    class Interrupting(Counted):
        def __call__(self, text: str) -> float:
            if self.calls == 20:
                os.kill(os.getpid(), signal.SIGINT)
            return super().__call__(text) * 0

    def during_a_step() -> None:
        for step in steps(tmp_path, rewards={"own": (Interrupting(), 0.0)}):
            assert signal.getsignal(signal.SIGINT) is handler, step.number

    def in_the_loop() -> None:
        with steps(tmp_path / "other") as loop:
            for _ in loop:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(groupwise.RunInterrupted, match=r"resume it with"):
        during_a_step()
    folder = tmp_path / "run"
    assert groupwise.resume(folder, quiet=True, rewards={"own": (Counted(), 0.0)}).metrics["policy/entropy"] == (
        pytest.approx(reference.metrics["policy/entropy"], rel=1e-12)
    )
    with pytest.raises(KeyboardInterrupt):
        in_the_loop()
    assert metrics(tmp_path / "other" / "run")[-1]["step"] == 1


def test_ctrl_c_while_the_trained_model_is_measured(
    reference: groupwise.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(run: Any) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGINT)
        now("the measurement")
        return dict(run)

    monkeypatch.setattr(training_run, "_summary", interrupted)
    with pytest.raises(groupwise.RunInterrupted, match="after step 3 of 3; resume it with"):
        list(steps(tmp_path))
    monkeypatch.undo()
    assert groupwise.resume(tmp_path / "run", quiet=True).summary["steps"] == 3
    assert_same_run(tmp_path / "run", reference.folder)


def test_a_loop_that_never_begins_leaves_no_process(tmp_path: Path) -> None:
    def children() -> Iterator[str]:
        for task in Path("/proc/self/task").iterdir():
            yield from (task / "children").read_text().split()

    before = set(children())
    with steps(tmp_path, rewards=[f"{Path(__file__).with_name('program.py')}:shortness"]) as loop:
        assert set(children()) > before
    assert set(children()) == before
    assert not (tmp_path / "run" / "config.yaml").exists()
    with pytest.raises(groupwise.DataError, match="is not the folder of a run"):
        _ = loop.run
