"""`groupwise sandbox check`: the suite on this machine, as a table or as JSON."""

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupwise.errors import DataError, UsageError
from groupwise.grading.sandbox.attack_suite import ATTACKS, SuiteResult, read_attacks, run_suite
from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.open import BACKENDS, open_backend, open_sandbox
from groupwise.grading.sandbox.runs import SandboxOptions


def check(backend: str, attacks: str | None, console: Console | None) -> SuiteResult:
    """Run the suite, or the attacks of a file, on one backend; where there is a console, say how it goes.

    Raises UsageError for an unknown backend and DataError where it does not work here.
    """
    if backend != "auto" and backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: expected auto, {', '.join(BACKENDS)}")
    wanted = read_attacks(Path(attacks) if attacks else ATTACKS)
    options = SandboxOptions.model_validate({"backend": backend})
    try:
        sandbox = open_sandbox(options) if backend == "auto" else open_backend(backend, options)
    except UnavailableError as error:
        raise DataError(f"{backend} does not work here: {error}") from None
    with sandbox:
        if console is None:
            return run_suite(sandbox, wanted)
        with console.status(f"{sandbox.name}: {len(wanted)} programs") as status:
            done = itertools.count(1)
            return run_suite(
                sandbox,
                wanted,
                lambda last: status.update(f"{sandbox.name}: {next(done)} of {len(wanted)} programs, {last.name}"),
            )


def as_data(suite: SuiteResult) -> dict[str, Any]:
    """One object of JSON."""
    attacks = [result for result in suite.results if result.want == "fail"]
    controls = [result for result in suite.results if result.want == "pass"]
    return {
        **asdict(suite),
        "passed": suite.passed,
        "attacks": len(attacks),
        "attacks_contained": sum(result.contained for result in attacks),
        "controls": len(controls),
        "controls_passed": sum(result.contained for result in controls),
    }


def print_suite(suite: SuiteResult, console: Console) -> None:
    """For people: what did not hold first, then all of it, then the count."""
    table = Table(title=f"{suite.backend} ({suite.version})", title_justify="left")
    for heading in ("program", "want", "", "seconds", "how it ended"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for result in sorted(suite.results, key=lambda result: result.contained):
        kind = "attack" if result.want == "fail" else "honest"
        held = ("contained" if kind == "attack" else "rewarded") if result.contained else "[bold red]FAILED[/]"
        table.add_row(escape(result.name), kind, held, f"{result.seconds:.2f}", escape(printable(result.reason)))
    console.print(table)
    data = as_data(suite)
    console.print(
        f"{data['attacks_contained']} of {data['attacks']} attacks contained, "
        f"{data['controls_passed']} of {data['controls']} honest programs rewarded; "
        f"an honest run costs {suite.honest_ms:.0f} ms",
        highlight=False,
    )
    together = "of all processes of a run together" if suite.control_groups else "of each process of a run"
    users = "its own host user for each run" if suite.own_users else "runs as your own host user"
    console.print(f"limit of memory: {together}; {users}", highlight=False)


def printable(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:160]
