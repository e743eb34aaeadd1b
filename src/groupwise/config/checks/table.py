"""A table of rewards as the checks see it: the section `rewards`, or that of a domain, which states what differs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from groupwise.config import TrainConfig
from groupwise.findings import Finding, error, unused, warning
from groupwise.grading.reward_options import RewardOptions
from groupwise.technique import Technique


@dataclass(frozen=True, slots=True)
class Table:
    """One table, whole.

    domain: whose it is; empty for the section `rewards`. prefix: the dotted name of its section. base: what it would be
    if it stated nothing. readers: the tables that take over what it states, itself among them.
    """

    config: TrainConfig
    domain: str
    prefix: str
    options: RewardOptions
    base: RewardOptions
    readers: tuple[RewardOptions, ...]

    def key(self, name: str) -> str:
        """The dotted name of one of its options."""
        return f"{self.prefix}.{name}"

    def error(self, names: tuple[str, ...], message: str, *others: str) -> Finding:
        """An error between its options of these names, and `others` outside of it."""
        return error((*map(self.key, names), *others), message)

    def warning(self, names: tuple[str, ...], message: str) -> Finding:
        """A warning between its options of these names."""
        return warning(tuple(map(self.key, names)), message)

    def unused(
        self, name: str, because: str, remedy: str, is_read: Callable[[RewardOptions], bool] = lambda _: False
    ) -> Iterator[Finding]:
        """An error where `name` was changed although no reader reads it, because of its option `because`."""
        value, base = _at(self.options, name), self._base_of(name)
        if not any(map(is_read, self.readers)):
            reason = because if because.startswith("advantage.") else self.key(because)
            called = "that of rewards" if self.domain else "its default"
            yield from unused(self.key(name), value, base, reason, remedy, called)

    def _base_of(self, name: str) -> Any:
        """What an option would be if the table stated nothing; its default where its owner would not be there."""
        try:
            return _at(self.base, name)
        except (AttributeError, KeyError):
            section, _, field = name.rpartition(".")
            return type(_walk(self.options, section)).model_fields[field].default


def tables_of(config: TrainConfig) -> list[Table]:
    """The section `rewards`, then the domains."""
    everywhere = tuple(config.reward_tables().values())
    common = Table(config, "", "rewards", config.rewards, RewardOptions(), everywhere)
    own = [
        Table(config, name, f"domains.{name}.rewards", domain.rewards, config.rewards, (domain.rewards,))
        for name, domain in config.domains.items()
    ]
    return [common, *own]


def each_once(config: TrainConfig, check: Callable[[Table], Iterator[Finding]]) -> Iterator[Finding]:
    """What a check finds in every table; what a domain only takes over from `rewards` is said once."""
    common, *own = tables_of(config)
    found = list(check(common))
    yield from found
    for table in own:
        as_common = check(replace(table, prefix=common.prefix))
        yield from (finding for finding, same in zip(check(table), as_common, strict=True) if same not in found)


def _at(options: RewardOptions, name: str) -> Any:
    """The value of an option by its dotted name below the table; of a choice of techniques, the name of the chosen."""
    value = _walk(options, name)
    return getattr(value, "type", value) if isinstance(value, Technique) else value


def _walk(value: Any, name: str) -> Any:
    for part in name.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value
