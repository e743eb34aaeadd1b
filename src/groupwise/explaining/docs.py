"""docs/techniques.md from the registry: `python -m groupwise.explaining.docs > docs/techniques.md`."""

import sys
from collections.abc import Iterable, Sequence
from importlib.resources import files

from groupwise.explaining.report import describe_recipes
from groupwise.explaining.techniques import ADDITIONS, FIFTEEN
from groupwise.technique import Card

COLUMNS = ("#", "technique", "equation", "source and its values", "options", "cost", "test", "where others differ")


def document() -> str:
    """The whole page: the text techniques.md next to this file, with its tables."""
    page = files("groupwise.explaining").joinpath("techniques.md").read_text(encoding="utf-8")
    recipes = [
        (f"`{row['name']}`", " ".join(map(str, row["techniques"])), ", ".join(row["additions"]), row["summary"])
        for row in describe_recipes()
    ]
    return page.format(
        fifteen=_table(COLUMNS, map(_cells, FIFTEEN)),
        additions=_table(COLUMNS, map(_cells, ADDITIONS)),
        recipes=_table(("recipe", "techniques", "additions", "what"), recipes),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n" for cells in lines)


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


if __name__ == "__main__":
    sys.stdout.write(document())
