"""`groupwise sandbox check`: the battery on this machine, as a table or as JSON."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from groupwise.errors import DataError, UsageError
from groupwise.grading.sandbox.backend import UnavailableError
from groupwise.grading.sandbox.battery import ATTACKS, Battery, Finding, read_attacks, run_battery
from groupwise.grading.sandbox.open import BACKENDS, open_backend, open_sandbox
from groupwise.grading.sandbox.options import SandboxOptions


def check(backend: str, attacks: str | None, console: Console | None) -> Battery:
    """Run the battery, or the attacks of a file, on one backend; where there is a console, say how it goes.

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
            return run_battery(sandbox, wanted)
        with console.status(f"{sandbox.name}: {len(wanted)} programs") as status:
            done: list[Finding] = []

            def tell(finding: Finding) -> None:
                done.append(finding)
                status.update(f"{sandbox.name}: {len(done)} of {len(wanted)} programs, {finding.name}")

            return run_battery(sandbox, wanted, tell)


def as_data(battery: Battery) -> dict[str, Any]:
    """One object of JSON."""
    attacks = [finding for finding in battery.findings if finding.want == "fail"]
    controls = [finding for finding in battery.findings if finding.want == "pass"]
    return {
        "backend": battery.backend,
        "version": battery.version,
        "control_groups": battery.control_groups,
        "own_users": battery.own_users,
        "passed": battery.passed,
        "attacks": len(attacks),
        "attacks_contained": sum(finding.contained for finding in attacks),
        "controls": len(controls),
        "controls_paid": sum(finding.contained for finding in controls),
        "honest_ms": battery.honest_ms,
        "findings": [
            {
                "name": finding.name,
                "want": finding.want,
                "paid": finding.paid,
                "contained": finding.contained,
                "seconds": finding.seconds,
                "reason": finding.reason,
            }
            for finding in battery.findings
        ],
    }


def print_battery(battery: Battery, console: Console) -> None:
    """For people: what did not hold first, then all of it, then the count."""
    table = Table(title=f"{battery.backend} ({battery.version})", title_justify="left")
    for heading in ("program", "want", "", "seconds", "how it ended"):
        table.add_column(heading, justify="right" if heading == "seconds" else "left")
    for finding in sorted(battery.findings, key=lambda finding: finding.contained):
        kind = "attack" if finding.want == "fail" else "honest"
        held = ("contained" if kind == "attack" else "paid") if finding.contained else "[bold red]FAILED[/]"
        table.add_row(escape(finding.name), kind, held, f"{finding.seconds:.2f}", escape(printable(finding.reason)))
    console.print(table)
    data = as_data(battery)
    console.print(
        f"{data['attacks_contained']} of {data['attacks']} attacks contained, "
        f"{data['controls_paid']} of {data['controls']} honest programs paid; "
        f"an honest run costs {battery.honest_ms:.0f} ms",
        highlight=False,
    )
    together = "of all processes of a run together" if battery.control_groups else "of each process of a run"
    users = "a host user of its own for each run" if battery.own_users else "runs as your own host user"
    console.print(f"limit of memory: {together}; {users}", highlight=False)


def printable(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:160]
