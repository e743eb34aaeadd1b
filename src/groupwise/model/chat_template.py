"""The chat template of a run: the tokenizer's, or a file of one's own; what it reads, and how it ends an answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from transformers import PreTrainedTokenizerBase

from groupwise.config.data import PromptOptions
from groupwise.errors import DataError
from groupwise.findings import suggest_word
from groupwise.problem import Message

# What every template is given, whether it reads it or not.
GIVEN = {"messages", "add_generation_prompt", "continue_final_message", "raise_exception", "strftime_now"}
SPECIAL_TOKENS = {"bos_token", "eos_token", "pad_token", "unk_token"}

# Stands where an answer would; found again in what a template makes of it.
PROBE = "answer7391"


class _Generation(Extension):
    """The tag `{% generation %}` of transformers, which marks answers and changes no text."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Its contents."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """Writes conversations as the model expects them."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: PromptOptions) -> None:
        """Raises DataError without a template, for one that is not Jinja, and for arguments that it never reads."""
        self._tokenizer = tokenizer
        self._arguments = options.template_arguments
        self._text, name = _template_of(tokenizer, options.chat_template)
        try:
            read = _variables(self._text) - GIVEN
        except TemplateSyntaxError as error:
            raise DataError(f"{name} is not a Jinja template: line {error.lineno}: {error.message}") from error
        for unread in sorted(self._arguments.keys() - read):
            known, near = ", ".join(sorted(read - SPECIAL_TOKENS)) or "none", suggest_word(unread, sorted(read))
            raise DataError(
                f"prompt.template_arguments sets {unread!r}, which {name} never reads{near}. Variables that it reads: "
                f"{known}"
            )

    def write(self, turns: list[Message], open_turn: bool) -> str:
        """The conversation; open_turn: with the beginning of the answer to come.

        Raises:
            DataError: if the template refuses the conversation.
        """
        chat = [{"role": turn.role, "content": turn.content} for turn in turns]
        how: dict[str, Any] = {"chat_template": self._text, "add_generation_prompt": open_turn, "tokenize": False}
        arguments: Mapping[str, Any] = self._arguments
        try:
            return str(self._tokenizer.apply_chat_template(chat, **how, **arguments))
        except (TemplateError, ValueError, TypeError) as error:
            roles = ", ".join(turn.role for turn in turns)
            raise DataError(f"the chat template refuses a conversation with the roles {roles}: {error}") from error

    def end_of_answer(self) -> str:
        """What stands behind an answer, without white space around it; empty where that cannot be told.

        Some templates close an answer only when a further turn follows.
        """
        question, answer = Message("user", "question"), Message("assistant", PROBE)
        for turns in ([question, answer], [question, answer, question]):
            try:
                _, found, behind = self.write(turns, open_turn=False).rpartition(PROBE)
            except DataError:
                continue
            if found and (end := behind.partition("question")[0].strip()):
                return end
        return ""


def _template_of(tokenizer: PreTrainedTokenizerBase, file: str) -> tuple[str, str]:
    """The template, and what it is called in messages."""
    if file:
        try:
            return Path(file).read_text(encoding="utf-8"), f"the chat template '{file}'"
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"prompt.chat_template='{file}' cannot be read: {error}") from error
    if not tokenizer.chat_template:
        raise DataError(
            "the tokenizer has no chat template: set prompt.template=plain, as base models want it, or name a file "
            "with a template in prompt.chat_template"
        )
    try:
        return tokenizer.get_chat_template(), "the model's chat template"
    except ValueError as error:
        raise DataError(f"{error}; name a file with a template in prompt.chat_template") from error


def _variables(template: str) -> set[str]:
    """The names that a template takes from what it is given. Raises TemplateSyntaxError."""
    return meta.find_undeclared_variables(Environment(extensions=[_Generation, LoopControlExtension]).parse(template))
