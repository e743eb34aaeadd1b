"""A trained model is written in the dtype that it came in, or in the one asked for, and loads in transformers."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from groupwise.model.load import load_policy
from groupwise.model.save import save_model
from groupwise.model.size import stored_dtype


@pytest.mark.parametrize("asked", ["stored", "float32", "bfloat16"])
@pytest.mark.parametrize("came_in", ["float32", "bfloat16"])
def test_the_dtype_of_the_files(came_in: str, asked: str, tmp_path: Path) -> None:
    original, folder = tmp_path / "original", tmp_path / "saved"
    save_model(load_policy("bundled"), original, came_in)
    policy = load_policy(str(original))
    assert {weight.dtype for weight in policy.model.parameters()} == {torch.float32}
    assert policy.stored_dtype == getattr(torch, came_in)
    save_model(policy, folder, asked)
    expected = came_in if asked == "stored" else asked
    tensors = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {getattr(torch, expected)}
    # A tied head stands there once, by the name of the embeddings.
    assert set(tensors) == {name for name, _ in policy.model.named_parameters()}
    assert json.loads((folder / "config.json").read_text())["dtype"] == expected == stored_dtype(str(folder))
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert loaded.dtype == getattr(torch, expected)
    for name, weight in policy.model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), weight.to(loaded.dtype)), name


def test_where_nothing_is_known_it_is_float32(tmp_path: Path) -> None:
    assert stored_dtype(str(tmp_path)) == stored_dtype("nobody/nothing") == "float32"
    assert stored_dtype("bundled") == "float32"
