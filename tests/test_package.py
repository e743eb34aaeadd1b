"""What is distributed: the contents of wheel and sdist, and that the version stands the same wherever it is written."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from groupwise import __version__

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "groupwise"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def data_files() -> set[str]:
    """What the package reads at run time, by its path in the package."""
    return {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }


def test_the_wheel_has_the_package_alone(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"groupwise-{__version__}.dist-info/METADATA").decode()
        entry_points = archive.read(f"groupwise-{__version__}.dist-info/entry_points.txt").decode()
    own = {name for name in names if not name.startswith(f"groupwise-{__version__}.dist-info/")}
    assert own == data_files()
    assert {"groupwise/recipes/demo.yaml", "groupwise/bundled/model/model.safetensors"} <= own
    assert f"groupwise-{__version__}.dist-info/licenses/LICENSE" in names
    assert "groupwise = groupwise.cli:main" in entry_points
    for line in ("Requires-Python: >=3.11", "Classifier: Typing :: Typed", "License-Expression: Apache-2.0"):
        assert line in metadata
    assert wheel.stat().st_size < 4 * 2**20


def test_the_sdist_can_be_tested_and_documented(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in data_files()} <= names
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "Makefile", "constraints.txt"):
        assert name in names
    for name in ("tests/test_package.py", "docs/techniques.md", "benchmarks/evidence.py", "examples/make_sums.py"):
        assert name in names
    assert not [name for name in names if re.match(r"\.(venv|git|ci|github|mypy_cache)/|build/|runs/", name)]


def test_the_version_is_one() -> None:
    changes = re.findall(r"^## (\S+)(?: - (\S+))?", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert changes[0] == ("Unreleased", "")
    assert changes[1][0] == __version__
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in changes[1:])
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in citation
    assert f'date-released: "{changes[1][1]}"\n' in citation


def test_pins_are_of_what_the_project_allows() -> None:
    """Each dependency with bounds has a pin in constraints.txt, which is what the tests ran with."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    stated = [Requirement(text) for text in (*project["dependencies"], *(t for key in extras for t in extras[key]))]
    checked = 0
    for requirement in stated:
        # TRL is installed by whoever compares with it.
        if requirement.name in ("groupwise", "trl", "vllm"):
            continue
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
        checked += 1
    assert checked > 15
