"""From messages to the ids of a prompt, and whether the model's turn begins inside an open <think>."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase

from groupwise.config.compose import compose_train_config
from groupwise.config.data import PromptOptions
from groupwise.errors import DataError
from groupwise.model.load import load_policy
from groupwise.model.prompt import PromptRenderer
from groupwise.problem import Message
from groupwise.track.plan import plan_lines

QUESTION = (Message("user", "3 + 4 = ?"),)

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nOPENING{% endif %}"
)
# Rewrites the last turn when it is about to be answered, so that the closed text is no prefix of the open one.
NO_PREFIX = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% if loop.last and add_generation_prompt %} /answer{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nOPENING{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)


def tokenizer(template: str | None = None, opening: str = "") -> PreTrainedTokenizerBase:
    found = load_policy("bundled").tokenizer
    if template is not None:
        found.chat_template = template.replace("OPENING", opening)
    return found


def options(**values: Any) -> PromptOptions:
    return PromptOptions.model_validate(values)


def test_a_question_in_the_bundled_template() -> None:
    own = tokenizer()
    prompt = PromptRenderer(own, PromptOptions()).render(QUESTION)
    assert prompt.text == "<|im_start|>user\n3 + 4 = ?<|im_end|>\n<|im_start|>assistant\n"
    assert own.decode(prompt.ids.tolist()) == prompt.text
    # Each marker is one token, not a spelled-out text.
    assert prompt.ids.tolist().count(own.convert_tokens_to_ids("<|im_start|>")) == 2
    assert not prompt.opened


@pytest.mark.parametrize("template", [None, CHATML])
def test_nothing_is_added_to_what_the_template_wrote(template: str | None) -> None:
    """With a tokenizer that puts a token in front of every text, as Llama's does, which its template writes too."""
    own = tokenizer(template)
    start = own.convert_tokens_to_ids("<|pad|>")
    own._tokenizer.post_processor = TemplateProcessing(single="<|pad|> $A", special_tokens=[("<|pad|>", start)])
    assert own.encode("3")[0] == start
    prompt = PromptRenderer(own, PromptOptions()).render(QUESTION)
    assert start not in prompt.ids
    assert own.decode(prompt.ids.tolist()) == prompt.text


def test_system_examples_and_prefill_stand_in_their_order() -> None:
    renderer = PromptRenderer(
        tokenizer(),
        options(
            system="Be brief.",
            examples=[{"problem": "1 + 1 = ?", "answer": "2"}, {"problem": "2 + 2 = ?", "answer": "4"}],
            prefill="So: ",
        ),
    )
    assert renderer.render(QUESTION).text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n1 + 1 = ?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"
        "<|im_start|>user\n2 + 2 = ?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
        "<|im_start|>user\n3 + 4 = ?<|im_end|>\n<|im_start|>assistant\nSo: "
    )


def test_a_system_message_of_the_problem_goes_before_that_of_the_configuration() -> None:
    renderer = PromptRenderer(tokenizer(), options(system="Mine.", examples=[{"problem": "a", "answer": "b"}]))
    text = renderer.render((Message("system", "Its own."), *QUESTION)).text
    assert text.startswith("<|im_start|>system\nIts own.<|im_end|>\n<|im_start|>user\na<|im_end|>\n")
    assert "Mine." not in text


def test_a_conversation_of_several_turns_is_kept() -> None:
    turns = (Message("user", "Hi"), Message("assistant", "Hello"), Message("user", "3 + 4 = ?"))
    text = PromptRenderer(tokenizer(), PromptOptions()).render(turns).text
    assert text.index("Hi") < text.index("Hello") < text.index("3 + 4")


def test_the_plain_template_joins_contents() -> None:
    renderer = PromptRenderer(
        tokenizer(),
        options(template="plain", system="Sums.", examples=[{"problem": "1 + 1", "answer": "2"}], prefill="= "),
    )
    assert renderer.render(QUESTION).text == "Sums.\n\n1 + 1\n\n2\n\n3 + 4 = ?\n= "


@pytest.mark.parametrize(
    ("prefill", "forced", "opened"),
    [
        ("", "", False),
        ("<think>", "", True),
        ("<think>\n", "", True),
        ("", "<think>", True),
        ("<think>\n\n</think>\n\n", "", False),
        ("<think>a</think><think>", "", True),
        ("</think>", "", False),
    ],
)
@pytest.mark.parametrize("template", ["chat", "plain"])
def test_a_prefill_opens_the_reasoning(template: str, prefill: str, forced: str, opened: bool) -> None:
    renderer = PromptRenderer(tokenizer(), options(template=template, prefill=prefill), forced)
    prompt = renderer.render(QUESTION)
    assert prompt.opened is opened
    assert prompt.text.endswith(prefill + forced)


@pytest.mark.parametrize("template", [CHATML, NO_PREFIX])
@pytest.mark.parametrize(
    ("opening", "opened"), [("", False), ("<think>", True), ("<think>\n", True), ("<think>\n\n</think>\n\n", False)]
)
def test_a_template_opens_the_reasoning(template: str, opening: str, opened: bool) -> None:
    prompt = PromptRenderer(tokenizer(template, opening), PromptOptions()).render(QUESTION)
    assert prompt.opened is opened
    assert prompt.text.endswith("<|im_start|>assistant\n" + opening)


@pytest.mark.parametrize("template", [CHATML, NO_PREFIX])
@pytest.mark.parametrize(
    "messages",
    [
        (Message("system", "Reason inside of <think> and </think>, beginning with <think>"), *QUESTION),
        (Message("user", "3 + 4 = ? Begin with <think>"),),
        (Message("user", "What does <think> mean?"), Message("assistant", "<think>"), Message("user", "3 + 4")),
    ],
)
def test_a_text_that_mentions_the_tag_opens_nothing(template: str, messages: tuple[Message, ...]) -> None:
    assert not PromptRenderer(tokenizer(template), PromptOptions()).render(messages).opened
    plain = PromptRenderer(tokenizer(template), options(template="plain", system="Use <think>."))
    assert not plain.render(messages).opened


@pytest.mark.parametrize("template", [CHATML, NO_PREFIX])
def test_a_long_opening_of_the_template_is_seen_whole(template: str) -> None:
    opening = "<think>\n" + "Let me work through this problem one step at a time.\n"
    prompt = PromptRenderer(tokenizer(template, opening), PromptOptions()).render(QUESTION)
    assert prompt.opened


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    bare = tokenizer("")
    with pytest.raises(DataError, match=r"no chat template: set prompt\.template=plain"):
        PromptRenderer(bare, PromptOptions())
    assert PromptRenderer(bare, options(template="plain")).render(QUESTION).text == "3 + 4 = ?\n"


def test_a_template_that_refuses_a_conversation_says_so() -> None:
    renderer = PromptRenderer(tokenizer(NO_SYSTEM), options(system="Be brief."))
    with pytest.raises(DataError, match="roles system, user: System role not supported"):
        renderer.render(QUESTION)


# P3: what the tokenizer puts around a text


@pytest.mark.parametrize("around", ["<|pad|> $A", "$A <|im_end|>", "<|pad|> $A <|im_end|>", "$A"])
def test_a_plain_prompt_begins_as_the_tokenizer_wants_and_never_ends(around: str) -> None:
    own = tokenizer("")
    specials = [(token, own.convert_tokens_to_ids(token)) for token in ("<|pad|>", "<|im_end|>")]
    own._tokenizer.post_processor = TemplateProcessing(single=around, special_tokens=specials)
    assert own.encode("3", add_special_tokens=True)[-1] == (2 if "end" in around else own.encode("3")[-1])
    prompt = PromptRenderer(own, options(template="plain")).render(QUESTION)
    begun = "<|pad|>" if "pad" in around else ""
    assert own.decode(prompt.ids.tolist()) == f"{begun}3 + 4 = ?\n"
    config = compose_train_config(["demo", "prompt.template=plain"])
    policy = replace(load_policy("bundled"), tokenizer=own)
    line = plan_lines(config, policy, "problems", 0, len(prompt.ids), prompt)[-1]
    assert line.endswith(f"the first is: {begun}3 + 4 = ?\\n")


# P4: variables of the template, and one's own template

THINKS = (
    "{% set mode = level | default('low') %}{%- generation %}x{% endgeneration %}"
    + CHATML.replace("OPENING", "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}")
    + "{{ mode }}{% for tool in tools or [] %}{% if loop.first %}{% break %}{% endif %}{% endfor %}{{ bos_token }}"
)


def test_arguments_reach_the_template() -> None:
    def text(**arguments: Any) -> str:
        return PromptRenderer(tokenizer(THINKS), options(template_arguments=arguments)).render(QUESTION).text

    begun = "x<|im_start|>user\n3 + 4 = ?<|im_end|>\n<|im_start|>assistant\n"
    assert text() == begun + "low"
    assert text(enable_thinking=False) == begun + "<think></think>low"
    assert text(enable_thinking=True, level="high", bos_token="B") == begun + "highB"


def test_a_closed_reasoning_of_the_template_is_not_open() -> None:
    """So that the format asks the completion for both tags, as it does without them."""
    renderer = PromptRenderer(tokenizer(THINKS), options(template_arguments={"enable_thinking": False}))
    assert not renderer.render(QUESTION).opened


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("enable_thinkin", "did you mean enable_thinking\\?. Variables that it reads: enable_thinking, level, tools"),
        ("tokenize", "never reads. Variables that"),
        ("mode", "never reads"),
    ],
)
def test_an_argument_that_the_template_never_reads_is_named(name: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"prompt.template_arguments sets '{name}', which .*{message}"):
        PromptRenderer(tokenizer(THINKS), options(template_arguments={name: False, "level": "high"}))


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}{{ tail }}", encoding="utf-8")
    mine = options(chat_template=str(file), template_arguments={"tail": "»"})
    for template in (None, "", CHATML):
        assert PromptRenderer(tokenizer(template), mine).render(QUESTION).text == "[3 + 4 = ?]»"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{% for %}", r"mine\.jinja' is not a Jinja template: line 1"),
        (b"\xff", r"mine\.jinja' cannot be read"),
        (None, r"mine\.jinja' cannot be read"),
    ],
)
def test_a_template_of_ones_own_that_is_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "mine.jinja"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        PromptRenderer(tokenizer(), options(chat_template=str(file)))


def test_a_model_with_several_templates() -> None:
    own = tokenizer()
    own.chat_template = {"default": CHATML.replace("OPENING", ""), "other": "{{ x }}"}
    assert PromptRenderer(own, PromptOptions()).render(QUESTION).text.endswith("assistant\n")
    own.chat_template = {"other": "{{ x }}"}
    with pytest.raises(DataError, match="multiple chat templates"):
        PromptRenderer(own, PromptOptions())


def test_a_tokenizer_without_a_pad_token_is_enough() -> None:
    own = tokenizer()
    own.pad_token = None
    assert PromptRenderer(own, PromptOptions()).render(QUESTION).ids.size > 0
