"""A model folder of somebody else is refused in words, whatever is in it, and nothing outside of it is read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from groupwise.errors import DataError
from groupwise.model import foreign_files
from groupwise.model.load import load_policy, load_tokenizer
from groupwise.model.size import ModelSize, model_folder, read_size
from groupwise.model.startup_check import check_scoring
from tests.support.commands import bundled_copy, tree
from tests.support.mutations import changed, damaged, written

TEXTS = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json")
SOUND = {name: (model_folder("bundled") / name).read_bytes() for name in (*TEXTS, "chat_template.jinja")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundled_copy(tmp_path_factory.mktemp("models") / "model")


def tried(folder: Path) -> str:
    """What is said of the folder by all that reads it; nothing outside of it may change."""
    before = {path for path in folder.parent.rglob("*") if folder not in path.parents}
    said = []
    for read in (lambda path: check_scoring(load_policy(path)), load_tokenizer):
        try:
            read(str(folder))
        except DataError as error:
            said.append(str(error))
    assert isinstance(read_size(str(folder)), ModelSize | str)
    assert {path for path in folder.parent.rglob("*") if folder not in path.parents} == before
    return "\n".join(said)


def sharded(folder: Path, weight_map: Any) -> Path:
    bundled_copy(folder)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def test_an_index_that_names_files_elsewhere(tmp_path: Path) -> None:
    outside = bundled_copy(tmp_path / "other")
    names = list(load_policy(str(outside)).model.state_dict())
    for place in (
        "../other/model.safetensors",
        str(outside / "model.safetensors"),
        "sub/../x.safetensors",
        3,
        None,
        "",
    ):
        broken = sharded(tmp_path / f"model{len(str(place))}", dict.fromkeys(names, place))
        with pytest.raises(DataError, match="in weight_map: expected the name of a file next to it"):
            load_policy(str(broken))
    missing = sharded(tmp_path / "missing", dict.fromkeys(names, "model-00002-of-00002.safetensors"))
    with pytest.raises(DataError, match=r"cannot be loaded: .*model-00002-of-00002\.safetensors"):
        load_policy(str(missing))


def test_a_list_of_tokenizers_that_names_one_elsewhere(folder: Path) -> None:
    stated = json.loads(SOUND["tokenizer_config.json"]) | {"fast_tokenizer_files": ["../tokenizer.4.0.json"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated))
    try:
        for read in (load_policy, load_tokenizer):
            with pytest.raises(DataError, match="in fast_tokenizer_files: expected the name of a file next to it"):
                read(str(folder))
    finally:
        (folder / "tokenizer_config.json").write_bytes(SOUND["tokenizer_config.json"])


def test_files_too_large_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_files, "MOST_BYTES", len(SOUND["tokenizer.json"]) - 1)
    for read in (load_policy, load_tokenizer):
        with pytest.raises(DataError, match=r"tokenizer.json' has \d+ bytes; at most \d+ are read"):
            read(str(folder))


@pytest.mark.parametrize(
    "header",
    [
        (2**63 - 1).to_bytes(8, "little") + b"{}",
        (2**40).to_bytes(8, "little") + b"{}",
        (8).to_bytes(8, "little") + b"[[[[[[[[",
        (2).to_bytes(8, "little") + b"{}",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,99999999]}}',
        (66).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,4]}}',
        b"\x80\x04\x95",
        b"",
    ],
)
def test_weights_whose_header_lies(header: bytes, tmp_path: Path) -> None:
    broken = bundled_copy(tmp_path / "model")
    (broken / "model.safetensors").write_bytes(header)
    assert "cannot be loaded" in tried(broken)


def test_a_damaged_file_next_to_the_weights_does_not_matter(tmp_path: Path) -> None:
    model = bundled_copy(tmp_path / "model")
    (model / "other.safetensors").write_bytes((2**62).to_bytes(8, "little"))
    assert tried(model) == ""


def test_weights_of_another_model(tmp_path: Path) -> None:
    broken = bundled_copy(tmp_path / "model")
    save_file({"model.embed_tokens.weight": torch.zeros(3, 5)}, broken / "model.safetensors")
    assert "cannot be loaded" in tried(broken)


@pytest.mark.parametrize("implementation", ["somebody/kernels", "somebody/kernels:attention", "flash_attention_9"])
def test_an_attention_that_is_code_on_the_hub_is_not_fetched(
    implementation: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention", lambda *a, **_: asked.append(str(a)))
    monkeypatch.setattr("transformers.integrations.hub_kernels.get_kernel", lambda *a, **_: asked.append(str(a)))
    stated = json.loads(SOUND["config.json"])
    named = [{name: implementation} for name in ("attn_implementation", "_attn_implementation")]
    try:
        for entry in [*named, {"_experts_implementation": {"": implementation}}, {"text_config": named[1]}]:
            (folder / "config.json").write_text(json.dumps(stated | entry))
            said = tried(folder)
            assert ("names code that is on the hub, which is never run" in said) == ("/" in implementation)
    finally:
        (folder / "config.json").write_bytes(SOUND["config.json"])
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_files_load_or_are_refused(name: str, data: st.DataObject, folder: Path) -> None:
    strategy = changed(json.loads(SOUND[name])).map(written) | damaged(SOUND[name])
    (folder / name).write_bytes(data.draw(strategy))
    try:
        tried(folder)
    finally:
        (folder / name).write_bytes(SOUND[name])
    assert tree(folder)[name] == SOUND[name]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("config.json", "rope_parameters", {"rope_theta": [], "rope_type": "default"}),
        ("config.json", "layer_types", [None]),
        ("config.json", "num_key_value_heads", 2**70),
        ("config.json", "hidden_size", "x"),
        ("generation_config.json", "eos_token_id", "x"),
        ("generation_config.json", "pad_token_id", [1, 2]),
        ("tokenizer_config.json", "tokenizer_class", {}),
        ("tokenizer_config.json", "pad_token", [[]]),
        ("tokenizer.json", "model", {}),
        ("tokenizer.json", "added_tokens", "x"),
    ],
)
def test_what_libraries_raise_is_said_in_words(name: str, key: str, value: Any, folder: Path) -> None:
    (folder / name).write_bytes(written(json.loads(SOUND[name]) | {key: value}))
    try:
        assert "cannot be" in tried(folder)
    finally:
        (folder / name).write_bytes(SOUND[name])
