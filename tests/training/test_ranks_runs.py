"""Runs of several processes under torchrun: what one process does, and an end that all of them agree on."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from groupwise.track.rollouts import read_rollouts, rollout_files
from tests.support import run_ranks
from tests.support.commands import SMALL, environment
from tests.support.tiny import relative_difference

pytestmark = pytest.mark.slow

THREE = [*SMALL, "run.steps=3", "batch.prompts_per_step=4", "problems.eval_problems=5", "sampling.max_new_tokens=12"]
RECIPES = {
    "grpo": ["grpo"],
    "minibatches": [
        "dapo",
        "rewards.overlong.buffer_tokens=3",
        "batch.minibatches_per_step=2",
        "batch.epochs_per_step=2",
    ],
    "gspo": ["gspo"],
    "cispo": ["cispo", "rewards.overlong.buffer_tokens=3", "batch.minibatches_per_step=3"],
    "gdpo": ["gdpo", "kl.coefficient=0.05", "objective.old_logps=trainer"],
    "olmo3": ["olmo3"],
    "m2po": ["m2po", "batch.minibatches_per_step=2"],
    "bapo": ["bapo", "batch.minibatches_per_step=2", "rewards.overlong.buffer_tokens=3"],
    "real": ["real", "batch.minibatches_per_step=2"],
    "spans": [
        "grpo",
        "rewards.functions.pieces.path=tests.support.span_rewards:token_pieces",
        "rewards.functions.pieces.returns=token_spans",
        "active_sampling.filter=total",
        "batch.minibatches_per_step=2",
    ],
    "replayed": ["grpo", "sampling.top_k=20", "sampling.replay_mask=true", "batch.epochs_per_step=2"],
}
LIMIT_SECONDS = 400


def torchrun(ranks: int, *command: str, **more: str) -> subprocess.Popen[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    return subprocess.Popen(
        [sys.executable, *launcher, *command],
        env=environment(PYTHONPATH=os.pathsep.join(sys.path), **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = LIMIT_SECONDS) -> tuple[int, str]:
    try:
        out, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        raise AssertionError(f"still running after {seconds} s:\n{out}") from None
    return process.returncode, out


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def comparable(line: dict[str, Any]) -> dict[str, Any]:
    """Without times, and without what is only rounding or the value of a single token."""
    left_out = ("time/", "tokens/per", "engine/logp_gap", "policy/ratio_m", "policy/ratio_p")
    return {key: value for key, value in line.items() if not key.startswith(left_out)}


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that one of the workers fills for all of them."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / name / "made").exists():
            make(base / name)
            (base / name / "made").touch()
    return base / name


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """All recipes in one, two and four processes."""
    folder = made_once(tmp_path_factory, "whole", run_all)
    return {ranks: folder / str(ranks) for ranks in (1, 2, 4)}


def run_all(folder: Path) -> None:
    for ranks in (1, 2, 4):
        runs = [f"{name}={','.join([options[0], *THREE, *options[1:]])}" for name, options in RECIPES.items()]
        code, out = ended(torchrun(ranks, run_ranks.__file__, str(folder / str(ranks)), *runs))
        assert code == 0, out


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", list(RECIPES))
def test_the_number_of_ranks_changes_nothing_but_rounding(folders: dict[int, Path], name: str, ranks: int) -> None:
    one, several = folders[1] / name, folders[ranks] / name
    before, after = metrics(one), metrics(several)
    assert len(before) == len(after) == 3
    # The gradient of the first update is of the same weights.
    assert after[0]["optimizer/grad_norm"] == pytest.approx(before[0]["optimizer/grad_norm"], rel=1e-5)
    for first, second in zip(before, after, strict=True):
        assert comparable(second) == pytest.approx(comparable(first), rel=2e-3, abs=5e-5)
    same_rollouts(*(read_rollouts(rollout_files(folder)[2]) for folder in (one, several)))
    weights = [load_file(folder / "model" / "model.safetensors") for folder in (one, several)]
    # AdamW makes a step of full size of a gradient that is nearly 0, whatever its sign.
    assert relative_difference(weights[1], weights[0]) < 1e-4
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (one, several)]
    assert summaries[1]["after"] == summaries[0]["after"]
    assert summaries[1]["before"] == summaries[0]["before"]


def same_rollouts(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
    """Of each completion the same tokens, and what the rank that trained on it says of them."""
    assert any(row["ratios"] for row in before)
    for first, second in zip(before, after, strict=True):
        for name in ("position", "sample", "ids", "rewards"):
            assert second[name] == first[name]
        for name in ("ratios", "entropies", "logps"):
            assert second[name] == pytest.approx(first[name], abs=2e-3) or second[name] is first[name] is None


LONG = [*SMALL, "run.steps=400", "problems.eval_problems=0", "run.checkpoint_every_steps=0"]


def begun(
    folder: Path, *more: str, ranks: int = 2, steps: int = 2, command: Sequence[str] = ("-m", "groupwise")
) -> tuple[subprocess.Popen[str], list[int]]:
    """A run after its first steps, and the ids of its processes by rank."""
    output = folder / "run"
    process = torchrun(ranks, *command, "train", *LONG, f"run.output={output}", *more)
    wait_for(lambda: (output / "metrics.jsonl").is_file() and len(metrics_so_far(output)) >= steps, process)
    return process, workers(process.pid)


def metrics_so_far(folder: Path) -> list[str]:
    return (folder / "metrics.jsonl").read_text().splitlines()


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while not what():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.1)


def workers(launcher: int) -> list[int]:
    """The children of torchrun in the order of their ranks."""
    found = {}
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                found[int(entry[5:])] = int(pid)
    return [found[rank] for rank in sorted(found)]


def resumed(folder: Path, ranks: int, steps: int) -> list[dict[str, Any]]:
    code, out = ended(
        torchrun(ranks, "-m", "groupwise", "train", "--resume", str(folder / "run"), f"run.steps={steps}")
    )
    assert code == 0, out
    return metrics(folder / "run")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_ends_all_with_a_checkpoint(tmp_path: Path, rank: int) -> None:
    process, pids = begun(tmp_path)
    os.kill(pids[rank], signal.SIGTERM)
    _, out = ended(process)
    assert "exitcode  : 143" in out
    assert "exitcode  : 1 " not in out
    assert out.count("stopped after step ") == 1
    assert "SIGTERM" in out
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    done = int(checkpoint.name.removeprefix("step_"))
    assert done == len(metrics_so_far(tmp_path / "run"))
    # On another number of ranks.
    assert len(resumed(tmp_path, 1, done + 2)) == done + 2


def test_a_rank_that_is_killed_ends_the_others_and_the_run_resumes(tmp_path: Path) -> None:
    process, pids = begun(tmp_path, ranks=3)
    os.kill(pids[1], signal.SIGKILL)
    _, out = ended(process)
    # The launcher may end the others before they notice.
    assert "and is gone" in out or "SIGTERM" in out
    (checkpoint,) = (tmp_path / "run" / "checkpoints").iterdir()
    done = int(checkpoint.name.removeprefix("step_"))
    assert len(resumed(tmp_path, 2, done + 2)) == done + 2


def test_a_rank_that_hangs_is_named_after_the_deadline(tmp_path: Path) -> None:
    process, pids = begun(tmp_path, "run.deadline_seconds=3", ranks=3)
    os.kill(pids[2], signal.SIGSTOP)
    try:
        wait_for(lambda: (tmp_path / "run" / "checkpoints").exists() and bool(list_of(tmp_path)), process)
    finally:
        os.kill(pids[2], signal.SIGKILL)
    _, out = ended(process)
    assert "rank 2 did not come to" in out
    assert "within run.deadline_seconds=3" in out
    assert "rank 2 at " in out


def list_of(folder: Path) -> list[Path]:
    return list((folder / "run" / "checkpoints").glob("step_*"))


def test_an_error_of_one_rank_is_one_message_and_a_checkpoint(tmp_path: Path) -> None:
    fails = tmp_path / "fails"
    script = tmp_path / "failing.py"
    script.write_text(f"""
import os, sys
from pathlib import Path
from groupwise.cli import main
from groupwise.grading.graded_group import GradingError
from groupwise.training.collect import Sampler
usual = Sampler.submitted
def submitted(*arguments):
    if os.environ["RANK"] == "1" and Path({str(fails)!r}).exists():
        raise GradingError("the grader is broken")
    return usual(*arguments)
Sampler.submitted = submitted
sys.argv[0] = "groupwise"
main()
""")
    process, _ = begun(tmp_path, command=[str(script)])
    fails.touch()
    _, out = ended(process)
    assert out.count("the grader is broken") == 1
    assert "error: rank 1 of 2, at " in out
    # The launcher may end the other rank before it has left by itself.
    assert out.count("exitcode  : 3") >= 1
    assert len(list_of(tmp_path)) == 1


def test_ranks_that_begin_differently_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "differ.py"
    script.write_text(
        "import os, sys\nfrom groupwise.cli import main\n"
        "sys.argv = ['groupwise', 'train', *sys.argv[1:], f\"run.seed={os.environ['RANK']}\"]\nmain()\n"
    )
    output = tmp_path / "run"
    code, out = ended(torchrun(2, str(script), *SMALL, f"run.output={output}"))
    assert code != 0
    assert out.count("error: ") == 1
    assert "options.run.seed: 0 on rank 0, 1 on rank 1" in out
    assert not output.exists()


def test_a_missing_variable_of_the_launcher_is_named(tmp_path: Path) -> None:
    process = torchrun(
        1, "-m", "groupwise", "train", *SMALL, f"run.output={tmp_path / 'run'}", RANK="1", WORLD_SIZE="2"
    )
    code, out = ended(process)
    assert code == 2
    assert "the launcher did not set MASTER_ADDR, MASTER_PORT, but RANK=1, WORLD_SIZE=2" in out


def test_a_run_that_torchrun_starts_again_resumes(tmp_path: Path) -> None:
    output = tmp_path / "run"
    options = [*LONG, "run.steps=30", "run.checkpoint_every_steps=1", f"run.output={output}", "run.resume=auto"]
    process = torchrun(2, "--max-restarts=1", "-m", "groupwise", "train", *options)
    wait_for(lambda: (output / "metrics.jsonl").is_file() and len(metrics_so_far(output)) >= 2, process)
    os.kill(workers(process.pid)[1], signal.SIGKILL)
    code, out = ended(process)
    assert code == 0, out
    assert "resumed from step " in out
    assert len(metrics(output)) == 30
    whole = tmp_path / "whole"
    assert ended(torchrun(2, "-m", "groupwise", "train", *options[:-2], f"run.output={whole}"))[0] == 0
    for first, second in zip(metrics(output), metrics(whole), strict=True):
        assert comparable(first) == comparable(second)
