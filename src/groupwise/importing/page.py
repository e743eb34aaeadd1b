"""The text of docs/translation.md: `python -m groupwise.importing.page > docs/translation.md`."""

import textwrap
from collections.abc import Iterable, Sequence

from groupwise.importing.fields import Field, Tool, fields_of, losses_of, shown

_PAGE = """# From TRL and from verl

```
groupwise import trl grpo.yaml --processes 8 --problems 7473 > mine.yaml
groupwise import verl run_dapo.sh --problems 17000 > mine.yaml
groupwise train mine.yaml
```

A file means what its trainer makes of it, so what the file leaves to the trainer's defaults is written out where
groupwise's differ. In front of the configuration, as comments, or with `--json` as data, stands what has no
counterpart, what means something else, and what was left out. A key that the trainer does not have is named with the
nearest one. Nothing of a file is executed: of a script only its `a.b.c=value` words, its own variables and sums of
whole numbers are read.

This page is made from the tables that the translation reads (`python -m groupwise.importing.page`). How far the two
trainers are apart in numbers: [agreement-with-trl.md](agreement-with-trl.md).

## TRL 1.16

A flat YAML or JSON file with the options of a `GRPOConfig`, also one for TRL's command line. `--processes` says how
many the run was launched on, which no file does, and `--problems` how many problems there are, where its length is in
epochs.

{trl}
`loss_type` names a surrogate and a reduction at once:

{trl_losses}
{trl_idle}

## verl, August 2026

A YAML file of sections, or a script with `a.b.c=value` overrides. References between keys are followed.

{verl}
`policy_loss.loss_mode`; with some of them verl does not read `loss_agg_mode`:

{verl_losses}
`loss_agg_mode: seq-mean-token-sum-norm` divides by the sequences and a constant, as `constant_length` does; before
#5417 (February 2026) verl divided by the constant alone. `token-sum` has no counterpart.

{verl_idle}
"""


def page() -> str:
    """The text of docs/translation.md."""
    return _PAGE.format(
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
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _idle(fields: Iterable[Field], introduction: str) -> str:
    names = ", ".join(f"`{field.key}`" for field in fields if field.kind == "idle")
    return textwrap.fill(f"{introduction} {names}.", 118, break_on_hyphens=False, break_long_words=False)


if __name__ == "__main__":
    print(page(), end="")
