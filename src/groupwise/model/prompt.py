"""From a problem's messages to the ids of its prompt."""

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from groupwise.completion import Prompt
from groupwise.config.data import PromptOptions
from groupwise.model.chat_template import ChatTemplate
from groupwise.problem import Message

OPEN, CLOSE = "<think>", "</think>"


class PromptRenderer:
    """Renders problems the same way for training, measuring and sampling."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: PromptOptions, prefill: str = "") -> None:
        """`prefill` is put behind the configured one, to force the beginning of every answer.

        Raises:
            DataError: if the chat template is asked for and cannot be used; see `ChatTemplate`.
        """
        self._template = ChatTemplate(tokenizer, options) if options.template == "chat" else None
        self._first_ids = [] if self._template else _first_ids(tokenizer)
        self._tokenizer = tokenizer
        self._options = options
        self._prefill = options.prefill + prefill

    def render(self, messages: Sequence[Message]) -> Prompt:
        """The prompt of a conversation.

        Raises:
            DataError: if the chat template refuses the conversation.
        """
        turns = self._with_examples(messages)
        if self._template is None:
            text = "\n\n".join(turn.content for turn in turns) + "\n" + self._prefill
            turn_opening = self._prefill
        else:
            text, turn_opening = self._chat(self._template, turns)
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return Prompt(
            ids=np.asarray(self._first_ids + ids, dtype=np.int64),
            text=text,
            opened=turn_opening.rfind(OPEN) > turn_opening.rfind(CLOSE),
        )

    def _with_examples(self, messages: Sequence[Message]) -> list[Message]:
        stated = [message for message in messages if message.role == "system"]
        system = stated or ([Message("system", self._options.system)] if self._options.system else [])
        shown = [
            turn
            for example in self._options.examples
            for turn in (Message("user", example.problem), Message("assistant", example.answer))
        ]
        return [*system, *shown, *(message for message in messages if message.role != "system")]

    def end_of_answer(self) -> str:
        """What the chat template writes behind an answer; see `ChatTemplate`."""
        return "" if self._template is None else self._template.end_of_answer()

    def _chat(self, template: ChatTemplate, turns: list[Message]) -> tuple[str, str]:
        closed, text = (template.write(turns, open_turn) for open_turn in (False, True))
        # What the template itself puts at the beginning of the model's turn; some templates open <think> there. A
        # template may also write the last message otherwise when it is about to be answered.
        shared = next((i for i, pair in enumerate(zip(closed, text, strict=False)) if pair[0] != pair[1]), len(closed))
        opening = text[shared:]
        return text + self._prefill, opening + self._prefill


def _first_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The special tokens that the tokenizer puts before a text. What it puts behind would end the prompt."""
    alone: list[int] = tokenizer.encode("a", add_special_tokens=False)
    whole: list[int] = tokenizer.encode("a", add_special_tokens=True)
    places = (start for start in range(len(whole)) if whole[start : start + len(alone)] == alone)
    return whole[: next(places, 0)]
