"""The explanation of a configuration, for people and for programs."""

import textwrap
from dataclasses import asdict, dataclass
from typing import Any

from groupwise.config import TrainConfig
from groupwise.config.checks import Finding, contradictions, notes
from groupwise.config.compose import compose_train_config, list_recipes
from groupwise.errors import DataError
from groupwise.explaining.costs import Cost, costs_of
from groupwise.explaining.equation import Equation, equation_of
from groupwise.explaining.reward_table import DomainRow, columns, domain_lines, domain_table
from groupwise.explaining.techniques import cards_of
from groupwise.explaining.values import values_at
from groupwise.findings import shown
from groupwise.memory.needs import shown_bytes, trained_parameters
from groupwise.model.adapter_options import Adapter
from groupwise.model.size import ModelSize, read_size
from groupwise.technique import Card

WIDTH = 120


@dataclass(frozen=True)
class Explanation:
    """What `groupwise explain` prints. size_note: why there are no bytes, where the model cannot be read."""

    config: TrainConfig
    equation: Equation
    domains: tuple[DomainRow, ...]
    techniques: tuple[Card, ...]
    size: ModelSize | None
    size_note: str
    costs: tuple[Cost, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        """Whether `groupwise train` would not start."""
        return any(finding.level == "error" for finding in self.findings)

    def __str__(self) -> str:
        return to_text(self)


def explain(config: TrainConfig) -> Explanation:
    """Explain any configuration, also one that is refused."""
    size = _size_with_adapters(config)
    known = None if isinstance(size, str) else size
    return Explanation(
        config=config,
        equation=equation_of(config),
        domains=tuple(domain_table(config)),
        techniques=tuple(cards_of(config)),
        size=known,
        size_note=size if isinstance(size, str) else "",
        costs=tuple(costs_of(config, known)),
        findings=(*contradictions(config), *notes(config)),
    )


def _size_with_adapters(config: TrainConfig) -> ModelSize | str:
    """The size of the model, or why what is trained cannot be counted."""
    size, adapter = read_size(config.model.path), config.model.adapter
    if isinstance(adapter, Adapter) and not isinstance(size, str):
        try:
            adapter.size(size)
        except DataError as error:
            return str(error)
    return size


def _numbers_and_names(config: TrainConfig) -> tuple[list[int], list[str]]:
    """The techniques of a configuration: the numbers of those that have one, and the names of the additions."""
    techniques = cards_of(config)
    return [t.number for t in techniques if t.number is not None], [t.name for t in techniques if t.number is None]


def plan_lines(config: TrainConfig) -> list[str]:
    """The short form, for the plan of a run."""
    numbers, names = _numbers_and_names(config)
    techniques = ", ".join([" ".join(map(str, numbers)) or "none of the fifteen", *names])
    return [f"objective {equation_of(config).short()}", f"technique {techniques}"]


def to_text(explanation: Explanation) -> str:
    """The explanation for people."""
    lines = ["objective, maximised", *_wrapped(explanation.equation.objective, "  ", "    ")]
    for symbol, meaning in explanation.equation.terms:
        lines += _wrapped(meaning, f"  {symbol:<7} ", " " * 10)
    if explanation.domains:
        lines += ["", "domains, with the weights of their rewards"]
        lines += [f"  {line}" for line in domain_lines(explanation.domains)]
    lines += ["", "techniques"]
    for technique in explanation.techniques:
        number = "+" if technique.number is None else str(technique.number)
        lines += _wrapped(f"{technique.name}: {technique.what} [{technique.source}]", f"  {number:>2}  ", " " * 6)
        here = " ".join(f"{key}={shown(value)}" for key, value in _values(explanation.config, technique).items())
        lines += _wrapped(here, " " * 6, " " * 6)
    size = explanation.size
    lines += [
        "",
        f"costs, for {explanation.config.model.path}" + (f" ({_weights(explanation.config, size)})" if size else ""),
    ]
    if explanation.size_note:
        lines += _wrapped(explanation.size_note + "; bytes that depend on it are left out", "  ", "  ")
    for cost in explanation.costs:
        lines += _wrapped(f"{cost.name}: {_amount(cost)} ({cost.why})", "  ", "      ")
    lines += ["", "findings" if explanation.findings else "findings: none"]
    for finding in explanation.findings:
        lines += _wrapped(f"{finding.level}: {finding.message}", "  ", "      ")
    if explanation.refused:
        lines += ["", "refused: `groupwise train` does not start with these errors"]
    return "\n".join(lines)


def _weights(config: TrainConfig, size: ModelSize) -> str:
    text = f"{size.parameters / 1e6:.2f} M weights"
    if isinstance(config.model.adapter, Adapter):
        text += f"; {trained_parameters(config, size) / 1e6:.2f} M of adapters are trained"
    return text


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation for programs."""
    return {
        "objective": explanation.equation.objective,
        "terms": [{"symbol": symbol, "meaning": meaning} for symbol, meaning in explanation.equation.terms],
        "domains": [asdict(row) for row in explanation.domains],
        "techniques": [
            {name: getattr(technique, name) for name in ("number", "name", "source", "what")}
            | {"options": _values(explanation.config, technique)}
            for technique in explanation.techniques
        ],
        "model": explanation.config.model.path,
        "parameters": explanation.size.parameters if explanation.size else None,
        "trained_parameters": trained_parameters(explanation.config, explanation.size) if explanation.size else None,
        "model_note": explanation.size_note,
        "costs": [asdict(cost) for cost in explanation.costs],
        "findings": [asdict(finding) for finding in explanation.findings],
        "refused": explanation.refused,
    }


def _values(config: TrainConfig, technique: Card) -> dict[str, Any]:
    """The values of the options that make a technique up, with those of domains that differ."""
    found: dict[str, Any] = {}
    for key in technique.keys:
        found |= values_at(config, key)
    return found


def describe_recipes() -> list[dict[str, Any]]:
    """Every recipe of `groupwise train` with its summary, technique numbers and additions."""
    described = []
    for name, summary in list_recipes().items():
        numbers, additions = _numbers_and_names(compose_train_config([name]))
        described.append({"name": name, "techniques": numbers, "additions": additions, "summary": summary})
    return described


def recipe_lines() -> list[str]:
    """The recipes as a table."""
    return columns([[row["name"], " ".join(map(str, row["techniques"])), row["summary"]] for row in describe_recipes()])


def _amount(cost: Cost) -> str:
    if cost.quantity is None:
        return "unknown"
    if cost.unit == "bytes":
        return shown_bytes(cost.quantity)
    return f"{cost.quantity} {cost.unit if cost.quantity != 1 else cost.unit.removesuffix('es')}"


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False)
