"""The typed tree of options.

Every field changes something or is refused. Units are in the names. `compose.py` builds the tree from recipes, files
and `key=value`; the checks between options are in `checks`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer, model_validator

from groupwise.config.data import (
    DOMAIN_OF_GENERATED,
    DomainOptions,
    GradingOptions,
    ModelOptions,
    ProblemOptions,
    PromptOptions,
    SamplingOptions,
)
from groupwise.config.guards import GuardOptions
from groupwise.config.merge import differences, merged
from groupwise.config.objective import AdvantageOptions, EntropyOptions, ObjectiveOptions
from groupwise.config.step import ActiveSamplingOptions, BatchOptions, OptimizerOptions, RunOptions
from groupwise.grading.reward_options import RewardOptions
from groupwise.grading.sandbox.runs import SandboxOptions
from groupwise.objective.corrections import CorrectionOption
from groupwise.objective.corrections.correction import NoCorrection
from groupwise.objective.entropy.covariance import NoCovariance
from groupwise.objective.entropy.top_entropy import AllTokens
from groupwise.objective.kl.penalty import KlOptions
from groupwise.objective.masks import OffPolicyMaskOption
from groupwise.objective.masks.off_policy import NoOffPolicyMask
from groupwise.objective.masks.policy_mask import PolicyMask
from groupwise.objective.ratios.no_ratio import NoRatio
from groupwise.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt, SaveDtype
from groupwise.rollout.engine_options import EngineOption, InProcess


class TrainConfig(Options):
    """All options of `groupwise train`."""

    run: RunOptions = RunOptions()
    model: ModelOptions = ModelOptions()
    prompt: PromptOptions = PromptOptions()
    problems: ProblemOptions = ProblemOptions()
    sampling: SamplingOptions = SamplingOptions()

    engine: EngineOption = InProcess()
    """Which engine samples."""

    batch: BatchOptions = BatchOptions()
    active_sampling: ActiveSamplingOptions = ActiveSamplingOptions()
    rewards: RewardOptions = RewardOptions()

    domains: dict[str, DomainOptions] = {}
    """What differs for single domains of problems, by their names."""

    grading: GradingOptions = GradingOptions()
    sandbox: SandboxOptions = SandboxOptions()
    advantage: AdvantageOptions = AdvantageOptions()
    objective: ObjectiveOptions = ObjectiveOptions()
    engine_correction: CorrectionOption = NoCorrection()
    """The weight π_old/π_sampler for what an engine computes differently from the trainer; detached."""

    off_policy_mask: OffPolicyMaskOption = NoOffPolicyMask()
    """Which answers or tokens leave the policy term because of how far the policy has moved on them."""

    kl: KlOptions = KlOptions()
    entropy: EntropyOptions = EntropyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    guards: GuardOptions = GuardOptions()

    def rewards_of(self, domain: str) -> RewardOptions:
        """How completions of problems of this domain are rewarded."""
        return self.domains[domain].rewards if domain in self.domains else self.rewards

    def kl_coefficient_of(self, domain: str) -> float:
        """Coefficient of the KL penalty for this domain."""
        own = self.domains[domain].kl_coefficient if domain in self.domains else None
        return self.kl.coefficient if own is None else own

    def reward_tables(self) -> dict[str, RewardOptions]:
        """All tables of rewards: that of the section rewards by the name '', then that of every domain."""
        return {"": self.rewards} | {name: domain.rewards for name, domain in self.domains.items()}

    @property
    def updates_per_step(self) -> int:
        """Optimizer steps on the answers of a step. With 1 the policy that sampled is the one that is scored."""
        return self.batch.epochs_per_step * self.batch.minibatches_per_step

    @property
    def answers_per_update(self) -> int:
        """Answers in one optimizer step when the step has all of its groups."""
        return self.batch.prompts_per_step * self.batch.samples_per_prompt // self.batch.minibatches_per_step

    @property
    def most_answers_per_step(self) -> int:
        """Answers that are sampled in a step, those of problems that take the place of refused ones too."""
        active, problems = self.active_sampling, self.batch.prompts_per_step
        refills = active.refill and active.filter != "none"
        wanted = int(active.max_prompts_per_step_factor * problems) if refills else problems
        return wanted * self.batch.samples_per_prompt

    @property
    def uses_kl(self) -> bool:
        """Whether some answer may be penalised for leaving the reference, so that a reference is loaded."""
        return self.kl.coefficient > 0 or any(self.kl_coefficient_of(name) > 0 for name in self.domains)

    @property
    def filters_tokens(self) -> bool:
        """Whether the engine samples from a part of the vocabulary."""
        sampling = self.sampling
        return sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0

    @property
    def engine_is_trainer(self) -> bool:
        """Whether the engine runs the trainer's own weights in the trainer's own arithmetic, equal up to rounding."""
        return isinstance(self.engine, InProcess) and self.model.computes_in == "float32"

    @property
    def ratio_is_one(self) -> bool:
        """Whether the policy that is scored is the old one, up to rounding: one update, and no other engine."""
        return self.updates_per_step == 1 and (self.engine_is_trainer or self.objective.old_logps == "trainer")

    @property
    def selects_tokens(self) -> bool:
        """Whether entropies or covariances of the old policy pick tokens before the step."""
        entropy = self.entropy
        return not (isinstance(entropy.tokens, AllTokens) and isinstance(entropy.covariance, NoCovariance))

    @property
    def makes_trainer_pass(self) -> bool:
        """Whether the trainer scores the answers of a step once more before its first optimizer step."""
        restated = self.objective.old_logps == "trainer" and self.updates_per_step > 1
        return restated or self.selects_tokens or self.advantage.estimator.of_token

    @property
    def span_key(self) -> str:
        """The first option, as `key=value`, that makes advantages of scores of spans; empty without one."""
        for domain, table in self.reward_tables().items():
            section = f"domains.{domain}.rewards" if domain else "rewards"
            for name, weight in table.span_weights.items():
                if weight != 0:
                    return f"{section}.functions.{name}.returns={table.functions[name].returns}"
        return ""

    @property
    def advantages_by_token(self) -> bool:
        """Whether the tokens of an answer may have different advantages."""
        return self.advantage.estimator.of_token or bool(self.span_key)

    @property
    def has_step_values(self) -> bool:
        """Whether a technique computes something from all tokens of an optimizer step before its first gradient."""
        mask = self.off_policy_mask
        return self.objective.surrogate.has_step_values or (isinstance(mask, PolicyMask) and mask.has_step_values)

    @property
    def makes_step_pass(self) -> bool:
        """Whether that takes a pass: not where the ratio is 1 by construction and nothing else is read of the pass."""
        surrogate, mask = self.objective.surrogate, self.off_policy_mask
        masks = isinstance(mask, PolicyMask) and mask.has_step_values
        same = self.objective.old_logps == "trainer" and self.updates_per_step == 1
        return masks or (surrogate.has_step_values and not (same and surrogate.reads_ratios_alone))

    @property
    def uses_advantages(self) -> bool:
        """Whether something reads the advantages of the answers."""
        reads = self.objective.surrogate.needs_advantage or not isinstance(self.off_policy_mask, NoOffPolicyMask)
        return reads or not isinstance(self.entropy.covariance, NoCovariance)

    @property
    def uses_of_old(self) -> list[str]:
        """The options, as `key=value`, under which the loss compares the policy with the one that sampled."""
        objective, kl = self.objective, self.kl
        compares = isinstance(objective.ratio, NoRatio) and objective.surrogate.compares_old
        uses = {
            f"objective.ratio={objective.ratio.type}": not isinstance(objective.ratio, NoRatio),
            f"objective.surrogate={objective.surrogate.type}": compares,
            f"engine_correction={self.engine_correction.type}": not isinstance(self.engine_correction, NoCorrection),
            f"off_policy_mask={self.off_policy_mask.type}": not isinstance(self.off_policy_mask, NoOffPolicyMask),
            "kl.in_reward=true": self.uses_kl and kl.in_reward,
            f"kl.importance={kl.importance}": self.uses_kl and not kl.in_reward and kl.importance != "none",
            f"entropy.covariance={self.entropy.covariance.type}": not isinstance(self.entropy.covariance, NoCovariance),
        }
        return [use for use, is_made in uses.items() if is_made]

    @property
    def rewarded_components(self) -> list[str]:
        """The names of the rewards that enter the total of some domain."""
        stated = (item for table in self.reward_tables().values() for item in table.weights.items())
        return list(dict.fromkeys(name for name, weight in stated if weight))

    @property
    def trained_domains(self) -> list[str]:
        """The domains of the problems that are trained on; empty where only opening their sources could tell."""
        sources = self.problems.train_sources
        known = {DOMAIN_OF_GENERATED.get(source, "") for source in sources}
        return [] if "" in known else sorted(known)

    def any_table(self, holds: Callable[[RewardOptions], bool]) -> bool:
        """Whether something holds for the rewards of some domain."""
        return any(map(holds, self.reward_tables().values()))

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
                stated = {**stated, "rewards": merged(RewardOptions, base, _stated(stated.get("rewards", {})))}
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

    save_dtype: SaveDtype = "stored"
    """Of the weights in the trained model's files; `stored` for that of the files that the model came from."""

    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""
