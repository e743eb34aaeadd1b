"""What answers are paid, in words and numbers: for all domains, and for each that differs."""

from collections.abc import Sequence
from dataclasses import dataclass

from groupwise.config import RewardOptions, TrainConfig
from groupwise.explain.numbers import number
from groupwise.grading.totals import weights_of


def reward_terms(config: TrainConfig) -> list[tuple[str, str]]:
    """The rewards as terms of the equation, those of a domain only where they differ."""
    estimator, longest = config.advantage.estimator, config.sampling.max_new_tokens
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
        _times(weight, _described(name, options, longest_tokens)) + _condition(name, options)
        for name, weight in weights_of(options).items()
        if weight != 0
    ]
    text = between.join(parts) or "0"
    return f"{text}; without full {options.gate} only what is below 0" if options.gate else text


@dataclass(frozen=True)
class DomainRow:
    """What is particular to one domain; the first row, whose domain is empty, is of all others.

    weights: by component; those that no domain pays are left out.
    """

    domain: str
    kl_coefficient: float
    weights: dict[str, float]


def domain_table(config: TrainConfig) -> list[DomainRow]:
    """Weights and KL coefficient of every domain; nothing where no domain differs."""
    if not config.domains:
        return []
    tables = {domain: weights_of(options) for domain, options in config.reward_tables().items()}
    paid = [name for name in dict.fromkeys(n for w in tables.values() for n in w) if any_paid(name, tables)]
    return [
        DomainRow(domain, config.kl_coefficient_of(domain), {name: weights.get(name, 0.0) for name in paid})
        for domain, weights in tables.items()
    ]


def any_paid(name: str, tables: dict[str, dict[str, float]]) -> bool:
    """Whether a component has a weight in some table."""
    return any(weights.get(name, 0.0) != 0 for weights in tables.values())


def domain_lines(rows: Sequence[DomainRow]) -> list[str]:
    """The table as text."""
    if not rows:
        return []
    head = ["domain", "KL coefficient", *rows[0].weights]
    cells = [
        [row.domain or "others", number(row.kl_coefficient), *(number(weight) for weight in row.weights.values())]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in (head, *cells)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *cells)
    ]


def _described(name: str, options: RewardOptions, longest: int) -> str:
    match name:
        case "correctness":
            return "correct"
        case "format":
            return "format" if options.format.strictness == "strict" else "format (a quarter for each of 4 parts)"
        case "overlong":
            return f"overlong (0 up to {longest - options.overlong.buffer_tokens} tokens, -1 at {longest})"
        case "length" if options.length.form == "linear":
            return f"length (0 up to {options.length.free_tokens} tokens, -1 at {longest})"
        case "length":
            return "length (from 0.5 for the shortest of the group to -0.5 for the longest, wrong ones at most 0)"
        case "language":
            return f"language (share of letters in {options.language.script})"
        case "repetition":
            repetition = options.repetition
            beyond = f" beyond {number(repetition.free_fraction)}" if repetition.free_fraction else ""
            return f"repetition (minus the share of repeated {repetition.ngram_tokens}-grams{beyond})"
        case _:
            return name


def _condition(name: str, options: RewardOptions) -> str:
    requires = ""
    if name == "format":
        requires = options.format.requires
    elif name in options.functions:
        requires = options.functions[name].requires
    return f"·[{requires} full]" if requires else ""


def _times(weight: float, name: str) -> str:
    return name if weight == 1 else f"{number(weight)}·{name}"
