"""From a problem's messages to the ids of its prompt."""

from collections.abc import Sequence

import numpy as np
from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from groupwise.completion import Prompt
from groupwise.config.data import PromptOptions
from groupwise.errors import DataError
from groupwise.problem import Message

OPEN, CLOSE = "<think>", "</think>"


class PromptRenderer:
    """Renders problems the same way for training, measuring and sampling."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: PromptOptions, prefill: str = "") -> None:
        """`prefill` is put behind the configured one, to force the beginning of every answer.

        Raises:
            DataError: if the chat template is asked for and the tokenizer has none.
        """
        if options.template == "chat" and not tokenizer.chat_template:
            raise DataError(
                "the tokenizer has no chat template: set prompt.template=plain, or add a chat_template to the "
                "tokenizer_config.json of the model"
            )
        self._tokenizer = tokenizer
        self._options = options
        self._prefill = options.prefill + prefill

    def render(self, messages: Sequence[Message]) -> Prompt:
        """The prompt of a conversation.

        Raises:
            DataError: if the chat template refuses the conversation.
        """
        turns = self._with_examples(messages)
        if self._options.template == "plain":
            text = "\n\n".join(turn.content for turn in turns) + "\n" + self._prefill
            turn_opening = self._prefill
        else:
            text, turn_opening = self._chat(turns)
        ids = self._tokenizer.encode(text, add_special_tokens=self._options.template == "plain")
        return Prompt(
            ids=np.asarray(ids, dtype=np.int64),
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

    def _chat(self, turns: list[Message]) -> tuple[str, str]:
        chat = [{"role": turn.role, "content": turn.content} for turn in turns]
        try:
            closed = self._tokenizer.apply_chat_template(chat, tokenize=False)
            text = self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        except (TemplateError, ValueError) as error:
            roles = ", ".join(turn.role for turn in turns)
            raise DataError(f"the chat template refuses a conversation with the roles {roles}: {error}") from error
        # What the template itself puts at the beginning of the model's turn; some templates open <think> there. A
        # template may also write the last message otherwise when it is about to be answered.
        shared = next((i for i, pair in enumerate(zip(closed, text, strict=False)) if pair[0] != pair[1]), len(closed))
        opening = text[shared:]
        return text + self._prefill, opening + self._prefill
