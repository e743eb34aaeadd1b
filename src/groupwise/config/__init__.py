"""The typed tree of options.

Every field changes something or is refused. Units are in the names. `compose.py` builds the tree from recipes, files
and `key=value`; the checks between options are in `config_checks`.
"""

from typing import Literal

from groupwise.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt
from groupwise.config.data import (
    Columns,
    ModelOptions,
    ProblemOptions,
    PromptExample,
    PromptOptions,
    RewardOptions,
    SamplingOptions,
)
from groupwise.config.objective import (
    AdvantageOptions,
    EngineCorrectionOptions,
    EntropyOptions,
    KlOptions,
    ObjectiveOptions,
    OffPolicyMaskOptions,
)
from groupwise.config.step import ActiveSamplingOptions, BatchOptions, OptimizerOptions, RunOptions

__all__ = [
    "ActiveSamplingOptions",
    "AdvantageOptions",
    "BatchOptions",
    "Columns",
    "EngineCorrectionOptions",
    "EntropyOptions",
    "KlOptions",
    "ModelOptions",
    "ObjectiveOptions",
    "OffPolicyMaskOptions",
    "OptimizerOptions",
    "Options",
    "ProblemOptions",
    "PromptExample",
    "PromptOptions",
    "RewardOptions",
    "RunOptions",
    "SamplingOptions",
    "SftConfig",
    "TrainConfig",
]


class TrainConfig(Options):
    """All options of `groupwise train`."""

    run: RunOptions = RunOptions()
    model: ModelOptions = ModelOptions()
    prompt: PromptOptions = PromptOptions()
    problems: ProblemOptions = ProblemOptions()
    sampling: SamplingOptions = SamplingOptions()
    batch: BatchOptions = BatchOptions()
    active_sampling: ActiveSamplingOptions = ActiveSamplingOptions()
    rewards: RewardOptions = RewardOptions()
    advantage: AdvantageOptions = AdvantageOptions()
    objective: ObjectiveOptions = ObjectiveOptions()
    engine_correction: EngineCorrectionOptions = EngineCorrectionOptions()
    off_policy_mask: OffPolicyMaskOptions = OffPolicyMaskOptions()
    kl: KlOptions = KlOptions()
    entropy: EntropyOptions = EntropyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()


class SftConfig(Options):
    """All options of `groupwise sft`."""

    model: str = "bundled"
    """`bundled`, a Hugging Face model folder, a `.gguf` file, or the id of a model on the hub."""

    data: str
    """JSONL with `prompt` (text or chat messages) and `completion` (text)."""

    output: str
    """Folder for the trained model."""

    seed: NonNegativeInt = 0
    steps: PositiveInt = 1000
    sequences_per_step: PositiveInt = 32
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon` updates matrices by orthogonalised momentum and everything else by AdamW."""

    lr: PositiveFloat = 1e-4
    """Peak learning rate of AdamW."""

    muon_lr: PositiveFloat = 0.02
    """Peak learning rate of Muon."""

    weight_decay: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 1.0
    warmup_steps: NonNegativeInt = 50
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    final_lr_fraction: Fraction = 0.05
    micro_batch_tokens: PositiveInt = 16384
    logits_chunk_tokens: PositiveInt = 2048
    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""
