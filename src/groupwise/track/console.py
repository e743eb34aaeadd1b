"""What a person sees of a run: a live panel on a terminal, plain lines elsewhere."""

import re
import time
from collections import deque
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from groupwise.completion import Prompt
from groupwise.config import TrainConfig
from groupwise.explain.report import plan_lines as explain_lines
from groupwise.model.load import Policy

# The panel shows means over this many steps: single steps of a few groups are too noisy to read.
WINDOW_STEPS = 10

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _visible(control: re.Match[str]) -> str:
    return f"\\x{ord(control[0]):02x}"


class Reporter(Protocol):
    """Where a run says what it does."""

    def note(self, text: str) -> None:
        """One remark."""
        ...

    def plan(
        self, config: TrainConfig, policy: Policy, problems: str, eval_problems: int, longest_prompt: int, first: Prompt
    ) -> None:
        """What is about to happen, derived from the configuration."""
        ...

    def step(self, line: dict[str, Any]) -> None:
        """The metrics of a finished step."""
        ...


class ConsoleReporter:
    """Reports to a terminal as a live panel, and to anything else as one line a step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._folder, self._total, self._first, self._started = "", 0, 0, 0.0
        self._recent: deque[dict[str, Any]] = deque(maxlen=WINDOW_STEPS)
        self._live: Live | None = None

    def note(self, text: str) -> None:
        """See `Reporter`."""
        # What stands in square brackets, of a prompt or of an equation, is text and no markup. What a program prints
        # may hold commands to the terminal.
        self._console.print(_CONTROL.sub(_visible, text), highlight=False, soft_wrap=True, markup=False)

    def plan(
        self, config: TrainConfig, policy: Policy, problems: str, eval_problems: int, longest_prompt: int, first: Prompt
    ) -> None:
        """See `Reporter`."""
        for line in plan_lines(config, policy, problems, eval_problems, longest_prompt, first):
            self.note(line)

    def begin(self, folder: str, first_step: int, total_steps: int) -> None:
        """Training starts now, after `first_step` finished steps."""
        self._folder, self._first, self._total, self._started = folder, first_step, total_steps, time.monotonic()
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._live.start()

    def end(self) -> None:
        """Training is over; the panel stays as it is."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def step(self, line: dict[str, Any]) -> None:
        """See `Reporter`."""
        self._recent.append(line)
        done = line["step"] - self._first
        eta = (time.monotonic() - self._started) / max(done, 1) * (self._total - line["step"])
        if self._live is not None:
            self._live.update(panel(self._recent, self._total, eta, self._folder))
        else:
            self._console.print(plain_line(line, self._total, eta), highlight=False, soft_wrap=True)


def plan_lines(
    config: TrainConfig, policy: Policy, problems: str, eval_problems: int, longest_prompt: int, first: Prompt
) -> list[str]:
    """The derived table of a run: what one step consists of, and how the first prompt looks to the model."""
    batch = config.batch
    weights = sum(weight.numel() for _, weight in policy.trainable())
    updates = batch.epochs_per_step * batch.minibatches_per_step
    prompt = first.text.replace("\n", "\\n")
    shown = prompt if len(prompt) <= 160 else f"{prompt[:60]} … {prompt[-96:]}"
    return [
        f"model     {policy.name}: {weights / 1e6:.2f} M trained weights, {config.model.compute_dtype} compute",
        f"problems  {problems}; measured on {eval_problems} held-out problems",
        f"step      {batch.prompts_per_step} problems × {batch.samples_per_prompt} samples of at most "
        f"{config.sampling.max_new_tokens} tokens, {updates} optimizer {'step' if updates == 1 else 'steps'}; "
        f"{config.run.steps} steps",
        *explain_lines(config),
        f"prompt    longest {longest_prompt} tokens, the first is: {shown}",
    ]


def plain_line(line: dict[str, Any], total: int, eta_seconds: float) -> str:
    """One step in one line."""
    parts = [f"step {line['step']}/{total}"]
    parts += [f"{label} {text}" for label, text in readings([line])]
    return "  ".join([*parts, f"eta {clock(eta_seconds)}"])


def readings(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The main measurements, each a mean over the given steps."""

    def mean(key: str) -> float | None:
        numbers = [line[key] for line in lines if isinstance(line.get(key), int | float)]
        return sum(numbers) / len(numbers) if numbers else None

    def show(key: str, form: str, scale: float = 1.0) -> str:
        value = mean(key)
        return "–" if value is None else form.format(value * scale)

    return [
        ("reward", f"{show('reward/total/mean', '{:.3f}')} ±{show('reward/total/std_within_group', '{:.3f}')}"),
        ("accuracy", show("reward/correctness/mean", "{:.1f} %", 100)),
        ("format", show("reward/format/mean", "{:.1f} %", 100)),
        ("entropy", show("policy/entropy", "{:.3f}")),
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


def panel(recent: deque[dict[str, Any]], total: int, eta_seconds: float, folder: str) -> Panel:
    """The live view: progress, and means over the last steps."""
    step = recent[-1]["step"]
    table = Table.grid(padding=(0, 2))
    shown = readings(list(recent))
    for left, right in zip(shown[::2], shown[1::2], strict=True):
        table.add_row(Text(left[0], style="dim"), left[1], Text(right[0], style="dim"), right[1])
    head = Text(f"step {step}/{total}   eta {clock(eta_seconds)}")
    # By itself the bar does not end its line.
    bar = Table.grid()
    bar.add_row(ProgressBar(total=total, completed=step, width=48))
    body = Group(head, bar, table)
    return Panel(body, title="groupwise train", subtitle=f"{folder}  (mean of {len(recent)} steps)", width=76)


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
