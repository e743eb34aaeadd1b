"""Time of one call, in CPU time, so that a busy machine makes no test fail."""

import time
from collections.abc import Callable


def cpu_milliseconds(call: Callable[[], object], enough: float, attempts: int = 4) -> float:
    """CPU milliseconds of a call, the least of a few attempts; one below `enough` is not repeated."""
    least = float("inf")
    for _ in range(attempts):
        start = time.process_time()
        call()
        least = min(least, 1e3 * (time.process_time() - start))
        if least < enough:
            break
    return least
