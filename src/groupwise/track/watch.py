"""A run that another process trains, followed by what it writes."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.track import lock
from groupwise.track.console import WINDOW_STEPS, ConsoleTracker
from groupwise.track.run_folder import RunFolder
from groupwise.track.tracker import RunContext

POLL_SECONDS = 0.5


Judge = Callable[[Mapping[str, Any]], Sequence[str] | None]
"""Takes in a step, and says what the health rules found so far, the worst first; None before they were asked."""


def watch(
    path: str,
    screen: ConsoleTracker,
    wait: Callable[[float], None] = time.sleep,
    judge: Judge = lambda _line: None,
) -> None:
    """Show the steps of the run in a folder, done and to come, until it is complete or no process trains it.

    judge: what is found for the first time is a remark, and all of it in the panel.

    Raises:
        DataError: if there is no run.
        UsageError: if its options cannot be read.
    """
    folder = RunFolder.existing(path)
    config = compose_train_config([str(folder.config)])
    facts: dict[str, Any] = {}
    with suppress(DataError):
        facts = folder.read_context()
    screen.start(config, RunContext(folder.path, 0, facts))
    last, recent, said = 0, 0.0, set[str]()
    try:
        while last < config.run.steps:
            # Asked before: what is written in between is read.
            is_held = lock.is_held(folder.path)
            # A resumed run may have cut its lines back.
            for line in finished_steps(folder.metrics):
                if line["step"] > last:
                    last = line["step"]
                    seconds = float(line.get("time/step_seconds") or 0.0)
                    recent += (seconds - recent) / min(last, WINDOW_STEPS)
                    found = judge(line)
                    if found is not None:
                        screen.health(found)
                        for text in (text for text in found if text not in said):
                            screen.note(f"{text}: groupwise diagnose says more")
                        said.update(found)
                    screen.show(line, recent * (config.run.steps - last))
            if last < config.run.steps and not is_held:
                screen.note(f"no process trains the run now: it is at step {last} of {config.run.steps}")
                break
            wait(POLL_SECONDS)
    finally:
        screen.finish(None)


def finished_steps(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of metrics.jsonl; the last one may be half written."""
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            return
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            yield line
