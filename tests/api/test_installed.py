"""The package as others have it: a wheel, installed in an environment of its own, and what type checkers see of it."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support.commands import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has groupwise from its wheel, and everything else from the environment of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("groupwise-*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    paths = [path for path in sys.path if path.endswith("site-packages") and Path(path).is_dir()]
    (own,) = (folder / "venv").glob("lib/python*/site-packages")
    # A path file in a folder that is named by another one is not read: the checkout stays out.
    (own / "others.pth").write_text("\n".join({*paths, sysconfig.get_path("purelib")}) + "\n")
    return python


def test_it_trains_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "mine" / "script.py"
    script.parent.mkdir()
    script.write_text(
        """
import groupwise

def brevity(text):
    return 1 / (1 + len(text))

problems = [{"question": f"{a} + {b} = ?", "answer": a + b} for a in range(9) for b in range(9)]
run = groupwise.train(problems=problems, rewards=[(brevity, 0.1)], optimizer={"warmup_steps": 0}, run={"steps": 2})
print(groupwise.__file__, run.config.rewards.functions["brevity"].path, len(run.metrics["reward/brevity/mean"]))
"""
    )
    command: list[str | Path] = [installed, "-I", script]
    done = subprocess.run(command, cwd=script.parent, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, function, steps = done.stdout.splitlines()[-1].split()
    assert Path(file).is_relative_to(installed.parents[1])
    assert function == f"{script.parent}/runs/demo-001/inputs/function_brevity.py:brevity"
    assert steps == "2"
    resumed: list[str | Path] = [
        installed,
        "-I",
        "-m",
        "groupwise",
        "train",
        "runs/demo-001/config.yaml",
        "run.steps=1",
    ]
    again = subprocess.run(resumed, cwd=script.parent, env=environment(), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert sorted(path.name for path in (script.parent / "runs").iterdir()) == ["config-001", "demo-001"]


USER = """
import groupwise
from groupwise import SampleInput

def reward(text: str) -> float:
    return float(len(text))

run = groupwise.train("demo", rewards=[(reward, 0.5)], optimizer={"lr": 1e-3})
reveal_type(run)
reveal_type(run.metrics["reward/total/mean"])
reveal_type(run.metrics[0])
reveal_type(run.model_path)
reveal_type(groupwise.load_config("demo").optimizer.lr)
reveal_type(groupwise.grade("4", "4"))
reveal_type(groupwise.grade(["4"], "4"))
reveal_type(groupwise.explain("dapo").refused)
def see(sample: SampleInput) -> None:
    reveal_type(sample.text)
for step in groupwise.steps("demo"):
    reveal_type(step)
    reveal_type(step.number)
groupwise.train(3, quiet="no")
groupwise.trian("demo")
"""
REVEALED = [
    "groupwise.api.results.Run",
    "list[float]",
    "dict[str, Any]",
    "pathlib.Path",
    "float",
    "groupwise.grading.records.Verdict",
    "list[groupwise.grading.records.Verdict]",
    "bool",
    "str",
    "groupwise.training.step.Step",
    "int",
]


def test_a_type_checker_sees_the_types(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed, "user.py"],
        cwd=tmp_path,
        env={**environment(), "MYPYPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    revealed = [
        line.partition('type is "')[2].rstrip('"') for line in checked.stdout.splitlines() if "Revealed" in line
    ]
    assert [text.replace("builtins.", "").replace("typing.", "") for text in revealed] == REVEALED
    errors = [line for line in checked.stdout.splitlines() if line.startswith("user.py") and "error" in line]
    assert [error.split(":")[3].partition(" has ")[0] for error in errors] == [
        ' Argument 1 to "train"',
        ' Argument "quiet" to "train"',
        " Module",
    ], checked.stdout
    assert '"trian"' in errors[2]
