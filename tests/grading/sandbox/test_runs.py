"""Programs and function calls in each sandbox: what comes back, and the limits."""

import collections
import math

import pytest

from groupwise.grading.sandbox.runs import Call, Limits
from groupwise.grading.sandbox.sandbox import Sandbox
from groupwise.grading.sandbox.wire_values import ForeignError

ROOMY = Limits(wall_seconds=20, cpu_seconds=15)
SHORT = Limits(wall_seconds=0.5)


def test_a_program_reads_and_prints(each_sandbox: Sandbox) -> None:
    outcome = each_sandbox.run_program(
        "import sys\nprint(2 * int(input()))\nprint('note', file=sys.stderr)", "21\n", ROOMY
    )
    assert (outcome.status, outcome.exit_code, outcome.stdout, outcome.stderr) == ("exited", 0, b"42\n", b"note\n")
    assert outcome.succeeded
    assert 0 < outcome.cpu_seconds < 15


@pytest.mark.parametrize(
    ("program", "status", "code", "signal"),
    [
        ("raise SystemExit(3)", "exited", 3, None),
        ("1 / 0", "exited", 1, None),
        ("import os; os._exit(0)", "exited", 0, None),
        ("import os; os.kill(os.getpid(), 11)", "killed", None, 11),
        ("import os; os.kill(os.getpid(), 9)", "killed", None, 9),
        ("import os; os.abort()", "killed", None, 6),
        ("exit(4)", "exited", 4, None),
        ("assert __name__ == '__main__'; import __main__; assert __main__.__name__ == '__main__'", "exited", 0, None),
        ("import sys; assert sys.stdin.read() == ''; assert sys.argv[1:] == []", "exited", 0, None),
    ],
)
def test_endings(each_sandbox: Sandbox, program: str, status: str, code: int | None, signal: int | None) -> None:
    outcome = each_sandbox.run_program(program, "", ROOMY)
    assert (outcome.status, outcome.exit_code, outcome.signal) == (status, code, signal), outcome


def test_the_wall_clock_ends_a_run_and_keeps_what_it_wrote(each_sandbox: Sandbox) -> None:
    outcome = each_sandbox.run_program("import time\nprint(1, flush=True)\ntime.sleep(60)", "", SHORT)
    assert (outcome.status, outcome.stdout) == ("timeout", b"1\n")
    assert 0.5 <= outcome.wall_seconds < 5
    assert not outcome.succeeded


def test_too_much_output_ends_a_run(each_sandbox: Sandbox) -> None:
    limits = Limits(wall_seconds=20, output_kb=64)
    outcome = each_sandbox.run_program("import sys\nwhile True: sys.stdout.write('x' * 4096)", "", limits)
    assert outcome.status == "output_limit"
    assert outcome.stdout == b"x" * 65536
    exactly = each_sandbox.run_program("import sys\nsys.stdout.write('x' * 65536)", "", limits)
    assert (exactly.status, len(exactly.stdout)) == ("exited", 65536)


def test_the_last_part_of_standard_error_is_kept(sandbox: Sandbox) -> None:
    program = "import sys\nfor i in range(20000): print(i, file=sys.stderr)"
    outcome = sandbox.run_program(program, "", Limits(wall_seconds=20, output_kb=16))
    assert outcome.status == "exited"
    assert outcome.stderr.endswith(b"19998\n19999\n")
    assert len(outcome.stderr) <= 16 << 10


def test_large_input_and_output_do_not_block_each_other(sandbox: Sandbox) -> None:
    data = ("é" * 99 + "\n") * 20_000
    limits = Limits(wall_seconds=30, cpu_seconds=20, output_kb=8192)
    outcome = sandbox.run_program("import sys\nfor line in sys.stdin: sys.stdout.write(line)", data, limits)
    assert outcome.stdout.decode() == data
    unread = sandbox.run_program("print('done')", data, limits)
    assert (unread.status, unread.stdout) == ("exited", b"done\n")


def test_a_long_program(sandbox: Sandbox) -> None:
    program = "\n".join(f"a{i} = {i}" for i in range(60_000)) + "\nprint(a59999)"
    assert len(program) > 1 << 19
    assert (
        sandbox.run_program(program, "", Limits(wall_seconds=60, cpu_seconds=60, memory_mb=1024)).stdout == b"59999\n"
    )


@pytest.mark.parametrize("text", ["print('\ud800')", "print(1)\0", "print(", "\u2028\nx"])
def test_programs_that_are_none(sandbox: Sandbox, text: str) -> None:
    outcome = sandbox.run_program(text, "", ROOMY)
    assert (outcome.status, outcome.stdout) == ("exited", b"")
    assert outcome.exit_code == 1


def test_the_same_order_of_sets_in_every_run(sandbox: Sandbox) -> None:
    program = "print(list({str(i) for i in range(50)}))"
    assert len({sandbox.run_program(program, "", ROOMY).stdout for _ in range(3)}) == 1


def test_memory_and_processor_time_are_limited(each_sandbox: Sandbox) -> None:
    limits = Limits(wall_seconds=20, cpu_seconds=1, memory_mb=128)
    hungry = each_sandbox.run_program("data = bytearray(200 << 20)", "", limits)
    # sandlock kills, the others refuse.
    assert hungry.signal == 9 if each_sandbox.name == "sandlock" else b"MemoryError" in hungry.stderr
    assert not hungry.succeeded
    busy = each_sandbox.run_program("while True: pass", "", limits)
    assert busy.status == "killed"
    assert 0.3 < busy.cpu_seconds < 4


def test_memory_of_all_processes_together(sandbox: Sandbox) -> None:
    if not sandbox.broker.cgroups:
        pytest.skip("no control groups can be made here")
    program = """
import os
for _ in range(6):
    if os.fork() == 0:
        data = bytearray(b'x' * (60 << 20))
        os.read(0, 1)
        os._exit(0)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(6)]
print(codes.count(0))
"""
    outcome = sandbox.run_program(program, "", Limits(wall_seconds=20, cpu_seconds=10, memory_mb=128))
    assert outcome.stdout.strip() != b"6"


def test_results_of_calls(each_sandbox: Sandbox) -> None:
    program = """
import collections, os
def f(kind, *rest, **named):
    print('r1:T', flush=True)
    if kind == 'raise':
        raise ValueError('bad \\n text')
    if kind == 'exit':
        raise SystemExit(0)
    if kind == 'object':
        return object()
    if kind == 'counter':
        return collections.Counter('aab')
    if kind == 'append':
        rest[0].append(1)
    return (kind, list(rest), named)
"""
    shared = [0]
    calls = [
        Call(("a", 1, True, 1.0, math.nan, -0.0, {"k": {1, 2}}), {"x": (b"y", None)}),
        Call(("raise",)),
        Call(("exit",)),
        Call(("object",)),
        Call(("counter",)),
        Call(("append", shared)),
        Call(("append", shared)),
    ]
    run = each_sandbox.call(program, "f", calls, ROOMY)
    assert run.outcome.succeeded
    assert run.load_error == ""
    assert [result.status for result in run.results] == ["returned", "raised", "raised", "foreign", *["returned"] * 3]
    kind, rest, named = run.results[0].value
    assert type(run.results[0].value) is tuple
    assert [type(item) for item in rest] == [int, bool, float, float, float, dict]
    assert math.isnan(rest[3])
    assert math.copysign(1, rest[4]) == -1
    assert (kind, rest[5], named) == ("a", {"k": {1, 2}}, {"x": (b"y", None)})
    assert run.results[1].detail == "ValueError: bad \n text"
    assert run.results[2].detail == "SystemExit: 0"
    assert run.results[3].detail.endswith("builtins.object")
    assert run.results[4].value == {"a": 2, "b": 1}
    assert type(run.results[4].value) is dict
    # Each call has arguments of its own.
    assert run.results[5].value == run.results[6].value == ("append", [[0, 1]], {})
    assert shared == [0]
    assert run.outcome.stderr.count(b"r1:T") == 7


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "time.sleep(60)", "os.write(1, b'x' * 9)"])
def test_an_end_in_the_third_call_keeps_the_first_two(sandbox: Sandbox, end: str) -> None:
    program = f"import os, time\ndef f(n):\n    if n == 3:\n        {end}\n        os._exit(0)\n    return n"
    run = sandbox.call(program, "f", [Call((n,)) for n in range(1, 6)], Limits(wall_seconds=1.0))
    assert [result.status for result in run.results] == ["returned", "returned", "missing", "missing", "missing"]
    assert [result.value for result in run.results[:2]] == [1, 2]


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("def g(): pass", "the program defines no f"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError: invalid syntax (program.py, line 1)"),
        ("raise KeyError('f')", "KeyError: 'f'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_programs_that_cannot_be_loaded(sandbox: Sandbox, program: str, error: str) -> None:
    run = sandbox.call(program, "f", [Call(), Call()], ROOMY)
    assert run.load_error == error
    assert [(result.status, result.detail) for result in run.results] == [("missing", error)] * 2


def test_arguments_are_made_of_builtins(sandbox: Sandbox) -> None:
    with pytest.raises(ForeignError, match=r"object"):
        sandbox.call("def f(n): return n", "f", [Call((object(),))])
    assert sandbox.call("def f(n): return n", "f", [Call((collections.Counter("a"),))]).results[0].value == {"a": 1}


def test_no_calls(sandbox: Sandbox) -> None:
    assert sandbox.call("def f(): pass", "f", []).results == ()
