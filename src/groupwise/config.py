"""The typed tree of options.

Every field changes something or is refused. Units are in the names. `compose.py` builds the tree from recipes, files
and `key=value`; the checks between options are at the end of `TrainConfig`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Options(BaseModel):
    """Base of every section: unknown keys, wrong types and non-finite numbers are errors, values cannot change."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class ModelOptions(Options):
    """Which model is trained, and with which arithmetic."""

    path: str = "bundled"
    """`bundled`, a Hugging Face model folder, a `.gguf` file, or the id of a model on the hub."""

    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the matrix products. The weights that the optimizer updates are float32 in either case."""

    trainable: Literal["all", "all_but_embeddings"] = "all"
    """Which weights are trained. `all_but_embeddings` also leaves an output head alone that shares them."""


class PromptExample(Options):
    """One solved problem that is shown before the real one."""

    problem: str
    answer: str


class PromptOptions(Options):
    """How a problem becomes the prompt."""

    template: Literal["chat", "plain"] = "chat"
    """`chat` uses the tokenizer's chat template; `plain` joins the contents with blank lines."""

    system: str = ""
    """A system message put first; empty for none."""

    examples: list[PromptExample] = []
    """Solved problems shown first, as turns of the chat."""

    prefill: str = ""
    """Text that the model's turn begins with, for example `<think>`. It belongs to the prompt and is not trained."""


class Columns(Options):
    """Names of the columns of a problem file, where they are not recognised by themselves."""

    problem: str = ""
    """Column with the problem's text or its list of chat messages."""

    answer: str = ""
    """Column with the answer."""

    domain: str = ""
    """Column with the domain."""


class ProblemOptions(Options):
    """Where problems come from. A source is `arithmetic` (generated) or a file: .jsonl, .json, .parquet."""

    train: str = "arithmetic"
    """Problems to train on."""

    eval: str = ""
    """Problems to measure on, before and after. Empty: where training is on generated problems, others that it never
    meets; where it is on a file, none."""

    columns: Columns = Columns()

    eval_problems: NonNegativeInt = 512
    """How many problems the measurement uses (at most; a file may hold fewer). 0 for no measurement."""

    eval_samples_per_prompt: PositiveInt = 8
    """Samples for each problem of the measurement at the training temperature; pass@k is given for k up to this."""

    eval_every_steps: NonNegativeInt = 0
    """Also measure every so many steps; 0 for only before and after."""


class SamplingOptions(Options):
    """How completions are sampled. The same numbers serve every scorer of these completions."""

    temperature: PositiveFloat = 1.0

    max_new_tokens: PositiveInt = 512
    """Longest completion, in tokens. A completion that reaches it is truncated."""

    engine_batch_sequences: PositiveInt = 256
    """How many sequences are decoded at once, at most."""


class BatchOptions(Options):
    """What one step consists of."""

    prompts_per_step: PositiveInt = 16
    """Groups that one step trains on."""

    samples_per_prompt: PositiveInt = 8
    """Completions of each problem: the size of the group."""

    minibatches_per_step: PositiveInt = 1
    """Optimizer steps in one pass over the groups of a step."""

    epochs_per_step: PositiveInt = 1
    """Passes over the groups of a step."""

    micro_batch_tokens: PositiveInt = 16384
    """Tokens in one forward and backward pass, at most, each prompt counted once. Changes memory, not the gradient."""

    logits_chunk_tokens: PositiveInt = 2048
    """Rows of logits that exist at one time. Changes memory, not the gradient."""


class ActiveSamplingOptions(Options):
    """Which groups are trained on. A group whose rewards are all equal has no signal."""

    filter: Literal["none", "correctness", "total"] = "correctness"
    """What has to differ within a group for it to be trained on: its correctness, its total reward, or nothing."""

    refill: bool = True
    """Sample further problems until the step has its groups."""

    max_prompts_per_step_factor: Annotated[float, Field(ge=1)] = 4.0
    """Budget of the refill: problems sampled in a step, at most, as a multiple of `batch.prompts_per_step`."""


class RewardOptions(Options):
    """How a completion is paid: `correctness_weight` · correct + `format_weight` · format."""

    answer: Literal["boxed", "last_number"] = "boxed"
    """Where the answer stands: in the last \\boxed{}, or as the last number; in either case after the reasoning."""

    correctness_weight: NonNegativeFloat = 1.0

    format_weight: NonNegativeFloat = 0.0
    """Weight of the format reward for one non-empty <think>…</think> before the answer."""

    format_when: Literal["always", "correct"] = "always"
    """`correct` pays the format only to a right answer."""


class AdvantageOptions(Options):
    """From the rewards of a group to the advantage of each completion."""

    baseline: Literal["group_mean"] = "group_mean"

    scale: Literal["none", "group_std"] = "none"
    """`none` (Dr. GRPO) or the standard deviation of the group (GRPO)."""

    std_ddof: Literal[0, 1] = 1
    """1 divides the squares by G-1 (Bessel), 0 by G (population)."""

    std_epsilon: PositiveFloat = 1e-4
    """Added to the standard deviation."""


class ObjectiveOptions(Options):
    """The loss, as independent axes."""

    ratio: Literal["token"] = "token"

    surrogate: Literal["ppo_clip"] = "ppo_clip"

    clip_low: NonNegativeFloat = 0.2
    """The ratio is clipped below at 1 - clip_low."""

    clip_high: NonNegativeFloat = 0.28
    """The ratio is clipped above at 1 + clip_high."""

    reduction: Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant_length"] = (
        "token_mean"
    )
    """How tokens are weighted: mean over the tokens of the optimizer step (DAPO); mean over sequences of their token
    means (GRPO); mean over sequences of their sums; sum over a constant length (Dr. GRPO)."""

    constant_length_tokens: NonNegativeInt = 0
    """The constant of `constant_length`; 0 stands for sampling.max_new_tokens."""

    old_logps: Literal["sampler", "trainer"] = "sampler"
    """Who states the log-probabilities of the policy that sampled: the engine, or the trainer in a pass of its own."""


class OptimizerOptions(Options):
    """AdamW and its schedule."""

    lr: PositiveFloat = 1e-6
    """Peak learning rate."""

    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9

    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95

    epsilon: PositiveFloat = 1e-8

    weight_decay: NonNegativeFloat = 0.0

    max_grad_norm: PositiveFloat = 1.0
    """The gradient is scaled down to this norm when it is longer."""

    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises linearly to its peak."""

    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls after the warm-up."""

    final_lr_fraction: Fraction = 0.0
    """Where the fall ends, as a share of the peak."""


class RunOptions(Options):
    """How long the run is, where it is written, and what it is seeded with."""

    steps: PositiveInt = 200

    seed: NonNegativeInt = 0

    output: str = ""
    """Folder of the run; empty for runs/NAME-NUMBER."""

    checkpoint_every_steps: NonNegativeInt = 50
    """0 for a checkpoint only at the end and at Ctrl-C."""

    keep_checkpoints: PositiveInt = 2
    """How many of the newest checkpoints stay."""

    rollouts_every_steps: NonNegativeInt = 10
    """Every so many steps all completions of the step are written to rollouts/; 0 for never."""

    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""


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
