"""Options of what is trained on what: the model, its prompts, problems and their domains, sampling and grading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from groupwise.findings import Finding, unused_option
from groupwise.grading.reward_options import OnError, RewardOptions
from groupwise.model.adapter_options import AdapterOption, NoAdapter
from groupwise.options import NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt, SaveDtype
from groupwise.problem import GYM_PREFIX
from groupwise.technique import Card, Section

if TYPE_CHECKING:
    from groupwise.config import TrainConfig

# The longest set of tokens that an engine records at one position: at most 4 KiB for each sampled token.
KEPT_LIMIT = 1024

# The domain of the problems of each generated source.
DOMAIN_OF_GENERATED = {"arithmetic": "math", "toy_code": "code"}


def is_generated(source: str) -> bool:
    """Whether the problems of a source are made, and do not stand in a file."""
    return source in DOMAIN_OF_GENERATED or source.startswith(GYM_PREFIX)


class ModelOptions(Section):
    """Which model is trained, and with which arithmetic."""

    path: str = "bundled"
    """`bundled`, a Hugging Face model folder, a `.gguf` file, or the id of a model on the hub."""

    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|(cuda|xpu)(:\d+)?)$")] = "auto"
    """Where the model is: cpu, cuda, cuda:N, xpu, xpu:N or mps. `auto` is the accelerator that torch finds, or the CPU.
    With several ranks each takes the device of its number on its machine."""

    shard: Literal["auto", "none", "full"] = "auto"
    """How several ranks hold the model. `none`: each all of it. `full`: weights, gradients and the optimizer's moments
    are divided among them, and layers gathered for each pass (FSDP2). `auto` for `full` on accelerators where they
    would take more than half of the free memory."""

    compute_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the matrix products; `auto` for bfloat16 on an accelerator, float32 on a CPU. The weights that the
    optimizer updates are float32 in either case."""

    trainable: Literal["all", "all_but_embeddings"] = "all"
    """Which weights are trained. `all_but_embeddings` also leaves an output head alone that shares them."""

    backend: Literal["auto", "plain"] = "auto"
    """How the model is run. `plain` is its own pass over padded batches: right for every causal model, and slower.
    `auto` packs tokens, with each prompt once for all its completions, where that computes the same for sequences as
    long as the run's; where it does not, it takes `plain` and says why."""

    adapter: AdapterOption = NoAdapter()
    """Adapters that are trained in place of the weights; `lora` for new ones with the defaults."""

    weights_dtype: Literal["float32", "bfloat16"] = "float32"
    """What the linear layers that adapters leave as they are kept in; bfloat16 halves their memory."""

    save: Literal["adapter", "merged", "both"] = "adapter"
    """What a run with adapters leaves: they alone, in adapter/, the model with them merged in, in model/, or both."""

    save_dtype: SaveDtype = "stored"
    """Of the weights in the trained model's files; `stored` for that of the files that the model came from."""

    router_aux_coefficient: NonNegativeFloat = 0.0
    """Weight of the auxiliary loss that keeps the experts of a mixture evenly used, by the model's own formula over the
    tokens that are read for an update."""

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Options of adapters where there are none."""
        if isinstance(self.adapter, NoAdapter):
            for key in ("model.weights_dtype", "model.save"):
                yield from unused_option(config, key, "model.adapter=none", "train adapters, as model.adapter=lora")

    @property
    def computes_in(self) -> Literal["float32", "bfloat16"]:
        """The compute dtype as far as it is known before torch has looked for devices: `device=auto` may be a CPU."""
        if self.compute_dtype == "auto":
            return "float32" if self.device in ("auto", "cpu") else "bfloat16"
        return self.compute_dtype

    @property
    def bytes_per_value(self) -> int:
        """Of a number in the compute dtype."""
        return 2 if self.computes_in == "bfloat16" else 4

    @property
    def bytes_per_frozen(self) -> int:
        """Of a weight of a linear layer that adapters leave as it is."""
        return 2 if self.weights_dtype == "bfloat16" else 4


class PromptExample(Options):
    """One solved problem that is shown before the real one."""

    problem: str
    answer: str


class PromptOptions(Options):
    """How a problem becomes the prompt."""

    template: Literal["chat", "plain"] = "chat"
    """`chat` uses a chat template; `plain` joins the contents with blank lines."""

    chat_template: str = ""
    """A file with a chat template in Jinja, used in place of the tokenizer's; empty for the tokenizer's."""

    template_arguments: dict[str, Any] = {}
    """Variables for the chat template, for example `{enable_thinking: false}`."""

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


def _branch(text: str, other: str) -> Discriminator:
    """Which of the two forms a value has, so that an error is about that form alone."""
    return Discriminator(lambda value: other if isinstance(value, dict | list) else text)


SharedSources = Annotated[
    Annotated[str, Tag("one")] | Annotated[dict[str, PositiveFloat], Tag("several")], _branch("one", "several")
]
ListedSources = Annotated[Annotated[str, Tag("one")] | Annotated[list[str], Tag("several")], _branch("one", "several")]


class ProblemOptions(Section):
    """Where problems come from.

    A source is `arithmetic` or `toy_code` (generated), `reasoning_gym:NAME`, or a file: .jsonl, .json, .parquet.
    """

    train: SharedSources = "arithmetic"
    """Problems to train on: a source, or several with their shares of the prompts, `{arithmetic: 3, toy_code: 1}`."""

    eval: ListedSources = ""
    """Problems to measure on, before and after: a source or a list of them. Empty: of every generated source that is
    trained on, others that training never meets; of files, none."""

    columns: Columns = Columns()

    eval_problems: NonNegativeInt = 512
    """How many problems of each source the measurement uses (at most; a file may hold fewer). 0 for no measurement."""

    eval_samples_per_prompt: PositiveInt = 8
    """Samples for each problem of the measurement at the training temperature; pass@k is given for k up to this."""

    eval_every_steps: NonNegativeInt = 0
    """Also measure every so many steps; 0 for only before and after."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="mixed sources",
            source="OLMo 3",
            what="problems of several sources are trained on in one run, each with its share of the prompts",
            equation="the sources in turn, of n prompts n·share of each, to within one",
            keys=("problems.train",),
            is_on=lambda c: len(c.problems.train_sources) > 1,
            test="options/test_every_option.py::test_the_option_changes_what_it_claims",
        ),
    )

    @property
    def train_sources(self) -> dict[str, float]:
        """The sources that are trained on, each with its share; the shares need not sum to 1."""
        return {self.train: 1.0} if isinstance(self.train, str) else dict(self.train)

    @property
    def eval_sources(self) -> list[str]:
        """The sources that are named for the measurement."""
        named = [self.eval] if isinstance(self.eval, str) else self.eval
        return [source for source in named if source]


class SamplingOptions(Section):
    """How completions are sampled. The same numbers serve every scorer of these completions."""

    temperature: PositiveFloat = 1.0

    max_new_tokens: PositiveInt = 512
    """Longest completion, in tokens. A completion that reaches it is truncated."""

    stop_ids: list[int | str] = []
    """Tokens that end a completion, next to those that the model names: an id, or the token's text, `"<|im_end|>"`."""

    stop: list[str] = []
    """Texts that end a completion, however they fall into tokens. The token that completes one is the last, and is
    trained."""

    keep_stop: bool = False
    """Whether what is graded ends behind the text of `stop`, as a closing tag has to, or before it."""

    top_k: NonNegativeInt = 0
    """Sample from the most likely tokens only; 0 for all."""

    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Sample from the smallest set of most likely tokens that has this probability."""

    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Sample from tokens that have at least this share of the most likely one's probability."""

    replay_mask: bool = False
    """Record which tokens top_k, top_p and min_p kept, at most 1024 at each position, so that every scorer normalises
    over the same ones (DeepSeek-V3.2)."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=11,
            name="sampling mask replay",
            source="DeepSeek-V3.2 2512.02556 §3.1",
            what="every scorer normalises over the tokens that top-k, top-p or min-p kept",
            equation="log π^K(v) = log π(v) - log Σ_{u∈K} π(u)",
            values="top-p not published",
            keys=("sampling.replay_mask", "sampling.top_k", "sampling.top_p", "sampling.min_p"),
            is_on=lambda c: c.sampling.replay_mask,
            cost="4 bytes for each kept token id, at most 4 KiB a token",
            test="objective/test_entropy.py::test_kept_set_golden",
            differs="The code that the seed follows multiplies 0 by -∞ in the entropy, which is NaN, and scores at "
            "another temperature than it samples at. Some trainers filter the trainer's own logits again, which are "
            "not exactly the engine's.",
        ),
        Card(
            name="filtered sampling",
            source="top-k 1805.04833, top-p 1904.09751, min-p 2407.01082",
            what="only likely tokens can be drawn",
            equation="sample from π over the kept set K",
            values="by use",
            keys=("sampling.top_k", "sampling.top_p", "sampling.min_p"),
            is_on=lambda c: c.filters_tokens,
            cost="as 11",
            test="rollout/test_engine.py::test_recorded_sets_are_those_that_were_sampled_from",
            differs="Refused without 11 where a ratio, a correction or a KL compares log-probabilities: others score "
            "the whole vocabulary and take the difference for a change of the policy.",
        ),
    )


class DomainOptions(Options):
    """What differs for the problems of one domain."""

    kl_coefficient: NonNegativeFloat | None = None
    """Coefficient of the KL penalty for this domain; without one kl.coefficient applies."""

    rewards: RewardOptions = RewardOptions()
    """What differs from the section rewards: it is merged over that key by key, so that it is whole once loaded."""


class GradingOptions(Options):
    """How completions are graded."""

    workers: NonNegativeInt = 0
    """Processes that run reward functions; 0 for one on each core."""

    on_error: OnError = "drop_group"
    """What a failure of a grader that is built in does, such as an unusable reference answer or a sandbox that does not
    start: leave the sample out, leave its group out, or stop the run. Reward functions state their own."""

    second_grader_seconds: PositiveFloat = 5.0
    """Deadline of the second grader for one answer; its process is killed then and the answer counts as undecided."""
