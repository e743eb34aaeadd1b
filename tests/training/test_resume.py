"""Runs that are resumed: what they refuse, take up and say. Numbers are those of the faults that they stand for."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import groupwise
from groupwise.errors import DataError, UsageError, WriteError
from groupwise.track import disk
from groupwise.track.lock import LOCK
from groupwise.track.run_folder import RunFolder
from groupwise.training import run as runs
from tests.support.commands import bundled_copy, tree
from tests.support.faulty_disk import FaultyDisk
from tests.support.runs import Quiet, assert_same_run, interrupt_at, metrics, resume, train

ROWS = [{"question": f"{a} + {b} = ?", "answer": str(a + b)} for a in range(2, 6) for b in range(3, 6)]
REWARD = "def reward(text, **more):\n    return 1.0 / (1 + len(text))\n"
OPTIONS = [
    "model.path=start",
    "problems.train=train.jsonl",
    "problems.eval=eval.jsonl",
    "problems.eval_problems=2",
    "problems.eval_samples_per_prompt=1",
    "rewards.functions.short.path=reward.py:reward",
    "run.steps=4",
    "run.threads=1",
    "run.checkpoint_every_steps=1",
    "run.keep_checkpoints=3",
    "run.rollouts_every_steps=1",
    "batch.prompts_per_step=2",
    "batch.samples_per_prompt=4",
    "sampling.max_new_tokens=12",
    "optimizer.lr=1e-3",
]


def write_rows(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def started_in(folder: Path, *more: str, reporter: Quiet | None = None) -> Any:
    """A run on files that are named by relative paths."""
    folder.mkdir(exist_ok=True)
    if not (folder / "start").exists():
        bundled_copy(folder / "start")
        write_rows(folder / "train.jsonl", ROWS)
        write_rows(folder / "eval.jsonl", ROWS[:4])
        (folder / "reward.py").write_text(REWARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return train(Path("run"), *more, options=OPTIONS, reporter=reporter)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run of four steps that nothing disturbed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "project"
    assert started_in(folder) is not None
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as it was when the run was killed in its fourth step; the working directory."""
    folder = tmp_path / "project"
    shutil.copytree(whole, folder)
    run = folder / "run"
    for name in ("model", "checkpoints/step_000004"):
        shutil.rmtree(run / name)
    (run / "summary.json").unlink()
    context = json.loads((run / "context.json").read_text())
    (run / "context.json").write_text(json.dumps({**context, "directory": str(folder)}))
    monkeypatch.chdir(folder)
    return folder


def resumed(*overrides: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """What is said while the run in the working directory is resumed to its end."""
    reporter = Quiet()
    assert resume(Path("run"), *overrides, reporter=reporter, allowed=allowed) is not None
    return reporter.notes


# S8: what is said, and from where


def test_s8_it_says_from_which_step(project: Path, whole: Path) -> None:
    notes = resumed()
    assert "resumed from step 3 of 4" in notes
    assert "metrics.jsonl is cut back to step 3: 1 line behind it removed" in notes
    assert_same_run(project / "run", whole / "run")


def test_s8_relative_paths_are_from_where_it_was_started(
    project: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    reporter = Quiet()
    assert resume(Path("../project/run"), reporter=reporter) is not None
    assert Path.cwd() == elsewhere
    assert_same_run(project / "run", whole / "run")
    assert list(elsewhere.iterdir()) == []


def test_s8_also_from_a_program(project: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert groupwise.open_run("project/run").config.model.path == "start"
    with groupwise.steps(resume="project/run", quiet=True) as steps:
        assert [step.number for step in steps if Path.cwd() == tmp_path] == [4]
        assert steps.run.is_finished
    assert_same_run(project / "run", whole / "run")


# S2: start or continue


def test_s2_the_same_command_starts_continues_and_ends(project: Path, whole: Path) -> None:
    shutil.rmtree("run")
    said: list[list[str]] = []
    for stop in (1, 3, 0, 0):
        reporter = Quiet(interrupt_at(stop))
        train(Path("run"), "run.resume=auto", options=OPTIONS, reporter=reporter)
        said.append(reporter.notes)
    assert not any("resumed" in note for note in said[0])
    assert "resumed from step 1 of 4" in said[1]
    assert "resumed from step 3 of 4" in said[2]
    assert "is complete" in said[3][-1]
    assert_same_run(project / "run", whole / "run")


@pytest.mark.usefixtures("project")
def test_s2_what_is_no_run_is_not_overwritten() -> None:
    Path("other").mkdir()
    Path("other/notes.txt").write_text("precious")
    with pytest.raises(UsageError, match=r"'other' exists already and is not overwritten: .* or remove it"):
        train(Path("other"), "run.resume=auto", options=OPTIONS)
    with pytest.raises(UsageError, match=r"resume it: `groupwise train --resume run`, or with run.resume=auto"):
        train(Path("run"), options=OPTIONS)
    assert [path.name for path in Path("other").iterdir()] == ["notes.txt"]


@pytest.mark.usefixtures("project")
def test_s2_an_empty_folder_becomes_the_run() -> None:
    Path("empty").mkdir()
    Path("linked").symlink_to("empty")
    train(Path("linked"), "run.steps=1", options=OPTIONS)
    assert Path("linked").is_symlink()
    assert RunFolder.is_run(Path("empty"))


@pytest.mark.usefixtures("project")
def test_s2_folders_that_never_appeared_are_swept() -> None:
    gone, foreign = Path(".old-001.4194305.tmp"), Path(".theirs.4194305.tmp")
    (gone / "rollouts").mkdir(parents=True)
    foreign.mkdir()
    (foreign / "notes.txt").write_text("precious")
    living = RunFolder(Path(f".living.{os.getpid()}.tmp"))
    living.path.mkdir()
    living.acquire()
    train(Path("new"), "run.steps=1", options=OPTIONS)
    assert not gone.exists()
    assert foreign.exists()
    assert living.path.exists()
    living.close()


def test_s2_auto_needs_a_name() -> None:
    with pytest.raises(UsageError, match=r"run.resume=auto has no effect without run.output"):
        runs.compose_and_start(["demo", "run.resume=auto"], False, Quiet())


def test_s2_auto_compares_what_it_is_given(project: Path) -> None:
    before = tree(project / "run")
    both = r"- run.seed: 0 when the run began, now 7\n- optimizer.lr: 0.001 when the run began, now 0.002\n"
    with pytest.raises(UsageError, match=both):
        train(Path("run"), "run.resume=auto", "optimizer.lr=2e-3", "run.seed=7", options=OPTIONS)
    assert tree(project / "run") == before


# S3: one process


@pytest.mark.usefixtures("project")
def test_s3_a_second_process_is_refused_before_it_loads_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    with RunFolder.existing("run") as folder:
        folder.acquire()
        monkeypatch.setattr("groupwise.training.resume.prepare", None)
        with pytest.raises(DataError, match=rf"is being trained already, by process {os.getpid()} on "):
            resume(Path("run"))
    assert not Path("run", LOCK).exists()


@pytest.mark.usefixtures("project")
def test_s3_a_lock_is_let_go_however_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no")

    with monkeypatch.context() as patch:
        patch.setattr("groupwise.training.loop.update", fails)
        with pytest.raises(RuntimeError, match="no"):
            resume(Path("run"))
    with monkeypatch.context() as patch:
        patch.setattr("groupwise.training.resume.prepare", fails)
        with pytest.raises(RuntimeError, match="no"):
            resume(Path("run"))
    steps = groupwise.steps(resume="run", quiet=True)
    assert Path("run", LOCK).exists()
    steps.close()
    assert not Path("run", LOCK).exists()
    resumed()
    assert not Path("run", LOCK).exists()


def lock_of(**other: Any) -> None:
    """A lock that another process left."""
    with RunFolder(Path("run")) as folder:
        folder.acquire()
        stated = json.loads(Path("run", LOCK).read_text())
    Path("run", LOCK).write_text(json.dumps({**stated, **other}))


@pytest.mark.parametrize(
    "left_by",
    [{"pid": 4194305}, {"started": "1"}, {"pid": 1, "host": "container"}, {"boot": "before", "pid": 1}],
    ids=["killed", "its number is used again", "of a container that is gone", "before a restart"],
)
@pytest.mark.usefixtures("project")
def test_s3_the_lock_of_a_process_that_is_gone_is_taken_over(left_by: dict[str, Any]) -> None:
    lock_of(**left_by)
    notes = resumed()
    assert any(note.startswith("took over the lock of process ") for note in notes)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 3}'])
@pytest.mark.usefixtures("project")
def test_s3_a_lock_that_was_never_written_is_nobody_s(content: str) -> None:
    Path("run", LOCK).write_text(content)
    assert not any("lock" in note for note in resumed())


@pytest.mark.usefixtures("project")
def test_s3_another_machine_may_still_train() -> None:
    lock_of(host="node17", boot="another", pid=5)
    with pytest.raises(DataError, match=r"is locked by process 5 on node17 since .* remove 'run/lock.json'"):
        resume(Path("run"))
    Path("run", LOCK).unlink()
    resumed()


@pytest.mark.usefixtures("project")
def test_s3_without_locks_of_the_kernel_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", unsupported)
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    lock_of(pid=os.getppid(), started=stat.rpartition(")")[2].split()[19])
    with pytest.raises(DataError, match=f"is locked by process {os.getppid()} on "):
        resume(Path("run"))
    Path("run", LOCK).unlink()
    lock_of(pid=os.getppid(), started="1")
    resumed()


# S4: what is gone is not begun anew


def test_s4_manifests_that_are_missing_are_damage(project: Path) -> None:
    for manifest in Path("run/checkpoints").rglob("manifest.json"):
        manifest.unlink()
    before = tree(project)
    with pytest.raises(
        DataError, match=r"every checkpoint .* is damaged \(step_000003: manifest.json is missing; step_"
    ):
        resume(Path("run"))
    assert tree(project) == before


@pytest.mark.parametrize("left", ["nothing", "folder"])
def test_s4_checkpoints_that_are_gone(project: Path, left: str) -> None:
    shutil.rmtree("run/checkpoints")
    if left == "folder":
        Path("run/checkpoints").mkdir()
    before = tree(project)
    with pytest.raises(DataError, match=r"no checkpoint, although 4 steps were done, with one every 1; nothing was"):
        resume(Path("run"))
    assert tree(project) == before


@pytest.mark.usefixtures("project")
def test_s4_a_context_that_is_gone() -> None:
    Path("run/context.json").unlink()
    with pytest.raises(DataError, match=r"context.json' cannot be read"):
        resume(Path("run"))


def test_s4_a_checkpoint_of_another_step_is_none(project: Path, whole: Path) -> None:
    shutil.copytree("run/checkpoints/step_000002", "run/checkpoints/step_000004")
    notes = resumed()
    assert "passed over a checkpoint: step_000004: it is that of step 2" in notes
    assert_same_run(project / "run", whole / "run")


# S6: streams


def damaged(name: str, change: Callable[[bytes], bytes]) -> bytes:
    path = Path("run", name)
    content = change(path.read_bytes())
    path.write_bytes(content)
    return content


def test_s6_bytes_behind_the_checkpoint_are_cut(project: Path, whole: Path) -> None:
    damaged("metrics.jsonl", lambda content: content + b"\xff")
    assert len(groupwise.open_run("run").metrics) == 4
    notes = resumed()
    assert "metrics.jsonl is cut back to step 3: 1 line behind it removed" in notes
    assert_same_run(project / "run", whole / "run")
    assert not list(Path("run").glob("*damaged*"))


@pytest.mark.parametrize(
    ("change", "lost", "kept"),
    [
        (lambda lines: [lines[0], lines[1][:40], *lines[2:]], "2", [1, 3, 4]),
        (lambda lines: [lines[0], b"\xff\xfe", *lines[1:]], "", [1, 2, 3, 4]),
        (lambda lines: [lines[0], *lines[2:]], "2", [1, 3, 4]),
        (lambda lines: [b"\0" * 100, *lines[3:]], "1-3", [4]),
    ],
    ids=["a line is cut", "bytes that are no text", "a line is gone", "zeros"],
)
def test_s6_damage_before_the_checkpoint_is_named_and_kept(
    project: Path, change: Callable[[list[bytes]], list[bytes]], lost: str, kept: list[int]
) -> None:
    found = damaged("metrics.jsonl", lambda content: b"\n".join(change(content.split(b"\n"))))
    notes = resumed()
    (note,) = (note for note in notes if "is damaged" in note)
    assert "metrics.jsonl is damaged" in note
    assert "before step 3" in note
    assert (f"the steps {lost} are lost" in note) == bool(lost)
    assert [line["step"] for line in metrics(project / "run")] == kept
    assert Path("run/metrics.damaged-1.jsonl").read_bytes() == found
    # It is known now, and whole.
    assert not any("damaged" in note for note in resumed("run.steps=5"))


def test_s6_a_stream_that_is_missing_is_named(project: Path) -> None:
    Path("run/metrics.jsonl").unlink()
    Path("run/rollouts/step_000002.jsonl.gz").unlink()
    damaged("rollouts/step_000001.jsonl.gz", lambda content: content[:-9])
    notes = resumed()
    assert "metrics.jsonl is missing: what it held of the first 3 steps is lost" in notes
    assert "rollouts/step_000002.jsonl.gz is missing" in notes
    assert "rollouts/step_000001.jsonl.gz is damaged; it is left as it is" in notes
    assert [line["step"] for line in metrics(project / "run")] == [4]


@pytest.mark.usefixtures("project")
def test_s6_failures_are_cut_back_too() -> None:
    Path("run/failures.jsonl").write_text('{"step": 4, "reason": "down"}\n')
    resumed()
    assert Path("run/failures.jsonl").read_text() == ""


def test_s6_a_checkpoint_of_an_older_version_does_not_know_the_streams(project: Path, whole: Path) -> None:
    for state in Path("run/checkpoints").glob("*/state.json"):
        stated = json.loads(state.read_text())
        del stated["files"]
        state.write_text(json.dumps(stated))
        manifest = json.loads((state.parent / "manifest.json").read_text())
        manifest["sha256"]["state.json"] = hashlib.sha256(state.read_bytes()).hexdigest()
        (state.parent / "manifest.json").write_text(json.dumps(manifest))
    resumed()
    assert_same_run(project / "run", whole / "run")


# S7: what may not change


def another_rows(name: str) -> Callable[[], None]:
    return lambda: write_rows(Path(name), [*ROWS[:3], {"question": "9 + 9 = ?", "answer": "18"}])


def another_model() -> None:
    weights = load_file("start/model.safetensors")
    weights["model.norm.weight"] += 0.125
    save_file(weights, "start/model.safetensors", {"format": "pt"})


def another_template() -> None:
    text = Path("start/chat_template.jinja").read_text()
    Path("start/chat_template.jinja").write_text(text + "{# changed #}")


def edited_config() -> None:
    text = Path("run/config.yaml").read_text()
    Path("run/config.yaml").write_text(text.replace("beta2: 0.95", "beta2: 0.9"))
    assert Path("run/config.yaml").read_text() != text


CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "problems.train": (another_rows("train.jsonl"), "the problems in train.jsonl"),
    "problems.eval": (another_rows("eval.jsonl"), "the problems in eval.jsonl"),
    "rewards.functions.short": (
        lambda: Path("reward.py").write_text(REWARD + "# another\n"),
        "the source of reward.py:reward (sha256 ",
    ),
    "model.path": (another_model, "the weights of the model that the run began with"),
    "prompt.template": (another_template, "the chat template"),
    "optimizer.beta2": (edited_config, "0.95 when the run began, now 0.9"),
}


@pytest.mark.parametrize("key", CHANGES)
def test_s7_what_changed_is_refused_unless_it_is_named(project: Path, key: str) -> None:
    change, text = CHANGES[key]
    change()
    before = tree(project / "run")
    with pytest.raises((DataError, UsageError)) as refused:
        resume(Path("run"))
    message = str(refused.value)
    assert f"\n- {key}: {text}" in message
    assert message.count("\n- ") == 1
    assert f"--allow-change {key}" in message
    assert tree(project / "run") == before
    notes = resumed(allowed=(key.partition(".")[0],))
    assert any(note.startswith(f"changed since the run began, as was named: {key}: ") for note in notes)
    (noted,) = json.loads(Path("run/context.json").read_text())["changes"]
    assert (noted["step"], noted["key"]) == (3, key)
    # From here on it is what the run is.
    resumed("run.steps=5")


@pytest.mark.usefixtures("project")
def test_s7_all_differences_are_listed_at_once() -> None:
    for key in ("problems.train", "problems.eval", "rewards.functions.short", "optimizer.beta2"):
        CHANGES[key][0]()
    with pytest.raises(DataError) as refused:
        resume(Path("run"), "run.seed=5", allowed=("problems.eval",))
    assert str(refused.value).count("\n- ") == 4
    assert "problems.eval" not in str(refused.value)


@pytest.mark.usefixtures("project")
def test_s7_a_program_names_changes_too() -> None:
    CHANGES["rewards.functions.short"][0]()
    with pytest.raises(groupwise.DataError, match=r"allow_changes=\['optimizer.lr', 'rewards.functions.short'\]"):
        groupwise.resume("run", quiet=True, optimizer={"lr": 2e-3})
    again = groupwise.resume("run", quiet=True, allow_changes=["rewards", "optimizer.lr"], optimizer={"lr": 2e-3})
    assert again.config.optimizer.lr == 2e-3
    assert again.metrics["optimizer/lr"] == [1e-3, 1e-3, 1e-3, 2e-3]


@pytest.mark.parametrize("how", ["emptied", "removed"])
def test_s7_a_configuration_that_is_lost_is_the_one_that_it_began_with(project: Path, whole: Path, how: str) -> None:
    stated = Path("run/config.yaml").read_bytes()
    if how == "emptied":
        Path("run/config.yaml").write_bytes(b"")
    else:
        Path("run/config.yaml").unlink()
    assert any(note.startswith("config.yaml is ") for note in resumed())
    assert Path("run/config.yaml").read_bytes() == stated
    assert_same_run(project / "run", whole / "run")


@pytest.mark.usefixtures("project")
def test_s7_half_a_configuration_is_a_list_of_differences() -> None:
    text = Path("run/config.yaml").read_text()
    Path("run/config.yaml").write_text(text[: text.index("batch:")])
    with pytest.raises(UsageError, match=r"\n- batch.prompts_per_step: 2 when the run began, now 16\n"):
        resume(Path("run"))


def test_a_finished_run_goes_on_as_one_long_run(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(whole, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        resume(Path("run"), "run.steps=6")
        train(Path("long"), "run.steps=6", options=OPTIONS)
        assert_same_run(Path("run"), Path("long"))
        ours, theirs = (json.loads((Path(name) / "summary.json").read_text()) for name in ("run", "long"))
    of_the_machine = {"run", "model", "training_wall_seconds", "training_cpu_seconds", "peak_memory_bytes"}
    assert ours.keys() == theirs.keys()
    assert {key: ours[key] for key in ours if key not in of_the_machine} == {
        key: theirs[key] for key in theirs if key not in of_the_machine
    }


@pytest.mark.usefixtures("project")
def test_fewer_steps_than_were_done() -> None:
    with pytest.raises(UsageError, match=r"run.steps=2: the run has done 3 steps already"):
        resume(Path("run"), "run.steps=2")
    assert not Path("run", LOCK).exists()


# S9: where nothing can be written


@pytest.mark.usefixtures("project")
def test_s9_a_place_that_cannot_be_written_is_told_before_the_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.training.run.prepare", None)
    FaultyDisk(1, "fails", 30).installed(monkeypatch)
    with pytest.raises(UsageError, match=r"the run folder 'runs/new' cannot be made: .*Read-only file system"):
        train(Path("runs/new"), options=OPTIONS)
    assert not Path("runs").exists()


def test_s9_a_run_that_cannot_be_written_is_one_message(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(project)
    monkeypatch.setattr("groupwise.training.resume.prepare", None)
    FaultyDisk(1, "fails", 30).installed(monkeypatch)
    with pytest.raises(WriteError, match=r"'run/lock.json' cannot be written \(lock\): Read-only file system"):
        resume(Path("run"))
    assert tree(project) == before


def test_a_complete_run_can_be_asked_where_nothing_can_be_written(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(disk, "perform", refused)
    assert resume(whole / "run")["steps"] == 4
