"""Model and tokenizer: 10 points."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from groupwise.model.load import Policy, load_policy
from groupwise.model.reference import fingerprint_weights, frozen_copy
from groupwise.model.startup_check import check_scoring
from groupwise.training import setup
from tests.battery.case import Case
from tests.support.commands import bundled_copy
from tests.support.runs import metrics, train

HERE = "tests/battery/test_model_and_tokenizer.py::"
CLI, FOLDERS = "tests/cli/test_cli.py::test_", "tests/security/test_model_folders.py::test_"

CASES = (
    Case(
        33,
        3,
        "no pad token, pad is the end, no end, no chat template, a template that begins with its own first token",
        "masks come from lengths and the end is trained; what is missing is an error, never a silent template",
        (
            HERE + "test_a_pad_token_that_is_the_end_changes_nothing",
            CLI + "a_tokenizer_without_a_pad_token_can_be_trained",
            CLI + "a_model_without_an_end_of_sequence_token",
            CLI + "a_tokenizer_without_a_chat_template",
            "tests/model/test_prompt.py::test_nothing_is_added_to_what_the_template_wrote",
        ),
    ),
    Case(
        34,
        2,
        "a model folder without one of its files, weights of another shape, code, a name on the hub without a network",
        "the file is named, without a traceback and without waiting",
        (
            CLI + "a_model_folder_without_one_of_its_files",
            CLI + "a_damaged_file_of_a_model",
            CLI + "weights_of_another_shape",
            CLI + "code_that_comes_with_a_model_is_never_run",
            CLI + "a_missing_folder_that_looks_like_a_hub_id",
            FOLDERS + "an_index_that_names_files_elsewhere",
        ),
    ),
    Case(
        35,
        2,
        "pickled weights that would run something",
        "never loaded, nothing is run",
        (
            CLI + "pickled_weights_are_never_loaded",
            "tests/security/test_no_code.py::test_nothing_is_loaded_that_may_be_pickled",
        ),
    ),
    Case(
        36,
        2,
        "a vocabulary smaller than the embedding or larger, added tokens, tied weights, float16 on a CPU",
        "handled, or refused with the reason",
        (
            HERE + "test_weights_in_float16_are_trained_in_float32",
            HERE + "test_an_embedding_with_more_rows_than_tokens",
            CLI + "a_token_that_the_model_does_not_have",
            "tests/rollout/test_engine.py::test_a_reduced_copy_keeps_tied_embeddings_tied",
        ),
    ),
    Case(
        37,
        1,
        "the reference model",
        "not loaded without a KL; with one its weights stay as they were",
        (HERE + "test_a_reference_only_where_it_is_needed",),
    ),
)

SHORT = ["run.steps=2", "batch.prompts_per_step=2", "sampling.max_new_tokens=8"]


def test_a_pad_token_that_is_the_end_changes_nothing(tmp_path: Path) -> None:
    changed = bundled_copy(tmp_path / "model")
    stated = json.loads((changed / "tokenizer_config.json").read_text())
    assert stated["pad_token"] != stated["eos_token"]
    (changed / "tokenizer_config.json").write_text(json.dumps(stated | {"pad_token": stated["eos_token"]}))
    policy = load_policy(str(changed))
    assert policy.tokenizer.pad_token_id == policy.tokenizer.eos_token_id
    for name, model in (("a", "bundled"), ("b", str(changed))):
        train(tmp_path / name, *SHORT, f"model.path={model}")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


def test_weights_in_float16_are_trained_in_float32(tmp_path: Path) -> None:
    folder = bundled_copy(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file({name: weight.half() for name, weight in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    policy = load_policy(str(folder))
    assert {weight.dtype for weight in policy.model.parameters()} == {torch.float32}
    assert check_scoring(policy) is not None


def test_an_embedding_with_more_rows_than_tokens(tmp_path: Path) -> None:
    policy = load_policy("bundled")
    policy.model.resize_token_embeddings(600, mean_resizing=False)
    policy.model.save_pretrained(tmp_path / "model")
    policy.tokenizer.save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config.pop("_attn_implementation", None)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    wide = load_policy(str(tmp_path / "model"))
    assert wide.model.get_input_embeddings().num_embeddings == 600 > len(wide.tokenizer)
    train(tmp_path / "run", *SHORT, f"model.path={tmp_path / 'model'}")
    assert len(metrics(tmp_path / "run")) == 2


def test_a_reference_only_where_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def copied(policy: Policy) -> Policy:
        reference = frozen_copy(policy)
        made.append((reference, fingerprint_weights(reference)))
        return reference

    monkeypatch.setattr(setup, "frozen_copy", copied)
    train(tmp_path / "without", *SHORT)
    assert made == []
    run = ["kl.coefficient=0.1", "active_sampling.filter=none", *SHORT]
    train(tmp_path / "with", *run)
    [(reference, before)] = made
    assert fingerprint_weights(reference) == before
    assert not any(weight.requires_grad for weight in reference.model.parameters())
