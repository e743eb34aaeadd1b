"""What a configuration costs for a model: bytes, and forward passes beyond sampling and training."""

from collections.abc import Callable
from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.config.data import KEPT_LIMIT
from groupwise.memory.needs import Needs, needs_of
from groupwise.model.adapter_options import Adapter
from groupwise.model.size import ModelSize

ID_BYTES = 4


@dataclass(frozen=True)
class Cost:
    """One position. quantity: bytes or passes of a step; None where the model's size is not known."""

    name: str
    unit: str
    quantity: int | None
    why: str


def costs_of(config: TrainConfig, size: ModelSize | None) -> list[Cost]:
    """Memory first, then passes."""
    return [*_bytes(config, size), *_passes(config)]


def _bytes(config: TrainConfig, size: ModelSize | None) -> list[Cost]:
    needs = None if size is None else needs_of(config, size)
    answers, longest = config.most_answers_per_step, config.sampling.max_new_tokens

    def cost(name: str, of: Callable[[Needs], int], why: str) -> Cost:
        return Cost(name, "bytes", None if needs is None else of(needs), why)

    has_adapters, kept = isinstance(config.model.adapter, Adapter), "float32, 4 bytes each"
    if config.model.weights_dtype == "bfloat16":
        kept = "linear layers bfloat16, 2 bytes each, all else float32"
    optimizer, bytes_each = "AdamW", "12 bytes a trained weight"
    if config.optimizer.type == "muon":
        optimizer, bytes_each = "Muon and AdamW", "8 bytes a weight of matrices within layers, 12 of others"
    costs = [
        cost("weights", lambda n: n.weights, f"{kept}; with the adapters" if has_adapters else kept),
        cost(f"gradient and {optimizer} moments", lambda n: n.gradient + n.moments, f"float32, {bytes_each}"),
    ]
    if config.updates_per_step > 1:
        why = "weights and moments as the last step left them, in main memory, for a stop between two updates"
        costs.append(cost("copy of the last step", lambda n: n.copy, why))
    if has_adapters or not config.engine_is_trainer:
        why = f"{config.model.computes_in}, {config.model.bytes_per_value} bytes a weight, while sampling"
        why += "; with merged adapters, what is not merged is shared where it can be" if has_adapters else ""
        costs.append(cost("engine copy", lambda n: n.engine.weights, why))
    if config.uses_kl:
        what = "adapters" if has_adapters else "policy"
        why = f"a frozen copy of the {what} at step 0 in float32, for the KL penalty"
        costs.append(cost("reference model", lambda n: n.reference, why))
    at_once = config.engine.sequences_at_once(config)
    why = f"{at_once} answers at once × {longest} tokens, and as much again for prompts of that length"
    costs.append(cost("key/value cache", lambda n: n.engine.cache, why))
    if config.sampling.replay_mask:
        ids = min(config.sampling.top_k or KEPT_LIMIT, KEPT_LIMIT)
        ids = ids if size is None else min(ids, size.vocabulary)
        why = (
            f"at most: 4 bytes × {ids} ids a token × {answers * longest} tokens of a step; top-p and min-p usually "
            "keep a few"
        )
        costs.append(Cost("recorded kept sets", "bytes", ID_BYTES * ids * answers * longest, why))
    return costs


def _passes(config: TrainConfig) -> list[Cost]:
    costs = []
    if config.makes_trainer_pass:
        reasons = []
        if config.objective.old_logps == "trainer" and config.updates_per_step > 1:
            reasons.append("old log-probabilities of the trainer")
        if config.selects_tokens:
            reasons.append("entropies or covariances that select tokens")
        if config.advantage.estimator.of_token:
            reasons.append("a baseline for each token")
        costs.append(Cost("trainer's pass before the step", "forward passes", 1, " and ".join(reasons)))
    elif config.objective.old_logps == "trainer":
        why = "old log-probabilities are those of the one optimizer step itself"
        costs.append(Cost("trainer's pass before the step", "forward passes", 0, why))
    if config.makes_step_pass:
        why = "what is computed from the whole optimizer step, before each of them"
        costs.append(Cost("pass before every optimizer step", "forward passes", config.batch.epochs_per_step, why))
    if config.batch.activation_checkpointing:
        why = "the layers again in every backward pass, which keeps only their inputs"
        costs.append(Cost("activation checkpointing", "forward passes", config.batch.epochs_per_step, why))
    if config.uses_kl:
        only = "; only groups with a coefficient" if config.domains else ""
        costs.append(Cost("reference's pass", "forward passes", 1, f"log-probabilities of the reference{only}"))
    return costs
