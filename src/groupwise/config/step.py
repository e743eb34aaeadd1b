"""Options of a run and of its steps: sizes, filter, optimizer, length."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from groupwise.options import (
    Duration,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFloat,
    PositiveInt,
    seconds_of,
)
from groupwise.technique import Card, Section


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

    micro_batch_tokens: PositiveInt = 1024
    """Most tokens in one forward and backward pass, not counting its longest prompt; each prompt counts once. Changes
    memory, not the gradient. A run halves it until the worst case fits into the memory that is free."""

    logits_chunk_tokens: PositiveInt = 1024
    """Rows of logits that exist at one time. Changes memory, not the gradient."""

    activation_checkpointing: bool = False
    """Keep only the inputs of the model's layers and compute the layers again in the backward pass: less memory for one
    more forward pass. Does not change the gradient."""


class ActiveSamplingOptions(Section):
    """Which groups are trained on. A group whose rewards are all equal has no signal."""

    filter: Literal["none", "correctness", "total", "any_component"] = "correctness"
    """What has to differ within a group for it to be trained on: its correctness, its total reward, any one reward
    that has a weight, where its condition and the gate grant it, or nothing. But for `none` the estimator also has to
    give some answer an advantage. Scores of spans that differ count with `total` and `any_component`. With `none`,
    groups without signal stay in the denominators, and a KL or entropy term acts on them."""

    refill: bool = True
    """Sample further problems until the step has its groups."""

    max_prompts_per_step_factor: Annotated[float, Field(ge=1)] = 4.0
    """Budget of the refill: problems sampled in a step, at most, as a multiple of `batch.prompts_per_step`."""

    retire_accuracy: Fraction = 0.0
    """Problems of a file of which at least this fraction of samples was right are not drawn again; 0 for never."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=1,
            name="zero-signal filter",
            source="DAPO 2503.14476 eq. 11",
            what="groups whose rewards are all equal, or whose advantages are all 0, are not trained on",
            equation="keep a group iff max R ≠ min R",
            values="0 < right answers < G",
            keys=("active_sampling.filter",),
            is_on=lambda c: c.active_sampling.filter != "none",
            cost="none; fewer tokens are forwarded",
            test="training/test_collect.py::test_what_the_filter_names_has_to_differ",
            differs="Exact equality decides: eight float32 rewards of 1.05 have a small standard deviation that is "
            "not 0. A group that is left out is left out of the KL and entropy terms too; `filter=none` keeps it in "
            "them and in the denominator.",
        ),
        Card(
            number=2,
            name="active sampling",
            source="DAPO 2503.14476 (dynamic sampling); OLMo 3",
            what="problems are sampled until the step has its groups with signal",
            equation="draw problems until P groups pass the filter, or the budget is spent",
            values="DAPO: no limit in the paper; its code asks for 3 times the batch, at most 10 times over",
            keys=("active_sampling.refill", "active_sampling.max_prompts_per_step_factor"),
            is_on=lambda c: (
                c.active_sampling.filter != "none"
                and c.active_sampling.refill
                and c.active_sampling.max_prompts_per_step_factor > 1
            ),
            cost="sampling of the groups that are dropped, up to the factor",
            test="training/test_collect.py::test_refill_until_the_step_is_full",
            differs="The seed says that DAPO skips the update; it refills. Here the position in the stream moves "
            "behind everything drawn, so that a substitute is not trained on again in the next step.",
        ),
        Card(
            name="retirement",
            source="OLMo 3",
            what="problems that are nearly always solved are not drawn again",
            equation="retire a problem at right answers / G ≥ rate",
            values="0.875",
            keys=("active_sampling.retire_accuracy",),
            is_on=lambda c: c.active_sampling.retire_accuracy > 0,
            cost="none; saves their sampling",
            test="training/test_retirement.py::test_solved_problems_are_retired",
        ),
    )


class OptimizerOptions(Options):
    """The optimizer and its schedule."""

    type: Literal["adamw", "muon"] = "adamw"
    """`muon` for the matrices within layers (momentum made orthogonal, scaled to the length of a step of AdamW), with
    AdamW for embeddings, head, gains and biases. Its matrices have one moment in place of two."""

    lr: PositiveFloat = 1e-6
    """Peak learning rate."""

    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Of Muon."""

    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    epsilon: PositiveFloat = 1e-8
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled: a step takes this share of a weight, times the learning rate, off it."""

    decay_exempt: Literal["none", "norms_and_biases"] = "none"
    """What does not decay: nothing, as in verl, or the gains of norms and the biases, as in TRL."""

    max_grad_norm: PositiveFloat = 1.0
    """The gradient is scaled down to this norm when it is longer."""

    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises linearly to its peak."""

    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls after the warm-up."""

    final_lr_fraction: Fraction = 0.0
    """Where the fall ends, as a share of the peak: the last step's. With 0 the step after the last would have it."""


TrackerName = Literal["csv", "tensorboard", "wandb", "trackio", "mlflow"]


class RunOptions(Options):
    """How long the run is, where it is written, and what it is seeded with."""

    steps: PositiveInt = 200
    seed: NonNegativeInt = 0
    output: str = ""
    """Folder of the run; empty for runs/NAME-NUMBER."""

    resume: Literal["never", "auto"] = "never"
    """What happens if there is a run in `run.output`: it is an error, or with `auto` the run is resumed, so that the
    same command starts and restarts it."""

    checkpoint_every_steps: NonNegativeInt = 50
    """0 for a checkpoint only at the end and at Ctrl-C."""

    keep_checkpoints: PositiveInt = 2
    """How many of the newest checkpoints stay; damaged ones do not count."""

    rollouts_every_steps: NonNegativeInt = 1
    """Every so many steps the completions of the step are written to rollouts/; 0 for never."""

    rollouts_max_megabytes: PositiveFloat = 1000.0
    """The size that rollouts/ may reach, in millions of bytes. What is left is divided by the steps that are left; of a
    step that needs more than its share, whole groups are drawn by the seed."""

    trackers: list[TrackerName] = []
    """Where else the run is followed: csv, tensorboard, wandb, trackio, mlflow. One that fails or is slow is dropped
    with a warning."""

    stop_after: Duration = ""
    """As `3h30m`, `45m` or `90s`, counted from when the model is loaded: the run ends early enough to be saved by then,
    and can be resumed. Empty for no limit."""

    deadline_seconds: PositiveFloat = 1800.0
    """So long the processes of one run wait for each other; then the run ends and names the one that did not come."""

    threads: NonNegativeInt = 0
    """CPU threads; 0 for the faster choice of a short probe."""

    @property
    def stop_after_seconds(self) -> int:
        """0 for no limit."""
        return seconds_of(self.stop_after)
