"""Checks of each table of rewards by itself: its components, their conditions, and options that nothing reads."""

import keyword
import re
from collections.abc import Callable, Iterator

from groupwise.config import RewardOptions, TrainConfig
from groupwise.config.checks.table import Table, each_once
from groupwise.config.suggest import suggest_word
from groupwise.findings import Finding
from groupwise.grading.components.language import script_fault
from groupwise.grading.components.pattern import pattern_fault, pattern_warning
from groupwise.grading.conditions import conditions_fault, format_trap
from groupwise.grading.totals import LANGUAGE, LENGTH, REPETITION, is_used, weights_of

GRADERS = ("auto", "math", "code")


def rewards(config: TrainConfig) -> Iterator[Finding]:
    """What is paid, in every table."""
    for check in (payment, names, conditions, trap, correctness, form, overlong, length, language, repetition):
        yield from each_once(config, check)


def payment(table: Table) -> Iterator[Finding]:
    """A table that pays nothing."""
    if any(weights_of(table.options).values()):
        return
    weights = " and ".join(table.key(f"{name}.weight=0") for name in ("correctness", "format"))
    keys = ("correctness.weight", "format.weight")
    if any(any(weights_of(options).values()) for options in table.config.reward_tables().values()):
        which = "of this domain" if table.prefix != "rewards" else "of domains without rewards of their own"
        text = (
            f"{weights}: nothing is paid for problems {which}, so that their groups never have a signal; give one of "
            "them a weight, or leave these problems out"
        )
        yield table.warning(keys, text)
        return
    text = f"{weights}: nothing is paid, so no group ever has a signal; give one of them a weight"
    yield table.error(keys, text)


def names(table: Table) -> Iterator[Finding]:
    """Names of functions, which stand in metrics and in conditions."""
    for name in table.options.functions:
        if not name.isidentifier() or keyword.iskeyword(name):
            text = (
                f"{table.key(f'functions.{name}')}: expected a name of letters, digits and _, as it stands in metrics "
                "and conditions; rename it"
            )
            yield table.error((f"functions.{name}.path",), text)


def conditions(table: Table) -> Iterator[Finding]:
    """Conditions under which something is paid, the gate, and names that are taken."""
    for fault in conditions_fault(table.options):
        yield table.error(_keys_in(fault), _moved_to(table, fault))


def trap(table: Table) -> Iterator[Finding]:
    """Wrong answers that are paid like right ones."""
    text = format_trap(table.options)
    if text:
        yield table.warning((*_keys_in(text), "correctness.weight"), f"{table.prefix}: {_moved_to(table, text)}")


_KEY = re.compile(r"\brewards\.((?:functions\.\w+|\w+)\.(?:weight|requires)|gate|functions\.\w+)")


def _keys_in(text: str) -> tuple[str, ...]:
    """The options of a table that a text of `rewards.conditions` names; a function alone stands for its path."""
    named = (f"{key}.path" if re.fullmatch(r"functions\.\w+", key) else key for key in _KEY.findall(text))
    return tuple(dict.fromkeys(named))


def _moved_to(table: Table, text: str) -> str:
    return re.sub(r"\brewards\.", f"{table.prefix}.", text)


def correctness(table: Table) -> Iterator[Finding]:
    """Who grades, and the options of graders that do not."""
    options = table.options.correctness
    known = (*GRADERS, *table.options.functions)
    if options.grader not in known:
        hint = suggest_word(options.grader, known) or f"; expected one of {', '.join(known)}"
        yield table.error(
            ("correctness.grader",), f"{table.key('correctness.grader')}={options.grader} is no grader{hint}"
        )
        return
    because = f"correctness.grader={options.grader}"
    for name in ("undecided", "second_grader", *(f"math.{field}" for field in type(options.math).model_fields)):
        yield from table.unused(f"correctness.{name}", because, "set it to auto or math", _grades("math"))
    for name in type(options.code).model_fields:
        yield from table.unused(f"correctness.code.{name}", because, "set it to auto or code", _grades("code"))


def _grades(what: str) -> Callable[[RewardOptions], bool]:
    return lambda options: options.correctness.grader in ("auto", what)


def form(table: Table) -> Iterator[Finding]:
    """The format, which is measured also where it is not paid."""
    options = table.options.format
    if weights_of(table.options)["format"] == 0:
        paid = _pays("format")
        yield from table.unused("format.requires", "format.weight=0", "give the format a weight", paid)
    if options.form == "regex":
        yield from table.unused("format.strictness", "format.form=regex", "a pattern matches or does not", _is_tagged)
        fault = pattern_fault(options.pattern)
        weak = "" if fault else pattern_warning(options.pattern, options.pattern_milliseconds)
        keys = ("format.pattern", "format.form")
        if not options.pattern:
            text = f"{table.key('format.form')}=regex without {table.key('format.pattern')}: state the pattern to match"
            yield table.error(keys, text)
        elif fault:
            yield table.error(keys, f"{table.key('format.pattern')}: {fault}")
        elif weak:
            yield table.warning(keys, f"{table.key('format.pattern')}: {weak}")
    else:
        for name in ("pattern", "pattern_milliseconds"):
            because = f"format.form={options.form}"
            yield from table.unused(f"format.{name}", because, "set the form to regex", _is_regex)


def _is_tagged(options: RewardOptions) -> bool:
    return options.format.form != "regex"


def _is_regex(options: RewardOptions) -> bool:
    return options.format.form == "regex"


def _pays(name: str) -> Callable[[RewardOptions], bool]:
    return lambda options: weights_of(options).get(name, 0.0) != 0


def overlong(table: Table) -> Iterator[Finding]:
    """The soft penalty towards the length limit."""
    buffer, longest = table.options.overlong.buffer_tokens, table.config.sampling.max_new_tokens
    if buffer == 0:
        remedy = "state a buffer"
        yield from table.unused(
            "overlong.weight", "overlong.buffer_tokens=0", remedy, lambda o: o.overlong.buffer_tokens > 0
        )
    if buffer > longest:
        text = (
            f"{table.key('overlong.buffer_tokens')}={buffer} is more than sampling.max_new_tokens={longest}: the "
            "penalty would begin before the first token and never be 0; take a buffer at the end, a fifth of the "
            "length or so"
        )
        yield _and(table.error(("overlong.buffer_tokens",), text), "sampling.max_new_tokens")


def length(table: Table) -> Iterator[Finding]:
    """The price on length."""
    options, longest = table.options.length, table.config.sampling.max_new_tokens
    if not is_used(table.options, LENGTH):
        yield from _weightless(table, LENGTH, ("form", "free_tokens"))
        return
    if options.form == "group_relative":
        yield from table.unused(
            "length.free_tokens",
            "length.form=group_relative",
            "set the form to linear",
            lambda o: is_used(o, LENGTH) and o.length.form == "linear",
        )
        if table.config.batch.samples_per_prompt == 1:
            text = (
                f"{table.key('length.form')}=group_relative with batch.samples_per_prompt=1: alone in its group an "
                "answer is neither short nor long; take at least 2 samples, or set the form to linear"
            )
            yield _and(table.error(("length.form",), text), "batch.samples_per_prompt")
    elif options.free_tokens >= longest:
        text = (
            f"{table.key('length.free_tokens')}={options.free_tokens} is not less than sampling.max_new_tokens="
            f"{longest}: no answer is ever long enough to cost something; lower it"
        )
        yield _and(table.error(("length.free_tokens",), text), "sampling.max_new_tokens")


def language(table: Table) -> Iterator[Finding]:
    """The share of letters in a script."""
    fault = script_fault(table.options.language.script)
    if fault:
        yield table.error(("language.script",), f"{table.key('language.script')}: {fault}")
    if not is_used(table.options, LANGUAGE):
        yield from _weightless(table, LANGUAGE, ("script",))


def repetition(table: Table) -> Iterator[Finding]:
    """The penalty of repeated n-grams."""
    options, longest = table.options.repetition, table.config.sampling.max_new_tokens
    if not is_used(table.options, REPETITION):
        yield from _weightless(table, REPETITION, ("ngram_tokens", "free_fraction"))
        return
    if options.ngram_tokens >= longest:
        text = (
            f"{table.key('repetition.ngram_tokens')}={options.ngram_tokens} is not less than sampling.max_new_tokens="
            f"{longest}: no answer holds two such n-grams; lower it"
        )
        yield _and(table.error(("repetition.ngram_tokens",), text), "sampling.max_new_tokens")
    if options.free_fraction == 1:
        text = f"{table.key('repetition.free_fraction')}=1: no repetition ever costs anything; lower it"
        yield table.error(("repetition.free_fraction",), text)


def _weightless(table: Table, name: str, fields: tuple[str, ...]) -> Iterator[Finding]:
    for field in fields:
        yield from table.unused(f"{name}.{field}", f"{name}.weight=0", "give it a weight", lambda o: is_used(o, name))


def _and(finding: Finding, key: str) -> Finding:
    """The same finding, which is about an option outside of the table too."""
    return Finding(finding.level, (*finding.keys, key), finding.message)
