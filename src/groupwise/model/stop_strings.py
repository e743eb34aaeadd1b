"""Texts that end a completion, found in the bytes of its last tokens.

A text may begin and end inside of tokens, and a token may hold a part of a character alone, so that neither ids nor
texts of single tokens can be compared. Bytes can: those of a text stand nowhere in UTF-8 but where the text does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from groupwise.errors import DataError


@dataclass(frozen=True)
class StopStrings:
    """texts: as bytes. bytes_V: of each token. ending_V: whether a token can be the one that completes a text."""

    texts: tuple[bytes, ...]
    bytes_V: tuple[bytes, ...]
    ending_V: Tensor

    @staticmethod
    @lru_cache(maxsize=4)
    def of(tokenizer: PreTrainedTokenizerBase, texts: tuple[str, ...]) -> "StopStrings":
        """Raises DataError for a text that no tokens make."""
        bytes_V = _bytes_of_tokens(tokenizer)
        wanted = tuple(text.encode() for text in texts)
        for text, encoded in zip(texts, wanted, strict=True):
            if not _can_be_made(encoded, bytes_V):
                raise DataError(f"sampling.stop has {text!r}, which no tokens of this model's tokenizer can make")
        ends = tuple({text[at:] for text in wanted for at in range(1, len(text))})
        can_end = [any(text in token for text in wanted) or token.startswith(ends) for token in bytes_V]
        return StopStrings(wanted, bytes_V, torch.tensor(can_end))

    def are_in(self, ids: Sequence[int]) -> bool:
        """Whether the last of these tokens completes a text, given that none before it did."""
        needed = len(self.bytes_V[ids[-1]]) + max(map(len, self.texts)) - 1
        tail = b""
        for token in reversed(ids):
            tail = self.bytes_V[token] + tail
            if len(tail) >= needed:
                break
        return any(text in tail for text in self.texts)


def _bytes_of_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[bytes, ...]:
    """What each id adds to the bytes of a text; nothing for ids without a token."""
    ids = tokenizer.get_vocab()
    added = {token.content for token in tokenizer.added_tokens_decoder.values()}
    decoder = str(getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", ""))
    found = [b""] * (max(ids.values()) + 1)
    if "ByteLevel" in decoder:
        byte_of = _byte_of_character()
        for token, index in ids.items():
            spelled = token in added or not all(character in byte_of for character in token)
            found[index] = token.encode() if spelled else bytes(byte_of[character] for character in token)
        return tuple(found)
    # The text of a token alone is written otherwise at the beginning of a text, so that one stands before it.
    anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
    before = len(tokenizer.decode(anchor))
    for token, index in ids.items():
        if len(token) == 6 and token.startswith("<0x"):
            found[index] = bytes([int(token[3:5], 16)])
        else:
            found[index] = str(tokenizer.decode([*anchor, index], skip_special_tokens=False))[before:].encode()
    return tuple(found)


def _byte_of_character() -> dict[str, int]:
    """How byte-level tokenizers write bytes: printable ones as themselves, others from U+0100 on, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


def _can_be_made(text: bytes, bytes_V: Sequence[bytes]) -> bool:
    """Whether tokens in a row hold the text: the first ends with its beginning, the last begins with its end."""
    length, whole = len(text), set(bytes_V)
    heads, tails = {text[:at]: at for at in range(1, length)}, {text[at:]: at for at in range(1, length)}
    reached = {0} | {at for head, at in heads.items() if any(token.endswith(head) for token in bytes_V)}
    ends = {length} | {at for tail, at in tails.items() if any(token.startswith(tail) for token in bytes_V)}
    if any(text in token for token in bytes_V):
        return True
    for at in range(length):
        if at in reached:
            reached |= {end for end in range(at + 1, length + 1) if text[at:end] in whole}
    return bool(reached & ends)
