"""Work that is done again with less at once where memory ran out."""

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from groupwise.errors import first_line
from groupwise.stopping import is_out_of_memory

T = TypeVar("T")


def with_less(act: Callable[[], T], less: Callable[[], str], say: Callable[[str], None]) -> T:
    """What `act` gives; where memory runs out, `less` changes something, tells what, and `act` begins again.

    Raises what `less` raises, where nothing can be less.
    """
    while True:
        try:
            return act()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            reason = first_line(error)
        # Behind the handler, so that what the error held is given back.
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        say(f"out of memory: {less()} ({reason})")
