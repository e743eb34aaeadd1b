"""The notebook and the script of examples/, run as they are."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import groupwise
from tests.support.commands import environment

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    assert all(cell.get("outputs", []) == [] for cell in notebook.cells), "committed without what it printed"
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    outputs: list[list[Any]] = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    printed = ["".join(output.get("text", "") for output in cell) for cell in outputs]
    assert "step 24/24" in printed[2]
    assert "\x1b" not in "".join(printed)
    assert "runs in this process" not in printed[2], "a function of a notebook is sent to workers by its source"
    pictures = [output.data["image/png"] for output in outputs[5] if "image/png" in output.get("data", {})]
    assert len(pictures) == 1
    run = groupwise.open_run(tmp_path / "runs" / "ppo_clip")
    before, after = (run.summary[when]["greedy"]["accuracy"]["value"] for when in ("before", "after"))
    assert after > before + 0.2


def test_the_loop_of_ones_own_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "own_loop.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("best: 0.001 with a reward of 0.")
    assert sum(line.startswith("lr 0.001") for line in lines) == 12
    assert 4 <= sum(line.startswith("lr 1e-05") for line in lines) < 12, "left early"
