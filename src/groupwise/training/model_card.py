"""README.md of a trained model: what it was made from, how, and how it did, in the form of the hub's model cards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupwise import __version__
from groupwise.config import TrainConfig
from groupwise.config.merge import differences
from groupwise.config.yaml_document import write_yaml
from groupwise.explaining.equation import equation_of
from groupwise.explaining.techniques import cards_of
from groupwise.model.load import HUB_ID
from groupwise.model.size import ADAPTER_CONFIG, base_path
from groupwise.track.disk import write_whole
from groupwise.training.step import Run

# What a run writes and where changes nothing about the model.
NOT_OF_THE_MODEL = (
    "output",
    "resume",
    "checkpoint_every_steps",
    "keep_checkpoints",
    "rollouts_every_steps",
    "rollouts_max_megabytes",
    "trackers",
)


def write_card(run: Run, folder: Path, summary: Mapping[str, Any] | None = None) -> None:
    """Write the card into the folder of the model; with the results, where there is a summary already."""
    text = card_text(run.stated, run.context, run.state.step, summary, (folder / ADAPTER_CONFIG).is_file())
    write_whole(folder / "README.md", text.encode())


def card_text(
    config: TrainConfig,
    context: Mapping[str, Any],
    steps: int,
    summary: Mapping[str, Any] | None = None,
    of_adapters: bool = False,
) -> str:
    """The card of a model, or of adapters alone, that was trained for so many steps."""
    base = base_path(config.model.path)
    on_hub = HUB_ID.fullmatch(base) is not None and not Path(base).exists()
    metadata: dict[str, Any] = {
        **({"base_model": base, "base_model_relation": "adapter" if of_adapters else "finetune"} if on_hub else {}),
        "library_name": "peft" if of_adapters else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["groupwise", "grpo", "reinforcement-learning", *(["lora"] if of_adapters else [])],
    }
    equation = equation_of(config)
    terms = "\n".join(f"- `{symbol}`: {meaning}" for symbol, meaning in equation.terms)
    techniques = "\n".join(f"- {card.name} ({card.source}): {card.what}" for card in cards_of(config))
    return f"""---
{write_yaml(metadata)}---

# {Path(base).name}, trained with groupwise

Made from `{base}` in {steps} steps by group-relative policy optimisation, with groupwise {__version__} and torch
{context["torch"]}.

## Objective, maximised

`{equation.objective}`

{terms}

## Techniques

{techniques}
{_results(summary)}
## Reproduce

Save this as `config.yaml` and run `groupwise train config.yaml`.

```yaml
{write_yaml(_stated(config, steps))}```

- SHA-256 of the initial weights: `{context["initial_weights"]}`
- fingerprint of the problems: `{context["problems"]}`
"""


def _stated(config: TrainConfig, steps: int) -> dict[str, Any]:
    """The options that differ from the defaults, and those that tie the result to a run."""
    changed = differences(TrainConfig().model_dump(), config.model_dump())
    run = {key: value for key, value in changed.get("run", {}).items() if key not in NOT_OF_THE_MODEL}
    return {**changed, "run": {**run, "steps": steps, "seed": config.run.seed}}


def _results(summary: Mapping[str, Any] | None) -> str:
    measured = summary["after"] if summary else {}
    if not measured:
        return ""
    lines = ["", "## Results on held-out problems", "", "| decoding | before | after |", "| --- | --- | --- |"]
    for mode, after in measured.items():
        before = summary["before"].get(mode) if summary else None
        lines.append(f"| {mode} | {_accuracy(before)} | {_accuracy(after)} |")
    return "\n".join([*lines, "", "Accuracy in percent with its 95 % interval.", ""])


def _accuracy(measured: Mapping[str, Any] | None) -> str:
    if measured is None:
        return ""
    of = measured["accuracy"]
    return f"{100 * of['value']:.1f} [{100 * of['low']:.1f}, {100 * of['high']:.1f}]"
