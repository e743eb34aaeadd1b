"""The tokenizer of the bundled model: byte-level BPE with 512 entries, one token for every digit.

All 256 bytes are entries, so that any text survives; no merge crosses a digit, so that numbers are spelt alike
everywhere.
"""

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

VOCABULARY = 512
CONTEXT_TOKENS = 1024

PAD, TURN_START, TURN_END = "<|pad|>", "<|im_start|>", "<|im_end|>"
THINK_START, THINK_END = "<think>", "</think>"

# `\boxed{` and a sign with the blanks around it are single pieces: short completions are quick to sample.
_PIECES = Regex(r" ?\\boxed\{| [-+*/=] |; |\d| ?\p{L}+| ?[^\s\p{L}\d]+|\s")

# Fills the vocabulary, so that a question of the user's own is not spelt out in letters.
_COMMON_WORDS = (
    " the of and to in for that with on at by from as are was be it this not or one two all each every more less than"
    " total number sum difference product times half twice how much many what which find solve calculate given left"
    " together per cost price day hour minute year old first second last between after before"
)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerBase:
    """Trains the merges on `texts`. The think tokens are plain tokens, not special ones: decoding keeps them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_PIECES, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        special_tokens=[PAD, TURN_START, TURN_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, _COMMON_WORDS, _COMMON_WORDS], trainer)
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in (THINK_START, THINK_END)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PAD,
        additional_special_tokens=[TURN_START],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT_TOKENS,
    )
