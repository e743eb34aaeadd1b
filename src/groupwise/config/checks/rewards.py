"""Checks of each table of rewards by itself: its components, their conditions, and options that nothing reads."""

import keyword
from collections.abc import Callable, Iterator

from groupwise.config import TrainConfig
from groupwise.config.checks.conditions import conditions, trap
from groupwise.config.checks.table import Table, each_once
from groupwise.findings import Finding
from groupwise.grading.reward_options import FORMAT, RewardOptions


def rewards(config: TrainConfig) -> Iterator[Finding]:
    """What is rewarded, in every table."""
    for check in (weights, names, conditions, trap, components):
        yield from each_once(config, check)


def weights(table: Table) -> Iterator[Finding]:
    """A table that rewards nothing."""
    if any(table.options.weights.values()):
        return
    stated = " and ".join(table.key(f"{name}.weight=0") for name in ("correctness", "format"))
    keys = ("correctness.weight", "format.weight")
    if any(any(options.weights.values()) for options in table.config.reward_tables().values()):
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
                    yield from table.unused(key, because, component.turn_on, _uses(name))
    if table.options.weight_of(FORMAT) == 0:
        yield from table.unused(
            "format.requires", "format.weight=0", "give the format a weight", lambda o: o.weight_of(FORMAT) != 0
        )


def _uses(name: str) -> Callable[[RewardOptions], bool]:
    return lambda options: options.is_used(name)
