"""The curves of a run as SVG: `python benchmarks/run_picture.py RUN docs/pictures/demo.svg`.

RUN is a finished run, such as that of `make demo`. The bytes depend on its metrics alone. Colours are of middle
brightness on no background, to be read on white and on black. Needs matplotlib (the extra `docs`).
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

import groupwise

BLUE, ORANGE, GREY = "#3f83e8", "#d9702b", "#808080"
PANELS = (
    ("right answers, fraction", {"reward/correctness/mean": (BLUE, "of those sampled")}),
    ("groups, fraction", {"groups/all_right": (BLUE, "all right"), "groups/all_wrong": (ORANGE, "all wrong")}),
    ("entropy, nats a token", {"policy/entropy": (BLUE, "of the policy")}),
    ("length, tokens", {"completion/tokens": (BLUE, "of an answer")}),
)


def smoothed(values: list[float], window: int = 5) -> list[float]:
    """The mean of the last `window` values at each step."""
    return [
        sum(values[max(0, i - window + 1) : i + 1]) / len(values[max(0, i - window + 1) : i + 1])
        for i in range(len(values))
    ]


def main() -> None:
    """Draw the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    metrics = groupwise.open_run(given.run).metrics
    text = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY)
    settings = {"svg.hashsalt": "groupwise", "font.size": 9, **text}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(1, len(PANELS), figsize=(11, 2.5), layout="constrained")
        for axis, (title, lines) in zip(axes, PANELS, strict=True):
            for name, (color, label) in lines.items():
                values = metrics[name]
                axis.plot(metrics["step"], values, color=color, alpha=0.35, linewidth=0.8)
                axis.plot(metrics["step"], smoothed(values), color=color, linewidth=1.8, label=label)
            axis.set_title(title, fontsize=9, color=GREY)
            axis.set_xlabel("step")
            axis.set_ylim(bottom=0)
            axis.spines[["top", "right"]].set_visible(False)
            axis.legend(frameon=False, fontsize=8)
        given.picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(given.picture, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
