"""Put each fault into a copy of the sources, run the tests until one fails, and keep which one it was.

`python -m tests.faults` runs the faults for which no test is known, `python -m tests.faults all` all of them (an hour
and more), `python -m tests.faults WORDS` those whose description has these words. For each: the quick tests of
the files that it names, their slow ones, then those of the rooms between a problem and its gradient. Exit code 1 if one
survives.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

import pytest

from tests.faults.every import FAULTS
from tests.faults.fault import ROOT, Fault

KNOWN = Path(__file__).parent / "caught.json"
QUICK = "not slow and not gpu and not exhaustive"
SLOW = "slow and not gpu and not exhaustive"
ROOMS = tuple(
    f"tests/{room}" for room in ("objective", "training", "model", "rollout", "grading", "evaluation", "options")
)
SECONDS = 600
# What takes seconds to import and belongs to nobody's sources: a child has it at once.
HEAVY = (
    "torch",
    "transformers",
    "hypothesis",
    "pydantic",
    "rich",
    "yaml",
    "safetensors.torch",
    "transformers.models.qwen3.modeling_qwen3",
)


class _First:
    """The first test that failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid


def _run(answer: Connection, root: Path, marks: str, tests: tuple[str, ...]) -> None:
    with (root / "output.txt").open("w") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
            del sys.modules[name]
        os.chdir(root)
        sys.path[:0] = [str(root / "src"), str(root)]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
        first = _First()
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", marks, *tests], plugins=[first])
        answer.send(first.name)


def first_failure(root: Path, marks: str, tests: tuple[str, ...]) -> str:
    """The first test that fails in a process of its own; empty where none does, `hangs` where it does not end."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_run, args=(theirs, root, marks, tests))
    process.start()
    theirs.close()
    name = "hangs"
    if ours.poll(SECONDS):
        with contextlib.suppress(EOFError):
            name = ours.recv()
    else:
        process.kill()
    process.join()
    return name


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of every file of the repository, without byte code."""
    with tempfile.TemporaryDirectory() as folder:
        names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
        for name in names.splitlines():
            target = Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copyfile(ROOT / name, target)
        yield Path(folder)


def catching_test(root: Path, fault: Fault, marks: str, tests: tuple[str, ...]) -> str:
    """The first of these tests that notices a fault; empty for none."""
    path = root / "src" / "groupwise" / fault.file
    sound = path.read_text(encoding="utf-8")
    fault.put_into(root)
    try:
        return first_failure(root, marks, tests)
    finally:
        path.write_text(sound, encoding="utf-8")


def main(arguments: list[str]) -> int:
    # A shell that runs this in the background has it ignored, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    for name in HEAVY:
        importlib.import_module(name)
    known: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.is_file() else {}
    words = " ".join(arguments)
    chosen = [f for f in FAULTS if words == "all" or (words in f.what if words else not known.get(f.what))]
    left = chosen
    with copied() as root:
        for marks, rooms in ((QUICK, ()), (SLOW, ()), (QUICK, ROOMS), (SLOW, ROOMS)):
            for fault in left:
                start = monotonic()
                found = known[fault.what] = catching_test(root, fault, marks, rooms or fault.where)
                print(f"{found or f'none ({marks})':100.100} {monotonic() - start:4.0f} s  {fault.what}", flush=True)
                ordered = {fault.what: known[fault.what] for fault in FAULTS if fault.what in known}
                KNOWN.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            left = [fault for fault in left if not known[fault.what]]
    print(f"{len(chosen) - len(left)} of {len(chosen)} faults are noticed")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
