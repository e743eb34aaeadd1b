"""P1: what ends an answer, by tokens and by texts, and a warning where what the template writes there does not."""

import itertools
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.model.load import Policy, load_policy
from groupwise.model.prompt import PromptRenderer
from groupwise.model.stop_check import check_stops
from groupwise.model.stop_strings import StopStrings
from groupwise.problem import Message

QUESTION = (Message("user", "3 + 4 = ?"),)

VICUNA = (
    "{% for m in messages %}{% if m['role'] == 'user' %}USER: {{ m['content'] }}\n"
    "{% else %}ASSISTANT: {{ m['content'] }}{% if not loop.last %}\n### {% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
)
CLOSED_BY_EOS = VICUNA.replace("{{ m['content'] }}{% if not", "{{ m['content'] }} {{ eos_token }}{% if not")
OPEN_END = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


def remarks(policy: Policy, *overrides: str, template: str = "") -> list[str]:
    config = compose_train_config([*overrides])
    if template:
        policy.tokenizer.chat_template = template
    renderer = PromptRenderer(policy.tokenizer, config.prompt)
    return check_stops(renderer, renderer.render(QUESTION), policy, config.sampling)


def base_model(stop_ids: tuple[int | str, ...] = ()) -> Policy:
    """As base models are: it names another token as its end than its template writes behind an answer."""
    policy = load_policy("bundled", "float32", "all", ("<|pad|>", *stop_ids))
    kept = {policy.tokenizer.convert_tokens_to_ids(token) for token in ("<|pad|>", *map(str, stop_ids))}
    return Policy(**{**vars(policy), "stop_ids": tuple(sorted(kept))})


def test_an_end_of_turn_that_ends_nothing_is_named_with_the_fix() -> None:
    (remark,) = remarks(base_model())
    assert remark == (
        "warning: the chat template ends an answer with <|im_end|>, and only <|pad|> ends one here, so that answers "
        """may run on to sampling.max_new_tokens; set 'sampling.stop_ids=["<|im_end|>"]'"""
    )
    # The remedy can be given as it is written.
    remedy = remark.rpartition("set ")[2].strip("'")
    stated = compose_train_config([remedy]).sampling.stop_ids
    assert remarks(base_model(tuple(stated))) == []
    assert remarks(base_model(), 'sampling.stop=["<|im_end|>"]') == []
    assert remarks(base_model(), "prompt.template=plain") == []
    assert remarks(load_policy("bundled")) == []


def test_an_end_that_is_text_is_named_with_the_fix() -> None:
    (remark,) = remarks(base_model(), template=VICUNA)
    assert "ends an answer with '### USER:'" in remark
    assert remark.endswith("""set 'sampling.stop=["### USER:"]'""")
    assert remarks(base_model(), 'sampling.stop=["###"]', template=VICUNA) == []
    assert remarks(load_policy("bundled"), template=CLOSED_BY_EOS) == []
    assert remarks(base_model(), template=OPEN_END) == []


def test_a_doubled_bos_is_named() -> None:
    policy = load_policy("bundled")
    policy.tokenizer.bos_token = "<|pad|>"
    (remark,) = remarks(policy, template="{{ bos_token }}{{ bos_token }}" + CLOSED_BY_EOS)
    assert remark.startswith("warning: prompts begin with <|pad|> twice")
    assert remarks(policy, template="{{ bos_token }}" + CLOSED_BY_EOS) == []


# Tokens


def test_every_end_that_the_model_names_counts(tmp_path: Any) -> None:
    policy = load_policy("bundled")
    policy.model.generation_config.eos_token_id = [0, 7]
    policy.model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    assert load_policy(str(tmp_path)).stop_ids == (0, 2, 7)
    assert load_policy(str(tmp_path), stop_ids=(9, "<|im_start|>", "</think>")).stop_ids == (0, 1, 2, 7, 9, 511)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (512, "has 512, and the tokenizer's ids end at 511"),
        (-1, "has -1, and the tokenizer's ids end at 511"),
        ("<|im_ends|>", r"is \d tokens and not one; did you mean <\|im_end\|>\?.*goes into sampling.stop"),
        ("", "is 0 tokens and not one"),
    ],
)
def test_a_stop_id_that_is_no_token(stated: int | str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_policy("bundled", stop_ids=(stated,))


# Texts


def of_pieces(pieces: list[str], byte_fallback: bool = True) -> PreTrainedTokenizerBase:
    """A tokenizer in the manner of SentencePiece: spaces are `▁`, and what has no piece is spelled in bytes."""
    spelled = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    vocabulary = {piece: index for index, piece in enumerate(["<unk>", "</s>", *spelled, *pieces])}
    inner = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=byte_fallback))
    inner.pre_tokenizer = pre_tokenizers.Metaspace("▁")
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    inner.decoder = decoders.Sequence(parts)
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="</s>")


PIECES = ["▁", "a", "b", "▁a", "▁ab", "b▁", "ab", "é", "##"]


def ends_at(tokenizer: PreTrainedTokenizerBase, stops: tuple[str, ...], ids: list[int]) -> int | None:
    """Tokens up to the one at which the engine would stop."""
    strings = StopStrings.of(tokenizer, stops)
    lengths = (length for length in range(1, len(ids) + 1) if strings.ending_V[ids[length - 1]])
    return next((length for length in lengths if strings.are_in(ids[:length])), None)


@pytest.mark.parametrize("stop", ["é", "日本", "a 日", "= 7", "\n\n", "🙂", "日", "<|im_start|>", "ink>"])
def test_a_text_is_found_where_its_last_byte_is(stop: str) -> None:
    tokenizer = load_policy("bundled").tokenizer
    before = tokenizer.encode("caf\u00e8 x\n日木 = 6 🙁 <think>", add_special_tokens=False)
    found = ends_at(tokenizer, (stop,), before)
    assert (found is not None) == (stop in ("日", "ink>"))
    if found is None:
        whole = tokenizer.encode("caf\u00e8 x\n日木 = 6 🙁 <think>" + stop, add_special_tokens=False)
        assert ends_at(tokenizer, (stop,), [*whole, 5, 6]) == len(whole)
        assert stop not in tokenizer.decode(whole[:-1])


@pytest.mark.parametrize("stop", ["a b", "ab", " ab", "é", "日", "b a", "##", "\u00e9\u00e9", "</s>"])
def test_a_text_is_found_by_pieces_and_bytes(stop: str) -> None:
    """Every sequence of three pieces: the text is found at the first token that makes it visible."""
    tokenizer = of_pieces(PIECES)
    ids = tokenizer.get_vocab()
    known = [ids[piece] for piece in (*PIECES, "<0xC3>", "<0xA9>", "<0xE6>", "</s>")]
    spelled = [ids[f"<0x{byte:02X}>"] for byte in "日".encode()]
    found = 0
    for sequence in [*itertools.product(known, repeat=3), (known[1], *spelled), tuple(spelled)]:
        # What stands in front keeps the space that the beginning of a text loses.
        texts = [tokenizer.decode([ids["a"], *sequence[:n]])[1:] for n in range(1, len(sequence) + 1)]
        if "\ufffd" in texts[-1]:
            continue
        expected = next((n for n, text in enumerate(texts, start=1) if stop in text), None)
        assert ends_at(tokenizer, (stop,), list(sequence)) == expected, (sequence, texts)
        found += expected is not None
    assert found


def test_the_first_of_several_texts_counts() -> None:
    tokenizer = load_policy("bundled").tokenizer
    ids = tokenizer.encode("one two three", add_special_tokens=False)
    alone = [ends_at(tokenizer, (stop,), ids) for stop in ("three", "two", "none")]
    assert alone[2] is None
    assert ends_at(tokenizer, ("three", "two", "none"), ids) == alone[1]


@pytest.mark.parametrize("stop", ["日", "a日", "#", "a#b", "é#a"])
def test_a_text_that_no_tokens_make_is_refused(stop: str) -> None:
    bare = of_pieces(PIECES, byte_fallback=False)
    if stop != "#":
        with pytest.raises(DataError, match=f"sampling.stop has '{stop}', which no tokens of this model's tokenizer"):
            StopStrings.of(bare, (stop,))
    for possible in ("#", "a##", "b a", "#a", "#", "é##é"):
        assert StopStrings.of(bare, (possible,)).texts == (possible.encode(),)
    policy = load_policy("bundled")
    assert remarks(policy, f'sampling.stop=["{stop}"]') == []
