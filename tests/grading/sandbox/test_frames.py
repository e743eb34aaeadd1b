"""Reading the frames of the harness, which a hostile program may have written."""

import pytest

from groupwise.grading.sandbox.frames import results_of
from groupwise.grading.sandbox.runs import CallResult, Outcome


def read(stdout: bytes, calls: int, detail: str = "") -> tuple[list[str], str]:
    results, error = results_of(Outcome(status="exited", exit_code=0, stdout=stdout, detail=detail), calls)
    assert len(results) == calls
    return [result.status for result in results], error


def test_frames_in_order() -> None:
    outcome = Outcome(status="exited", exit_code=0, stdout=b"r4:i2a;g1:Xx4:Oh: r1:T")
    results, error = results_of(outcome, 4)
    assert error == ""
    assert results == (
        CallResult("returned", 42),
        CallResult("foreign", None, "X"),
        CallResult("raised", None, "Oh: "),
        CallResult("returned", True),
    )


def test_frames_beyond_the_calls_are_not_read() -> None:
    assert read(b"r1:Tr1:Fr1:N", 2) == (["returned", "returned"], "")
    assert read(b"r1:T", 0) == ([], "")


@pytest.mark.parametrize(
    "damage",
    [
        b"r",
        b"r9:T",
        b"r-1:T",
        b"r1",
        b"q1:T",
        b"r1:q",
        b"r:T",
        b"r 1:T",
        b"r" + b"9" * 30 + b":T",
        b"\xff1:T",
        b"r3:iz;",
    ],
)
def test_the_first_malformed_frame_ends_the_reading(damage: bytes) -> None:
    assert read(b"r1:T" + damage + b"r1:T", 3)[0] == ["returned", "missing", "missing"]


def test_a_frame_cut_off_by_the_output_limit_is_missing() -> None:
    assert read(b"r1:Tr100:s96:aaaa", 2, "wrote too much")[0] == ["returned", "missing"]


def test_the_error_of_loading() -> None:
    assert read(b"L4:Oops", 2) == (["missing", "missing"], "Oops")
