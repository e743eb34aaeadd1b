"""A model's tokenizer and the length of its context, without its weights."""

from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from groupwise.errors import DataError
from groupwise.model.load import BUNDLED, HUB_ID, _check_hub, _max_context


def load_tokenizer(path: str) -> tuple[PreTrainedTokenizerBase, int]:
    """The tokenizer of a model, named as for `load_policy`, and the tokens that prompt and completion have together.

    Raises DataError where one of the two cannot be loaded.
    """
    shown = path
    options: dict[str, Any] = {"trust_remote_code": False}
    if path == BUNDLED:
        path = str(resources.files("groupwise") / "bundled" / "model")
    if path.endswith(".gguf"):
        if not Path(path).is_file():
            raise DataError(f"there is no file '{path}'")
        options["gguf_file"] = Path(path).name
        path = str(Path(path).parent)
    elif not Path(path).is_dir():
        if not HUB_ID.fullmatch(path):
            raise DataError(
                f"there is no model at '{path}': expected 'bundled', a Hugging Face model folder, a .gguf file, "
                "or a hub id like 'Qwen/Qwen3-0.6B'"
            )
        _check_hub(path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        config = AutoConfig.from_pretrained(path, **options)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"the tokenizer of the model '{shown}' cannot be loaded: {first_line}") from error
    return tokenizer, _max_context(SimpleNamespace(config=config))
