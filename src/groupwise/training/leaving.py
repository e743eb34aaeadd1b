"""The checkpoint of the last finished step: when it is due, and however a run ends."""

import signal

from groupwise.errors import BrokenRunError, WriteError, first_line
from groupwise.model.reference import fingerprint_weights
from groupwise.ranks import Ranks
from groupwise.stopping import Stop, Stopped
from groupwise.training.checkpoint import save_checkpoint, tensors_of
from groupwise.training.last_step import LastStep
from groupwise.training.step import Run


def checkpoint(run: Run) -> None:
    """Save the state of the last finished step.

    Raises:
        RuntimeError: if the reference is no longer the policy that the run began with, although nothing may train it.
    """
    frozen = None if run.config.kl.refresh_reference_every_steps else run.reference
    if frozen is not None and fingerprint_weights(frozen) != run.reference_digest:
        raise RuntimeError("the reference policy changed during the run: something trains or overwrites it")
    shards = run.policy.shards
    if run.ranks.rank == 0:
        run.folder.journal.sync()
        run.state.files = run.folder.journal.record()
    if run.ranks.rank == 0 or shards is not None:
        moved = run.reference if run.config.kl.refresh_reference_every_steps else None
        tensors = tensors_of(run.policy, moved, run.optimizer)
        savers = Ranks() if shards is None else shards.savers
        save_checkpoint(run.folder.checkpoints, tensors, run.state, run.config.run.keep_checkpoints, savers)


def leave(run: Run, stop: Stop, last: LastStep, error: BaseException) -> None:
    """Save the last complete step, as far as that is possible, and tell the error how to resume."""
    number, work = last.number, stop.work
    stop.hold("the checkpoint", saves=run.state.step)
    if stop.is_forced:
        return
    if run.policy.shards is not None:
        # Each has a part of it: all come here before it is written.
        is_asked = isinstance(error, (Stopped, KeyboardInterrupt))
        run.ranks.announce(error, (stop.cause or signal.SIGINT) if is_asked else None)
    is_broken = isinstance(error, BrokenRunError)
    can_save = (error.is_sound if isinstance(error, BrokenRunError) else last.is_recorded) and last.restore()
    # Where a pass broke off, the other ranks may still be in it, or gone.
    can_save = can_save and (run.policy.shards is None or run.ranks.link.told)
    if can_save:
        try:
            checkpoint(run)
        except Exception as failure:
            if not isinstance(error, Exception):
                failure.add_note(
                    f"Step {run.state.step} could not be saved: make room, and resume from the newest checkpoint: "
                    f"groupwise train --resume {run.folder.path}"
                )
                raise
            why = first_line(failure)
            error.add_note(f"Step {run.state.step} could not be saved{'' if why == first_line(error) else f': {why}'}.")
            can_save = False
    # A guard says for itself what to do.
    if isinstance(error, Exception) and not is_broken:
        saved = f"step {run.state.step} is saved" if can_save else "the newest checkpoint is an earlier one"
        place = "at its end" if work == f"step {number}" else f"at {work or 'its beginning'}"
        again = f"resume: groupwise train --resume {run.folder.path}"
        error.add_note(
            f"The run stopped in step {number} of {run.config.run.steps}, {place}; {saved}. "
            + (
                f"Make room there, or make it writable, and {again}"
                if isinstance(error, WriteError)
                else f"Fix the cause and {again}, with --allow-change rewards if that changes a reward function"
            )
        )
