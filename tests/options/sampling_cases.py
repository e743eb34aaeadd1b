"""Cases of sampling, the size of a step, and which groups are admitted."""

from importlib import resources
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from groupwise.ranks import Ranks
from groupwise.rollout.engine_options import InProcess
from groupwise.training.advantages import advantages_of
from groupwise.training.step_batch import micro_batches, step_batch
from groupwise.training.update import minibatches, with_gradient
from tests.options.case import Case
from tests.options.observed import asked, component, first_gradient, outcome, what_was_sampled
from tests.options.runs import Floats, Trace
from tests.support.tiny import plain_logits

# Sampling


def first_logits(trace: Trace) -> Floats:
    """Logits of the first completion over T, V by the model's own forward pass."""
    group = trace.groups()[0]
    folder = str(resources.files("groupwise") / "bundled" / "model")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = plain_logits(model.eval(), group.prompt.ids, group.completions[0].ids)
    return np.asarray(logits.double().numpy())


def log_softmax(logits_TV: Floats) -> Floats:
    shifted_TV = logits_TV - logits_TV.max(axis=1, keepdims=True)
    return np.asarray(shifted_TV - np.log(np.exp(shifted_TV).sum(axis=1, keepdims=True)))


def first_logps(trace: Trace) -> Floats:
    return trace.groups()[0].completions[0].logps.astype(np.float64)


def expected_logps(trace: Trace) -> Floats:
    logps_TV = log_softmax(first_logits(trace) / trace.config.sampling.temperature)
    ids = trace.groups()[0].completions[0].ids
    return np.asarray(logps_TV[np.arange(len(ids)), ids])


def set_sizes(trace: Trace) -> list[int] | None:
    """How many tokens the first completion was sampled from, at each position."""
    kept = trace.groups()[0].completions[0].kept
    return None if kept is None else [int(count) for count in kept.counts_T]


def expected_sizes(trace: Trace) -> list[int] | None:
    options = trace.config.sampling
    if not options.replay_mask:
        return None
    sizes = []
    for logps_V in log_softmax(first_logits(trace) / options.temperature):
        falling = np.sort(np.exp(logps_V))[::-1]
        falling = falling[: options.top_k or len(falling)]
        falling = falling / falling.sum()
        # The smallest number of tokens that reaches top_p.
        falling = falling[: 1 + int(np.sum(np.cumsum(falling) < options.top_p))]
        sizes.append(int(np.sum(falling >= options.min_p * falling[0])))
    return sizes


def decoded_batches(trace: Trace) -> list[int]:
    engine = trace.config.engine
    assert isinstance(engine, InProcess)
    return [min(12, engine.batch_sequences)]


def up_to(end: str, trace: Trace) -> list[list[int]]:
    """What was sampled, up to the token that completes a text."""
    cut = []
    for ids in trace.sampled_ids():
        texts = (trace.policy.tokenizer.decode(ids[:length]) for length in range(1, len(ids) + 1))
        cut.append(ids[: next((length for length, text in enumerate(texts, start=1) if end in text), None)])
    return cut


def runs_on(end: str, trace: Trace) -> bool:
    """Whether an answer goes on behind a text."""
    return any(end in trace.policy.tokenizer.decode(ids[:-1]) for ids in trace.sampled_ids())


WARM = ("sampling.temperature=1.3", "sampling.replay_mask=true")

SAMPLING = {
    "sampling.temperature": Case(("1.0", "1.4"), first_logps, expected_logps, same=asked),
    "sampling.max_new_tokens": Case(
        ("8", "24"),
        lambda t: max(len(ids) for ids in t.sampled_ids()),
        lambda t: t.config.sampling.max_new_tokens,
        same=lambda t: [ids[:8] for ids in t.sampled_ids()],
    ),
    "sampling.stop_ids": Case(
        ("[]", '["</think>", 17]'),
        lambda t: runs_on("</think>", t),
        lambda t: not t.config.sampling.stop_ids,
        same=lambda t: [ids[: ids.index(17) + 1] if 17 in ids else ids for ids in up_to("</think>", t)],
    ),
    "sampling.stop": Case(
        ("[]", '["boxed{", "zebra"]'),
        lambda t: runs_on("boxed{", t),
        lambda t: not t.config.sampling.stop,
        same=lambda t: up_to("boxed{", t),
    ),
    "sampling.keep_stop": Case(
        ("false", "true"),
        lambda t: any("boxed{" in row["completion"] for row in t.rows()),
        lambda t: t.config.sampling.keep_stop,
        base=('sampling.stop=["boxed{"]',),
        same=Trace.sampled_ids,
    ),
    "sampling.top_k": Case(("2", "5"), set_sizes, expected_sizes, base=WARM, same=asked),
    "sampling.top_p": Case(("0.8", "0.99"), set_sizes, expected_sizes, base=WARM, same=asked),
    "sampling.min_p": Case(("0.01", "0.3"), set_sizes, expected_sizes, base=WARM, same=asked),
    "sampling.replay_mask": Case(
        ("false", "true"),
        # With the sets the trainer finds what the engine recorded; without them it cannot.
        lambda t: {"sizes": set_sizes(t), "agree": t.metric("engine/logp_gap_max") < 1e-5},
        lambda t: {"sizes": expected_sizes(t), "agree": t.config.sampling.replay_mask},
        base=("sampling.top_k=3", "sampling.temperature=1.3", "objective.surrogate=reinforce", "objective.ratio=none"),
        same=what_was_sampled,
    ),
    "engine.batch_sequences (inprocess)": Case(
        ("5", "12"), lambda t: t.decoded, decoded_batches, same=outcome, same_tolerance=1e-4
    ),
}


# One step


def group_shapes(trace: Trace) -> list[int]:
    return [len(group.completions) for group in trace.groups()]


def expected_cut(trace: Trace) -> Any:
    admitted = trace.collected[0].admitted
    advantages_PG = advantages_of(admitted, trace.config, Ranks())
    (minibatch,) = minibatches(step_batch(admitted, advantages_PG, trace.config), trace.config, 1, Ranks())
    moving = with_gradient(minibatch, trace.config, entropy_coefficient=0.0)
    parts = micro_batches(moving, trace.config.batch.micro_batch_tokens)
    return [moving.take(episodes).lengths_E.tolist() for episodes in parts]


BATCH = {
    "batch.prompts_per_step": Case(
        ("2", "3"),
        lambda t: [len(t.groups()), t.metric("groups/wanted")],
        lambda t: [t.config.batch.prompts_per_step, float(t.config.batch.prompts_per_step)],
        same=lambda t: t.sampled_ids()[:8],
    ),
    "batch.samples_per_prompt": Case(
        ("2", "4"), group_shapes, lambda t: [t.config.batch.samples_per_prompt] * 3, same=asked
    ),
    "batch.minibatches_per_step": Case(
        ("1", "3"),
        lambda t: t.metric("optimizer/updates"),
        lambda t: float(t.config.batch.minibatches_per_step),
        base=("advantage.estimator.baseline=none",),
        same=what_was_sampled,
    ),
    "batch.epochs_per_step": Case(
        ("1", "2"),
        lambda t: [t.metric("optimizer/updates"), len(t.gradients)],
        lambda t: [float(t.config.batch.epochs_per_step), t.config.batch.epochs_per_step],
        same=lambda t: [what_was_sampled(t), first_gradient(t).tolist()],
    ),
    "batch.micro_batch_tokens": Case(
        ("1", "80", "16384"),
        lambda t: [one.inputs.lengths_E.tolist() for one in t.passes],
        expected_cut,
        same=first_gradient,
        same_tolerance=1e-5,
    ),
    "batch.logits_chunk_tokens": Case(
        ("7", "50", "2048"),
        lambda t: max(t.head_rows),
        lambda t: min(t.config.batch.logits_chunk_tokens, len(t.passes[0].inputs.new_logps_N)),
        same=first_gradient,
        same_tolerance=1e-5,
    ),
    "batch.activation_checkpointing": Case(
        ("false", "true"),
        lambda t: t.layer_calls,
        lambda t: len(t.passes) * (2 if t.config.batch.activation_checkpointing else 1),
        same=lambda t: {"gradient": first_gradient(t), "outcome": outcome(t)},
    ),
}


# Which groups are trained on

PARTS = ("odd", "half_odd", "rest")


def admitted(trace: Trace) -> list[bool]:
    """Of every sampled group of the first step; a group that is not trained on has no advantages."""
    return [not np.isnan(advantages_G).any() for advantages_G in trace.grid(advantage)]


def advantage(row: dict[str, Any]) -> float:
    return float("nan") if row["advantage"] is None else float(row["advantage"])


def expected_admitted(trace: Trace) -> list[bool]:
    what, rewarded = trace.config.active_sampling.filter, [component(trace, name) for name in PARTS]
    varies = {
        "correctness": varying(component(trace, "correctness")),
        "total": varying(trace.grid(lambda row: row["total"])),
    }.get(what, np.any([varying(part_PG) for part_PG in rewarded], axis=0))
    # Opposed rewards cancel once normalised: the group has no advantage.
    signal = np.abs(sum(normalised(part_PG) for part_PG in rewarded)).max(axis=1) > 1e-9
    return [bool(flag) for flag in (signal & varies if what != "none" else signal | True)]


def normalised(values_PG: Any) -> Any:
    return (values_PG - values_PG.mean(axis=1, keepdims=True)) / (values_PG.std(axis=1, ddof=1, keepdims=True) + 1e-4)


def varying(values_PG: Any) -> Any:
    return values_PG.max(axis=1) != values_PG.min(axis=1)


def solved(trace: Trace) -> list[str]:
    """Ids of the problems of which enough samples were right."""
    rate = trace.config.active_sampling.retire_accuracy
    shares = component(trace, "correctness").mean(axis=1)
    ids = [group.problem.id for group in trace.groups()]
    return [problem for problem, share in zip(ids, shares, strict=True) if rate and share >= rate]


ACTIVE = {
    # Three rewards that always add up to 1: `total` admits no group. Correctness has no weight.
    "active_sampling.filter": Case(
        ("none", "correctness", "total", "any_component"),
        admitted,
        expected_admitted,
        base=(
            "batch.prompts_per_step=8",
            "advantage.estimator=gdpo",
            "rewards.correctness.weight=0.0",
            "rewards.format.weight=0.0",
            *(f"rewards.functions.{name}.path={{functions}}:{name}" for name in PARTS),
        ),
        same=what_was_sampled,
    ),
    # No answer is ever right: the refill goes on to the end of its budget.
    "active_sampling.refill": Case(
        ("false", "true"),
        lambda t: t.metric("groups/sampled"),
        lambda t: 12.0 if t.config.active_sampling.refill else 3.0,
        base=("problems.train={impossible}", "active_sampling.filter=correctness"),
    ),
    "active_sampling.max_prompts_per_step_factor": Case(
        ("1.5", "2.0"),
        lambda t: t.metric("groups/sampled"),
        lambda t: float(int(3 * t.config.active_sampling.max_prompts_per_step_factor)),
        base=(
            "problems.train={impossible}",
            "active_sampling.filter=correctness",
            "active_sampling.refill=true",
        ),
    ),
    "active_sampling.retire_accuracy": Case(
        ("0.0", "0.25", "0.5"),
        lambda t: t.run.state.retired,
        solved,
        base=("batch.prompts_per_step=8",),
        same=outcome,
    ),
}

CASES = {**SAMPLING, **BATCH, **ACTIVE}
