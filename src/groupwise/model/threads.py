"""How many CPU threads to use. Two threads on a busy machine can be ten times slower than one."""

import os
import time
from dataclasses import dataclass

import torch

# Doubling the threads must win by this factor: below it they mostly wait, and the choice would flip between runs.
WORTHWHILE = 1.5
PROBE_ROWS = 128
PROBE_SECONDS = 0.12


@dataclass(frozen=True)
class ThreadChoice:
    """threads: how many are used. rates: passes a second that the probe measured, by number of threads."""

    threads: int
    rates: dict[int, float]

    def __str__(self) -> str:
        measured = ", ".join(f"{threads}: {rate:.0f}/s" for threads, rate in self.rates.items())
        return f"{self.threads} ({'probe ' + measured if measured else 'as configured'})"


def available_threads() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def choose_threads(configured: int, width: int, sharers: int = 1) -> ThreadChoice:
    """Set torch's threads to `configured`, or to the faster choice for a model of the given hidden width.

    sharers: processes that divide the CPUs.

    The probe runs the products and element-wise work of one layer at the batch of a decoding step.
    """
    if configured:
        torch.set_num_threads(configured)
        return ThreadChoice(configured, {})
    rates: dict[int, float] = {}
    hidden = torch.randn(PROBE_ROWS, width)
    weight = torch.randn(4 * width, width)
    best, threads = 1, 1
    while threads <= max(1, available_threads() // sharers):
        torch.set_num_threads(threads)
        rates[threads] = _rate(hidden, weight)
        if rates[threads] > WORTHWHILE * rates[best]:
            best = threads
        threads *= 2
    torch.set_num_threads(best)
    return ThreadChoice(best, rates)


@torch.no_grad()
def _rate(hidden: torch.Tensor, weight: torch.Tensor) -> float:
    def one_pass() -> None:
        torch.nn.functional.silu(hidden @ weight.T) @ weight

    one_pass()
    passes, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < PROBE_SECONDS:
        one_pass()
        passes += 1
    return passes / elapsed
