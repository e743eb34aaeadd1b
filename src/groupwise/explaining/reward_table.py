"""How answers are rewarded, in words and numbers: for all domains, and for each that differs."""

from collections.abc import Sequence
from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.grading.reward_options import RewardOptions
from groupwise.technique import number


def reward_terms(config: TrainConfig) -> list[tuple[str, str]]:
    """The rewards as terms of the equation, those of a domain only where they differ."""
    estimator, longest = config.advantage.estimator.type, config.sampling.max_new_tokens
    if estimator == "pass_at_k":
        return [("R", "correct")]
    symbol, between = ("R_k", ", ") if estimator == "gdpo" else ("R", " + ")
    common = reward_text(config.rewards, longest, between)
    terms = [(symbol, common)]
    for name in config.domains:
        text = reward_text(config.rewards_of(name), longest, between)
        terms += [(f"{symbol} {name}", text)] if text != common else []
    return terms


def reward_text(options: RewardOptions, longest_tokens: int, between: str = " + ") -> str:
    """The total of one table; `between` stands between its parts."""
    parts = [
        _weighted(weight, _described(name, options, longest_tokens)) + _condition(name, options)
        for name, weight in options.weights.items()
        if weight != 0
    ]
    text = between.join(parts) or "0"
    return f"{text}; without full {options.gate} only what is below 0" if options.gate else text


def span_text(options: RewardOptions) -> str:
    """What functions that score spans add to the advantage of a token."""
    parts = [_weighted(weight, f"P({name})") for name, weight in options.span_weights.items() if weight != 0]
    return f", and for each token + {' + '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class DomainRow:
    """What is particular to one domain; the first row, whose domain is empty, is of all others.

    weights: by component; those without a weight in any domain are left out.
    """

    domain: str
    kl_coefficient: float
    weights: dict[str, float]


def domain_table(config: TrainConfig) -> list[DomainRow]:
    """Weights and KL coefficient of every domain; nothing where no domain differs."""
    if not config.domains:
        return []
    tables = {domain: options.weights | options.span_weights for domain, options in config.reward_tables().items()}
    names = dict.fromkeys(name for weights in tables.values() for name in weights)
    used = [name for name in names if any(weights.get(name, 0.0) != 0 for weights in tables.values())]
    return [
        DomainRow(domain, config.kl_coefficient_of(domain), {name: weights.get(name, 0.0) for name in used})
        for domain, weights in tables.items()
    ]


def domain_lines(rows: Sequence[DomainRow]) -> list[str]:
    """The table as text."""
    if not rows:
        return []
    head = ["domain", "KL coefficient", *rows[0].weights]
    cells = [
        [row.domain or "others", number(row.kl_coefficient), *(number(weight) for weight in row.weights.values())]
        for row in rows
    ]
    return columns([head, *cells])


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _described(name: str, options: RewardOptions, longest: int) -> str:
    return options.components[name].described(longest) if name in options.components else name


def _condition(name: str, options: RewardOptions) -> str:
    needed = options.conditions.get(name)
    return f"·[{needed} full]" if needed else ""


def _weighted(weight: float, name: str) -> str:
    return name if weight == 1 else f"{number(weight)}·{name}"
