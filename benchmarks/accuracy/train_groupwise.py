"""A run of groupwise's own training loop with snapshots of its weights: started by time_to_accuracy.py."""

import json
import resource
import sys
import time
from typing import Any

import torch
from of_groupwise import Laps, Silent
from recipe import Asked, Progress

from groupwise import __version__
from groupwise.track.run_folder import RunFolder
from groupwise.training import loop
from groupwise.training.checkpoint import TrainState
from groupwise.training.setup import assemble, prepare
from groupwise.training.step import Run


class Enough(Exception):  # noqa: N818
    """Ends the loop: not an error."""


class Watched(Silent):
    """Keeps the time of each step and looks at the weights between two of them."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(Laps())
        self._progress = progress
        self.run: Run | None = None

    def step(self, metrics: dict[str, Any]) -> None:
        """See `Silent`; what is done with the weights is not counted."""
        super().step(metrics)
        assert self.run is not None
        taken = self.steps[-1]
        weights = self.run.policy.model.named_parameters()
        if self._progress.after_step(taken["wall"], taken["cpu"], metrics["reward/correctness/mean"], weights):
            raise Enough
        self.begin()


def main(asked: Asked) -> None:
    """Train until the goal has been passed, and write what it took."""
    config = asked.config()
    progress = Progress(asked)
    watched = Watched(progress)
    prepared = prepare(config, watched, threads=0)
    watched.run = assemble(config, prepared, RunFolder.create(f"{asked.folder}/run", "accuracy"), TrainState(), watched)
    loop.checkpoint = lambda _: None
    startup_cpu = time.process_time()
    watched.begin()
    try:
        loop.train(watched.run)
    except Enough:
        pass
    finally:
        prepared.sampler.grader.close()
    progress.write(
        startup_cpu=startup_cpu,
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        versions={"groupwise": __version__, "torch": torch.__version__},
    )


if __name__ == "__main__":
    main(Asked(**json.loads(sys.argv[1])))
