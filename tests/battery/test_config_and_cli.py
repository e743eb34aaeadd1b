"""Configuration and command line: 8 points."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groupwise.errors import BrokenRunError, DataError, GroupwiseError, UsageError
from groupwise.stopping import SIGNALS
from tests.battery.case import Case
from tests.faults.fault import ROOT
from tests.support.commands import environment, tree
from tests.support.runs import metrics, train

HERE = "tests/battery/test_config_and_cli.py::"
CLI, COMPOSE = "tests/cli/test_cli.py::test_", "tests/config/test_compose.py::test_"

CASES = (
    Case(
        38,
        1,
        "an unknown key",
        "the likeliest one is named, with file and line; exit code 2",
        (CLI + "an_unknown_key_gets_a_suggestion", COMPOSE + "all_errors_at_once_each_with_its_line"),
    ),
    Case(
        39,
        2,
        "options that contradict each other",
        "all are listed at once",
        (
            "tests/config/test_config_checks.py::test_all_at_once",
            "tests/config/test_config_checks.py::test_errors",
            CLI + "all_errors_of_a_configuration_at_once",
        ),
    ),
    Case(
        40,
        2,
        "1e-5 in YAML, a key twice, `on`, null, negative, infinite, any text",
        "the right type, or an error",
        (
            COMPOSE + "numbers_are_numbers",
            COMPOSE + "only_yaml_1_2_scalars_are_special",
            COMPOSE + "broken_files",
            COMPOSE + "dump_round_trips_any_text_and_number",
            CLI + "an_impossible_value_is_refused",
        ),
    ),
    Case(
        41,
        1,
        "--dry-run and --help without a terminal, in 40 columns, with NO_COLOR and CI",
        "plain text",
        (
            HERE + "test_output_is_plain_where_nobody_looks",
            CLI + "a_dry_run_shows_the_plan_and_makes_nothing",
            "tests/track/test_trackers.py::test_plain_lines_show_the_same",
        ),
    ),
    Case(
        42,
        1,
        "exit codes",
        "as documented",
        (
            HERE + "test_exit_codes_are_documented",
            CLI + "an_unknown_key_gets_a_suggestion",
            CLI + "a_problem_file_that_is_not_there",
            "tests/training/test_run.py::test_ctrl_c_ends_the_process_with_130",
        ),
    ),
    Case(
        43,
        1,
        "an output folder that cannot be written, or whose name has blanks and other letters",
        "told before the model is loaded; trained into as any other",
        (
            CLI + "a_run_folder_that_cannot_be_made",
            "tests/training/test_resume.py::test_s9_a_place_that_cannot_be_written_is_told_before_the_model_is_loaded",
            HERE + "test_a_run_folder_of_any_name",
        ),
    ),
)

TINY = ["train", "model.path=bundled", "problems.eval_problems=0", "run.threads=1"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["explain", "grpo"], [*TINY, "--dry-run"]], ids=" ".join
)
def test_output_is_plain_where_nobody_looks(arguments: list[str], tmp_path: Path) -> None:
    narrow = environment(COLUMNS="40", NO_COLOR="1", CI="1", TERM="dumb", PYTHONIOENCODING="ascii")
    command = [sys.executable, "-m", "groupwise", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=narrow, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    assert tree(tmp_path) == {}


def test_exit_codes_are_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    codes = {int(code) for row in re.findall(r"^\| (\d+(?:, \d+)*) \|", page, re.MULTILINE) for code in row.split(", ")}
    kinds = {0, *(kind.exit_code for kind in (GroupwiseError, UsageError, DataError, BrokenRunError))}
    assert codes == kinds | {128 + number for number in SIGNALS}
    folder = (ROOT / "docs" / "run-folder.md").read_text(encoding="utf-8")
    assert "[Exit codes](configuration.md#guards)" in folder


def test_a_run_folder_of_any_name(tmp_path: Path) -> None:
    run = tmp_path / "läufe 日本 'x' [y]" / "run 1%"
    train(run, "run.steps=1", "batch.prompts_per_step=2", "sampling.max_new_tokens=6")
    assert len(metrics(run)) == 1
    assert json.loads((run / "summary.json").read_text())["run"] == str(run)
