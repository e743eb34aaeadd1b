"""Whether the largest micro-batch fits into memory, and how small it has to be where it does not."""

import math
from dataclasses import dataclass, replace

import torch

from groupwise.config import TrainConfig
from groupwise.errors import UsageError
from groupwise.memory.free_memory import free_bytes
from groupwise.memory.needs import Needs, needs_of, shown_bytes
from groupwise.memory.pass_memory import PassMemory, Shape, run_pass, worst_rows, worst_shapes
from groupwise.memory.truncated_model import layer_list
from groupwise.model.backends.activation_checkpointing import layers_of
from groupwise.model.device import give_back_memory
from groupwise.model.load import Policy
from groupwise.model.size import size_of
from groupwise.ranks import Ranks

# What is free is not given away to the last: the allocator leaves gaps, most where small pieces come and go as in
# activation checkpointing, and other programs want something too.
USABLE_SHARE = 0.8


@dataclass(frozen=True)
class MicroBatches:
    """What the dry run came to.

    tokens: the budget of a micro-batch that fits, 0 for none. asked_tokens: what the options ask for; asked_bytes: what
    a step would need with them. needed_bytes: what it needs with `tokens`, or with one longest answer at a time where
    nothing fits. Both are 0 where the layers of the model are not supported. usable_bytes: None where the system does
    not say.
    """

    tokens: int
    asked_tokens: int
    asked_bytes: int
    needed_bytes: int
    usable_bytes: int | None
    needs: Needs

    def __str__(self) -> str:
        if not self.needed_bytes:
            return f"micro-batches of {self.tokens} tokens, not tried out: the layers of this model are not supported"
        usable = "" if self.usable_bytes is None else f" of {shown_bytes(self.usable_bytes)} that are free"
        if self.tokens < self.asked_tokens:
            return (
                f"micro-batches of {self.tokens} tokens: {self.asked_tokens} would need "
                f"{shown_bytes(self.asked_bytes)}{usable}"
            )
        doubt = "" if self.usable_bytes is None or self.needed_bytes <= self.usable_bytes else ": it may not fit"
        return f"micro-batches of {self.tokens} tokens; a step needs {shown_bytes(self.needed_bytes)}{usable}{doubt}"


def fit_micro_batches(
    config: TrainConfig,
    policy: Policy,
    longest_prompt: int,
    ranks: Ranks,
    tokens: int | None = None,
    may_raise: bool = False,
    divided: bool = False,
) -> MicroBatches:
    """Lower `batch.micro_batch_tokens` by halves until the worst case fits into the memory that is free here.

    The worst case has the longest prompt and answers of up to `sampling.max_new_tokens`. On a CPU, where a process that
    takes too much is killed, a pass is measured in parts, see `PassMemory`; on a GPU the worst case is run as well.
    Gradient, moments and the engine's cache are counted. All ranks take the smallest result.

    Args:
        config: the options.
        policy: with everything loaded that stays, such as a reference. A copy that samples is not there while training.
        longest_prompt: in tokens.
        ranks: the processes that train together.
        tokens: of a resumed run, which keeps the budget that it began with.
        divided: whether the ranks are going to divide the weights.
        may_raise: double the budget as long as the worst case fits, up to a whole optimizer step.

    Raises:
        UsageError: if one longest answer by itself does not fit, or if there are no layers to compute again.
    """
    if config.batch.activation_checkpointing and not layers_of(policy.backbone):
        raise UsageError(
            f"batch.activation_checkpointing=true has no effect: {type(policy.model).__name__} does not mark its "
            "layers as ones that can be computed again. Set it to false"
        )
    if not policy.shares_prompts:
        # Chosen where packing does not fit the model, or asked for.
        config = config.model_copy(update={"model": config.model.model_copy(update={"backend": "plain"})})
    longest, samples = config.sampling.max_new_tokens, config.batch.samples_per_prompt
    groups = math.ceil(config.batch.prompts_per_step / config.batch.minibatches_per_step)
    asked = tokens or config.batch.micro_batch_tokens
    alone = Shape(longest_prompt, longest, 1)

    def shapes(budget: int) -> list[Shape]:
        if not policy.shares_prompts:
            return [alone, *worst_rows(budget, longest_prompt, longest, samples * groups)]
        return [alone, *worst_shapes(budget, longest_prompt, longest, samples, groups)]

    needs = needs_of(config, size_of(policy.model), longest_prompt, ranks.size if divided else 1)
    if policy.device.type != "cpu":
        # It is in main memory.
        needs = replace(needs, copy=0)
    memory = PassMemory(policy, config)
    if layer_list(policy) is None or not memory.can_run(alone):
        return MicroBatches(asked, asked, 0, 0, None, needs)
    free = free_bytes(policy.device, ranks)
    usable = None if free is None else int(USABLE_SHARE * free)

    def step_bytes(budget: int) -> int:
        return needs.peak(max(memory.bytes(shape) for shape in shapes(budget)))

    def fits(budget: int) -> bool:
        if usable is not None and step_bytes(budget) > usable:
            return False
        return policy.device.type == "cpu" or worst_case_runs(policy, config, needs, memory, shapes(budget))

    budget = asked
    while tokens is None and budget and not fits(budget):
        budget = budget // 2 if budget >= longest else 0
    most = samples * groups * (longest_prompt + longest)
    while may_raise and tokens is None and usable is not None and 0 < budget < most and fits(2 * budget):
        budget *= 2
    budget = min(ranks.gather(budget))
    needed = step_bytes(budget) if budget else needs.peak(memory.bytes(alone))
    fitted = MicroBatches(budget, asked, step_bytes(asked), needed, usable, needs)
    if budget == 0:
        raise UsageError(_refusal(fitted, config, longest_prompt))
    return fitted


def worst_case_runs(policy: Policy, config: TrainConfig, needs: Needs, memory: PassMemory, shapes: list[Shape]) -> bool:
    """Whether the largest of the shapes can be trained on while the optimizer's moments are there."""
    largest = max(shapes, key=memory.bytes)
    try:
        moments = torch.empty(needs.moments, dtype=torch.uint8, device=policy.device)
        run_pass(policy, config, largest, config.batch.logits_chunk_tokens)
        del moments
    except torch.OutOfMemoryError:
        return False
    finally:
        for _, weight in policy.trainable():
            weight.grad = None
        give_back_memory()
    return True


def _refusal(fitted: MicroBatches, config: TrainConfig, longest_prompt: int) -> str:
    needs, usable = fitted.needs, shown_bytes(fitted.usable_bytes or 0)
    if needs.peak(0) > (fitted.usable_bytes or 0) and fitted.needed_bytes == needs.peak(0):
        return (
            f"sampling {config.engine.sequences_at_once(config)} answers at once needs "
            f"{shown_bytes(needs.engine.total)} next to the {shown_bytes(needs.moments + needs.copy)} of moments, "
            f"and {usable} are free: lower {config.engine.lower} or sampling.max_new_tokens"
        )
    ways = ["lower sampling.max_new_tokens or batch.logits_chunk_tokens"]
    if not config.batch.activation_checkpointing:
        ways.insert(0, "set batch.activation_checkpointing=true")
    if config.model.computes_in == "float32":
        ways.append("set model.compute_dtype=bfloat16")
    advice = "; ".join(ways)
    return (
        f"not even one answer fits into memory: training on {config.sampling.max_new_tokens} tokens behind the longest "
        f"prompt, of {longest_prompt}, needs {shown_bytes(fitted.needed_bytes)}, and {usable} are free. "
        f"{advice[0].upper()}{advice[1:]}, or train a smaller model"
    )
