"""Whole runs of the bundled model: what they leave behind, that they repeat themselves, and that nothing stops them."""

import gzip
import json
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

from groupwise import __version__
from groupwise.config.compose import compose_train_config, with_default_recipe
from groupwise.errors import DataError, UsageError
from groupwise.model.decoder import Decoder
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.track.rollouts import read_rollouts, rollout_files
from groupwise.track.run_files import SCHEMA_VERSION
from groupwise.training.run import compose_and_start
from tests.support.commands import SMALL, groupwise, start, tree
from tests.support.runs import UNMEASURED, Quiet, assert_same_run, interrupt_at, metrics, model_files, resume, train

STEPS = 4


def assert_nothing_half_written(run: Path) -> None:
    assert [str(path) for path in run.rglob("*") if path.name.startswith(".")] == []
    for path in [*run.rglob("*.json"), *run.rglob("*.jsonl")]:
        for part in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(part)
    for path in run.rglob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            # Before the first step an optimizer holds nothing.
            assert len(list(file.keys())) > 0 or path.parent.name == "step_000000"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps that nothing disturbed, measured before and after."""
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("reference") / "run"
    train(run, options=SMALL)
    return run


# What a run leaves behind


def test_the_run_folder(reference: Path) -> None:
    assert sorted(path.name for path in reference.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "context.json",
        "metrics.jsonl",
        "model",
        "rollouts",
        "summary.json",
    ]
    assert sorted(path.name for path in (reference / "checkpoints").iterdir()) == ["step_000002", "step_000004"]
    assert sorted(path.name for path in (reference / "rollouts").iterdir()) == [
        "step_000002.jsonl.gz",
        "step_000004.jsonl.gz",
    ]
    assert_nothing_half_written(reference)


def test_the_configuration_comes_back(reference: Path) -> None:
    expected = compose_train_config([*SMALL, f"run.output={reference}"])
    assert compose_train_config([str(reference / "config.yaml")]) == expected


def test_the_metrics_have_a_line_for_each_step(reference: Path) -> None:
    lines = [json.loads(line) for line in (reference / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert {line["schema_version"] for line in lines} == {SCHEMA_VERSION}
    assert [line["optimizer/lr"] for line in lines] == pytest.approx([0.5e-3, 1e-3, 1e-3, 1e-3])
    for line in lines:
        for key in (
            "reward/total/mean",
            "reward/correctness/mean",
            "reward/format/mean",
            "completion/tokens",
            "completion/truncated_fraction",
            "groups/zero_std",
            "groups/admitted",
            "groups/sampled",
            "tokens/sampled",
            "time/step_seconds",
            "time/step_cpu_seconds",
            "time/tokens_per_second",
        ):
            assert isinstance(line[key], float), key
        assert 3 <= line["groups/sampled"] <= 12
        assert line["tokens/sampled"] == round(line["completion/tokens"] * line["groups/sampled"] * 4)
        if line["groups/admitted"]:
            assert line["engine/logp_gap_max"] < 1e-5
            assert line["policy/ratio_min"] == pytest.approx(1, abs=1e-5)
            assert line["policy/ratio_max"] == pytest.approx(1, abs=1e-5)


def test_the_rollouts_agree_with_the_metrics(reference: Path) -> None:
    for line in metrics(reference)[1::2]:
        rows = read_rollouts(rollout_files(reference)[line["step"]])
        assert len(rows) == line["groups/sampled"] * 4
        assert sum(row["rewards"]["correctness"] for row in rows) / len(rows) == line["reward/correctness/mean"]
        assert sum(row["tokens"] for row in rows) == line["tokens/sampled"]
        trained = [row for row in rows if row["advantage"] is not None]
        assert len(trained) == line["groups/admitted"] * 4
        # The policy that sampled step n is the one that n - 1 steps have made.
        assert {row["version"] for row in rows} == {line["step"] - 1}
        for row in rows:
            assert row["total"] == row["rewards"]["correctness"] + 0.2 * row["rewards"]["format"]


def test_the_summary_says_before_and_after(reference: Path) -> None:
    summary = json.loads((reference / "summary.json").read_text())
    assert summary["schema_version"] == SCHEMA_VERSION
    assert summary["steps"] == STEPS
    for side in ("before", "after"):
        assert set(summary[side]) == {"greedy", "sampled", "forced_think_greedy", "forced_think_sampled"}
        for way, measured in summary[side].items():
            samples = 1 if "greedy" in way else 2
            assert measured["samples_per_prompt"] == samples
            for key in ("accuracy", "format_rate", "thinks", "truncated", "no_answer"):
                assert measured[key]["n"] == 16
                assert 0 <= measured[key]["low"] <= measured[key]["value"] <= measured[key]["high"] <= 1
            assert set(measured["pass_at"]) == ({"2"} if samples == 2 else set())
    lines = metrics(reference)
    assert summary["sampled_tokens"] == sum(line["tokens/sampled"] for line in lines)
    assert summary["problems_sampled"] == sum(line["groups/sampled"] for line in lines)
    for key in ("training_wall_seconds", "training_cpu_seconds", "peak_memory_bytes"):
        assert summary[key] > 0


def test_the_model_is_one_of_transformers(reference: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(reference / "model")
    tokenizer = AutoTokenizer.from_pretrained(reference / "model")
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "3 + 4 = ?"}], tokenize=False, add_generation_prompt=True
    )
    ids = torch.tensor([tokenizer.encode(text)])
    assert model.generate(ids, max_new_tokens=4, do_sample=False).shape[1] > ids.shape[1]
    assert "attn" not in (reference / "model" / "config.json").read_text().replace('"attention', "")
    # The same bytes wherever it was trained, with a network or without.
    assert "local" not in (reference / "model" / "tokenizer_config.json").read_text()
    # It is the policy of the last checkpoint, and no longer the one that the run began with.
    with safe_open(reference / "checkpoints" / "step_000004" / "weights.safetensors", framework="pt") as file:
        saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    state = model.state_dict()
    assert all(torch.equal(state[name], weight) for name, weight in saved.items())
    first = AutoModelForCausalLM.from_pretrained(reference / "checkpoints" / ".." / "model").state_dict()
    assert first.keys() == state.keys()


def test_nothing_in_a_run_is_pickled(reference: Path) -> None:
    known = {".yaml", ".json", ".jsonl", ".gz", ".safetensors", ".jinja", ".md"}
    for name, content in tree(reference).items():
        assert Path(name).suffix in known, name
        if name.endswith(".safetensors"):
            # Eight bytes of length, then as much JSON.
            assert content[8:9] == b"{"
            json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        else:
            (gzip.decompress(content) if name.endswith(".gz") else content).decode()


# The same again


def test_the_same_seed_gives_the_same_run(reference: Path, tmp_path: Path) -> None:
    torch.manual_seed(12345)
    random.seed(12345)
    train(tmp_path / "again")
    assert_same_run(tmp_path / "again", reference)


def test_another_seed_gives_another_run(reference: Path, tmp_path: Path) -> None:
    train(tmp_path / "other", "run.seed=1", "run.steps=2")
    assert metrics(tmp_path / "other")[0] != metrics(reference)[0]


def test_what_is_written_and_measured_does_not_change_the_run(reference: Path, tmp_path: Path) -> None:
    train(
        tmp_path / "other",
        "problems.eval_problems=4",
        "problems.eval_every_steps=1",
        "run.checkpoint_every_steps=0",
        "run.rollouts_every_steps=0",
    )
    lines = metrics(tmp_path / "other")
    assert [set(line) - set(metrics(reference)[0]) for line in lines[:3]] == [
        {
            f"eval/{way}/{name}"
            for way in ("greedy", "sampled", "forced_think_greedy", "forced_think_sampled")
            for name in ("accuracy", "standard_error", "problems", "format_rate", "tokens", "truncated_fraction")
        }
    ] * 3
    for line, expected in zip(lines, metrics(reference), strict=True):
        assert {key: line[key] for key in expected} == expected
    assert list((tmp_path / "other" / "rollouts").iterdir()) == []
    assert [path.name for path in (tmp_path / "other" / "checkpoints").iterdir()] == ["step_000004"]


# Stopped


@pytest.mark.parametrize("step", [1, 2, 3])
def test_an_interrupt_ends_the_run_after_its_step(reference: Path, tmp_path: Path, step: int) -> None:
    run = tmp_path / "run"
    reporter = Quiet(interrupt_at(step))
    handler = signal.getsignal(signal.SIGINT)
    assert train(run, reporter=reporter) is None
    assert signal.getsignal(signal.SIGINT) is handler
    assert [line["step"] for line in metrics(run)] == list(range(1, step + 1))
    assert sorted(path.name for path in (run / "checkpoints").iterdir())[-1] == f"step_{step:06d}"
    assert f"groupwise train --resume {run}" in reporter.notes[-1]
    assert_nothing_half_written(run)
    assert not (run / "model").exists()
    assert not (run / "summary.json").exists()

    assert resume(run) is not None
    assert_same_run(run, reference)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_sampling_ends_the_step_at_once(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    prefill, step = InProcessEngine._prefill, Decoder.step
    version = calls = 0

    def noted(engine: Any, *arguments: Any) -> Any:
        nonlocal version
        version = engine.version
        return prefill(engine, *arguments)

    def counted(decoder: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += version == 2
        if calls == 5:
            os.kill(os.getpid(), number)
        return step(decoder, *arguments)

    monkeypatch.setattr(InProcessEngine, "_prefill", noted)
    monkeypatch.setattr(Decoder, "step", counted)
    assert train(run) is None
    assert calls == 5
    monkeypatch.undo()
    assert [line["step"] for line in metrics(run)] == [1, 2]
    assert_nothing_half_written(run)
    resume(run)
    assert_same_run(run, reference)


def test_an_interrupt_before_the_first_step_is_finished(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    step = Decoder.step

    def interrupted(decoder: Any, *arguments: Any) -> Any:
        # The check before the run decodes as well.
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            os.kill(os.getpid(), signal.SIGINT)
        return step(decoder, *arguments)

    monkeypatch.setattr(Decoder, "step", interrupted)
    assert train(run) is None
    monkeypatch.undo()
    assert_nothing_half_written(run)
    resume(run)
    assert_same_run(run, reference)


class KilledError(BaseException):
    """As if the process had ended here."""


def test_killed_before_the_first_checkpoint(reference: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def kill(step: int) -> None:
        raise KilledError(step)

    with pytest.raises(KilledError):
        train(run, reporter=Quiet(kill))
    assert list((run / "checkpoints").iterdir()) == []
    resume(run)
    assert_same_run(run, reference)


@pytest.mark.slow
def test_killed_by_the_system_at_random_instants(tmp_path: Path) -> None:
    """SIGKILL, three times, each time somewhere between the first step and the end of what was left."""
    train(tmp_path / "expected", "run.steps=12")
    run = tmp_path / "run"
    seed = int.from_bytes(os.urandom(4), "little")
    instants = random.Random(seed)
    arguments = ["train", *UNMEASURED, "run.steps=12", "run.output=run"]
    for _ in range(3):
        process = start(tmp_path, *arguments)
        assert process.stdout is not None
        # The first line of a step says that training is under way.
        for line in process.stdout:
            if re.match(r"step \d+/", line):
                break
        time.sleep(instants.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
        arguments = ["train", "--resume", "run"]
    last = start(tmp_path, *arguments)
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, (seed, errors)
    assert_same_run(run, tmp_path / "expected")


@pytest.mark.slow
def test_ctrl_c_ends_the_process_with_130(reference: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start(tmp_path, "train", *UNMEASURED, "run.output=run")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2/"):
            process.send_signal(signal.SIGINT)
            break
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "resume it with: groupwise train --resume run" in errors
    assert_nothing_half_written(run)
    resume(run)
    assert_same_run(run, reference)


# Gone on with


@pytest.fixture
def stopped(reference: Path, tmp_path: Path) -> Path:
    """A copy of the reference as it was after the third step, with the checkpoint of the second."""
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    for name in ("model", "checkpoints/step_000004"):
        shutil.rmtree(run / name)
    (run / "summary.json").unlink()
    (run / "rollouts" / "step_000004.jsonl.gz").write_bytes(b"half a mem")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    (run / "metrics.jsonl").write_text("\n".join(lines[:3]) + '\n{"schema_version": 1, "step": 4, "rew')
    return run


def test_what_was_written_after_the_checkpoint_is_written_again(stopped: Path, reference: Path) -> None:
    resume(stopped)
    assert_same_run(stopped, reference)


def test_a_complete_run_is_left_alone(reference: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    before = tree(run)
    reporter = Quiet()
    summary = resume(run, reporter=reporter)
    assert summary["steps"] == STEPS
    assert "is complete" in reporter.notes[-1]
    assert tree(run) == before


def test_a_run_can_be_made_longer(reference: Path, tmp_path: Path) -> None:
    """With a constant learning rate a longer run is the same run, further."""
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    summary = resume(run, "run.steps=6")
    assert summary["steps"] == 6
    train(tmp_path / "long", "run.steps=6")
    assert metrics(run) == metrics(tmp_path / "long")
    assert model_files(run) == model_files(tmp_path / "long")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("weights.safetensors", "cut off"),
        ("weights.safetensors", "changed"),
        ("optimizer.safetensors", "removed"),
        ("state.json", "changed"),
        ("manifest.json", "cut off"),
        ("manifest.json", "removed"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_and_named(reference: Path, tmp_path: Path, name: str, how: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(reference, run)
    (run / "summary.json").unlink()
    path = run / "checkpoints" / "step_000004" / name
    content = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        half = len(content) // 2
        path.write_bytes(content[:half] if how == "cut off" else content[:half] + b"#" + content[half + 1 :])
    reporter = Quiet()
    resume(run, reporter=reporter)
    (warning,) = (note for note in reporter.notes if "passed over" in note)
    assert "step_000004: " in warning
    # A digest that was changed is one that its file does not have.
    assert name in warning or name == "manifest.json"
    assert_same_run(run, reference)


def test_a_damaged_checkpoint_is_replaced(stopped: Path, reference: Path) -> None:
    """The run comes to its step again, and the next resume must find it sound."""
    shutil.copytree(reference / "checkpoints" / "step_000004", stopped / "checkpoints" / "step_000004")
    (stopped / "checkpoints" / "step_000004" / "weights.safetensors").write_bytes(b"")
    resume(stopped)
    reporter = Quiet()
    resume(stopped, "run.steps=5", reporter=reporter)
    assert not any("passed over" in note for note in reporter.notes)


def test_checkpoints_that_are_all_damaged(stopped: Path) -> None:
    (stopped / "checkpoints" / "step_000002" / "weights.safetensors").write_bytes(b"")
    before = tree(stopped)
    with pytest.raises(DataError, match=r"is damaged \(step_000002: weights.safetensors is damaged\)"):
        resume(stopped)
    assert tree(stopped) == before


def test_a_run_goes_on_only_as_what_it_was(stopped: Path) -> None:
    before = tree(stopped)
    with pytest.raises(UsageError, match=r"this changed:\n- run\.seed: 0 when the run began, now 3\n"):
        resume(stopped, "run.seed=3")
    context = json.loads((stopped / "context.json").read_text())
    for key, what in (
        ("problems", "problems.train: the problems that are trained on"),
        ("eval_problems", "problems.eval: the problems that are measured on"),
        ("initial_weights", "model.path: the weights of the model that the run began with"),
        ("chat_template", "prompt.template: the chat template"),
    ):
        (stopped / "context.json").write_text(json.dumps({**context, key: "0" * 64}))
        with pytest.raises(DataError, match=f"this changed:\n- {what}\n"):
            resume(stopped)
    (stopped / "context.json").write_bytes(before["context.json"])
    assert tree(stopped) == before


def test_the_run_of_another_version_says_which_one_reads_it(stopped: Path) -> None:
    context = json.loads((stopped / "context.json").read_text())
    assert context.pop("groupwise") == __version__
    config = (stopped / "config.yaml").read_text()
    (stopped / "config.yaml").write_text(config.replace("free_fraction", "free_share"))
    with pytest.raises(
        UsageError, match=r"free_share is not an option; since 0\.2\.0: rewards.repetition.free_fraction"
    ):
        resume(stopped)
    for stated, version in (({}, "0.1.0"), ({"groupwise": "9.0.0"}, "9.0.0")):
        (stopped / "context.json").write_text(json.dumps({**context, **stated}))
        with pytest.raises(DataError, match=f"written by groupwise {version}.* resume it with groupwise {version}$"):
            resume(stopped)


def test_the_threads_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    """A probe could choose another number, and with it another order of summation."""
    run = tmp_path / "run"
    train(run, "run.threads=0", "run.steps=2", reporter=Quiet(interrupt_at(1)))
    chosen = json.loads((run / "context.json").read_text())["threads"]
    torch.set_num_threads(1)
    reporter = Quiet()
    resume(run, reporter=reporter)
    assert reporter.notes[0] == f"threads {chosen} (as configured)"


def test_generated_names_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/demo-002").mkdir(parents=True)
    arguments = ["demo", *UNMEASURED, "run.steps=1"]
    for _ in range(2):
        compose_and_start(arguments, False, Quiet())
    assert sorted(path.name for path in Path("runs").iterdir()) == ["demo-001", "demo-002", "demo-003"]
    assert list(Path("runs/demo-002").iterdir()) == []


def test_train_prints_its_summary(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["train", *SMALL, "run.steps=1", "problems.eval_problems=4"]
    outcome = groupwise(capsys, *arguments, f"run.output={tmp_path / 'run'}", "--json")
    assert outcome.code == 0
    printed = json.loads(outcome.out)
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {key: printed[key] for key in written if key != "schema_version"} == {
        key: value for key, value in written.items() if key != "schema_version"
    }
    assert "step 1/1" in outcome.err
    plain = groupwise(capsys, *arguments, f"run.output={tmp_path / 'run-2'}").out
    assert "\x1b" not in plain
    for part in ("step 1/1", "before", "after", "greedy", "sampled", "4 unseen problems"):
        assert part in plain


def test_overrides_alone_are_of_the_demo() -> None:
    assert with_default_recipe([]) == ["demo"]
    assert with_default_recipe(["run.steps=3"]) == ["demo", "run.steps=3"]
    for named in (["dapo", "run.steps=3"], ["my.yaml"], ["model.path=folder", "problems.train=p.jsonl"]):
        assert with_default_recipe(named) == named
