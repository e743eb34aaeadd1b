"""The text of each token of a completion, so that a page can show where one ends and the next begins."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from groupwise.errors import GroupwiseError
from groupwise.model.size import base_path, model_folder

Decode = Callable[[Sequence[int]], str]
# What decoding gives for a part of a character.
PART = "\ufffd"


def decoder_of(folder: Path, model_path: str) -> Decode | None:
    """How the run's tokenizer decodes; None where it has no tokenizer.json within reach. Needs no torch."""
    from tokenizers import Tokenizer

    for path in _places(folder, model_path):
        if path.is_file():
            with suppress(Exception):
                tokenizer = Tokenizer.from_file(str(path))
                return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))
    return None


def _places(folder: Path, model_path: str) -> list[Path]:
    name = "tokenizer.json"
    places = [folder / "model" / name, folder / "adapter" / name]
    with suppress(GroupwiseError, OSError):
        places.append(model_folder(base_path(model_path)) / name)
    with suppress(Exception):
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model_path, name)
        places += [Path(cached)] if isinstance(cached, str) else []
    return places


class Pieces:
    """Cuts completions into the texts of their tokens, each token once where its text does not depend on others."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        # Behind a letter, since some tokenizers take the space off the first token.
        self._letter = self._first_letter()
        self._alone = lru_cache(maxsize=None)(self._piece)

    def of(self, ids: Sequence[int]) -> list[str]:
        """Their concatenation is the text of all; a token that is a part of a character has "" and the last one all
        of it."""
        pieces = [self._alone(token) for token in ids]
        whole = self._decode(ids)
        return pieces if "".join(pieces) == whole and PART not in whole else self._one_by_one(ids)

    def _piece(self, token: int) -> str:
        before = self._decode(self._letter)
        return self._decode([*self._letter, token])[len(before) :]

    def _first_letter(self) -> list[int]:
        for token in range(2000):
            with suppress(Exception):
                if self._decode([token]) == "a":
                    return [token]
        return []

    def _one_by_one(self, ids: Sequence[int]) -> list[str]:
        pieces: list[str] = []
        start = read = 0
        for end in range(1, len(ids) + 1):
            before, now = self._decode(ids[start:read]), self._decode(ids[start:end])
            if now.endswith(PART) and end < len(ids):
                pieces.append("")
                continue
            pieces.append(now[len(before) :])
            start, read = read, end
        return pieces
