"""Whole runs with reward functions of the user's own and with domains: what fails is counted, and nothing is left."""

import contextlib
import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from groupwise.data.reasoning_gym import gym_source
from groupwise.grading import grader_pool
from groupwise.grading.graded_group import GradingError
from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.open import BACKENDS
from groupwise.track.rollouts import read_rollouts, rollout_files
from tests.support.commands import SMALL, environment, groupwise
from tests.support.programs import passed, writes_programs
from tests.support.runs import Quiet, assert_same_run, interrupt_at, metrics, resume, train

OPTIONS = [
    *SMALL,
    "run.steps=2",
    "run.rollouts_every_steps=1",
    "run.checkpoint_every_steps=0",
    "problems.eval_problems=0",
    "active_sampling.refill=false",
]

# Every function passes the dry run, and fails at completions of a model as the rule says.
PRELUDE = """
import asyncio
import os
import sys
import time
from pathlib import Path


def fails(raw_text, row):
    rehearsed = raw_text in ("", row["answer"]) or "So it is" in raw_text
    return not rehearsed and len(raw_text) % 3 == 1


"""


def fails(text: str) -> bool:
    """The rule, for completions of the model."""
    return text != "" and len(text) % 3 == 1


def functions(folder: Path, body: str, **options: Any) -> list[str]:
    """A file with the function `score`, as options of a run."""
    file = folder / "my_rewards.py"
    file.write_text(PRELUDE + textwrap.dedent(body), encoding="utf-8")
    given = {"path": f"{file}:score", "weight": 0.2, **options}
    return ["grading.workers=2", *(f"rewards.functions.mine.{key}={value}" for key, value in given.items())]


def rollouts(run: Path, step: int) -> dict[str, list[dict[str, Any]]]:
    """All completions of a step by their problem."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in read_rollouts(rollout_files(run)[step]):
        groups.setdefault(row["problem"], []).append(row)
    return groups


def failures(run: Path) -> list[dict[str, Any]]:
    path = run / "failures.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def assert_counted(run: Path, reason: str, on_error: str, rule: Callable[[str], bool] = fails) -> None:
    """Metrics and failures.jsonl say of every step what the rule says of its completions."""
    lines = metrics(run)
    assert [line["step"] for line in lines] == [1, 2]
    total = 0
    for line in lines:
        groups = rollouts(run, line["step"])
        failed_P = [[rule(row["completion"]) for row in rows] for rows in groups.values()]
        count = sum(map(sum, failed_P))
        total += count
        assert line["grading/mine/failed"] == count
        dropped = count if on_error == "drop_sample" else 0
        assert line["grading/dropped_samples"] == dropped
        lost = [any(f) if on_error == "drop_group" else any(f) and len(f) - sum(f) < 2 for f in failed_P]
        assert line["groups/failed"] == sum(lost)
        for (problem, rows), failed_G, gone in zip(groups.items(), failed_P, lost, strict=True):
            for row, failed in zip(rows, failed_G, strict=True):
                assert row["status"]["mine"] == ("error" if failed else "scored")
                assert row["rewards"]["mine"] == ("nan" if failed else row["rewards"]["mine"])
                if gone:
                    assert row["advantage"] is None
                elif failed and row["advantage"] is not None:
                    assert row["advantage"] == 0
            told = [f["sample"] for f in failures(run) if (f["step"], f["problem"]) == (line["step"], problem)]
            assert told == [g for g, failed in enumerate(failed_G) if failed]
        kept = [r for rows, gone in zip(groups.values(), lost, strict=True) if not gone for r in rows]
        kept = [row for row in kept if row["status"]["mine"] == "scored"]
        if kept:
            mean = math.fsum(row["rewards"]["mine"] for row in kept) / len(kept)
            assert line["reward/mine/mean"] == pytest.approx(mean, rel=1e-12)
        else:
            assert "reward/mine/mean" not in line
    assert total > 0, "the rule never applied"
    assert len(failures(run)) == total
    for failure in failures(run):
        assert reason in failure["reason"]
        assert failure["component"] == "mine"
        assert failure["source"] == "arithmetic:" + failure["problem"].rsplit("/", 1)[1]


ENDINGS = {
    "hangs": ("time.sleep(60)", "timeout: did not return within 0.5 s"),
    "raises": ("raise ValueError('no luck')", "ValueError: no luck"),
    "nan": ("return float('nan')", "not_finite"),
    "infinite": ("return float('inf')", "not_finite"),
    "text": ("return '0.5'", "bad_type: returned str '0.5'"),
    "none": ("return None", "bad_type: returned NoneType None"),
    "exits": ("sys.exit(0)", "SystemExit"),
    "dies": ("os._exit(0)", "died: the process ended with exit status 0"),
    "killed": ("os.kill(os.getpid(), 9)", "died"),
    "eats memory": ("return float(len(bytearray(2**30)))", "memory"),
    "prints and raises": (
        "os.write(1, bytes(range(256)) * 4096); print('x' * 10**6, flush=True); raise KeyError('rubbish')",
        "KeyError: 'rubbish'",
    ),
    "raises rubbish": ("raise ValueError('\\udc80\\x00\\x1b[31m' + 'y' * 10**5)", "ValueError"),
    "closes the channel": ("os.closerange(0, 64)", "died"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_function_that_sometimes_fails(tmp_path: Path, name: str) -> None:
    ending, reason = ENDINGS[name]
    body = f"""
    def score(raw_text, row):
        if fails(raw_text, row):
            {ending}
        return len(raw_text) / 100
    """
    options = functions(tmp_path, body, on_error="drop_sample", timeout_seconds=0.5, memory_mb=256)
    assert train(tmp_path / "run", *options, options=OPTIONS) is not None
    assert_counted(tmp_path / "run", reason, "drop_sample")


@pytest.mark.parametrize("on_error", ["drop_sample", "drop_group"])
def test_an_async_function_that_sometimes_fails(tmp_path: Path, on_error: str) -> None:
    body = """
    async def score(raw_text, row):
        await asyncio.sleep(0.001)
        if fails(raw_text, row):
            await asyncio.wait_for(asyncio.sleep(9), 0.01)
        return len(raw_text) / 100
    """
    train(tmp_path / "run", *functions(tmp_path, body, on_error=on_error), options=OPTIONS)
    assert_counted(tmp_path / "run", "TimeoutError", on_error)


@pytest.mark.parametrize("on_error", ["drop_sample", "drop_group"])
def test_a_batch_function_is_at_fault_for_the_samples_that_it_gets_wrong(tmp_path: Path, on_error: str) -> None:
    body = """
    def score(raw_text, row):
        return [None if fails(*pair) else len(pair[0]) / 100 for pair in zip(raw_text, row)]
    """
    train(tmp_path / "run", *functions(tmp_path, body, on_error=on_error, call="batch"), options=OPTIONS)
    assert_counted(tmp_path / "run", "bad_type", on_error)


@pytest.mark.parametrize("on_error", ["drop_sample", "drop_group"])
def test_a_batch_function_of_the_wrong_length_fails_for_all_of_a_group(tmp_path: Path, on_error: str) -> None:
    body = """
    def score(raw_text, row):
        return [0.5] * (len(row) - any(fails(*pair) for pair in zip(raw_text, row)))
    """
    run = tmp_path / "run"
    train(run, *functions(tmp_path, body, on_error=on_error, call="batch"), options=OPTIONS)
    for line in metrics(run):
        groups = rollouts(run, line["step"]).values()
        lost = sum(any(fails(row["completion"]) for row in rows) for rows in groups)
        assert line["groups/failed"] == lost
        assert line["grading/mine/failed"] == 4 * lost
        assert line["grading/dropped_samples"] == (4 * lost if on_error == "drop_sample" else 0)
    assert {"wrong_length: returned 3 numbers for 4 completions" in f["reason"] for f in failures(run)} == {True}


def test_printing_disturbs_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    body = """
    def score(raw_text):
        os.write(1, bytes(range(256)) * 2048)
        os.write(2, b"\\xff" * 10**5)
        print("{" * 10**5)
        return len(raw_text) / 100
    """
    for run, code in ((quiet, "def score(raw_text):\n    return len(raw_text) / 100\n"), (loud, body)):
        train(run, *functions(tmp_path, code), options=OPTIONS)
    assert metrics(loud) == metrics(quiet)
    assert failures(loud) == []
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err) < 1 << 16
    assert "further output" in err


def test_functions_that_always_fail_make_empty_steps(tmp_path: Path) -> None:
    """The budget of the refill bounds each step, and nothing is trained."""
    body = """
    def score(raw_text, row):
        if "So it is" in raw_text or raw_text in ("", row["answer"]):
            return 1.0
        raise RuntimeError("never")
    """
    run = tmp_path / "run"
    options = functions(tmp_path, body, on_error="drop_sample")
    more = ["active_sampling.refill=true", "run.steps=3", "guards.steps_of_failing_reward=0"]
    summary = train(run, *options, *more, options=OPTIONS)
    assert summary["optimizer_updates"] == 0
    for line in metrics(run):
        assert line["groups/sampled"] == line["groups/failed"] == 12
        assert line["groups/admitted"] == line["groups/accept_rate"] == 0
        assert line["grading/mine/failed"] == line["grading/dropped_samples"] == 48
        assert not any(name.startswith("reward/") for name in line)
    assert len(failures(run)) == 3 * 48


def test_a_second_attempt_can_succeed(tmp_path: Path) -> None:
    body = f"""
    def score(raw_text, row):
        mark = Path({str(tmp_path)!r}) / f"{{abs(hash((row['id'], raw_text)))}}.mark"
        if fails(raw_text, row) and not mark.exists():
            mark.touch()
            raise ConnectionError("try again")
        return len(raw_text) / 100
    """
    run = tmp_path / "run"
    train(run, *functions(tmp_path, body, retries=1, on_error="stop"), options=OPTIONS)
    assert [line["grading/mine/failed"] for line in metrics(run)] == [0, 0]
    assert list(tmp_path.glob("*.mark"))
    calm = tmp_path / "calm"
    train(calm, *functions(tmp_path, "def score(raw_text):\n    return len(raw_text) / 100\n"), options=OPTIONS)
    assert metrics(run) == metrics(calm)


# Stopped by a function

LATE = """
def score(raw_text, row):
    if int(row["id"].rsplit("/", 1)[1]) >= 3:
        raise OSError("the judge is down")
    return len(raw_text) / 100
"""
MENDED = "def score(raw_text):\n    return len(raw_text) / 100\n"


def test_a_run_that_a_function_stops_goes_on_once_it_is_mended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Problems 3 to 5 are those of the second step."""
    options = functions(tmp_path, LATE, on_error="stop")
    run = tmp_path / "run"
    outcome = groupwise(capsys, "train", *OPTIONS, *options, "run.steps=3", f"run.output={run}")
    assert outcome.code == 3
    assert "Traceback" not in outcome.err
    for part in (
        "'mine'",
        "arithmetic:3",
        "the judge is down",
        f"groupwise train --resume {run}",
        "--allow-change rewards",
    ):
        assert part in outcome.err, part
    assert [line["step"] for line in metrics(run)] == [1]
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step_000001"]
    again = groupwise(capsys, "train", "--resume", str(run))
    assert (again.code, "the judge is down" in again.err) == (3, True)
    functions(tmp_path, MENDED)
    refused = groupwise(capsys, "train", "--resume", str(run))
    assert (refused.code, "rewards.functions.mine" in refused.err) == (3, True)
    assert groupwise(capsys, "train", "--resume", str(run), "--allow-change", "rewards").code == 0
    train(tmp_path / "expected", *functions(tmp_path, MENDED), "run.steps=3", options=OPTIONS)
    assert_same_run(run, tmp_path / "expected")


def test_a_run_that_stops_at_its_first_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(GradingError, match="judge is down"):
        train(run, *functions(tmp_path, LATE.replace(">= 3", ">= 1"), on_error="stop"), options=OPTIONS)
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step_000000"]
    functions(tmp_path, MENDED)
    resume(run, allowed=["rewards"])
    train(tmp_path / "expected", *functions(tmp_path, MENDED), options=OPTIONS)
    assert_same_run(run, tmp_path / "expected")


def test_a_failure_in_the_measurement_does_not_cost_the_run(tmp_path: Path) -> None:
    """Accuracy needs no function that does not judge it, and the step that is measured is finished."""
    body = """
    def score(raw_text, row):
        if "/eval/" in row["id"]:
            raise OSError("the judge is down")
        return len(raw_text) / 100
    """
    run = tmp_path / "run"
    measured = ["problems.eval_problems=4", "problems.eval_every_steps=1"]
    summary = train(run, *functions(tmp_path, body, on_error="stop"), *measured, options=OPTIONS)
    assert summary["after"]["greedy"]["accuracy"]["n"] == 4
    assert [line["step"] for line in metrics(run)] == [1, 2]


def test_a_measurement_that_nothing_could_judge_is_missing(tmp_path: Path) -> None:
    body = """
    def score(raw_text, row):
        if "/eval/" in row["id"]:
            raise OSError("the judge is down")
        return float(row["answer"] in raw_text)
    """
    run, reporter = tmp_path / "run", Quiet()
    measured = ["problems.eval_problems=4", "problems.eval_every_steps=1", "rewards.correctness.grader=mine"]
    options = [option for option in functions(tmp_path, body, on_error="stop") if ".weight=" not in option]
    summary = train(run, *options, *measured, options=OPTIONS, reporter=reporter)
    assert summary["after"] == summary["before"] == {}
    assert "eval/greedy/accuracy" not in metrics(run)[0]
    assert any("judge is down" in note for note in reporter.notes)


# Domains


@pytest.fixture(scope="module")
def programs() -> Iterator[None]:
    """See `writes_programs`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grader_pool, "grade_program", writes_programs())
        yield


DOMAINS = [
    "problems.train={arithmetic: 1, toy_code: 1}",
    "kl.coefficient=0.01",
    "domains.code.kl_coefficient=0.05",
    "rewards.format.weight=0.2",
    "domains.code.rewards.format.weight=0.0",
    "domains.code.rewards.correctness.code.credit=fraction",
    "sampling.max_new_tokens=32",
    "batch.prompts_per_step=4",
]
TASTE = """
def score(raw_text, row):
    return len(raw_text) % 7 / 7
"""


@pytest.fixture(scope="module")
def two_domains(tmp_path_factory: pytest.TempPathFactory, programs: None) -> Path:  # noqa: ARG001
    """A run on arithmetic and programs, with a function of the user's own, and its options beside it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("domains")
    options = [*OPTIONS, *functions(folder, TASTE), *DOMAINS, "run.steps=3", "run.checkpoint_every_steps=1"]
    (folder / "options").write_text("\n".join(options))
    train(folder / "run", options=options)
    return folder


def test_domains_are_paid_and_held_to_the_reference_apart(two_domains: Path) -> None:
    run = two_domains / "run"
    for line in metrics(run):
        groups = rollouts(run, line["step"])
        assert {name.split("/")[0] for name in groups} == {"arithmetic", "toy_code"}
        for domain in ("math", "code"):
            own = [row for rows in groups.values() for row in rows if row["domain"] == domain]
            assert line[f"domain/{domain}/groups/sampled"] == len(own) / 4 == 2
            for name in ("correctness", "format", "mine"):
                mean = math.fsum(row["rewards"][name] for row in own) / len(own)
                assert line[f"domain/{domain}/reward/{name}/mean"] == pytest.approx(mean, rel=1e-12)
            weights = {"correctness": 1.0, "format": 0.2 if domain == "math" else 0.0, "mine": 0.2}
            for row in own:
                total = math.fsum(weight * row["rewards"][name] for name, weight in weights.items())
                assert row["total"] == pytest.approx(total, rel=1e-12)
            total = math.fsum(row["total"] for row in own) / len(own)
            assert line[f"domain/{domain}/reward/total/mean"] == pytest.approx(total, rel=1e-12)
        assert sum(line[f"domain/{domain}/groups/admitted"] for domain in ("math", "code")) == line["groups/admitted"]
        sampled = [row for rows in groups.values() for row in rows]
        trained = {
            d: sum(r["tokens"] for r in sampled if r["domain"] == d and r["advantage"]) for d in ("math", "code")
        }
        assert line["reward/total/mean"] == pytest.approx(math.fsum(r["total"] for r in sampled) / len(sampled))
        for row in (row for row in sampled if row["domain"] == "code"):
            assert row["rewards"]["correctness"] == passed(row["completion"]) / 6
            assert row["verdict"]["method"] == "calls"
        assert trained["code"] > 0
        # Tokens weigh alike, so that the penalty is the mean over all trained tokens, each at the price of its domain.
        divergence = {d: n * line[f"domain/{d}/policy/kl_ref_k3"] for d, n in trained.items() if n}
        loss = (0.01 * divergence.get("math", 0.0) + 0.05 * divergence["code"]) / sum(trained.values())
        assert line["policy/kl_loss"] == pytest.approx(loss, rel=1e-3, abs=1e-12)
    assert metrics(run)[-1]["policy/kl_loss"] > 0
    summary = json.loads((run / "summary.json").read_text())
    assert summary["sandbox"] not in ("", "none")


def test_a_run_on_two_domains_repeats_itself(two_domains: Path, tmp_path: Path) -> None:
    options = (two_domains / "options").read_text().splitlines()
    train(tmp_path / "again", options=options)
    assert_same_run(tmp_path / "again", two_domains / "run")


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_on_two_domains_goes_on_as_if_never_stopped(two_domains: Path, tmp_path: Path, step: int) -> None:
    options = (two_domains / "options").read_text().splitlines()
    assert train(tmp_path / "run", options=options, reporter=Quiet(interrupt_at(step))) is None
    assert len(metrics(tmp_path / "run")) == step
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", two_domains / "run")


@pytest.mark.slow
def test_the_order_in_which_graders_answer_changes_nothing(two_domains: Path, tmp_path: Path) -> None:
    options = (two_domains / "options").read_text().splitlines()
    body = TASTE.replace("    return", "    time.sleep(os.getpid() % 7 / 50)\n    return")
    slower = [*functions(tmp_path, body), "grading.workers=3", "sandbox.parallel=3"]
    train(tmp_path / "run", *slower, options=options)
    assert_same_run(tmp_path / "run", two_domains / "run")


@pytest.mark.parametrize("name", ["chain_sum", "basic_arithmetic", "graph_color", "countdown"])
def test_problems_of_reasoning_gym(tmp_path: Path, name: str) -> None:
    pytest.importorskip("reasoning_gym")
    if gym_source(f"reasoning_gym:{name}").grader == "scorer":
        assert name in ("graph_color", "countdown")
    train(tmp_path / "run", f"problems.train=reasoning_gym:{name}", "run.steps=1", options=OPTIONS)
    (line,) = metrics(tmp_path / "run")
    assert line["grading/correctness/failed"] == 0
    rows = [row for rows in rollouts(tmp_path / "run", 1).values() for row in rows]
    assert len(rows) == 12
    assert {row["verdict"]["status"] for row in rows} <= {"correct", "wrong", "no_answer", "timeout"}
    assert {row["verdict"]["method"] for row in rows} == {gym_source(f"reasoning_gym:{name}").grader}


# Files


def rows_of_sums(path: Path, bad: int, count: int = 400) -> str:
    rows: list[dict[str, Any]] = [{"question": f"What is {n} + 2?", "answer": str(n + 2)} for n in range(count)]
    for n in range(bad):
        rows[n * (count // bad) + 3]["answer"] = ["", None, 1.5, {}][n % 4]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_file_with_a_few_bad_rows_is_trained_on_without_them(tmp_path: Path) -> None:
    file = rows_of_sums(tmp_path / "sums.jsonl", bad=2)
    reporter = Quiet()
    train(tmp_path / "run", f"problems.train={file}", options=OPTIONS, reporter=reporter)
    notes = "\n".join(reporter.notes)
    assert f"{file}: left out 2 of 400 rows" in notes
    assert f"{file}:4: answer: empty" in notes
    assert f"{file}:204: " in notes
    trained = {name for step in (1, 2) for name in rollouts(tmp_path / "run", step)}
    assert len(trained) == 6
    assert not trained & {"sums.jsonl:4", "sums.jsonl:204"}


def test_a_file_with_many_bad_rows_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = rows_of_sums(tmp_path / "sums.jsonl", bad=20)
    outcome = groupwise(capsys, "train", *OPTIONS, f"problems.train={file}", f"run.output={tmp_path / 'run'}")
    assert outcome.code == 3
    assert "20 of 400 rows (5.0 %) cannot be used" in outcome.err
    assert f"{file}:4: answer: empty" in outcome.err
    assert "and 10 more" in outcome.err
    assert not (tmp_path / "run").exists()


def program_rows(path: Path) -> str:
    """As in HumanEval: the beginning of a function, and tests that call it by the name `candidate`."""
    rows = [
        {
            "task_id": f"Mine/{n}",
            "prompt": f'def add_{n}(x):\n    """Add {n} to x."""\n',
            "entry_point": f"add_{n}",
            "canonical_solution": f"    return x + {n}\n",
            "test": f"def check(candidate):\n    assert candidate(1) == {n + 1}\n    assert candidate(-4) == {n - 4}\n",
        }
        for n in range(1, 9)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("programs")
def test_programs_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = program_rows(tmp_path / "programs.jsonl")
    checked = groupwise(capsys, "check", file, "model.path=bundled", "--run-solutions")
    assert checked.code == 0, checked.out
    run = tmp_path / "run"
    outcome = groupwise(capsys, "train", *OPTIONS, f"problems.train={file}", "run.steps=1", f"run.output={run}")
    assert outcome.code == 0
    assert "programs of the domain code run in the sandbox" in outcome.out
    rows = [row for rows in rollouts(run, 1).values() for row in rows]
    assert {(row["domain"], row["verdict"]["method"]) for row in rows} == {("code", "calls")}
    assert {row["problem"].split("/")[0] for row in rows} == {"Mine"}
    # Two tests, and nothing for less than both.
    assert [row["rewards"]["correctness"] for row in rows] == [float(passed(row["completion"]) >= 2) for row in rows]
    assert any(row["rewards"]["correctness"] for row in rows)


# Sandboxes


def test_without_a_sandbox_nothing_is_trained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(name: str) -> Any:
        def made() -> Any:
            raise UnavailableError(f"{name} is not here")

        return made

    for name in ("bubblewrap", "sandlock", "nsjail"):
        monkeypatch.setitem(BACKENDS, name, unavailable(name))
    output = f"run.output={tmp_path / 'run'}"
    outcome = groupwise(capsys, "train", *OPTIONS, "problems.train=toy_code", output)
    assert outcome.code == 3
    for name in ("bubblewrap", "sandlock", "nsjail"):
        assert f"{name}: {name} is not here" in outcome.err
    assert "Traceback" not in outcome.err
    assert not (tmp_path / "run").exists()
    # Arithmetic needs none.
    assert groupwise(capsys, "train", *OPTIONS, "run.steps=1", output).code == 0


def test_programs_without_a_sandbox_are_warned_of_at_the_start_and_at_the_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    chosen = ["problems.train=toy_code", "sandbox.backend=none", "run.steps=1", f"run.output={run}"]
    outcome = groupwise(capsys, "train", *OPTIONS, *chosen)
    assert outcome.code == 0
    start, _, end = outcome.out.partition("step 1/1")
    assert "warning: programs of the domain code run WITHOUT a sandbox (sandbox.backend=none)" in start
    assert "programs of the model ran WITHOUT a sandbox" in end
    assert json.loads((run / "summary.json").read_text())["sandbox"] == "none"
    # The data sets whose own scorers evaluate the answer are not run like that at all.
    if importlib.util.find_spec("reasoning_gym"):
        gym = "problems.train=reasoning_gym:countdown"
        refused = groupwise(capsys, "train", *OPTIONS, "sandbox.backend=none", gym, f"run.output={tmp_path / 'gym'}")
        assert refused.code == 3
        assert "isolates nothing" in refused.err


# Ended from outside


def processes() -> dict[int, tuple[int, str]]:
    """Every process with its parent and the moment of its start; zombies are none."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The name, in brackets, may hold spaces.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(entry.name)] = (int(fields[1]), fields[19])
    return found


def of_run(pid: int, mark: str) -> set[tuple[int, str]]:
    """A process, all its descendants, and whatever inherited the mark in its environment."""
    known = processes()
    own = {pid} if pid else set()
    while more := {child for child, (parent, _) in known.items() if parent in own} - own:
        own |= more
    for other in known:
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{other}/environ").read_bytes():
                own.add(other)
    return {(one, known[one][1]) for one in own if one in known}


def left_of(run: set[tuple[int, str]], mark: str, seconds: float = 10.0) -> set[tuple[int, str]]:
    """What still runs after a while."""
    deadline = time.monotonic() + seconds
    while True:
        left = run & {(pid, start) for pid, (_, start) in processes().items()} | of_run(0, mark)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


BUSY = """
def score(raw_text, row):
    time.sleep(0.05)
    return len(raw_text) % 7 / 7
"""


DRIVER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from groupwise import cli
from groupwise.grading import grader_pool
from tests.support.programs import writes_programs
grader_pool.grade_program = writes_programs(0.05)
cli.main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scans /proc")
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)]
)
def test_nothing_is_left_of_a_run_that_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Neither workers, nor what a function started, nor programs in a sandbox."""
    mark = f"mark-{uuid.uuid4().hex}"
    body = BUSY
    if number != signal.SIGKILL:
        # Of a run that ends by itself also what tried to get away.
        body += "\nimport subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    options = [*OPTIONS, *functions(tmp_path, body), *DOMAINS, "run.steps=8", "run.checkpoint_every_steps=1"]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "train", *options, "run.output=run"],
        cwd=tmp_path,
        env=environment(MARK=mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 2/"):
            break
    time.sleep(0.3)
    family = of_run(process.pid, mark)
    # The command, two workers and what keeps the sandboxes.
    assert len(family) > 3
    # Ctrl-C on a terminal reaches the whole group.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), err
    assert "Traceback" not in err
    assert left_of(family, mark) == set()
    monkeypatch.setattr(grader_pool, "grade_program", writes_programs(0.05))
    functions(tmp_path, TASTE)
    assert resume(tmp_path / "run", allowed=["rewards.functions.mine"]) is not None
    train(tmp_path / "expected", *functions(tmp_path, TASTE), options=options)
    assert_same_run(tmp_path / "run", tmp_path / "expected")
