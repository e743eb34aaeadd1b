"""Work that is done again with less at once where memory ran out."""

import gc
from collections.abc import Callable
from typing import TypeVar

from groupwise.errors import MemoryLimitError, first_line
from groupwise.model.device import give_back_memory
from groupwise.stopping import is_out_of_memory
from groupwise.training.last_step import LastStep
from groupwise.training.step import Run

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
        give_back_memory()
        say(f"out of memory: {less()} ({reason})")


def micro_batch_tokens(run: Run) -> int:
    """Of the next micro-batch: as planned, or less since memory ran out."""
    return run.state.micro_batch_tokens or run.config.batch.micro_batch_tokens


def train_less(run: Run, last: LastStep) -> str:
    """Halve the micro-batches from now on, the step anew; what is said of it.

    Raises:
        MemoryLimitError: where each micro-batch holds one answer already, or the update itself did not fit.
    """
    now, batch = micro_batch_tokens(run), run.config.batch
    if not last.restore() or now < run.config.sampling.max_new_tokens or run.ranks.size > 1:
        checkpointing = "" if batch.activation_checkpointing else "batch.activation_checkpointing=true, "
        raise MemoryLimitError(
            f"memory ran out with micro-batches of {now} tokens, which hold one longest answer at most: nothing can be "
            f"divided further. Try {checkpointing}lower sampling.max_new_tokens or batch.logits_chunk_tokens, or a "
            "smaller model"
        )
    run.state.micro_batch_tokens = now // 2
    return f"micro-batches of {now // 2} tokens from now on, were {now}"


def sample_fewer(run: Run) -> str:
    """Sample fewer answers at once from now on; what is said of it. Raises MemoryLimitError where it is one already."""
    fewer = 0 if run.ranks.size > 1 else run.engine.sample_fewer()
    if fewer == 0:
        raise MemoryLimitError(
            "memory ran out while one answer was sampled: lower sampling.max_new_tokens, or take a smaller model"
        )
    return f"{fewer} answers at once are sampled from now on"
