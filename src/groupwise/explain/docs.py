"""docs/techniques.md from the registry: `python -m groupwise.explain.docs > docs/techniques.md`."""

import sys
from collections.abc import Sequence

from groupwise.explain.report import describe_recipes
from groupwise.explain.techniques import ADDITIONS, FIFTEEN
from groupwise.technique import Card

HEAD = """\
# Techniques

<!-- Made by `python -m groupwise.explain.docs > docs/techniques.md`; a test compares it with the registry. -->

Every technique is an option of its own, and they combine. `groupwise explain [RECIPE | FILE | key=value ...]` prints
any combination as its equation with the numbers put in, which of these it has, what they cost for the model, and what
is unsound or without effect; `groupwise recipes` lists the recipes with their numbers.

The numbers 1 to 15 are those of a table in a tutorial on GRPO, section 26.5, called *the seed* here, from which this
project grew. Where it, its sources and other trainers differ, the last column says so; what groupwise does is what the
source says, and what the seed prints otherwise is available under a name of its own (recipes `seed_olmo3` and
`seed_deepseek_v32`, `surrogate=seed_clip`). DAPO stands for *Decoupled Clip and Dynamic sAmpling Policy Optimization*,
Dr. GRPO for *GRPO Done Right*, GDPO for *Group reward-Decoupled Normalization Policy Optimization*.

Symbols: r = π_new/π_old, A the advantage, R the reward, G answers of one problem, L the tokens of an answer, sg a value
without gradient, δ in KL rows log π_new - log π_ref, otherwise a threshold. Tests are below `tests/`.
"""

TAIL = """\
A recipe sets what defines it, with the values of its source; a comment beside a value says where it is a stand-in. It
leaves model and problems open: `groupwise train dapo model.path=… problems.train=…`. Recipes compose: with `demo`
behind it a recipe runs at the demo's size, `groupwise train grpo demo`; an overlong penalty that is longer than the
demo's answers needs a size of its own, `groupwise train dapo demo rewards.overlong.buffer_tokens=16`."""

COLUMNS = ("#", "technique", "equation", "source and its values", "options", "cost", "test", "where others differ")


def document() -> str:
    """The whole page."""
    return "\n".join(
        [
            HEAD,
            "## The fifteen\n",
            *_table(FIFTEEN),
            "\n## Additions\n",
            *_table(ADDITIONS),
            "\n## Recipes\n",
            *_recipes(),
            "",
        ]
    )


def _table(techniques: Sequence[Card]) -> list[str]:
    return [_row(COLUMNS), _row(["---"] * len(COLUMNS)), *(_row(_cells(technique)) for technique in techniques)]


def _cells(technique: Card) -> list[str]:
    return [
        "" if technique.number is None else str(technique.number),
        f"**{technique.name}**: {technique.what}",
        technique.equation,
        technique.source + (f"<br>{technique.values}" if technique.values != "none" else ""),
        "<br>".join(f"`{key}`" for key in technique.keys),
        technique.cost,
        f"`{technique.test}`",
        technique.differs,
    ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _recipes() -> list[str]:
    lines = [_row(("recipe", "techniques", "additions", "what")), _row(["---"] * 4)]
    for recipe in describe_recipes():
        numbers = " ".join(map(str, recipe["techniques"]))
        lines.append(_row((f"`{recipe['name']}`", numbers, ", ".join(recipe["additions"]), recipe["summary"])))
    return [*lines, "", TAIL]


if __name__ == "__main__":
    sys.stdout.write(document())
