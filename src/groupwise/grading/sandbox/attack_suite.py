"""Attacks on a sandbox, and honest programs that it must let be: what holds on this machine, measured."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from groupwise.errors import DataError
from groupwise.grading.sandbox.broker import ipc
from groupwise.grading.sandbox.runs import Call, Limits, Outcome
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.sandbox.scene import Scene
from groupwise.grading.workers.kill import belonging_to, living_processes

ATTACKS = Path(__file__).parent / "attacks.jsonl"
LIMITS = Limits(
    wall_seconds=1.5, cpu_seconds=2.0, memory_mb=384, processes=16, output_kb=256, disk_mb=32, open_files=64
)
# An honest program is not to fail because the machine is busy.
CONTROL_LIMITS = Limits(wall_seconds=20.0, cpu_seconds=10.0, memory_mb=512, processes=16, disk_mb=32)
GIVEN, EXPECTED = 21, 42
SLACK_SECONDS = 2.0
DAEMON_SECONDS = 2.0
HONEST_RUNS = 20


@dataclass(frozen=True, slots=True)
class Attack:
    """kind: `stdin` reads an integer n and is rewarded for printing 2·n; `function` defines double(n) and is rewarded
    for returning 2·n. want: `fail` for an attack, `pass` for an honest control. hazard: harms the machine if nothing
    holds it, so that it is not tried without a sandbox."""

    name: str
    kind: Literal["stdin", "function"]
    program: str
    want: Literal["pass", "fail"]
    hazard: bool = False


@dataclass(frozen=True, slots=True)
class AttackResult:
    """rewarded: it was given the point. contained: an attack was neither rewarded nor left anything behind; an honest
    control was rewarded. reason: how it ended, and what it did if it should not have."""

    name: str
    want: str
    rewarded: bool
    contained: bool
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All results of one sandbox. honest_ms: median cost of a run of the shortest honest program, start included."""

    backend: str
    version: str
    control_groups: bool
    own_users: bool
    results: tuple[AttackResult, ...]
    honest_ms: float

    @property
    def passed(self) -> bool:
        """Every attack was contained and every honest program rewarded."""
        return all(result.contained for result in self.results)


def read_attacks(path: Path) -> list[Attack]:
    """Read a file of attacks, one JSON object a line; raises DataError with the line of what is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None
    attacks = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            attack = Attack(**row)
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}:{number}: expected name, kind, program and want: {error}") from None
        if attack.kind not in ("stdin", "function") or attack.want not in ("pass", "fail"):
            raise DataError(f"{path}:{number}: kind is stdin or function, want is pass or fail")
        attacks.append(attack)
    if not attacks:
        raise DataError(f"{path}: there is no attack in it")
    return attacks


def run_suite(
    sandbox: Sandbox, attacks: Sequence[Attack], report: Callable[[AttackResult], None] | None = None
) -> SuiteResult:
    """Run every attack, one after the other."""
    results = []
    with Scene() as scene:
        for attack in attacks:
            results.append(try_attack(sandbox, attack, scene))
            if report is not None:
                report(results[-1])
    return SuiteResult(
        backend=sandbox.name,
        version=sandbox.backend.version(),
        control_groups=bool(sandbox.broker.cgroups),
        own_users=sandbox.broker.uids is not None,
        results=tuple(results),
        honest_ms=median_ms(sandbox),
    )


def try_attack(sandbox: Sandbox, attack: Attack, scene: Scene) -> AttackResult:
    """Run one attack and look for what it did."""
    if attack.hazard and sandbox.unsafe:
        return AttackResult(attack.name, attack.want, False, False, 0.0, "not tried: nothing would hold it")
    limits = LIMITS if attack.want == "fail" else CONTROL_LIMITS
    program = scene.place(attack.program)
    began = time.monotonic()
    if attack.kind == "stdin":
        outcome = sandbox.run_program(program, f"{GIVEN}\n", limits)
        rewarded = outcome.succeeded and outcome.stdout.split() == [str(EXPECTED).encode()]
        ended = describe(outcome)
    else:
        run = sandbox.call(program, "double", [Call((GIVEN,))], limits)
        outcome, result = run.outcome, run.results[0]
        rewarded = result.status == "returned" and type(result.value) is int and result.value == EXPECTED
        ended = f"{result.status}: {result.detail or repr(result.value)[:60]}"
    seconds = time.monotonic() - began
    if "daemon_canary" in program:
        time.sleep(DAEMON_SECONDS)
    violations = scene.traces()
    scene.renew()
    left = survivors(sandbox)
    if left:
        violations.append(f"left {len(left)} processes running")
    objects = [found for uid in sandbox.broker.uids or () for found in ipc.of_user(uid)]
    if objects:
        violations.append(f"left {len(objects)} System V objects")
    if outcome.status == "failed":
        violations.append("was not run")
    if limits.wall_seconds is not None and seconds > limits.wall_seconds + SLACK_SECONDS:
        violations.append("held us up")
    if rewarded and attack.want == "fail":
        violations.append("was rewarded")
    if not rewarded and attack.want == "pass":
        violations.append("was not rewarded")
    reason = "; ".join([*violations, ended]) if violations else ended
    return AttackResult(attack.name, attack.want, rewarded, not violations, round(seconds, 3), reason)


def describe(outcome: Outcome) -> str:
    """How a whole program ended, in a few words."""
    text = f"exit code {outcome.exit_code}" if outcome.status == "exited" else outcome.detail
    last = outcome.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    printed = outcome.stdout[:40].decode("utf-8", "replace").split()
    return ", ".join([text, *(f"printed {word}" for word in printed[:1]), *(line[:80] for line in last)])


def survivors(sandbox: Sandbox) -> set[int]:
    """Processes of the sandbox that are still there, a moment after they should have gone."""
    deadline = time.monotonic() + 1.0
    while True:
        left = sandboxed(sandbox)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.01)


def sandboxed(sandbox: Sandbox) -> set[int]:
    """Processes below the broker, and those of the users that it gives to programs."""
    users = set(sandbox.broker.uids or [])
    of_users = {process.pid for process in living_processes() if process.user in users}
    return belonging_to(sandbox.broker.pid) | of_users


def median_ms(sandbox: Sandbox) -> float:
    """Median wall time of a run of the shortest honest program."""
    times = []
    for _ in range(HONEST_RUNS):
        began = time.perf_counter()
        sandbox.run_program("print(2 * int(input()))", f"{GIVEN}\n", CONTROL_LIMITS)
        times.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(times), 1)
