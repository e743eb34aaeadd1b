"""What a person sees of a run: a live panel on a terminal, plain lines elsewhere."""

import re
import sys
import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import IO, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from groupwise.config import TrainConfig
from groupwise.track.screen import say, screen
from groupwise.track.sparkline import curves
from groupwise.track.tracker import RunContext, Tracker

# The panel shows means over this many steps: single steps of a few groups are too noisy to read.
WINDOW_STEPS = 10

# What is kept of earlier steps, next to the rewards.
SHOWN = {
    "step", "policy/entropy", "completion/neg_logp", "groups/zero_std", "groups/all_right", "groups/all_wrong",
    "groups/accept_rate", "completion/tokens", "completion/truncated_fraction", "time/tokens_per_second",
    "time/sampling_seconds", "time/waited_for_rewards_seconds", "time/training_seconds",
}  # fmt: skip

# Of one step.
SHOWN_FAILURES = 3

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class ConsoleTracker(Tracker):
    """A live panel on a terminal, and one line a step anywhere else."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._folder, self._total, self._first, self._started = "", 0, 0, 0.0
        self._steps: list[dict[str, Any]] = []
        self._live: Live | None = None
        self._panel: Panel | str = ""
        self._stopping = ""
        self._answers = 0
        self._health: Sequence[str] | None = None

    @staticmethod
    def of_lines() -> "ConsoleTracker":
        """Plain lines wherever they go: no panel, no colours, nothing that moves the cursor."""
        plain = Console(file=screen(lambda: sys.stdout), force_terminal=False, force_jupyter=False, color_system=None)
        return ConsoleTracker(plain)

    @staticmethod
    def of_terminal(stream: IO[str]) -> "ConsoleTracker":
        """A panel if the stream is a terminal."""
        return ConsoleTracker(Console(file=screen(lambda: stream)))

    def note(self, text: str) -> None:
        """Print a remark, whatever characters it has."""
        # What stands in square brackets, of a prompt or of an equation, is text and no markup. What a program prints
        # may hold commands to the terminal.
        visible = _CONTROL.sub(lambda control: f"\\x{ord(control[0]):02x}", text)
        self._console.print(visible, highlight=False, soft_wrap=True, markup=False)

    def stopping(self, text: str) -> None:
        """In the panel, which is drawn again several times a second, or else on standard error."""
        self._stopping = text
        if self._live is None:
            say(text)

    def _shown(self) -> RenderableType:
        return Group(self._panel, Text(self._stopping, style="bold")) if self._stopping else self._panel

    def start(self, config: TrainConfig, context: RunContext) -> None:
        """Open the panel."""
        self._folder, self._first, self._total = str(context.folder), context.finished_steps, config.run.steps
        self._started = time.monotonic()
        self._answers = int(context.facts.get("final_answers") or 0)
        if self._console.is_terminal:
            self._panel = panel([], self._total, 0.0, self._folder, None)
            self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._shown)
            self._live.start()

    def step(self, metrics: dict[str, Any]) -> None:
        """Show the step."""
        done = metrics["step"] - self._first
        self.show(metrics, (time.monotonic() - self._started) / max(done, 1) * (self._total - metrics["step"]))

    def show(self, metrics: dict[str, Any], eta: float) -> None:
        """A step, and the seconds that the steps behind it take, without what is measured at the end.

        After the last one the panel stays as it is, above what follows.
        """
        eta += measurement_seconds(metrics, self._answers)
        if self._live is None:
            self._console.print(plain_line(metrics, self._total, eta), highlight=False, soft_wrap=True)
        else:
            self._steps.append(
                {key: value for key, value in metrics.items() if key in SHOWN or key.startswith("reward/")}
            )
            self._panel = panel(self._steps, self._total, eta, self._folder, self._health)
            self._live.refresh()
            if metrics["step"] == self._total:
                self.finish(None)

    def health(self, found: Sequence[str]) -> None:
        """In the panel of the next step; what is new is a remark as well."""
        self._health = found

    def failures(self, step: int, failures: Sequence[dict[str, Any]]) -> None:
        """The first failures of a step."""
        for failure in failures[:SHOWN_FAILURES]:
            where = failure["source"] or failure["problem"]
            self.note(f"not judged at step {step}: {where}: {failure['component']}: {failure['reason']}")
        if len(failures) > SHOWN_FAILURES:
            self.note(f"and {len(failures) - SHOWN_FAILURES} more, all in failures.jsonl")

    def finish(self, summary: dict[str, Any] | None) -> None:  # noqa: ARG002
        """Close the panel."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def plain_line(line: dict[str, Any], total: int, eta_seconds: float) -> str:
    """One step in one line."""
    parts = [f"{label} {text}" for label, text in readings([line])]
    return "  ".join([f"step {line['step']}/{total}", *parts, f"eta {clock(eta_seconds)}"])


def readings(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The main measurements, each a mean over the given steps."""

    def show(key: str, form: str, scale: float = 1.0, otherwise: str = "") -> str:
        found = [line.get(key, line.get(otherwise)) for line in lines]
        numbers = [number for number in found if isinstance(number, int | float)]
        return form.format(sum(numbers) / len(numbers) * scale) if numbers else "–"

    return [
        ("reward", f"{show('reward/total/mean', '{:.3f}')} ±{show('reward/total/std_within_group', '{:.3f}')}"),
        ("accuracy", show("reward/correctness/mean", "{:.1f} %", 100)),
        ("format", show("reward/format/mean", "{:.1f} %", 100)),
        ("entropy", show("policy/entropy", "{:.3f}", otherwise="completion/neg_logp")),
        (
            "no signal",
            f"{show('groups/zero_std', '{:.0f} %', 100)} "
            f"({show('groups/all_right', '{:.0f}', 100)} right, {show('groups/all_wrong', '{:.0f}', 100)} wrong)",
        ),
        ("accepted", show("groups/accept_rate", "{:.0f} %", 100)),
        (
            "tokens",
            f"{show('completion/tokens', '{:.1f}')} "
            f"(truncated {show('completion/truncated_fraction', '{:.1f} %', 100)})",
        ),
        ("speed", show("time/tokens_per_second", "{:.0f} tok/s")),
    ]


def measurement_seconds(line: dict[str, Any], answers: int) -> float:
    """How long so many answers take, at the length and the speed of those of a step."""
    names = ("completion/tokens", "time/sampling_seconds", "tokens/sampled")
    tokens, seconds, sampled = (float(line.get(name) or 0.0) for name in names)
    return answers * tokens * seconds / sampled if sampled > 0 else 0.0


def phases(lines: list[dict[str, Any]]) -> list[tuple[str, float]]:
    """Mean seconds of a step that go into sampling, into grading what was sampled, and into training."""

    def mean(key: str) -> float:
        found = [float(line[key]) for line in lines if isinstance(line.get(key), int | float)]
        return sum(found) / len(found) if found else 0.0

    waited = mean("time/waited_for_rewards_seconds")
    sampling = max(mean("time/sampling_seconds") - waited, 0.0)
    return [("sampling", sampling), ("grading", waited), ("training", mean("time/training_seconds"))]


def own_components(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Rewards that `readings` does not show, each a mean over the given steps."""
    known = ("reward/total/mean", "reward/correctness/mean", "reward/format/mean")
    means = (key for key in lines[-1] if key.startswith("reward/") and key.endswith("/mean") and key not in known)
    found = {key: [line[key] for line in lines if isinstance(line.get(key), int | float)] for key in means}
    return [(key.split("/")[1], f"{sum(values) / len(values):.3f}") for key, values in found.items() if values]


def panel(
    steps: list[dict[str, Any]], total: int, eta_seconds: float, folder: str, health: Sequence[str] | None
) -> Panel:
    """The live view: progress, means over the last steps, curves of all of them, and the health of the run where the
    rules were asked."""
    recent, title = steps[-WINDOW_STEPS:], "groupwise train"
    if not recent:
        waiting = Text(f"step 1/{total}   sampling, grading and training the first one …")
        return Panel(waiting, title=title, subtitle=folder, width=76)
    step = recent[-1]["step"]
    table = Table.grid(padding=(0, 2))
    shown = [*readings(recent), *own_components(recent)]
    for left, right in zip_longest(shown[::2], shown[1::2], fillvalue=("", "")):
        table.add_row(Text(left[0], style="dim"), left[1], Text(right[0], style="dim"), right[1])
    drawn = Table.grid(padding=(0, 2))
    for label, curve in curves(steps) if len(steps) > 1 else ():
        drawn.add_row(Text(label, style="dim"), Text(curve, style="cyan"))
    spent, seconds = Table.grid(padding=(0, 2)), phases(recent)
    longest = sum(number for _, number in seconds)
    for name, number in seconds if longest > 0 else ():
        spent.add_row(
            Text(name, style="dim"), ProgressBar(total=longest, completed=number, width=30), f"{number:.2f} s"
        )
    head = Text(f"step {step}/{total}   eta {clock(eta_seconds)}")
    # By itself the bar does not end its line.
    bar = Table.grid()
    bar.add_row(ProgressBar(total=total, completed=step, width=48))
    lines = [] if health is None else [health_line(health)]
    body = Group(head, bar, table, drawn, spent, *lines)
    return Panel(body, title=title, subtitle=f"{folder}  (mean of {len(recent)} steps)", width=76)


def health_line(found: Sequence[str]) -> Text:
    """The worst finding, and how many others there are."""
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    text = f"health  {found[0]}{others}" if found else "health  no findings"
    style = "green" if not found else "bold red" if found[0].startswith("critical") else "yellow"
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
