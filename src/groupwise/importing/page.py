"""The text of docs/translation.md: `python -m groupwise.importing.page > docs/translation.md`."""

import textwrap
from collections.abc import Iterable, Sequence
from importlib.resources import files

from groupwise.findings import shown
from groupwise.importing.option_rows import Field, Tool, fields_of, losses_of


def page() -> str:
    """The text of docs/translation.md: translation.md next to this file, with its tables."""
    text = files("groupwise.importing").joinpath("translation.md").read_text(encoding="utf-8")
    return text.format(
        trl=_options(fields_of("trl"), "TRL"),
        trl_losses=_losses("trl", "loss_type", ("surrogate", "reduction")),
        trl_idle=_idle(fields_of("trl"), "Options that do not change the algorithm are left out:"),
        verl=_options(fields_of("verl"), "verl"),
        verl_losses=_losses("verl", "loss_mode", ("surrogate", "ratio", "reduction")),
        verl_idle=_idle(fields_of("verl"), "Left out, sections with all that is below them:"),
    )


def _options(fields: Iterable[Field], tool: str) -> str:
    rows = [
        (
            _code(field.key),
            "" if field.default is None else _code(shown(field.default)),
            ", ".join(map(_code, field.to.split(", "))) if field.to else "none",
            field.words or "as it is",
        )
        for field in fields
        if field.kind != "idle"
    ]
    return _table((tool, "absent means", "groupwise", "how"), rows)


def _losses(tool: Tool, key: str, columns: Sequence[str]) -> str:
    losses = losses_of(tool)
    rows = [
        (_code(name), *(_code(getattr(loss, part)) for part in columns), loss.words) for name, loss in losses.items()
    ]
    return _table((key, *columns, ""), rows)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (head, ["---"] * len(head), *rows))


def _idle(fields: Iterable[Field], introduction: str) -> str:
    names = ", ".join(f"`{field.key}`" for field in fields if field.kind == "idle")
    return textwrap.fill(f"{introduction} {names}.", 118, break_on_hyphens=False, break_long_words=False)


if __name__ == "__main__":
    print(page(), end="")
