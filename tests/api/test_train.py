"""Runs that a program starts: their arguments, their folder, and that the command line can do the rest."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

import groupwise
from groupwise.training.collect import Sampler
from tests.api.program import OPTIONS, PROBLEMS, Counted, shortness
from tests.support.commands import bundled_copy
from tests.support.commands import groupwise as command
from tests.support.runs import assert_same_run, metrics, model_files


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> groupwise.Run:
    """A run on problems in memory with a reward function of a file."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    return groupwise.train(problems=PROBLEMS, rewards=[shortness], output=folder, quiet=True, **OPTIONS)


def test_importing_the_package_loads_no_torch() -> None:
    code = (
        "import sys, groupwise; groupwise.train, groupwise.load_config, groupwise.grade; print('torch' in sys.modules)"
    )
    light = (
        "import sys, groupwise; groupwise.load_config('dapo'); groupwise.grade('4', '4'); print('torch' in sys.modules)"
    )
    loaded = [subprocess.check_output([sys.executable, "-c", text], text=True).strip() for text in (code, light)]
    assert loaded == ["True", "False"], "train needs torch; configurations and grades do not"
    alone = subprocess.check_output([sys.executable, "-c", "import sys, groupwise; print(len(sys.modules))"], text=True)
    assert int(alone) < 200


def test_every_name_is_there() -> None:
    assert sorted(name for name in groupwise.__all__ if getattr(groupwise, name) is None) == []
    assert dir(groupwise) == sorted(groupwise.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        getattr(groupwise, "trian")  # noqa: B009 - a type checker knows the names


def test_the_command_line_trains_the_same(
    reference: groupwise.Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = command(capsys, "train", str(reference.folder / "config.yaml"), f"run.output={tmp_path / 'again'}")
    assert outcome.code == 0, outcome.err
    assert metrics(tmp_path / "again") == metrics(reference.folder)
    assert model_files(tmp_path / "again") == model_files(reference.folder)


def test_problems_are_in_the_folder(reference: groupwise.Run) -> None:
    text = (reference.folder / "inputs" / "train.jsonl").read_text()
    assert [json.loads(line) for line in text.splitlines()] == PROBLEMS
    assert reference.config.problems.train == str((reference.folder / "inputs" / "train.jsonl").absolute())
    assert {row["question"] for row in reference.rollouts(1)} <= {str(row["question"]) for row in PROBLEMS}


def test_what_the_run_says(reference: groupwise.Run) -> None:
    assert len(reference.metrics) == 3
    assert reference.metrics["step"] == [1, 2, 3]
    assert reference.metrics[0]["step"] == 1
    assert [row["step"] for row in reference.metrics[1:]] == [2, 3]
    assert reference.summary["steps"] == 3
    assert reference.model_path == reference.folder / "model"
    assert groupwise.open_run(reference.folder).metrics["reward/total/mean"] == reference.metrics["reward/total/mean"]
    model, tokenizer = reference.load_model()
    assert len(tokenizer.encode("3 + 4")) > 1
    assert sum(weight.numel() for weight in model.parameters()) > 400_000
    with pytest.raises(groupwise.UsageError, match="did you mean reward/total/mean"):
        reference.metrics["reward/totl/mean"]
    with pytest.raises(groupwise.DataError, match=r"completions of step 7 .* steps 1, 2, 3"):
        reference.rollouts(7)
    with pytest.raises(groupwise.DataError, match="is not the folder of a run"):
        groupwise.open_run("nowhere")


class Dataset:
    """As much of `datasets.Dataset` as is used: rows in their order, and the names of columns."""

    column_names = ("question", "answer")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(PROBLEMS)


def test_a_dataset_is_a_list_of_rows(reference: groupwise.Run) -> None:
    run = groupwise.train("demo", problems=Dataset(), rewards=[shortness], output="run", quiet=True, **OPTIONS)
    assert metrics(run.folder) == metrics(reference.folder)


class Frame:
    """As much of `pandas.DataFrame` as is used."""

    columns = ("question", "answer")

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        assert orient == "records"
        return self.rows


def test_a_data_frame_is_a_list_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    run = groupwise.train("demo", problems=Frame(PROBLEMS), output="run", quiet=True, **{**OPTIONS, "run.steps": 1})
    assert (run.folder / "inputs" / "train.jsonl").read_text() == "".join(json.dumps(row) + "\n" for row in PROBLEMS)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(groupwise.UsageError, match="pip install pandas"):
        run.metrics.to_pandas()
    pandas = ModuleType("pandas")
    vars(pandas)["DataFrame"] = Frame
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert [row["step"] for row in run.metrics.to_pandas().rows] == [1]


def test_a_loaded_model_is_copied(tmp_path: Path) -> None:
    folder = bundled_copy(tmp_path / "start")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    by_path = groupwise.train("demo", model=folder, output="path", quiet=True, **OPTIONS)
    by_name = groupwise.train("demo", model=model, output="named", quiet=True, **OPTIONS)
    given = groupwise.train("demo", model=model, tokenizer=tokenizer, output="given", quiet=True, **OPTIONS)
    assert metrics(given.folder) == metrics(by_name.folder) == metrics(by_path.folder)
    assert given.config.model.path == str(given.folder.absolute() / "inputs" / "model")
    assert all(before[name].equal(weight) for name, weight in model.named_parameters())
    trained, _ = given.load_model()
    assert not all(before[name].equal(weight) for name, weight in trained.named_parameters())


def test_problems_in_memory_resume(reference: groupwise.Run) -> None:
    with pytest.raises(groupwise.RunInterrupted, match=r"step 2 of 3; resume .* groupwise.resume\('run'\)") as caught:
        interrupted(PROBLEMS)
    assert isinstance(caught.value, KeyboardInterrupt)
    run = groupwise.open_run(caught.value.folder)
    assert not run.is_finished
    for ask in (lambda: run.summary, lambda: run.model_path, run.load_model):
        with pytest.raises(groupwise.DataError, match=r"not finished: .* groupwise.resume\('run'\)"):
            ask()
    assert len(run.metrics) == 2
    assert groupwise.resume(run, quiet=True, rewards=[shortness]).is_finished
    assert_same_run(run.folder, reference.folder)


def interrupted(problems: Any) -> None:
    """Ctrl-C while the third step is sampled."""
    submitted = Sampler.submitted

    def counted(sampler: Sampler, positions: list[int], step: int) -> Any:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return submitted(sampler, positions, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "submitted", counted)
        groupwise.train(problems=problems, rewards=[shortness], output="run", quiet=True, **OPTIONS)


def test_a_resumed_run_keeps_its_configuration(reference: groupwise.Run) -> None:
    with pytest.raises(groupwise.UsageError, match=r"- optimizer.lr: 0.001 when the run began, now 0.1\n"):
        groupwise.resume(reference, optimizer={"lr": 0.1})
    with pytest.raises(groupwise.UsageError, match="has no reward function brevity; it has shortness"):
        groupwise.resume(reference, rewards={"brevity": shortness})
    with pytest.raises(groupwise.UsageError, match="shortness is not what the run began with"):
        groupwise.resume(reference, rewards={"shortness": Counted()})
    with pytest.raises(groupwise.UsageError, match="problems: of a new run"):
        groupwise.steps(resume=reference, problems=PROBLEMS)


def test_outside_of_the_main_thread(reference: groupwise.Run, tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            groupwise.train(problems=PROBLEMS, rewards=[shortness], output="thread", quiet=True, **OPTIONS)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []
    assert signal.getsignal(signal.SIGINT) is handler
    assert metrics(tmp_path / "thread") == metrics(reference.folder)


def test_inside_of_a_running_event_loop(reference: groupwise.Run) -> None:
    """As in a notebook, where every cell runs in one; the reward is a coroutine, called in this process."""

    class Awaited:
        async def __call__(self, text: str) -> float:
            await asyncio.sleep(0)
            return shortness(text)

    async def cell() -> groupwise.Run:
        return groupwise.train(problems=PROBLEMS, rewards={"shortness": Awaited()}, output="run", quiet=True, **OPTIONS)

    assert metrics(asyncio.run(cell()).folder) == metrics(reference.folder)


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    groupwise.train("demo", rewards=[Counted()], output="run", **OPTIONS)
    shown = capsys.readouterr()
    assert shown.err == ""
    assert not {"\x1b", "\r"} & set(shown.out)
    assert shown.out.count("runs in this process, with no deadline") == 1
    assert "because it is an object of Counted" in shown.out
    assert "step 3/3" in shown.out
    groupwise.train("demo", output="quiet", quiet=True, **OPTIONS)
    assert capsys.readouterr() == ("", "")
