"""A table of rewards as the checks see it: the section `rewards`, or that of a domain, which states what differs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from groupwise.config import RewardOptions, TrainConfig
from groupwise.findings import Finding, error, shown, warning
from groupwise.grading.reward_options import FunctionOptions


@dataclass(frozen=True, slots=True)
class Table:
    """One table, whole.

    prefix: the dotted name of its section. base: what it would be if it stated nothing. readers: the tables that take
    over what it states, itself among them.
    """

    config: TrainConfig
    prefix: str
    options: RewardOptions
    base: RewardOptions
    readers: tuple[RewardOptions, ...]

    def key(self, name: str) -> str:
        """The dotted name of one of its options."""
        return f"{self.prefix}.{name}"

    def error(self, names: tuple[str, ...], message: str) -> Finding:
        """An error between its options of these names."""
        return error(tuple(map(self.key, names)), message)

    def warning(self, names: tuple[str, ...], message: str) -> Finding:
        """A warning between its options of these names."""
        return warning(tuple(map(self.key, names)), message)

    def unused(
        self, name: str, because: str, remedy: str, is_read: Callable[[RewardOptions], bool] = lambda _: False
    ) -> Iterator[Finding]:
        """An error where `name` was changed although no reader reads it, because of its option `because`."""
        value, base = _at(self.options, name), _at(self.base, name)
        if value != base and not any(map(is_read, self.readers)):
            reason = because if because.startswith("advantage.") else self.key(because)
            text = (
                f"{self.key(name)}={shown(value)} has no effect with {reason}; {remedy}, or set {self.key(name)} back "
                f"to {'its default' if self.prefix == 'rewards' else 'that of rewards'}, {shown(base)}"
            )
            yield error((self.key(name), reason.partition("=")[0]), text)


def tables_of(config: TrainConfig) -> list[Table]:
    """The section `rewards`, then the domains."""
    everywhere = tuple(config.reward_tables().values())
    common = Table(config, "rewards", config.rewards, RewardOptions(), everywhere)
    own = [
        Table(config, f"domains.{name}.rewards", domain.rewards, config.rewards, (domain.rewards,))
        for name, domain in config.domains.items()
    ]
    return [common, *own]


def each_once(config: TrainConfig, check: Callable[[Table], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds in every table; what a domain only takes over from `rewards` is said once."""
    common, *own = tables_of(config)
    found = list(check(common))
    yield from found
    for table in own:
        for finding in check(table):
            if _moved(finding, table.prefix) not in found:
                yield finding


def _moved(finding: Finding, prefix: str) -> Finding:
    keys = tuple(key.replace(prefix, "rewards") for key in finding.keys)
    return Finding(finding.level, keys, finding.message.replace(prefix, "rewards"))


def _at(options: RewardOptions, name: str) -> Any:
    """The value of an option by its dotted name below the table; of a function that is not there, its default."""
    value: Any = options
    parts = name.split(".")
    if parts[0] == "functions" and parts[1] not in options.functions:
        return FunctionOptions.model_fields[parts[2]].default
    for part in parts:
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value
