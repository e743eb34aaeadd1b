"""docs/api.md: its snippets run, one after the other, in one program."""

import contextlib
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

import groupwise
from groupwise.config import compose

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


def test_every_snippet_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the recipe `demo` at a smaller size, and without its measurement."""
    text = PAGE.read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(snippets) == text.count("```python") == 8
    small = compose._recipes()["demo"].replace("prompts_per_step: 16", "prompts_per_step: 4")
    small = small.replace("problems:\n", "problems:\n  eval_problems: 0\n").replace(
        "warmup_steps: 3", "warmup_steps: 0"
    )
    recipes = {**compose._recipes(), "demo": small}
    monkeypatch.setattr(compose, "_recipes", lambda: recipes)
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(tmp_path):
        for number, snippet in enumerate(snippets, start=1):
            # As a notebook has them: a reward that is defined here is sent to workers by its source.
            cell = f"/tmp/ipykernel_1/{number}.py"
            monkeypatch.setitem(linecache.cache, cell, (len(snippet), None, snippet.splitlines(keepends=True), cell))
            exec(compile(snippet, cell, "exec"), names)
        printed = capsys.readouterr().out
        assert "run.stesp is not an option; did you mean run.steps?" in printed
        assert "correct\n[1.0, 0.0]\n" in printed
        assert "1e-05 3\n" in printed
        assert len(groupwise.open_run("runs/first").metrics) == 6
        assert groupwise.open_run("runs/loop").summary["steps"] <= 3


def test_the_table_names_what_there_is() -> None:
    named = re.findall(r"^\| `(\w+)\(", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    rooms = ("groupwise.api.questions", "groupwise.api.results", "groupwise.api.runs")
    values = {name: getattr(groupwise, name) for name in groupwise.__all__ if name.islower()}
    assert set(named) == {name for name, value in values.items() if getattr(value, "__module__", "") in rooms}
