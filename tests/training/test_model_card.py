"""The card of a trained model: its metadata is valid, and its configuration is that of the run."""

import re
from pathlib import Path

from huggingface_hub import ModelCard

from groupwise.config.compose import compose_train_config
from groupwise.training.model_card import card_text
from tests.support.commands import SMALL
from tests.support.runs import train

CONTEXT = {"torch": "2.13.0", "initial_weights": "ab" * 32, "problems": "cd" * 32}


def config_in(card: str) -> str:
    found = re.search(r"```yaml\n(.*?)```", card, re.DOTALL)
    assert found is not None
    return found[1]


def test_a_run_leaves_a_card_with_its_results(tmp_path: Path) -> None:
    output = tmp_path / "run"
    summary = train(output, "problems.eval_problems=4", options=SMALL)
    card = ModelCard.load(output / "model" / "README.md")
    assert card.data.library_name == "transformers"
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.to_dict().get("base_model") is None
    assert "Made from `bundled`" in card.text
    after = summary["after"]["greedy"]["accuracy"]
    assert f"{100 * after['value']:.1f} [{100 * after['low']:.1f}, {100 * after['high']:.1f}]" in card.text
    (tmp_path / "again.yaml").write_text(config_in(card.text))
    again, stated = (compose_train_config([str(path)]) for path in (tmp_path / "again.yaml", output / "config.yaml"))
    written = ("output", "resume", "checkpoint_every_steps", "keep_checkpoints", "rollouts_every_steps")
    same = {name: getattr(stated.run, name) for name in (*written, "rollouts_max_megabytes", "trackers")}
    assert again.model_copy(update={"run": again.run.model_copy(update=same)}) == stated


def test_a_model_of_the_hub_is_named_as_the_base() -> None:
    config = compose_train_config(["grpo", "model.path=Qwen/Qwen3-0.6B", "problems.train=arithmetic"])
    card = ModelCard(card_text(config, CONTEXT, 7))
    assert card.data.to_dict()["base_model"] == "Qwen/Qwen3-0.6B"
    assert card.data.to_dict()["base_model_relation"] == "finetune"
    assert "# Qwen3-0.6B, trained with groupwise" in card.text
    assert "standard GRPO normalisation" in card.text
    assert CONTEXT["initial_weights"] in card.text
    assert CONTEXT["problems"] in card.text
    assert "Results" not in card.text
