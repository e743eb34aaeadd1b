"""The front door: its example runs as it stands, its links lead somewhere, both languages show the same numbers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import environment

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "README.zh-CN.md")


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def example_of(page: str) -> str:
    (example,) = re.findall(r"^```python\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return str(example)


@pytest.mark.slow
def test_the_example_runs_in_an_empty_folder_and_gives_what_the_text_says(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(example_of("README.md"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    sampled, held_out = map(float, done.stdout.splitlines()[-1].split())
    # "About 94": the threads of a machine round differently.
    assert sampled > 0.6
    assert 0.88 <= held_out <= 1.0


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page))
    assert len(links) > 6
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_both_languages_have_the_same_numbers_and_code() -> None:
    tables = [re.findall(r"^\| .*±.*$", text_of(page), re.MULTILINE) for page in PAGES]
    numbers = [[re.findall(r"[\d.]+", row.partition("|")[2].partition("|")[2]) for row in table] for table in tables]
    assert len(numbers[0]) >= 5
    assert numbers[0] == numbers[1]
    codes = [[line.partition("#")[0].rstrip() for line in example_of(page).splitlines()] for page in PAGES]
    assert codes[0] == codes[1]
