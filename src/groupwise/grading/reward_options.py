"""Options of the rewards: the list of components, the user's functions, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from groupwise.grading.components.component import RewardComponent
from groupwise.grading.components.correctness import Correctness
from groupwise.grading.components.group_relative_length import GroupRelativeLength
from groupwise.grading.components.language import Language
from groupwise.grading.components.linear_length import LinearLength
from groupwise.grading.components.optimal_length import OptimalLength
from groupwise.grading.components.overlong import Overlong
from groupwise.grading.components.regex_format import RegexFormat
from groupwise.grading.components.repetition import Repetition
from groupwise.grading.components.tag_order import TagOrderFormat
from groupwise.grading.components.tagged_format import ThinkAnswerFormat, ThinkFormat
from groupwise.grading.functions.returned import Returns
from groupwise.options import NonNegativeInt, Options, PositiveFloat
from groupwise.technique import Card, Section, by_name

CORRECTNESS, FORMAT = "correctness", "format"

OnError = Literal["drop_sample", "drop_group", "stop"]
FormatOption = Annotated[
    ThinkFormat | ThinkAnswerFormat | RegexFormat | TagOrderFormat, Field(discriminator="type"), by_name(ThinkFormat)
]
LengthOption = Annotated[
    LinearLength | GroupRelativeLength | OptimalLength, Field(discriminator="type"), by_name(LinearLength)
]


class FunctionOptions(Options):
    """A reward function of the user's own."""

    path: str
    """`package.module:function`, `file.py:function`, or the name of an entry point in the group `groupwise.rewards`;
    `object:NAME` for one that only the program that started the run can call."""

    weight: float = 1.0
    """Negative for a price; with 0 the function is called and its value is only measured. Of a function that returns
    spans: of the advantages that they make, and not in the total."""

    requires: str = ""
    """The component that has to be full for it to be rewarded. Empty for none."""

    call: Literal["sample", "batch"] = "sample"
    """Called once for each completion, or once with the list of all completions of a problem."""

    returns: Returns = "number"
    """A number for each completion, or spans of it with a score each, by characters of `text` or by tokens of `ids`,
    which become advantages of tokens, see advantage.process."""

    timeout_seconds: PositiveFloat = 10.0
    """Of one call; the process is killed then."""

    retries: NonNegativeInt = 0
    """Further attempts after a failure."""

    on_error: OnError = "drop_group"
    """What a failure does: leave the sample out, leave its group out, or stop the run."""

    memory_mb: Annotated[int, Field(ge=64)] = 2048
    """Address space of its process beyond what it has when it starts."""


class RewardOptions(Section):
    """How a completion is rewarded: the sum of its components, each times its weight."""

    correctness: Correctness = Correctness()

    format: FormatOption = ThinkFormat()
    """The structure of a completion. With weight 0 it is measured all the same."""

    overlong: Overlong = Overlong()

    length: LengthOption = LinearLength()
    """A price on length."""

    language: Language = Language()
    repetition: Repetition = Repetition()

    functions: dict[str, FunctionOptions] = {}
    """Reward functions of the user's own, by the name of their component."""

    gate: str = ""
    """A component without which nothing is rewarded: where it is not full, only penalties count. Empty for none."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            name="conditional rewards",
            source="the seed, for the format",
            what="a component is rewarded only where another one is full, as the format only where the answer is right",
            equation="R = w·correct + λ·format·[correct = 1]",
            values="λ 1",
            keys=("rewards.format.requires", "rewards.format.weight", "rewards.functions.NAME.requires"),
            is_on=lambda c: c.any_table(lambda table: any(table.weight_of(name) for name in table.conditions)),
            cost="none",
            test="grading/test_components.py::test_a_condition_needs_the_full_component",
        ),
        Card(
            name="reward gate",
            source="in use (open-instruct)",
            what="nothing is rewarded where one component is not full; penalties still count",
            equation="R = Σ_k min(w_k R_k, 0) where the gate is below 1",
            values="none",
            keys=("rewards.gate",),
            is_on=lambda c: c.any_table(lambda table: table.gate != ""),
            cost="none",
            test="grading/test_components.py::test_behind_a_gate_only_penalties_count",
            differs="open-instruct's gate tests a scaled score for 1, so that any weight but 1 closes it for good.",
        ),
        Card(
            name="reward functions",
            source="in use",
            what="functions of the user's own are components of the reward, called in their own processes",
            equation="R = … + w·f(completion, problem)",
            values="none",
            keys=(
                "rewards.functions.NAME.path",
                "rewards.functions.NAME.weight",
                "rewards.functions.NAME.requires",
                "rewards.correctness.grader",
            ),
            is_on=lambda c: c.any_table(lambda table: bool(table.functions)),
            cost="grading.workers processes, memory_mb each at most",
            test="grading/test_components.py::test_weights_of_every_kind",
        ),
        Card(
            name="rewards by domain",
            source="OLMo 3",
            what="each domain of problems has its own rewards and weights",
            equation="R of the problem's domain",
            values="none",
            keys=("domains.NAME.rewards",),
            is_on=lambda c: any(table != c.rewards for table in c.reward_tables().values()),
            cost="none",
            test="grading/test_components.py::test_a_component_that_a_domain_does_not_use_counts_nothing",
        ),
    )

    @property
    def components(self) -> dict[str, RewardComponent]:
        """The built-in components by name, in the order of their columns."""
        return {name: getattr(self, name) for name in BUILT_IN}

    @property
    def conditions(self) -> dict[str, str]:
        """The components that are rewarded only where another one is full, each with that other one."""
        stated = {name: function.requires for name, function in self.functions.items()} | {FORMAT: self.format.requires}
        return {name: needed for name, needed in stated.items() if needed and name != self.correctness.grader}

    def is_used(self, name: str) -> bool:
        """Whether a component is scored under these options: it is rewarded, or a condition for what is."""
        if name in self.components:
            return self.components[name].is_on or name in self.conditions.values() or name == self.gate
        return name in self.functions and name != self.correctness.grader

    def weight_of(self, name: str) -> float:
        """The weight of one of the components in the total; 0 where these options do not use it there."""
        if not self.is_used(name) or name in self.span_weights:
            return 0.0
        return float((self.components if name in self.components else self.functions)[name].weight)

    @property
    def weights(self) -> dict[str, float]:
        """The weight of every component that is used; 0 where one is only measured."""
        return {name: self.weight_of(name) for name in component_names([self])}

    @property
    def span_weights(self) -> dict[str, float]:
        """The weights of the functions that score spans, by name; 0 where one is only measured."""
        return {name: of.weight for name, of in self.functions.items() if of.returns != "number"}

    def range_of(self, name: str) -> tuple[float, float]:
        """The least and the most that a component adds to the total; functions are taken to return 0 to 1."""
        component, weight = self.components.get(name, RewardComponent), self.weight_of(name)
        ends = (weight * component.lowest, weight * component.highest)
        return min(ends), max(ends)


BUILT_IN = tuple(name for name in RewardOptions.model_fields if name not in ("functions", "gate"))


def component_names(tables: Sequence[RewardOptions]) -> tuple[str, ...]:
    """The components that some table uses: the built-in ones in a fixed order, then functions as first mentioned.

    `correctness` and `format` are always scored. A function that grades correctness is that component and no other.
    """
    functions = dict.fromkeys(name for options in tables for name in options.functions if options.is_used(name))
    used = [name for name in BUILT_IN if any(options.is_used(name) for options in tables or [RewardOptions()])]
    return (*used, *functions)


def weight_key(name: str) -> str:
    """The option below a table of rewards that is a component's weight."""
    return f"{name}.weight" if name in BUILT_IN else f"functions.{name}.weight"


def requires_key(name: str) -> str:
    """The option below a table of rewards that is a component's condition."""
    return f"{name}.requires" if name in BUILT_IN else f"functions.{name}.requires"
