"""The typed tree of options.

Every field changes something or is refused. Units are in the names. `compose.py` builds the tree from recipes, files
and `key=value`; the checks between options are in `config_checks`.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer, model_validator

from groupwise.config.data import (
    Columns,
    ModelOptions,
    ProblemOptions,
    PromptExample,
    PromptOptions,
    SamplingOptions,
)
from groupwise.config.grading import DomainOptions, GradingOptions, differences, merged
from groupwise.config.objective import (
    AdvantageOptions,
    EngineCorrectionOptions,
    EntropyOptions,
    KlOptions,
    ObjectiveOptions,
    OffPolicyMaskOptions,
)
from groupwise.config.step import ActiveSamplingOptions, BatchOptions, OptimizerOptions, RunOptions
from groupwise.grading.reward_options import RewardOptions
from groupwise.grading.sandbox.options import SandboxOptions
from groupwise.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt

__all__ = [
    "ActiveSamplingOptions",
    "AdvantageOptions",
    "BatchOptions",
    "Columns",
    "DomainOptions",
    "EngineCorrectionOptions",
    "EntropyOptions",
    "GradingOptions",
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
    "SandboxOptions",
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

    domains: dict[str, DomainOptions] = {}
    """What differs for single domains of problems, by their names."""

    grading: GradingOptions = GradingOptions()
    sandbox: SandboxOptions = SandboxOptions()
    advantage: AdvantageOptions = AdvantageOptions()
    objective: ObjectiveOptions = ObjectiveOptions()
    engine_correction: EngineCorrectionOptions = EngineCorrectionOptions()
    off_policy_mask: OffPolicyMaskOptions = OffPolicyMaskOptions()
    kl: KlOptions = KlOptions()
    entropy: EntropyOptions = EntropyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()

    def rewards_of(self, domain: str) -> RewardOptions:
        """How completions of problems of this domain are paid."""
        return self.domains[domain].rewards if domain in self.domains else self.rewards

    def kl_coefficient_of(self, domain: str) -> float:
        """Coefficient of the KL penalty for this domain."""
        own = self.domains[domain].kl_coefficient if domain in self.domains else None
        return self.kl.coefficient if own is None else own

    def reward_tables(self) -> dict[str, RewardOptions]:
        """All tables of rewards: that of the section rewards by the name '', then that of every domain."""
        return {"": self.rewards} | {name: domain.rewards for name, domain in self.domains.items()}

    @model_validator(mode="before")
    @classmethod
    def _complete_domains(cls, data: Any) -> Any:
        """Every domain's rewards, which state what differs, merged over those of all domains."""
        if not (isinstance(data, Mapping) and isinstance(data.get("domains"), Mapping)):
            return data
        base, domains = _stated(data.get("rewards", {})), {}
        for name, domain in data["domains"].items():
            stated = _stated(domain)
            if isinstance(stated, dict) and isinstance(base, dict):
                stated = {**stated, "rewards": merged(base, _stated(stated.get("rewards", {})))}
            domains[name] = stated
        return {**data, "domains": domains}

    @model_serializer(mode="wrap")
    def _only_what_differs(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """All options; of a domain only what differs, so that a later change of the section rewards reaches it."""
        tree: dict[str, Any] = handler(self)
        base = tree.get("rewards")
        domains = tree.get("domains")
        if domains and base is not None:
            tree["domains"] = {name: _domain_differences(base, domain) for name, domain in domains.items()}
        return tree


def _stated(section: Any) -> Any:
    """A section as a mapping of what it states, however it is given."""
    return section.model_dump(exclude_unset=True) if isinstance(section, BaseModel) else section


def _domain_differences(base: dict[str, Any], domain: dict[str, Any]) -> dict[str, Any]:
    changed = differences(base, domain.get("rewards", base))
    kept = {key: value for key, value in domain.items() if key != "rewards" and value is not None}
    return {**kept, "rewards": changed} if changed else kept


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
    activation_checkpointing: bool = False
    """Keep only the inputs of the model's layers and compute the layers again in the backward pass."""

    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""
