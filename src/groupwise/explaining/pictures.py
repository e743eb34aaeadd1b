"""Pictures of techniques as SVG, computed from their own functions: the gradient of a loss, what a mask drops.

Needs matplotlib (the extra `docs`). The bytes of a picture are the same wherever it is made. Colours are of middle
brightness on no background, to be read on white and on black.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from groupwise.lazy import torch
from groupwise.objective.advantages.estimator import AdvantageEstimator, GroupRewards, Moments
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline, TokenReturns
from groupwise.objective.corrections.correction import EngineCorrection
from groupwise.objective.kl.kl_estimator import Importance, KlEstimator
from groupwise.objective.masks.policy_mask import MaskInputs, PolicyMask
from groupwise.objective.reductions.reduction import (
    Reduction,
    ReductionInputs,
    StepTotals,
    count_totals,
    group_token_totals,
)
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates.surrogate import Surrogate, SurrogateInputs
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

UP, DOWN, GREY = "#3f83e8", "#d9702b", "#808080"
RARE, COMMON = 0.02, 0.25
STEP = " Statistics of the step are of a step of these tokens."


class Drawing:
    """One pair of axes and what is drawn on it."""

    def __init__(self, axes: Any) -> None:
        self.axes = axes

    def line(self, x: Tensor, y: Tensor, color: str, label: str, style: str = "-") -> None:
        """A curve, with a name in the legend."""
        self.axes.plot(x.tolist(), y.tolist(), style, color=color, label=label, linewidth=1.8)

    def names(self, x: str, y: str) -> None:
        """What the axes are."""
        self.axes.set_xlabel(x)
        self.axes.set_ylabel(y)


def picture_of(made: Technique) -> tuple[str, bytes] | None:
    """The caption and the SVG of a technique; None where there is nothing to draw."""
    for base, draw in DRAWN.items():
        if isinstance(made, base):
            with _drawing() as (drawing, written):
                return draw(made, drawing), written()
    return None


def _surrogate(surrogate: Surrogate, drawing: Drawing) -> str:
    for value in (1.0, -1.0):
        ratio, common = slopes(surrogate, value, COMMON)
        color, sign = (UP, "A = 1") if value > 0 else (DOWN, "A = -1")
        drawing.line(ratio, common, color, sign)
        _, rare = slopes(surrogate, value, RARE)
        if not torch.allclose(common, rare):
            drawing.line(ratio, rare, color, f"{sign}, π_old = {RARE}", ":")
    drawing.names("ratio r = π_new/π_old", "slope of the objective in log π_new")
    drawing.axes.axvline(1.0, color=GREY, linewidth=0.7)
    old = f" π_old = {COMMON} where the legend says nothing else." if surrogate.compares_old else ""
    return (
        f"What a token adds to the gradient, for each ratio: {surrogate.type} with its defaults, answers of one token."
        + old
        + (STEP if surrogate.has_step_values else "")
    )


def slopes(surrogate: Surrogate, advantage: float, old: float = COMMON) -> tuple[Tensor, Tensor]:
    """Ratios, and the slope of the negative loss in the log-probability of tokens with this advantage, by autograd.

    Tokens with the other sign are in the same step, for those that compare the two.
    """
    bound = surrogate.widest_bound()
    ratio = _ratios(bound[1] if bound else 0.0)
    both = ratio.repeat(2)
    old_N = torch.full_like(both, old).log()
    advantages_N = torch.cat([torch.full_like(ratio, advantage), torch.full_like(ratio, -advantage)])
    new_N = (old_N + both.log()).requires_grad_()
    lengths_E = torch.ones(len(both), dtype=torch.int64)
    step_N = None
    if surrogate.has_step_values:
        step_N = surrogate.of_step(_step(new_N.detach(), old_N, advantages_N, lengths_E)).values_N
    inputs = SurrogateInputs(new_N - old_N, new_N, old_N, advantages_N, lengths_E, old_N, step_N)
    (slope_N,) = torch.autograd.grad(-surrogate.loss(inputs).loss_N.sum(), new_N)
    return ratio, slope_N[: len(ratio)]


def _ratios(widest: float = 0.0) -> Tensor:
    """From 0 to 3, or past a bound this far from 1. None is one that somebody would write, where rounding decides."""
    largest = max(3.0, 1.3 * (1 + widest))
    return (torch.arange(300, dtype=torch.float64) + 0.5) / 300 * largest


def _step(new_N: Tensor, old_N: Tensor, advantages_N: Tensor, lengths_E: Tensor) -> StepTokens:
    """A step whose answers have one token each, in groups of one answer of each sign, rewarded 1 and 0."""
    group_E = torch.arange(len(lengths_E)) % (len(lengths_E) // 2)
    rewards_E = (advantages_N > 0).double()
    return StepTokens(new_N - old_N, new_N, old_N, old_N, advantages_N, lengths_E, group_E, rewards_E)


def _mask(mask: PolicyMask, drawing: Drawing) -> str:
    ratio = _ratios()
    both = ratio.repeat(2)
    old_N = torch.full_like(both, COMMON).log()
    new_N = old_N + both.log()
    advantages_N = torch.cat([torch.ones_like(ratio), -torch.ones_like(ratio)])
    lengths_E = torch.ones(len(both), dtype=torch.int64)
    step_N = mask.of_step(_step(new_N, old_N, advantages_N, lengths_E)).values_N if mask.has_step_values else None
    kept_N = mask.kept(MaskInputs(new_N, old_N, old_N, advantages_N, lengths_E, step_N))
    for row, sign, color, kept in (
        (1, "A = 1", UP, kept_N[: len(ratio)]),
        (0, "A = -1", DOWN, kept_N[len(ratio) :]),
    ):
        drawing.line(ratio, torch.full_like(ratio, row).where(kept, torch.nan), color, f"{sign}, kept")
        drawing.line(ratio, torch.full_like(ratio, row).where(~kept, torch.nan), GREY, "", ":")
    drawing.axes.set_ylim(-0.6, 1.6)
    drawing.axes.set_yticks([])
    drawing.axes.axvline(1.0, color=GREY, linewidth=0.7)
    drawing.names("ratio π_new/π_old, the engine's log-probabilities being the old ones", "")
    return f"Which answers of one token keep their policy term: {mask.type} with its defaults; dotted: left out." + (
        STEP if mask.has_step_values else ""
    )


def _kl(estimator: KlEstimator, drawing: Drawing) -> str:
    delta = torch.linspace(-2.0, 2.0, 201, dtype=torch.float64)
    zero, one = torch.zeros_like(delta), torch.ones(len(delta), dtype=torch.int64)
    drawing.line(delta, estimator.estimate(delta), GREY, "estimate")
    kinds: tuple[tuple[Importance, str, str], ...] = (
        ("none", UP, "slope"),
        ("token", DOWN, "slope with the weight r"),
    )
    for importance, color, label in kinds:
        new_N = zero.clone().requires_grad_()
        weighted_N = estimator.per_token(new_N, zero, -delta, one, importance)
        (slope_N,) = torch.autograd.grad(weighted_N.sum(), new_N)
        drawing.line(delta, slope_N, color, label)
    drawing.names("δ = log π_new - log π_ref, nats", "")
    drawing.axes.axhline(0.0, color=GREY, linewidth=0.7)
    drawing.axes.set_ylim(-4.0, 6.5)
    return f"Value and slopes of {estimator.type} of one token, also with the weight of `kl.importance=token` at r = 1."


def _reduction(reduction: Reduction, drawing: Drawing) -> str:
    lengths_E = torch.arange(20, 1001, 20)
    group_E = torch.arange(len(lengths_E)) // 10
    groups = int(group_E[-1]) + 1
    counted = count_totals(lengths_E)
    totals = StepTotals(counted.sequences, counted.tokens, groups)
    by_group_E = group_token_totals(lengths_E, group_E, groups)[group_E]
    weights_E = reduction.weights_of(ReductionInputs(lengths_E, totals, 1000, by_group_E))
    total = float((weights_E * lengths_E).sum())
    drawing.line(lengths_E, weights_E * counted.tokens / total, UP, "one token")
    drawing.line(lengths_E, weights_E * lengths_E * counted.sequences / total, DOWN, "the whole answer")
    drawing.axes.set_ylim(0.0, 4.0)
    drawing.names("tokens of the answer", "weight ÷ mean weight")
    return (
        f"{reduction.type}: the weight of a token and of its answer in a step of answers of 20 to 1000 tokens, ten of "
        f"similar length in a group, a budget of 1000 tokens. All weights sum to {total:.6g}."
    )


def _correction(correction: EngineCorrection, drawing: Drawing) -> str:
    weight = torch.linspace(0.0, 8.0, 321, dtype=torch.float64)
    drawing.line(weight, weight, GREY, "as it is", ":")
    drawing.line(weight, correction.limited(weight), UP, correction.type)
    drawing.names("π_old/π_engine", "weight of the policy term")
    return f"What {correction.type} makes of the weight π_old/π_engine, with its defaults."


def _estimator(estimator: AdvantageEstimator, drawing: Drawing) -> str:
    samples = 8
    right = torch.arange(1, samples)
    advantages = []
    for count in right.tolist():
        rewards_PG = torch.tensor([[1.0] * count + [0.0] * (samples - count)], dtype=torch.float64)
        lengths_PG = torch.where(rewards_PG > 0, 200, 400)
        one_PK = torch.ones(1, 1, dtype=torch.float64)
        group = GroupRewards(rewards_PG, rewards_PG > 0, rewards_PG[..., None], one_PK, lengths_PG)
        (advantages_PG,) = estimator.advantages([group], _moments)
        advantages.append(advantages_PG[0])
    drawing.line(right, torch.stack([row[0] for row in advantages]), UP, "a right answer", "o-")
    drawing.line(right, torch.stack([row[-1] for row in advantages]), DOWN, "a wrong answer", "o-")
    drawing.axes.axhline(0.0, color=GREY, linewidth=0.7)
    drawing.names(f"right answers of {samples}", "advantage")
    return (
        f"{estimator.type} with its defaults, in a step of one group: the advantage of right answers of 200 tokens and "
        "of wrong ones of 400, rewarded 1 and 0."
    )


def _token_baseline(estimator: OptimalTokenBaseline, drawing: Drawing) -> str:
    lengths = [200, 400, 600]
    lengths_E = torch.tensor(lengths)
    returns_N = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64).repeat_interleave(lengths_E)
    own_N = torch.full_like(returns_N, 0.5)
    own_N[600:900] = 0.95
    squares_N = own_N.square() + (1 - own_N).square()
    one_group = torch.zeros(3, dtype=torch.int64)
    advantages_N = estimator.of(TokenReturns(returns_N, own_N.log(), squares_N, lengths_E, one_group))
    rewards = ("R = 1", "R = 0", "R = 0.5")
    for row_T, color, reward in zip(advantages_N.split(lengths), (UP, DOWN, GREY), rewards, strict=True):
        drawing.line(torch.arange(1, len(row_T) + 1), row_T, color, reward)
    drawing.names("token of the answer", "advantage")
    return (
        f"{estimator.type} with its defaults: the advantage of each token of three answers of a group, which are 200, "
        "400 and 600 tokens long. Tokens have a probability of 0.5, the first 300 of the longest answer one of 0.95."
    )


def _moments(parts: Sequence[Tensor], times: Sequence[Tensor] | None = None) -> Moments:
    first, *rest = map(Moments.of, parts) if times is None else map(Moments.of, parts, times)
    return sum(rest, first)


# What is drawn of the techniques of each room.
DRAWN: dict[type[Technique], Callable[[Any, Drawing], str]] = {
    Surrogate: _surrogate,
    PolicyMask: _mask,
    KlEstimator: _kl,
    Reduction: _reduction,
    EngineCorrection: _correction,
    OptimalTokenBaseline: _token_baseline,
    AdvantageEstimator: _estimator,
}


@contextmanager
def _drawing() -> Iterator[tuple[Drawing, Callable[[], bytes]]]:
    """One pair of axes, and a function that gives the SVG of what has been drawn by then."""
    with _figure(6.0, 3.4) as (figure, written):
        drawing = Drawing(figure.add_subplot(facecolor="none"))

        def with_legend() -> bytes:
            entries = len(drawing.axes.get_legend_handles_labels()[0])
            columns = 2 if entries == 4 else entries
            drawing.axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, borderaxespad=0.0)
            return written()

        yield drawing, with_legend


def overview(surrogates: Sequence[Surrogate]) -> bytes:
    """The slopes of all of these next to each other, on the same axes: blue for A = 1, orange for A = -1."""
    columns, rows = 4, -(-len(surrogates) // 4)
    with _figure(8.0, 1.7 * rows) as (figure, written):
        for place, surrogate in enumerate(surrogates):
            axes = figure.add_subplot(rows, columns, place + 1, facecolor="none")
            drawing = Drawing(axes)
            for value, color in ((1.0, UP), (-1.0, DOWN)):
                drawing.line(*slopes(surrogate, value), color, "")
            axes.axvline(1.0, color=GREY, linewidth=0.5)
            axes.set(title=surrogate.type, xlim=(0.0, 3.0), ylim=(-2.5, 2.5), xticks=[0, 1, 2, 3], yticks=[-2, 0, 2])
            axes.title.set_fontsize(10)
        return written()


@contextmanager
def _figure(width: float, height: float) -> Iterator[tuple[Any, Callable[[], bytes]]]:
    """A figure of this size in inches, in the style of the site, and a function that gives its SVG."""
    import matplotlib

    style: dict[str, Any] = {
        "svg.hashsalt": "groupwise",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), GREY),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(style):
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="tight", facecolor="none")

        def written() -> bytes:
            file = io.BytesIO()
            FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
            return file.getvalue()

        yield figure, written
