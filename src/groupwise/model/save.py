"""A model as files in Hugging Face form: safetensors in one dtype, the tokenizer, the configuration."""

import json
from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groupwise.model.adapters import in_checkpoint_form
from groupwise.model.load import Policy
from groupwise.model.shards import together


def save_model(policy: Policy, folder: Path | None, dtype: str = "stored") -> None:
    """Write model and tokenizer. dtype: of torch by its name; `stored` for that of the files that it came from.

    folder: None on the ranks that only give their part of divided weights.
    """
    stored = policy.stored_dtype if dtype == "stored" else getattr(torch, dtype)
    with together(policy, "the model"):
        named = in_checkpoint_form(policy.model, policy.model.state_dict().items())
        weights = {name: weight.cpu() if folder else weight.new_empty(0) for name, weight in named}
    if folder is not None:
        save_pretrained(policy.model, policy.tokenizer, folder, stored, weights)


def save_pretrained(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    dtype: torch.dtype | None = None,
    weights: dict[str, torch.Tensor] | None = None,
) -> None:
    """As `save_model`, of any model; without a dtype its weights are written as they are. weights: in place of them."""
    written = model.state_dict() if weights is None else weights
    once, names = dict(model.named_parameters()), dict(model.named_parameters(remove_duplicate=False))
    # transformers knows a tied head by its memory, which a gathered or converted one does not share.
    written = {name: weight for name, weight in written.items() if name in once or name not in names}
    if dtype is not None:
        written = {name: weight.to(dtype) if weight.is_floating_point() else weight for name, weight in written.items()}
    model.save_pretrained(folder, state_dict=written)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("_attn_implementation", None)
    if dtype is not None:
        for section in (config, *(part for part in config.values() if isinstance(part, dict))):
            if "dtype" in section:
                section["dtype"] = str(dtype).removeprefix("torch.")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if (stated := folder / "tokenizer_config.json").is_file():
        # How it was loaded here says nothing of it, and differs between machines.
        entries = json.loads(stated.read_text(encoding="utf-8"))
        kept = {name: value for name, value in entries.items() if name not in ("is_local", "local_files_only")}
        stated.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for file in folder.iterdir():
        # safetensors writes for the owner alone, whatever the folder's mode says.
        file.chmod(0o644)
