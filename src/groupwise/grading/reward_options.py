"""Options of the rewards: what a completion is paid for, by component."""

from typing import Annotated, Literal

from pydantic import Field

from groupwise.grading.math.math_options import MathOptions
from groupwise.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, PositiveFloat, PositiveInt

OnError = Literal["drop_sample", "drop_group", "stop"]


class CodeOptions(Options):
    """How programs are judged."""

    credit: Literal["all", "fraction"] = "all"
    """`all`: 1 if all tests pass, else 0. `fraction`: the fraction of the tests that pass."""

    max_tests: NonNegativeInt = 0
    """Use at most so many tests of a problem, the first ones; 0 for all."""

    float_tolerance: NonNegativeFloat = 0.0
    """Largest difference, absolute or relative, of printed numbers that count as equal; 0 compares tokens as text."""


class CorrectnessOptions(Options):
    """The reward for a right answer: 1, or for programs a share of it."""

    weight: NonNegativeFloat = 1.0

    grader: str = "auto"
    """`auto`: by tests where the problem has some, by the problem's own scorer where only that can judge, otherwise as
    mathematics. `math`, `code`, or the name of one of rewards.functions, whose 1 then counts as right."""

    undecided: Literal["wrong", "drop"] = "wrong"
    """What an answer is paid that the grader can neither accept nor refuse within its bounds: 0, or it is an error. A
    policy can learn to write such answers, so `drop` lets it choose not to be judged."""

    second_grader: Literal["none", "math_verify"] = "none"
    """Asked about undecided answers, in a process of its own that is killed at its deadline."""

    math: MathOptions = MathOptions()

    code: CodeOptions = CodeOptions()


class FormatOptions(Options):
    """The reward for the form of a completion: 1 or 0, or a share of it."""

    weight: NonNegativeFloat = 0.0
    """With 0 the format is measured and not paid."""

    form: Literal["think", "think_answer", "regex"] = "think"
    """`think`: one non-empty <think>…</think>, then an answer. `think_answer`: the answer alone in one non-empty
    <answer>…</answer>, with nothing but white space between and behind. `regex`: `pattern` matches the whole
    completion."""

    strictness: Literal["strict", "soft"] = "strict"
    """`soft` pays a quarter for each of four parts that are kept, and nothing at all where a tag is empty, repeated or
    closed before it opens. `think`: a <think> with text behind it, nothing before it, text with </think> behind it, an
    answer behind that. `think_answer`: the reasoning in its tags, the answer in its tags, both in this order, nothing
    outside of both. A pattern matches or does not."""

    pattern: str = ""
    """Regular expression of `regex`. A dot matches line ends too. A <think> that the prompt ends with is part of what
    is matched, special tokens are not."""

    pattern_milliseconds: PositiveInt = 50
    """Matching stops after so long, and the pattern then counts as not matching."""

    requires: str = ""
    """The component that has to be full for the format to be rewarded, as in `correctness`. Empty for none."""


class OverlongOptions(Options):
    """Soft penalty of long answers (DAPO eq. 13)."""

    weight: NonNegativeFloat = 1.0

    buffer_tokens: NonNegativeInt = 0
    """Over the last so many tokens before sampling.max_new_tokens it grows linearly to -1. 0 for none."""


class LengthOptions(Options):
    """A price on length."""

    weight: NonNegativeFloat = 0.0

    form: Literal["linear", "group_relative"] = "linear"
    """`linear`: 0 up to `free_tokens`, falling to -1 at sampling.max_new_tokens. `group_relative`: from 0.5 for the
    shortest of the group to -0.5 for the longest, for wrong answers at most 0 (Kimi k1.5)."""

    free_tokens: NonNegativeInt = 0
    """Of `linear`: so many tokens cost nothing."""


class LanguageOptions(Options):
    """The share of letters in the wanted script, against mixing of languages in the reasoning (R1)."""

    weight: NonNegativeFloat = 0.0

    script: str = "Latin"
    """Unicode script: Latin, Han, Cyrillic, Arabic, Hangul, Devanagari, Greek, … Several are joined with `+`. LaTeX
    commands do not count; a text without letters gets 1."""


class RepetitionOptions(Options):
    """Penalty of repeated n-grams of tokens: 0 to -1, minus the share of n-grams that occurred before."""

    weight: NonNegativeFloat = 0.0

    ngram_tokens: PositiveInt = 20
    """Length of an n-gram."""

    free_fraction: Fraction = 0.0
    """This share of repeated n-grams costs nothing; the rest is scaled to -1 again."""


class FunctionOptions(Options):
    """A reward function of the user's own."""

    path: str
    """`package.module:function`, `file.py:function`, or the name of an entry point in the group `groupwise.grading`."""

    weight: float = 1.0
    """Negative for a price; with 0 the function is called and its value is measured alone."""

    requires: str = ""
    """The component that has to be full for it to be rewarded. Empty for none."""

    call: Literal["sample", "batch"] = "sample"
    """Called once for each completion, or once with the list of all completions of a problem."""

    timeout_seconds: PositiveFloat = 10.0
    """Of one call; the process is killed then."""

    retries: NonNegativeInt = 0
    """Further attempts after a failure."""

    on_error: OnError = "drop_group"
    """What a failure does: leave the sample out, leave its group out, or stop the run."""

    memory_mb: Annotated[int, Field(ge=64)] = 2048
    """Address space of its process beyond what it has when it starts."""


class RewardOptions(Options):
    """How a completion is paid: the sum of its components, each times its weight."""

    correctness: CorrectnessOptions = CorrectnessOptions()
    format: FormatOptions = FormatOptions()
    overlong: OverlongOptions = OverlongOptions()
    length: LengthOptions = LengthOptions()
    language: LanguageOptions = LanguageOptions()
    repetition: RepetitionOptions = RepetitionOptions()

    functions: dict[str, FunctionOptions] = {}
    """Reward functions of the user's own, by the name of their component."""

    gate: str = ""
    """A component without which nothing is paid: where it is not full, only penalties count. Empty for none."""
