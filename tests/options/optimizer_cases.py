"""Cases of the optimizer: the weights at the end, by AdamW written out over the recorded gradients."""

import numpy as np
import torch

from tests.options import by_hand
from tests.options.case import Case
from tests.options.observed import what_was_sampled
from tests.options.runs import Floats, Trace, flat, float64


def moved(trace: Trace) -> dict[str, Floats | list[float]]:
    """How far every weight went, and the learning rate of each step as it was written."""
    rates = [line["optimizer/lr"] for line in trace.lines()]
    return {"lr": rates, "moved": flat(trace.after) - flat(trace.before)}


def expected(trace: Trace) -> dict[str, Floats | list[float]]:
    before = flat(trace.before)
    rates = [by_hand.learning_rate(trace.config, step) for step in range(trace.config.run.steps)]
    # Where no group of a step has a signal there is no update.
    steps = [step for step, line in enumerate(trace.lines()) for _ in range(round(line["optimizer/updates"]))]
    exempt = trace.config.optimizer.decay_exempt == "norms_and_biases"
    decays = flat({name: torch.full_like(w, not (exempt and "norm" in name)) for name, w in trace.before.items()})
    after = by_hand.adamw(trace.config, before, [flat(gradient) for gradient in trace.gradients], steps, decays)
    return {"lr": rates, "moved": after - before}


def by_type(trace: Trace) -> dict[str, Floats | list[float]]:
    """AdamW for all weights, or Muon for the matrices within layers."""
    if trace.config.optimizer.type == "adamw":
        return expected(trace)
    steps = [step for step, line in enumerate(trace.lines()) for _ in range(round(line["optimizer/updates"]))]
    limit = trace.config.optimizer.max_grad_norm
    scales = [min(1.0, limit / float(np.linalg.norm(flat(gradient)))) for gradient in trace.gradients]
    inner = [n for n, w in trace.before.items() if w.ndim == 2 and "embed" not in n and "lm_head" not in n]
    after = {}
    for name, weight in trace.before.items():
        own = [scale * float64(gradient[name]) for scale, gradient in zip(scales, trace.gradients, strict=True)]
        if name in inner:
            after[name] = by_hand.muon(trace.config, float64(weight), own, steps)
        else:
            # Clipped already.
            after[name] = by_hand.adamw(trace.config, float64(weight), own, steps)
    moved = {name: torch.from_numpy(after[name]) - weight.double() for name, weight in trace.before.items()}
    return {"lr": expected(trace)["lr"], "moved": flat(moved)}


def case(*values: str, base: tuple[str, ...] = ()) -> Case:
    # Weights of the size 1 keep 7 digits, of which a step of 1e-3 uses the last four.
    return Case(values, moved, expected, base=base, same=what_was_sampled, tolerance=1e-3)


TWICE = ("batch.epochs_per_step=2",)
THREE = ("run.steps=3", "batch.prompts_per_step=2", "sampling.max_new_tokens=12")

MUON = Case(("adamw", "muon"), moved, by_type, base=TWICE, same=what_was_sampled, tolerance=1e-3)
MOMENTUM = Case(
    ("0.95", "0.5"), moved, by_type, base=(*TWICE, "optimizer.type=muon"), same=what_was_sampled, tolerance=1e-3
)

CASES = {
    "optimizer.type": MUON,
    "optimizer.momentum": MOMENTUM,
    "optimizer.lr": case("1e-3", "2e-3"),
    "optimizer.beta1": case("0.9", "0.5", base=TWICE),
    "optimizer.beta2": case("0.95", "0.5", base=TWICE),
    "optimizer.epsilon": case("1e-8", "1e-3"),
    "optimizer.weight_decay": case("0.0", "0.1"),
    "optimizer.decay_exempt": case("none", "norms_and_biases", base=("optimizer.weight_decay=5.0",)),
    # The first step of Adam does not see the length of its gradient, the epsilon here makes it visible.
    "optimizer.max_grad_norm": case("0.01", "100.0", base=("optimizer.epsilon=1e-3",)),
    "optimizer.warmup_steps": case("0", "2", base=THREE),
    "optimizer.schedule": case("constant", "linear", "cosine", base=(*THREE, "run.steps=4")),
    "optimizer.final_lr_fraction": case("0.0", "0.5", base=(*THREE, "optimizer.schedule=linear")),
}
