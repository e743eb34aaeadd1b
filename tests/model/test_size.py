"""The size of a model, from the headers of its files, from transformers, and as loaded."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from groupwise.model import size
from groupwise.model.load import load_policy
from groupwise.model.size import ModelSize, read_size, size_of
from tests.support.tiny import build

SIZES = {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "intermediate_size": 48}


def saved(model: PreTrainedModel, folder: Path) -> str:
    model.save_pretrained(folder, max_shard_size="20KB")
    return str(folder)


def without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "_from_transformers", lambda *_: pytest.fail("the headers would have been enough"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ["llama", "mistral", "qwen3"])
def test_headers_say_what_the_loaded_model_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, tied: bool
) -> None:
    model = build(architecture, tie_word_embeddings=tied, **SIZES)
    path = saved(model, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    without_transformers(monkeypatch)
    assert read_size(path) == size_of(model)


def test_a_head_that_is_stored_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama", tie_word_embeddings=True)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    twice = {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}
    old = {"model.layers.0.self_attn.rotary_emb.inv_freq": weights["model.norm.weight"].clone()}
    save_file(weights | twice | old, file)
    without_transformers(monkeypatch)
    assert read_size(str(tmp_path)) == size_of(model)


def test_other_architectures_and_configurations_are_read_by_transformers(tmp_path: Path) -> None:
    model = build("olmo2")
    assert read_size(saved(model, tmp_path / "other")) == size_of(model)
    model = build("llama", head_dim=8)
    path = saved(model, tmp_path / "sparse")
    config = json.loads((tmp_path / "sparse" / "config.json").read_text())
    del config["tie_word_embeddings"]
    (tmp_path / "sparse" / "config.json").write_text(json.dumps(config))
    found = read_size(path)
    assert isinstance(found, ModelSize)
    assert found.layers == model.config.num_hidden_layers


def test_damaged_files_are_errors_in_words(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    found = read_size(str(tmp_path))
    assert isinstance(found, str)
    assert "cannot be read from here" in found


def test_the_bundled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    without_transformers(monkeypatch)
    assert read_size("bundled") == size_of(load_policy("bundled").model)


def test_a_model_in_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_transformers(monkeypatch)
    model = build("qwen3")
    repository = tmp_path / "models--own--model"
    model.save_pretrained(repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert read_size("own/model") == size_of(model)


@pytest.mark.parametrize("path", ["/there/is/nothing", "own/other-model", "not an id"])
def test_a_model_that_is_not_here(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_transformers(monkeypatch)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert (
        read_size(path) == f"the model '{path}' cannot be read from here: it is no folder, and not in the hub's cache"
    )
    assert read_size("nothing.gguf") == "there is no file 'nothing.gguf'"
