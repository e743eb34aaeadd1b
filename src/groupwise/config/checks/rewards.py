"""Checks of each table of rewards by itself: its components, their conditions, and wrong answers that are rewarded."""

import graphlib
import keyword
from collections.abc import Iterator
from functools import partial

from groupwise.config import TrainConfig
from groupwise.config.checks.table import Table, each_once
from groupwise.findings import Finding, suggest_word, unused
from groupwise.grading.components.component import RewardComponent
from groupwise.grading.components.correctness import GRADERS
from groupwise.grading.functions.in_process import IN_PROCESS
from groupwise.grading.reward_options import (
    BUILT_IN,
    CORRECTNESS,
    FORMAT,
    FunctionOptions,
    RewardOptions,
    requires_key,
    weight_key,
)


def rewards(config: TrainConfig) -> Iterator[Finding]:
    """What is rewarded, in every table."""
    for check in (weights, names, objects, spans, conditions, trap, components):
        yield from each_once(config, check)


def weights(table: Table) -> Iterator[Finding]:
    """A table that rewards nothing."""
    if _rewards_something(table.options):
        return
    stated = " and ".join(table.key(f"{name}.weight=0") for name in ("correctness", "format"))
    keys = ("correctness.weight", "format.weight")
    if any(map(_rewards_something, table.config.reward_tables().values())):
        which = "of this domain" if table.domain else "of domains that state no rewards"
        text = (
            f"{stated}: nothing is rewarded for problems {which}, so that their groups never have a signal; give one "
            "of them a weight, or leave these problems out"
        )
        yield table.warning(keys, text)
        return
    yield table.error(keys, f"{stated}: nothing is rewarded, so no group ever has a signal; give one of them a weight")


def names(table: Table) -> Iterator[Finding]:
    """Names of functions, which metrics and conditions use."""
    for name in table.options.functions:
        if not name.isidentifier() or keyword.iskeyword(name):
            text = (
                f"{table.key(f'functions.{name}')}: expected a name of letters, digits and _, as metrics and "
                "conditions use it; rename it"
            )
            yield table.error((f"functions.{name}.path",), text)


def objects(table: Table) -> Iterator[Finding]:
    """Options of worker processes, of a function that is called in this one."""
    for name, function in table.options.functions.items():
        for option in ("timeout_seconds", "retries", "memory_mb") if function.path.startswith(IN_PROCESS) else ():
            because = f"{table.key(f'functions.{name}.path')}={function.path}"
            default = FunctionOptions.model_fields[option].default
            remedy = "define the function in a file of its own"
            key = table.key(f"functions.{name}.{option}")
            yield from unused(key, getattr(function, option), default, because, remedy)


def spans(table: Table) -> Iterator[Finding]:
    """Functions that score spans where a number for the whole answer is needed."""
    options = table.options
    for name, weight in options.span_weights.items():
        returns, key = f"functions.{name}.returns", table.key(f"functions.{name}.returns")
        stated = f"{key}={options.functions[name].returns}"
        if name == options.correctness.grader:
            text = f"{stated}: the function grades correctness, for which a number is needed; set {key}=number"
            yield table.error((returns, "correctness.grader"), text)
        if options.functions[name].requires:
            requires = f"functions.{name}.requires"
            text = (
                f"{table.key(requires)}={options.functions[name].requires} has no effect with {stated}: spans are no "
                "part of the total; leave it out, or let the function return no spans there"
            )
            yield table.error((requires, returns), text)
        if options.gate and weight != 0:
            text = (
                f"{table.key('gate')}={options.gate} with {stated}: the gate acts on the total, and spans would be "
                "rewarded behind it; leave the gate out, or let the function return no spans there"
            )
            yield table.error(("gate", returns), text)


def components(table: Table) -> Iterator[Finding]:
    """What the components say of their options, and options of those that are off."""
    for name, component in table.options.components.items():
        if table.options.is_used(name):
            yield from component.findings_in(table)
        else:
            for option in type(component).model_fields:
                if option != component.switch:
                    key = name if option == "type" else f"{name}.{option}"
                    because = f"{name}.{component.switch}=0"
                    yield from table.unused(key, because, component.turn_on, partial(RewardOptions.is_used, name=name))
    if table.options.weight_of(FORMAT) == 0:
        yield from table.unused(
            "format.requires", "format.weight=0", "give the format a weight", lambda o: o.weight_of(FORMAT) != 0
        )


def conditions(table: Table) -> Iterator[Finding]:
    """Unknown names, components that are never full, functions whose name is taken, and conditions in a circle."""
    yield from _functions(table)
    stated = table.options.conditions
    targets = {requires_key(name): needed for name, needed in stated.items()} | {"gate": table.options.gate}
    for name, target in targets.items():
        if target:
            yield from _target(table, name, target)
    try:
        graphlib.TopologicalSorter({name: [needed] for name, needed in stated.items()}).prepare()
    except graphlib.CycleError as error:
        circle = list(dict.fromkeys(reversed(error.args[1])))
        shown = ", ".join(f"{table.key(requires_key(name))}={stated[name]}" for name in circle)
        text = f"{shown}: these conditions go in a circle; leave one of them empty"
        yield table.error(tuple(map(requires_key, circle)), text)


def trap(table: Table) -> Iterator[Finding]:
    """Where a wrong answer that keeps the format is rewarded like a right one that does not, or more, with the numbers.

    Nothing where a right answer is always rewarded more by these options. Of functions nobody knows what they return:
    they are taken as 0 to 1, and the text says so. Correctness of weight 0 is no trap but a choice.
    """
    options = table.options
    right = options.correctness.weight
    if right == 0 or options.gate == CORRECTNESS:
        return
    parts = _rewards_of_wrong_answers(table)
    wrong = sum(parts.values())
    if wrong == 0 or wrong < (0.0 if options.gate else right):
        return
    shown = " + ".join(f"{weight:g} ({name})" for name, weight in parts.items())
    total = f"{shown} = {wrong:g}" if len(parts) > 1 else shown
    functions = " and ".join(name for name in parts if name not in BUILT_IN)
    unknown = f" (what {functions} can return is not known; taken as 0 to 1)" if functions else ""
    keys = tuple(map(weight_key, parts))
    if options.gate:
        gate = table.key("gate")
        text = (
            f"{table.prefix}: with {gate}={options.gate} a right answer that is not full in {options.gate} earns "
            f"nothing, and a wrong one that is full in it up to {total}{unknown}: set {gate}={CORRECTNESS}, or set "
            f"requires={CORRECTNESS} for the rest"
        )
        yield table.warning(("gate", "correctness.weight", *keys), text)
        return
    text = (
        f"{table.prefix}: a wrong answer can earn {total}, {'as much as' if wrong == right else 'more than'} the "
        f"{right:g} of a right one without it{unknown}: lower {', '.join(map(table.key, keys))} to less than {right:g}"
        f"{' together' if len(parts) > 1 else ''} (0.1 or 0.2), or set {_only_if_right(table, list(parts))}"
    )
    yield table.warning((*keys, "correctness.weight"), text)


def _rewards_something(options: RewardOptions) -> bool:
    return any(options.weights.values()) or any(options.span_weights.values())


def _only_if_right(table: Table, names: list[str]) -> str:
    """The overrides that leave a wrong answer without these rewards; a built-in one but the format takes the gate."""
    if any(name in BUILT_IN and name != FORMAT for name in names):
        return f"{table.key('gate')}={CORRECTNESS}"
    return " ".join(f"{table.key(requires_key(name))}={CORRECTNESS}" for name in names)


def _rewards_of_wrong_answers(table: Table) -> dict[str, float]:
    """What can add to the total of a wrong answer, at most, by component."""
    options, most = table.options, {}
    for name in (*BUILT_IN, *options.functions):
        component = options.components.get(name, RewardComponent)
        if options.conditions.get(name) != CORRECTNESS:
            most[name] = options.weight_of(name) * component.best_wrong
    return {name: weight for name, weight in most.items() if weight > 0}


def _functions(table: Table) -> Iterator[Finding]:
    options = table.options
    for name in options.functions:
        if name in (*BUILT_IN, *GRADERS):
            text = f"{table.key(f'functions.{name}')}: the name is taken; call it otherwise"
            yield table.error((f"functions.{name}.path",), text)
    grader = options.functions.get(options.correctness.grader)
    for field in ("weight", "requires") if grader else ():
        name = f"functions.{options.correctness.grader}.{field}"
        if getattr(grader, field) != FunctionOptions.model_fields[field].default:
            text = (
                f"{table.key(name)} has no effect: the function grades correctness, whose weight is "
                f"{table.key('correctness.weight')}; remove it"
            )
            yield table.error((name, "correctness.weight"), text)


def _target(table: Table, name: str, target: str) -> Iterator[Finding]:
    """What is wrong with a component that has to be full for something."""
    options = table.options
    unfit = (*BUILT_IN, *options.span_weights, options.correctness.grader)
    own = [function for function in options.functions if function not in unfit]
    full = [component for component, of in options.components.items() if of.highest == 1]
    if target in (*full, *own):
        return
    stated = f"{table.key(name)}={target}"
    if target in BUILT_IN:
        text = f"{stated}: {target} never reaches 1, so that nothing would ever be rewarded"
    elif target in options.span_weights:
        text = (
            f"{stated}: this function scores spans, of which no answer is full; name a function that returns a number"
        )
    elif target in options.functions:
        text = f"{stated}: this function grades correctness; write {table.key(name)}={CORRECTNESS}"
    else:
        known = (*full, *own)
        hint = suggest_word(target, known) or f"; expected one of {', '.join(known)}"
        text = f"{stated}: there is no such component{hint}"
    yield table.error((name,), text)
