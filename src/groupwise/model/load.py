"""A causal language model with its tokenizer: from a folder, a GGUF file, the hub, or the package itself."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import constants as hub_constants
from huggingface_hub import is_offline_mode, try_to_load_from_cache
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from groupwise.errors import DataError
from groupwise.model.adapters import in_checkpoint_form, model_to_sample
from groupwise.model.backends.attention import IMPLEMENTATION
from groupwise.model.backends.head import backbone_of
from groupwise.model.device import CPU, move
from groupwise.model.foreign_files import check_config, check_files, foreign
from groupwise.model.shards import Shards, together
from groupwise.model.size import ADAPTER_CONFIG, base_path, model_folder, stored_dtype
from groupwise.model.special_ids import stop_ids_of, think_ids_of

# oneDNN compiles its products for every shape and keeps the last 1024 of them. The shapes of packed tokens hardly ever
# come back, so that they would fill a gigabyte; within one pass the layers share some twenty. Both variables are read
# at the first product that oneDNN does.
SHAPES_KEPT = "32"
SHAPE_CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")

HUB_SECONDS = 5.0
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


@dataclass(frozen=True)
class Policy:
    """A model to sample from and to train.

    stop_ids: the tokens that end a completion, those that the run names included. think_ids: the ids of `<think>` and
    `</think>` where each is one token. max_context_tokens: prompt and completion together may not be longer.
    vocabulary: ids from there on are rows that fill up the head, which the tokenizer has no token for: they have
    probability 0. None where every row counts.
    backend: how it is run, see `choose_backend`. stored_dtype: of the files that it came from.
    adapter: peft's options of the adapters that are trained, None where the weights themselves are.
    shards: how the weights are divided among the ranks, None where each rank has all.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    compute_dtype: torch.dtype
    stop_ids: tuple[int, ...]
    think_ids: tuple[int, int] | None
    max_context_tokens: int
    backend: Literal["packed", "plain"] = "packed"
    stored_dtype: torch.dtype = torch.float32
    vocabulary: int | None = None
    adapter: Any = None
    shards: Shards | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def shares_prompts(self) -> bool:
        """Whether a prompt is read once for all its completions."""
        return self.backend == "packed"

    @property
    def backbone(self) -> nn.Module:
        """The model without its output head."""
        module: nn.Module = backbone_of(self.model)
        return module

    @property
    def head(self) -> nn.Module:
        """The linear layer from hidden states to logits."""
        module: nn.Module = self.model.get_output_embeddings()
        return module

    def trainable(self) -> list[tuple[str, nn.Parameter]]:
        """Names and tensors of the weights that are trained, shared ones once."""
        return [(name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad]

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All weights as an engine takes them: by the names of the model without adapters, which are merged in."""
        with self.active(), together(self, "the weights for the engine"):
            yield from in_checkpoint_form(self.model, self.model.named_parameters())

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside this context the model has the weights of this policy; it may share the model with another one."""
        yield

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """The model is this policy, and matrix products run in the compute dtype, inside this context."""
        reduced = self.compute_dtype != torch.float32
        with self.active(), torch.autocast(self.device.type, dtype=self.compute_dtype, enabled=reduced):
            yield

    def sampling_copy(self, shares: bool = True) -> PreTrainedModel:
        """The model that an engine in this process runs, see `model_to_sample`."""
        with self.active():
            return model_to_sample(self.model, self.compute_dtype, shares)


def load_policy(
    path: str,
    compute_dtype: Literal["float32", "bfloat16"] = "float32",
    trainable: Literal["all", "all_but_embeddings"] = "all",
    stop_ids: Sequence[int | str] = (),
    device: torch.device = CPU,
) -> Policy:
    """Load a model in float32, in evaluation mode (dropout would change every log-probability).

    A folder of adapters is the model that they belong to, with the adapters merged into it.
    stop_ids: tokens that end a completion, next to those that the model's own files name. device: where it goes.

    Raises:
        DataError: if the folder, one of its files, or an end-of-sequence token is missing, if only pickled weights are
            there, if one of `stop_ids` is no token, or if nothing would be trained.
    """
    if base_path(path) != path:
        from groupwise.model.lora import load_merged

        return load_merged(path, compute_dtype, trainable, stop_ids, device)
    transformers_logging.disable_progress_bar()
    for variable in SHAPE_CACHES:
        os.environ.setdefault(variable, SHAPES_KEPT)
    where, gguf_file = _locate(path)
    if gguf_file:
        model, tokenizer = _from_gguf(where, gguf_file)
    elif Path(where).is_dir():
        model, tokenizer = _from_folder(Path(where))
    else:
        model, tokenizer = _from_pretrained(where, "there is no folder '{}', and as the id of a model on the hub it")
    move(model.eval(), device)
    choose_trainable(model, trainable)
    return Policy(
        model=model,
        tokenizer=tokenizer,
        name=path,
        compute_dtype=getattr(torch, compute_dtype),
        stop_ids=stop_ids_of(model, tokenizer, path, stop_ids),
        think_ids=think_ids_of(tokenizer),
        max_context_tokens=_max_context(model.config),
        stored_dtype=torch.float32 if gguf_file else getattr(torch, stored_dtype(where)),
        vocabulary=min(max(tokenizer.get_vocab().values()) + 1, model.get_output_embeddings().weight.shape[0]),
    )


def load_tokenizer(path: str) -> tuple[PreTrainedTokenizerBase, int]:
    """The tokenizer of a model, named as for `load_policy`, and the tokens that prompt and completion have together.

    Raises DataError where one of the two cannot be loaded.
    """
    where, gguf_file = _locate(base_path(path))
    options: dict[str, Any] = {"gguf_file": gguf_file} if gguf_file else {}
    with foreign(f"the tokenizer of the model '{path}'"):
        if Path(where).is_dir():
            check_files(Path(where))
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **options)
        tokenizer.decode(tokenizer.encode("a"))
        return tokenizer, _max_context(AutoConfig.from_pretrained(where, trust_remote_code=False, **options))


def _locate(path: str) -> tuple[str, str]:
    """A folder or an id on the hub, and the name of a GGUF file in the folder, if the model is one.

    Raises DataError if there is neither, or if the hub is needed and cannot be reached.
    """
    source = model_folder(path)
    if source.suffix == ".gguf":
        if not source.is_file():
            raise DataError(f"there is no file '{path}'")
        return str(source.parent), source.name
    if not source.is_dir():
        adapter = source.parent / "adapter"
        hint = f"; did you mean the adapters in '{adapter}'?" if (adapter / ADAPTER_CONFIG).is_file() else ""
        if hint or not HUB_ID.fullmatch(path):
            raise DataError(
                f"there is no model at '{path}': expected 'bundled', a Hugging Face model folder, a .gguf file, "
                f"or a hub id like 'Qwen/Qwen3-0.6B'{hint}"
            )
        _check_hub(path)
        return path, ""
    return str(source), ""


def _check_hub(path: str) -> None:
    """Raises DataError at once if the hub is needed and cannot be reached: its own client would retry for long."""
    if is_offline_mode() or try_to_load_from_cache(path, "config.json") is not None or getproxies():
        return
    address = urlsplit(hub_constants.ENDPOINT)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=HUB_SECONDS).close()
    except OSError as error:
        raise DataError(
            f"there is no folder '{path}', and as the id of a model on the hub it cannot be loaded: "
            f"{address.hostname} cannot be reached ({error})"
        ) from error


def _from_folder(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    files = {file.name for file in folder.iterdir()}
    if "config.json" not in files:
        inner = folder / "model"
        hint = f"; did you mean '{inner}'?" if (inner / "config.json").is_file() else ""
        raise DataError(f"'{folder}' is not a Hugging Face model folder: it has no config.json{hint}")
    if not any(name.endswith(".safetensors") for name in files):
        pickled = sorted(name for name in files if name.endswith((".bin", ".pt", ".pth")))
        found = f" It has {', '.join(pickled)}, which is pickled and never loaded; convert it first." if pickled else ""
        raise DataError(f"'{folder}' has no weights: expected *.safetensors.{found}")
    if not files & {"tokenizer.json", "tokenizer_config.json", "tokenizer.model"}:
        raise DataError(f"'{folder}' has no tokenizer: expected tokenizer.json or tokenizer.model")
    return _from_pretrained(str(folder), "the model '{}'")


def _from_pretrained(path: str, subject: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    subject = subject.format(path)
    with foreign(subject):
        if Path(path).is_dir():
            check_files(Path(path))
        else:
            check_config(PretrainedConfig.get_config_dict(path)[0], "its config.json")
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model, loaded = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=torch.float32,
            attn_implementation=IMPLEMENTATION,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
        _try_out(model, tokenizer)
    # By default transformers draws them at random and continues.
    if loaded["missing_keys"]:
        missing = sorted(loaded["missing_keys"])
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"{subject} cannot be loaded: its files lack the weights {shown}")
    return model, tokenizer


def _from_gguf(where: str, name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    file = Path(where) / name
    with foreign(f"the model '{file}'"):
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
            quantized = AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
        except ImportError as error:
            raise DataError(f"reading '{file}' needs the extra 'gguf': pip install 'groupwise[gguf]'") from error
    # The weights are plain float32 by now, but the loaded object still refuses to be saved as a quantized one.
    config = AutoConfig.for_model(**{**quantized.config.to_dict(), "quantization_config": None})
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=IMPLEMENTATION)
    model.load_state_dict(quantized.state_dict())
    model.generation_config = quantized.generation_config
    return model, tokenizer


def _try_out(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises for what transformers takes as it is written, and stumbles over when it is used."""
    tokenizer.decode(tokenizer.encode("a"))
    _max_context(model.config)
    stated = getattr(model.generation_config, "eos_token_id", None)
    for token in stated if isinstance(stated, list) else [] if stated is None else [stated]:
        if not isinstance(token, int):
            raise ValueError(f"eos_token_id in generation_config.json is {stated!r}, expected an id or a list of ids")


def choose_trainable(model: PreTrainedModel, trainable: str) -> None:
    """Freeze what is not to be trained. Raises DataError where nothing is left."""
    if trainable == "all_but_embeddings":
        model.get_input_embeddings().requires_grad_(False)
    if not any(weight.requires_grad for weight in model.parameters()):
        raise DataError("the model has no trainable weights: nothing could be learned")


def _max_context(config: Any) -> int:
    return int(getattr(config, "max_position_embeddings", 0) or 2**31)
