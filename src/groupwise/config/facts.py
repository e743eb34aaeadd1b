"""What follows from a configuration: questions that the checks, the explanation and the training all ask."""

from collections.abc import Callable

from groupwise.config import RewardOptions, TrainConfig
from groupwise.grading.totals import BUILT_IN, component_names, weights

# The longest set that the engine records at one position: `rollout.engine.KEPT_LIMIT`, without the import of torch.
KEPT_LIMIT = 1024

# The domain of the problems of each generated source.
DOMAIN_OF_GENERATED = {"arithmetic": "math", "toy_code": "code"}


def updates_per_step(config: TrainConfig) -> int:
    """Optimizer steps on the answers of one training step. With 1 the policy that sampled is the one that is scored."""
    return config.batch.epochs_per_step * config.batch.minibatches_per_step


def answers_per_update(config: TrainConfig) -> int:
    """Answers in one optimizer step when the step has all of its groups."""
    return config.batch.prompts_per_step * config.batch.samples_per_prompt // config.batch.minibatches_per_step


def uses_kl(config: TrainConfig) -> bool:
    """Whether some answer may be penalised for leaving the reference, so that a reference is loaded."""
    return config.kl.coefficient > 0 or any(config.kl_coefficient_of(name) > 0 for name in config.domains)


def filters_tokens(config: TrainConfig) -> bool:
    """Whether the engine samples from a part of the vocabulary."""
    sampling = config.sampling
    return sampling.top_k > 0 or sampling.top_p < 1 or sampling.min_p > 0


def engine_is_trainer(config: TrainConfig) -> bool:
    """Whether the engine runs the trainer's own weights in the trainer's own arithmetic, equal up to rounding."""
    return config.model.compute_dtype == "float32"


def selects_tokens(config: TrainConfig) -> bool:
    """Whether entropies or covariances of the old policy pick tokens before the step."""
    return config.entropy.train_top_share < 1 or config.entropy.covariance != "none"


def makes_trainer_pass(config: TrainConfig) -> bool:
    """Whether the trainer scores the answers of a step once more before its first optimizer step."""
    restated = config.objective.old_logps == "trainer" and updates_per_step(config) > 1
    return restated or selects_tokens(config)


def uses_of_old(config: TrainConfig) -> list[str]:
    """The options, as `key=value`, under which the loss compares the policy with the one that sampled."""
    objective, kl = config.objective, config.kl
    uses = []
    if objective.ratio != "none":
        uses.append(f"objective.ratio={objective.ratio}")
    elif objective.surrogate in ("dppo", "gmpo"):
        uses.append(f"objective.surrogate={objective.surrogate}")
    if config.engine_correction.form != "none":
        uses.append(f"engine_correction.form={config.engine_correction.form}")
    if config.off_policy_mask.against != "none":
        uses.append(f"off_policy_mask.against={config.off_policy_mask.against}")
    if uses_kl(config) and (kl.placement == "reward" or kl.importance != "none"):
        uses.append("kl.placement=reward" if kl.placement == "reward" else f"kl.importance={kl.importance}")
    if config.entropy.covariance != "none":
        uses.append(f"entropy.covariance={config.entropy.covariance}")
    return uses


def weights_of(options: RewardOptions) -> dict[str, float]:
    """The weight of every component that a table uses; 0 where one is measured alone."""
    names = component_names([options])
    return dict(zip(names, weights(options, names).tolist(), strict=True))


def any_table(config: TrainConfig, holds: Callable[[RewardOptions], bool]) -> bool:
    """Whether something holds for the rewards of some domain."""
    return any(map(holds, config.reward_tables().values()))


def paid_components(config: TrainConfig) -> list[str]:
    """The names of the rewards that enter the total of some domain."""
    paid = [name for table in config.reward_tables().values() for name, weight in weights_of(table).items() if weight]
    return list(dict.fromkeys(paid))


def weight_key(name: str) -> str:
    """The option below a table of rewards that says how much a component is paid."""
    return f"{name}.weight" if name in BUILT_IN else f"functions.{name}.weight"


def is_generated(source: str) -> bool:
    """Whether the problems of a source are made, and do not stand in a file."""
    return source in DOMAIN_OF_GENERATED or source.startswith("reasoning_gym:")


def trained_domains(config: TrainConfig) -> list[str]:
    """The domains of the problems that are trained on; empty where only opening their sources could tell."""
    sources = config.problems.train_sources
    known = {DOMAIN_OF_GENERATED.get(source, "") for source in sources}
    return [] if "" in known else sorted(known)
