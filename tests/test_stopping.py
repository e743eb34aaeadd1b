"""What asks a run to stop, and where it is left."""

import os
import signal
import threading
import time
from concurrent.futures import Future

import pytest

from groupwise import stopping
from groupwise.stopping import OVER, SIGNALS, Stop, Stopped, is_out_of_memory, now, result


def told() -> tuple[list[str], Stop]:
    said: list[str] = []
    return said, Stop(said.append)


def press(number: int = signal.SIGTERM) -> None:
    os.kill(os.getpid(), number)


def busy(until: float) -> None:
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_at_the_next_place_and_says_so_at_once(number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in SIGNALS]
    said, stop = told()
    with stop:
        stop.saves = 40
        now("micro-batch 3 of 12")
        press(number)
        assert said == ["stopping: finishing micro-batch 3 of 12, then saving step 40; again to stop without saving"]
        with pytest.raises(Stopped):
            now("micro-batch 4 of 12")
    assert (stop.cause, stop.is_forced) == (number, False)
    assert [signal.getsignal(n) for n in SIGNALS] == before
    now("nothing asks any more")


def test_what_is_held_is_finished_first() -> None:
    said, stop = told()
    with stop:
        stop.hold("step 41", saves=41)
        press()
        assert stop.work == "step 41"
        now("a write")
        assert said == ["stopping: finishing step 41, then saving step 41; again to stop without saving"]
        stop.release()
        with pytest.raises(Stopped):
            now("the next step")


@pytest.mark.parametrize("held", [False, True])
def test_a_second_signal_stops_where_it_strikes(held: bool) -> None:
    _, stop = told()
    with stop:
        if held:
            stop.hold("the checkpoint", saves=1)
        press()
        with pytest.raises(Stopped):
            press()
        assert stop.is_forced


def test_work_that_reaches_no_place_is_left_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.1)
    _, stop = told()
    began = time.monotonic()
    with stop:
        stop.hold("what has to be finished", saves=None)
        press()
        time.sleep(0.3)
        stop.release()
        with pytest.raises(Stopped):
            busy(began + 5)
    assert time.monotonic() < began + 2
    assert not stop.is_forced


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with told()[1] as stop:
            press(signal.SIGHUP)
            now("all of it")
            assert stop.cause is None
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_deadline_and_a_reason_in_words() -> None:
    with Stop(print, deadline=time.monotonic() - 1) as stop, pytest.raises(Stopped):
        now("a step")
    assert stop.cause == OVER
    said, stop = told()
    assert not stopping.ask("nobody runs")
    with stop:
        assert stopping.ask("the output is closed")
        assert said == ["stopping: finishing what is being done"]
        with pytest.raises(Stopped):
            now("a step")


def test_who_waits_is_stopped_too() -> None:
    waits: Future[int] = Future()
    timer = threading.Timer(0.1, press)
    with told()[1]:
        timer.start()
        with pytest.raises(Stopped):
            result(waits, "a reward")
    done: Future[int] = Future()
    done.set_result(3)
    with told()[1]:
        assert result(done, "a reward") == 3


def test_another_thread_is_left_alone() -> None:
    seen = []

    def work() -> None:
        with told()[1]:
            now("a step")
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    with told()[1] as stop:
        stop.cause = "it is asked"
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"),
            True,
        ),
        (OSError(28, "No space left on device"), False),
        (RuntimeError("shapes differ"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_says_that_memory_ran_out(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_torch_s_own_words() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
