"""The pages of docs/ that are made from the registry of techniques.

`python -m groupwise.explaining.docs docs` writes techniques.md, and techniques/ with a page and a picture for each
technique. Without a folder it prints techniques.md.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from groupwise.explaining.pages import cell, page, prose, subjects
from groupwise.explaining.report import describe_recipes
from groupwise.explaining.techniques import ADDITIONS, FIFTEEN
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.technique import Card

COLUMNS = ("#", "technique", "equation", "source")


def document() -> str:
    """The overview: the text techniques.md next to this file, with its tables."""
    text = files("groupwise.explaining").joinpath("techniques.md").read_text(encoding="utf-8")
    recipes = [
        (f"`{row['name']}`", " ".join(map(str, row["techniques"])), ", ".join(row["additions"]), row["summary"])
        for row in describe_recipes()
    ]
    paths = {id(card): subject.path for subject in subjects() for card in subject.owner.cards}
    headings: dict[str, list[str]] = {}
    for subject in subjects():
        headings.setdefault(subject.room[1], []).append(f"[{subject.title}](techniques/{subject.path}.md)")
    return text.format(
        fifteen=_table(COLUMNS, (_cells(card, paths[id(card)]) for card in FIFTEEN)),
        additions=_table(COLUMNS[1:], (_cells(card, paths[id(card)])[1:] for card in ADDITIONS)),
        recipes=_table(("recipe", "techniques", "additions", "what"), recipes),
        pages="".join(f"- {heading}: {', '.join(links)}\n" for heading, links in headings.items()),
    )


def write(folder: Path) -> None:
    """Write the overview and, anew, the folder techniques/ of the pages and pictures."""
    (folder / "techniques.md").write_text(document(), encoding="utf-8")
    shutil.rmtree(folder / "techniques", ignore_errors=True)
    for name, content in generated():
        file = folder / "techniques" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def generated() -> Iterator[tuple[str, bytes]]:
    """Name and content of every file of techniques/."""
    from groupwise.explaining.pictures import overview, picture_of

    made = {subject: subject.with_defaults() for subject in subjects()}
    yield "surrogates.svg", overview([one for one in made.values() if isinstance(one, Surrogate)])
    for subject, technique in made.items():
        picture = picture_of(technique) if technique else None
        caption, drawn = picture or ("", b"")
        yield f"{subject.path}.md", page(subject, caption).encode()
        if drawn:
            yield f"{subject.path}.svg", drawn


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(cell, cells)) + " |\n" for cells in lines)


def _cells(card: Card, path: str) -> list[str]:
    return [
        "" if card.number is None else str(card.number),
        f"[{card.name}](techniques/{path}.md): {prose(card.what)}",
        f"`{card.equation}`",
        prose(card.source),
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        write(Path(sys.argv[1]))
    else:
        sys.stdout.write(document())
