"""What the shell completes, asked as bash and zsh ask, and the examples of every command's help."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from groupwise import cli
from tests.support.commands import environment, groupwise


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words; bash divides a word at `=`."""
    variables = {
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_GROUPWISE_COMPLETE": "complete_bash",
    }
    program = (
        "import sys, atexit; sys.argv = ['groupwise']\n"
        "atexit.register(lambda: sys.stderr.write('torch' * ('torch' in sys.modules)))\n"
        "from groupwise.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(**variables), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ex",), ["explain"]),
        (("train", "da"), ["dapo"]),
        (("train", "dapo", "my"), ["my.yaml"]),
        (("train", "objective.ra"), ["objective.ratio=" + name for name in ("token", "none")]),
        (("train", "kl.coe"), ["kl.coefficient=0.0"]),
        (("train", "objective.surrogate", "=", "cis"), ["cispo"]),
        (("train", "objective.surrogate", "="), ["ppo_clip", "cispo"]),
        (("explain", "active_sampling.refill", "=", "t"), ["true"]),
        (("train", "objective.surrogate", "=", "cispo", "dem"), ["demo"]),
        (("train", "my.yaml", "dem"), ["demo"]),
        (("train", "--resume", ""), ["runs/demo-001"]),
        (("eval", ""), ["bundled", "runs/demo-001/model"]),
    ],
    ids=" ".join,
)
def test_completion_in_bash(words: tuple[str, ...], expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "my.yaml").touch()
    (tmp_path / "runs" / "demo-001" / "model").mkdir(parents=True)
    offered = completed(tmp_path, "groupwise", *words)
    assert set(expected) <= set(offered)
    assert len(offered) == len(set(offered))


def test_a_word_with_its_value_in_zsh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_GROUPWISE_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "groupwise train objective.surrogate=cis")
    assert '"objective.surrogate=cispo":"' in groupwise(capsys).out


def test_no_key_of_a_name_that_users_choose(tmp_path: Path) -> None:
    assert completed(tmp_path, "groupwise", "train", "domains.") == []


def test_completion_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    """The shell is the parent's, so that it is asked of a bash."""
    if not os.access("/bin/bash", os.X_OK):
        pytest.skip("no bash")
    done = subprocess.run(
        ["/bin/bash", "-c", f"{shlex.quote(sys.executable)} -m groupwise --install-completion; true"],
        env=environment(HOME=str(tmp_path), SHELL="/bin/bash"),
        capture_output=True,
        text=True,
    )
    assert "bash completion installed" in done.stdout, done.stderr
    assert "_GROUPWISE_COMPLETE" in "".join(path.read_text() for path in tmp_path.rglob("*.sh"))


def commands(command: Any, *names: str) -> dict[tuple[str, ...], Any]:
    """Every command below one, by its words."""
    found = {names: command}
    for name, below in getattr(command, "commands", {}).items():
        found |= commands(below, *names, name)
    return found


COMMANDS = commands(typer.main.get_command(cli.app))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_ends_with_examples_that_can_be_typed(words: tuple[str, ...]) -> None:
    heading, *lines = (COMMANDS[words].epilog or "").split("\n\n")
    assert heading == "Examples:"
    assert lines
    for line in lines:
        assert line.startswith(("groupwise " + " ".join(words)).strip()), line
        arguments = shlex.split(line.partition(" > ")[0])[1:]
        if arguments[0] == "COMMAND":
            continue
        command, depth, arguments = COMMANDS[()], 0, [*arguments, "--"]
        while arguments[depth] in getattr(command, "commands", {}):
            command, depth = command.commands[arguments[depth]], depth + 1
        assert not getattr(command, "commands", {}), f"{line} names no command"
        # Raises for an option that the command does not have, and for arguments that it lacks.
        assert command.make_context(line, arguments[depth:])
