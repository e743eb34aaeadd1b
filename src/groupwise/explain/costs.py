"""What a configuration costs for a model: bytes, and forward passes beyond sampling and training."""

from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.config.data import KEPT_LIMIT
from groupwise.memory.model_size import ModelSize

FLOAT32 = 4
BFLOAT16 = 2


@dataclass(frozen=True)
class Cost:
    """One position. quantity: bytes or passes of a step; None where the model's size is not known."""

    name: str
    unit: str
    quantity: int | None
    why: str


def costs_of(config: TrainConfig, size: ModelSize | None) -> list[Cost]:
    """Memory first, then passes."""
    return [*_weights(config, size), *_tokens(config, size), *_passes(config)]


def _weights(config: TrainConfig, size: ModelSize | None) -> list[Cost]:
    trained = parameters = None
    if size is not None:
        parameters = size.parameters
        frozen = size.embedding_parameters if config.model.trainable == "all_but_embeddings" else 0
        trained = parameters - frozen

    def each(count: int | None, width: int) -> int | None:
        return None if count is None else count * width

    costs = [
        Cost("weights", "bytes", each(parameters, FLOAT32), "float32, 4 bytes each"),
        Cost("gradient and AdamW moments", "bytes", each(trained, 3 * FLOAT32), "float32, 12 bytes a trained weight"),
    ]
    if config.model.compute_dtype == "bfloat16":
        costs.append(
            Cost("engine copy", "bytes", each(parameters, BFLOAT16), "bfloat16, 2 bytes a weight, while sampling")
        )
    if config.uses_kl:
        why = "a frozen copy of the policy at step 0 in float32, for the KL penalty"
        costs.append(Cost("reference model", "bytes", each(parameters, FLOAT32), why))
    return costs


def _tokens(config: TrainConfig, size: ModelSize | None) -> list[Cost]:
    sampling, batch, active = config.sampling, config.batch, config.active_sampling
    factor = active.max_prompts_per_step_factor if active.refill and active.filter != "none" else 1.0
    sampled = int(factor * batch.prompts_per_step) * batch.samples_per_prompt
    rows = min(sampling.engine_batch_sequences, sampled)
    width = BFLOAT16 if config.model.compute_dtype == "bfloat16" else FLOAT32
    cache = None if size is None else size.cache_values_per_token() * width * rows * sampling.max_new_tokens
    costs = [
        Cost(
            "key/value cache",
            "bytes",
            cache,
            f"{rows} answers at once × {sampling.max_new_tokens} tokens, and as much again for prompts of that length",
        )
    ]
    if sampling.keep_mask == "replay":
        longest = min(sampling.top_k or KEPT_LIMIT, KEPT_LIMIT)
        longest = longest if size is None else min(longest, size.vocabulary)
        bound = FLOAT32 * longest * sampled * sampling.max_new_tokens
        why = (
            f"at most: 4 bytes × {longest} ids a token × {sampled * sampling.max_new_tokens} tokens of a step; top-p "
            "and min-p usually keep a few"
        )
        costs.append(Cost("recorded kept sets", "bytes", bound, why))
    return costs


def _passes(config: TrainConfig) -> list[Cost]:
    costs = []
    if config.makes_trainer_pass:
        reasons = []
        if config.objective.old_logps == "trainer" and config.updates_per_step > 1:
            reasons.append("old log-probabilities of the trainer")
        if config.selects_tokens:
            reasons.append("entropies or covariances that select tokens")
        costs.append(Cost("trainer's pass before the step", "forward passes", 1, " and ".join(reasons)))
    elif config.objective.old_logps == "trainer":
        why = "old log-probabilities are those of the one optimizer step itself"
        costs.append(Cost("trainer's pass before the step", "forward passes", 0, why))
    if config.batch.activation_checkpointing:
        why = "the layers again in every backward pass, which keeps only their inputs"
        costs.append(Cost("recomputed layers", "forward passes", config.batch.epochs_per_step, why))
    if config.uses_kl:
        only = "; only groups with a coefficient" if config.domains else ""
        costs.append(Cost("reference's pass", "forward passes", 1, f"log-probabilities of the reference{only}"))
    return costs


def shown_bytes(count: int) -> str:
    """Bytes in the unit that fits: `1.7 MiB`."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
