"""The folder of a run of somebody else is resumed or refused in words, and nothing outside of it is written."""

import contextlib
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groupwise.api.results import open_run
from groupwise.errors import GroupwiseError
from groupwise.training import setup
from groupwise.training.checkpoint import MANIFEST, STATE, fault_of
from groupwise.view.build import page_of
from tests.options.runs import fresh_policy
from tests.support.commands import tree
from tests.support.mutations import changed, damaged, written
from tests.support.runs import UNMEASURED, Quiet, resume, train

TINY = ["run.steps=3", "batch.prompts_per_step=2", "sampling.max_new_tokens=6", "run.checkpoint_every_steps=1"]
NEWEST = Path("checkpoints") / "step_000002"


class CrashError(RuntimeError):
    """Not one that the trainer knows."""


def crash(step: int) -> None:
    if step == 3:
        raise CrashError


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run that was killed in its third step."""
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("sound") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "load_policy", fresh_policy)
        with pytest.raises(CrashError):
            train(run, *TINY, "run.rollouts_every_steps=1", options=UNMEASURED, reporter=Quiet(crash))
        assert fault_of(run / NEWEST) is None
        yield run


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


def tried(sound: Path, place: Path, change: Callable[[Path], None]) -> str:
    """What is said of a copy of the folder with something changed; empty where it was resumed to its end."""
    run = place / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(sound, run)
    (place / "next to it").mkdir(exist_ok=True)
    (place / "next to it" / "file").write_text("stays")
    change(run)
    said = []
    for read in (lambda: resume(run), lambda: look_at(run), lambda: "".join(page_of(str(run)))):
        try:
            read()
        except GroupwiseError as error:
            said.append(str(error))
    beside = {path: content for path, content in tree(place).items() if not path.startswith("run/")}
    assert beside == {"next to it/file": b"stays"}
    return "\n".join(said)


def look_at(folder: Path) -> None:
    run = open_run(folder)
    assert len(run.config.model_dump()) > 5
    assert len(run.metrics) >= 0
    run.rollouts(1)
    if run.is_finished:
        assert run.summary


def with_digest(run: Path, name: str, content: bytes) -> None:
    """A file of the newest checkpoint, with the digest that makes it sound."""
    (run / NEWEST / name).write_bytes(content)
    manifest = json.loads((run / NEWEST / MANIFEST).read_text())
    manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    (run / NEWEST / MANIFEST).write_text(json.dumps(manifest))


def test_unchanged_it_is_resumed(sound: Path, place: Path) -> None:
    assert tried(sound, place, lambda _: None) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["config.yaml", "context.json", "metrics.jsonl", str(NEWEST / MANIFEST), "rollouts/step_000001.jsonl.gz"]
)
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_files(name: str, data: st.DataObject, sound: Path, place: Path) -> None:
    whole = (sound / name).read_bytes()
    strategy = damaged(whole)
    if name.endswith(".json"):
        strategy = strategy | changed(json.loads(whole)).map(written)
    if ".jsonl" in name:
        lines = gzip.decompress(whole) if name.endswith(".gz") else whole
        rows = [json.loads(line) for line in lines.splitlines()]
        texts = damaged(lines) | changed(rows).map(lambda rows: b"\n".join(written(row) for row in rows))
        strategy = strategy | (texts.map(gzip.compress) if name.endswith(".gz") else texts)
    content = data.draw(strategy)

    def change(run: Path) -> None:
        (run / name).write_bytes(content)

    tried(sound, place, change)


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_counters_that_verify(data: st.DataObject, sound: Path, place: Path) -> None:
    content = data.draw(changed(json.loads((sound / NEWEST / STATE).read_text())).map(written))
    tried(sound, place, lambda run: with_digest(run, STATE, content))


def test_a_context_with_what_is_no_number_of_json(sound: Path, place: Path) -> None:
    def change(run: Path) -> None:
        context = json.loads((run / "context.json").read_text())
        (run / "context.json").write_text(json.dumps({**context, "": float("nan")}))

    assert "context.json' cannot be read, so the run cannot be resumed: NaN is no number" in tried(sound, place, change)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("problem_position", -5),
        ("problem_position", "x"),
        ("problem_position", 1.5),
        ("entropy_coefficient", "x"),
        ("entropy_coefficient", float("nan")),
        ("unmeasured", {"eval/greedy/accuracy": float("nan")}),
        ("sampled_tokens", None),
        ("retired", 3),
        ("retired", [[]]),
        ("wall_seconds", []),
        ("files", {"../../next to it/file": [0, "x"]}),
        ("files", {"metrics.jsonl": [10**30, None]}),
        ("files", {"metrics.jsonl": "x"}),
        ("files", []),
    ],
)
def test_counters_that_cannot_be(key: str, value: Any, sound: Path, place: Path) -> None:
    state = json.loads((sound / NEWEST / STATE).read_text())
    assert key in state
    tried(sound, place, lambda run: with_digest(run, STATE, written(state | {key: value})))


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("content", [b"", (2**62).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{}"])
def test_tensors_that_lie_and_verify(name: str, content: bytes, sound: Path, place: Path) -> None:
    assert "weights" in tried(sound, place, lambda run: with_digest(run, name, content)) or name.startswith("optimizer")


@pytest.mark.parametrize("name", ["../../next to it/file", "/etc/hostname", "step_000001/..", ".", ""])
def test_a_manifest_leads_nowhere_else(name: str, sound: Path, place: Path) -> None:
    def change(run: Path) -> None:
        manifest = json.loads((run / NEWEST / MANIFEST).read_text())
        manifest["sha256"][name] = hashlib.sha256(b"stays").hexdigest()
        (run / NEWEST / MANIFEST).write_text(json.dumps(manifest))

    tried(sound, place, change)
    assert fault_of(place / "run" / NEWEST) is None or "names" in str(fault_of(place / "run" / NEWEST))


@pytest.mark.parametrize("name", ["checkpoints", str(NEWEST), "rollouts", "metrics.jsonl", str(NEWEST / STATE)])
def test_links_do_not_lead_out(name: str, sound: Path, place: Path) -> None:
    """What a link names is read or refused, and never written or removed."""
    outside = place.with_name(place.name + "-outside")
    shutil.copytree(sound, outside)
    before = tree(outside)

    def change(run: Path) -> None:
        linked = run / name
        if linked.is_dir():
            shutil.rmtree(linked)
        else:
            linked.unlink()
        linked.symlink_to(outside / name)

    run = place / "run"
    shutil.copytree(sound, run)
    change(run)
    with contextlib.suppress(GroupwiseError):
        resume(run)
    assert tree(outside) == before
