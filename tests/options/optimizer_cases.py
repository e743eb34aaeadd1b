"""Cases of the optimizer: the weights at the end, by AdamW written out over the recorded gradients."""

import torch

from tests.options import by_hand
from tests.options.case import Case
from tests.options.observed import what_was_sampled
from tests.options.runs import Floats, Trace, flat


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


def case(*values: str, base: tuple[str, ...] = ()) -> Case:
    # Weights of the size 1 keep 7 digits, of which a step of 1e-3 uses the last four.
    return Case(values, moved, expected, base=base, same=what_was_sampled, tolerance=1e-3)


TWICE = ("batch.epochs_per_step=2",)
THREE = ("run.steps=3", "batch.prompts_per_step=2", "sampling.max_new_tokens=12")

CASES = {
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
