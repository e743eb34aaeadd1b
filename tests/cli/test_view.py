"""`groupwise view`: where the page goes, and what is refused."""

from pathlib import Path

import pytest

from tests.support.commands import groupwise
from tests.view.runs import small_run


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_is_in_the_folder_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    small_run(Path("run"))
    outcome = groupwise(capsys, "view", "run")
    assert outcome.code == 0
    assert outcome.out.startswith("wrote run/rollouts.html (0.")
    assert Path("run/rollouts.html").read_text().startswith("<!doctype html>")


def test_a_link_in_the_folder_leads_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    small_run(Path("run"))
    Path("mine.html").write_text("mine")
    Path("run/rollouts.html").symlink_to("../mine.html")
    assert groupwise(capsys, "view", "run").code == 0
    assert Path("mine.html").read_text() == "mine"
    assert not Path("run/rollouts.html").is_symlink()


@pytest.mark.parametrize(("steps", "shown"), [("2", [2]), ("2-", [2, 3]), ("1-2", [1, 2]), ("", [1, 2, 3])])
def test_steps(capsys: pytest.CaptureFixture[str], steps: str, shown: list[int]) -> None:
    small_run(Path("run"))
    outcome = groupwise(capsys, "view", "run", "--output", "some.html", *(["--steps", steps] if steps else []))
    assert outcome.code == 0
    page = Path("some.html").read_text()
    assert [step for step in (1, 2, 3) if f'id="text-{step}"' in page] == shown


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 3, "'nowhere' is not the folder of a run"),
        (["run", "--steps", "a-b"], 2, "--steps=a-b: expected two numbers as in 50-80"),
        (["run", "--steps", "7-9"], 3, "has no rollouts of the steps 7 to 9"),
        (["run", "--output", "none/page.html"], 1, "'none/.page.html.tmp' cannot be written"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str) -> None:
    small_run(Path("run"))
    outcome = groupwise(capsys, "view", *arguments)
    assert outcome.code == code
    assert outcome.err.startswith("error: ")
    assert message in outcome.err
