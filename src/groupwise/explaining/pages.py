"""A page for each technique: its cards, options, equation and checks, as Markdown. `docs.py` writes them."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_to_explain
from groupwise.config.describe import type_text
from groupwise.config.schema import as_named_sections, as_section, as_techniques, options_of
from groupwise.explaining.equation import equation_of
from groupwise.findings import shown
from groupwise.objective.kl.kl_estimator import KlEstimator
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.technique import Card, Section, Technique

# Folder and heading of the techniques below an option; the longest beginning of its key decides.
ROOMS = {
    "problems": ("sampling", "Problems and sampling"),
    "sampling": ("sampling", "Problems and sampling"),
    "active_sampling": ("sampling", "Problems and sampling"),
    "rewards": ("rewards", "Rewards"),
    "advantage": ("advantages", "Advantages"),
    "objective.ratio": ("ratios", "Ratio levels"),
    "objective.surrogate": ("surrogates", "Surrogates"),
    "objective.reduction": ("reductions", "Reductions"),
    "objective": ("masks", "Masks"),
    "off_policy_mask": ("masks", "Masks"),
    "engine_correction": ("corrections", "Engine corrections"),
    "kl": ("kl", "KL penalty"),
    "entropy": ("entropy", "Entropy"),
    "model": ("model", "Model"),
}
OTHER = ("other", "Other techniques")
# Names of what does nothing, where that is the default.
_NOTHING = ("none", "all", "as_policy")
# Code of the user's own: docs/techniques-of-your-own.md.
OWN = "function"


@dataclass(frozen=True)
class Subject:
    """What one page is about: a technique with the option that chooses it, or a section of options with cards.

    name: of the technique; empty for a section.
    """

    key: str
    name: str
    owner: type[Section]

    @property
    def room(self) -> tuple[str, str]:
        """Folder and heading."""
        below = [prefix for prefix in ROOMS if f"{self.key}.".startswith(f"{prefix}.")]
        return ROOMS[max(below, key=len)] if below else OTHER

    @property
    def path(self) -> str:
        """Below docs/techniques/, without its ending."""
        last = self.name or (self.owner.cards[0].name if len(self.owner.cards) == 1 else self.key.split(".")[-1])
        return f"{self.room[0]}/{re.sub(r'[^a-z0-9]+', '_', last.lower())}"

    @property
    def title(self) -> str:
        """The name of the technique as one writes it in a configuration, or what the section's options do."""
        cards = self.owner.cards
        return self.name or (cards[0].name if len(cards) == 1 else f"Options of {self.key}")

    def with_defaults(self) -> Technique | None:
        """The technique with its defaults; None for a section, and for one of which users have to name something."""
        owner = self.owner
        named = any(info.is_required() for info in owner.model_fields.values())
        return None if named or not issubclass(owner, Technique) else owner()


def subjects() -> list[Subject]:
    """Every technique and every section with cards, in the order of the options of a configuration."""
    found: dict[type[BaseModel], Subject] = {}
    _collect(TrainConfig, "", found)
    return list(found.values())


def _collect(owner: type[BaseModel], prefix: str, found: dict[type[BaseModel], Subject]) -> None:
    for option, info in options_of(owner).items():
        key = prefix + option
        section = as_section(info.annotation) or as_named_sections(info.annotation)
        if section and issubclass(section, Section) and section.cards and section not in found:
            found[section] = Subject(key, "", section)
        for name, technique in as_techniques(info.annotation).items():
            if name == OWN:
                continue
            does_nothing = name in _NOTHING and isinstance(info.default, technique)
            if (technique.cards or not does_nothing) and key != "engine" and technique not in found:
                found[technique] = Subject(key, name, technique)
            _collect(technique, f"{key}.", found)
        if section and not key.startswith("domains"):
            _collect(section, f"{key}.", found)


def page(subject: Subject, picture: str) -> str:
    """The page. `picture`: the caption of its picture, empty where it has none."""
    made = "<!-- Made by `make docs-pages`; a test compares it with the registry. -->"
    parts = [f"# {subject.title}", made, *_introduction(subject)]
    if picture:
        parts.append(f"![{picture}]({subject.path.rpartition('/')[2]}.svg)\n\n*{picture}*")
    parts += [_card(card) for card in subject.owner.cards]
    parts += [*_options(subject), *_equation(subject), *_checks(subject)]
    return "\n\n".join(parts) + "\n"


def _introduction(subject: Subject) -> Iterator[str]:
    numbers = [f"{card.number}" for card in subject.owner.cards if card.number is not None]
    chosen = f"`{subject.key}={subject.name}`" if subject.name else f"Options `{subject.key}.…`"
    its = f", number {' and '.join(numbers)} of [the fifteen](../../techniques.md#the-fifteen)" if numbers else ""
    yield f"{chosen}: {subject.room[1].lower()}{its}."
    yield from (prose(text) for text in (inspect.getdoc(subject.owner) or "").split("\n\n"))


def _card(card: Card) -> str:
    rows = [
        ("what", prose(card.what)),
        ("source", prose(card.source)),
        ("its values", prose(card.values)),
        ("options", ", ".join(f"`{key}`" for key in card.keys)),
        ("cost", prose(card.cost)),
        ("where others differ", prose(card.differs)),
        ("tested by", f"`tests/{card.test}`"),
    ]
    lines = "\n".join(f"| {head} | {cell(text)} |" for head, text in rows if text and text != "none")
    return f"## {card.name}\n\n```text\n{card.equation}\n```\n\n| | |\n| --- | --- |\n{lines}"


def _options(subject: Subject) -> Iterator[str]:
    rows = []
    for name, info in options_of(subject.owner).items():
        if not (as_section(info.annotation) or as_named_sections(info.annotation)):
            default = shown(getattr(info.default, "type", info.default))
            meaning = re.sub(r"\s*\n\s*", " ", prose(info.description or ""))
            rows.append(f"- `{subject.key}.{name}`: {type_text(info)}, `{default}` by default.\n  {meaning}".rstrip())
    if rows:
        yield "## Options\n\n" + "\n".join(rows)


def _equation(subject: Subject) -> Iterator[str]:
    if not subject.with_defaults() or not subject.key.startswith(
        ("objective", "off_policy", "engine_corr", "kl", "entropy", "adv")
    ):
        return
    chosen = [f"{subject.key}={subject.name}"]
    if issubclass(subject.owner, Surrogate):
        chosen += [f"objective.ratio={level}" for level in [subject.owner.needs_ratio] if level]
        chosen += [f"objective.reduction={name}" for name in [subject.owner.needs_reduction] if name]
    if issubclass(subject.owner, KlEstimator):
        chosen.append("kl.coefficient=0.01")
    if subject.key == "engine_correction":
        chosen.append("objective.old_logps=trainer")
    equation = equation_of(compose_to_explain(chosen))
    terms = "\n".join(f"{symbol} = {meaning}" for symbol, meaning in equation.terms)
    command = f"groupwise explain {' '.join(chosen)}"
    yield f"## With its defaults\n\n`{command}`\n\n```text\n{equation.objective}\n\n{terms}\n```"


def _checks(subject: Subject) -> Iterator[str]:
    """What the technique's own checks say of themselves; those of its base are said by `explain`."""
    checks = subject.owner.__dict__.get("findings")
    if checks and checks.__doc__:
        told = prose(inspect.cleandoc(checks.__doc__))
        yield f"## What is checked\n\n{told} `groupwise explain` says it with the options of a configuration."


def prose(text: str) -> str:
    """Text of a docstring as Markdown: tags and signs are text outside of code, arXiv numbers are links."""
    pieces = re.split(r"(``?[^`]+``?)", text)
    return "".join(piece if piece.startswith("`") else _outside_code(piece) for piece in pieces)


def _outside_code(text: str) -> str:
    text = re.sub(r"([<*\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", text).replace("\\<", "&lt;")
    return re.sub(r"\b(\d{4}\.\d{5})\b", r"[\1](https://arxiv.org/abs/\1)", text)


def cell(text: str) -> str:
    """Text as a cell of a table, on one line."""
    return re.sub(r"\s*\n\s*", " ", text).replace("|", "\\|")
