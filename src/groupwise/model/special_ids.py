"""The ids of tokens that mean something to a run: what ends a completion, and what opens and closes reasoning."""

from collections.abc import Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from groupwise.errors import DataError
from groupwise.findings import suggest_word


def stop_ids_of(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, further: Sequence[int | str]
) -> tuple[int, ...]:
    """The tokens that end a completion: those that the files of the model `name` say, and `further` ones.

    Raises:
        DataError: if there are none, or one of `further` is no token.
    """
    found = {_id_of(token, tokenizer) for token in further}
    for stated in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        found.update(stated if isinstance(stated, list) else [] if stated is None else [stated])
    if not found:
        raise DataError(
            f"the model '{name}' names no end-of-sequence token, so that no completion could ever end: "
            "name one in sampling.stop_ids"
        )
    return tuple(sorted(found))


def think_ids_of(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int] | None:
    """The ids of `<think>` and `</think>` where each is one token."""
    pair = [tokenizer.encode(tag, add_special_tokens=False) for tag in ("<think>", "</think>")]
    if any(len(ids) != 1 or ids[0] == tokenizer.unk_token_id for ids in pair):
        return None
    return int(pair[0][0]), int(pair[1][0])


def _id_of(token: int | str, tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of a token that is named by its id or its text. Raises DataError if there is none."""
    ids: dict[str, int] = tokenizer.get_vocab()
    if isinstance(token, int):
        if 0 <= token <= max(ids.values()):
            return token
        raise DataError(f"sampling.stop_ids has {token}, and the tokenizer's ids end at {max(ids.values())}")
    spelled = tokenizer.encode(token, add_special_tokens=False)
    if token in ids:
        return ids[token]
    if len(spelled) == 1:
        return int(spelled[0])
    near = suggest_word(token, list(tokenizer.get_added_vocab()))
    raise DataError(
        f"sampling.stop_ids has {token!r}, which is {len(spelled)} tokens and not one{near}. A text of several tokens "
        "goes into sampling.stop"
    )
