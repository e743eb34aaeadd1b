"""A translation as YAML with its remarks as comments, or as data for JSON."""

import textwrap
from collections.abc import Iterator

from groupwise.config.yaml_document import write_yaml
from groupwise.importing import source, trl, verl
from groupwise.importing.record import Imported, Remark

_WIDTH = 118


def import_trl(path: str, processes: int, problems: int | None) -> Imported:
    """The translation of a file of TRL. Raises DataError as `trl.translate` does."""
    return trl.translate(source.read_flat(path), processes, problems)


def import_verl(path: str, problems: int | None) -> Imported:
    """The translation of a file of verl. Raises DataError as `verl.translate` does."""
    return verl.translate(source.read_nested(path), problems)


def as_yaml(imported: Imported, title: str) -> str:
    """The configuration as a file for `groupwise train`, with everything to know about it in front."""
    sections = (
        ("No counterpart:", _lines(imported.no_counterpart)),
        ("Means something else:", _lines(imported.differs)),
        ("Notes:", iter(imported.notes)),
    )
    comments = [title]
    for heading, lines in sections:
        written = [wrapped for line in lines for wrapped in textwrap.wrap(f"- {line}", _WIDTH, subsequent_indent="  ")]
        comments += ["", heading, *written] if written else []
    return "".join(f"# {line}".rstrip() + "\n" for line in comments) + write_yaml(imported.config)


def _lines(remarks: list[Remark]) -> Iterator[str]:
    return (f"{remark.key}: {remark.text}" for remark in remarks)
