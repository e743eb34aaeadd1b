"""Demonstrations for supervised fine-tuning: reading, tokenising, and the order in which they are trained on."""

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from groupwise.config.data import PromptOptions
from groupwise.errors import DataError
from groupwise.model.load import Policy
from groupwise.model.packing import SequenceGroup, packed_tokens
from groupwise.model.prompt import PromptRenderer
from groupwise.problem import Message

# Batches of like length are cut from windows of this many steps: less padding in the attention, the order still mixed.
_WINDOW_STEPS = 16


def read_demonstrations(file: Path, policy: Policy) -> list[SequenceGroup]:
    """Every line of the file as token ids: the prompt in the chat template, the completion with the end of turn.

    Special tokens that a completion spells out are parsed as such.

    Raises:
        DataError: for a missing or empty file, a malformed line, a missing column, a wrong type, or a line that is
            longer than the model's context; the message names the file and the line.
    """
    if not file.is_file():
        raise DataError(f"there is no file '{file}': expected JSONL with the columns 'prompt' and 'completion'")
    renderer = PromptRenderer(policy.tokenizer, PromptOptions())
    groups = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                groups.append(_tokenised(line, f"{file}, line {number}", policy, renderer))
    if not groups:
        raise DataError(f"'{file}' holds no demonstrations: expected JSONL with the columns 'prompt' and 'completion'")
    return groups


def _tokenised(line: bytes, where: str, policy: Policy, renderer: PromptRenderer) -> SequenceGroup:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8: {error.reason}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: expected an object with 'prompt' and 'completion', found {type(row).__name__}")
    missing = [name for name in ("prompt", "completion") if name not in row]
    if missing:
        found = ", ".join(f"'{name}'" for name in row) or "none"
        raise DataError(f"{where}: no column '{missing[0]}'; expected 'prompt' and 'completion', found {found}")
    if not isinstance(row["completion"], str):
        raise DataError(f"{where}: 'completion' must be text, found {type(row['completion']).__name__}")
    messages = _messages(row["prompt"], where)
    try:
        prompt_ids = renderer.render(messages).ids
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    tokenizer = policy.tokenizer
    completion_ids: list[int] = tokenizer.encode(row["completion"], add_special_tokens=False)
    if not completion_ids or completion_ids[-1] not in policy.stop_ids:
        end = tokenizer.eos_token_id
        completion_ids.append(policy.stop_ids[0] if end is None else end)
    tokens = len(prompt_ids) + len(completion_ids)
    if tokens > policy.max_context_tokens:
        raise DataError(f"{where}: {tokens} tokens, more than the model's context of {policy.max_context_tokens}")
    return SequenceGroup(prompt_ids, (np.array(completion_ids, np.int64),))


def _messages(prompt: Any, where: str) -> list[Message]:
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    if not isinstance(turns, list) or not turns or not all(_is_message(turn) for turn in turns):
        raise DataError(f"{where}: 'prompt' must be text or a list of messages with 'role' and 'content'")
    return [Message(turn["role"], turn["content"]) for turn in turns]


def _is_message(turn: Any) -> bool:
    return isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)


def step_batches(lengths: Sequence[int], sequences_per_step: int, seed: int) -> Iterator[list[int]]:
    """Endless batches of indices into the data; every epoch holds each sequence once.

    The order follows from (seed, epoch) alone. Epochs join without a gap, so that every batch is full, and within a
    window of some steps sequences of like length share a batch.
    """
    waiting: list[int] = []
    epoch = 0
    while True:
        random = Random(int.from_bytes(blake2b(f"sft order/{seed}/{epoch}".encode(), digest_size=16).digest(), "big"))
        order = list(range(len(lengths)))
        random.shuffle(order)
        waiting += order
        epoch += 1
        window = _WINDOW_STEPS * sequences_per_step
        while len(waiting) >= min(window, max(len(lengths), sequences_per_step)):
            size = min(window, len(waiting)) // sequences_per_step * sequences_per_step
            taken, waiting = sorted(waiting[:size], key=lambda index: lengths[index]), waiting[size:]
            batches = [taken[start : start + sequences_per_step] for start in range(0, size, sequences_per_step)]
            random.shuffle(batches)
            yield from batches


def micro_batches(groups: Sequence[SequenceGroup], micro_batch_tokens: int) -> Iterator[list[SequenceGroup]]:
    """The groups in portions of at most `micro_batch_tokens` packed tokens; a longer one goes alone."""
    portion: list[SequenceGroup] = []
    tokens = 0
    for group in groups:
        more = packed_tokens(len(group.prompt_ids), [len(ids) for ids in group.completion_ids])
        if portion and tokens + more > micro_batch_tokens:
            yield portion
            portion, tokens = [], 0
        portion.append(group)
        tokens += more
    if portion:
        yield portion
