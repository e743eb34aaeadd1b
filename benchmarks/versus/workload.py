"""The work that both trainers are given: model shapes, prompts, lengths of answers, rewards, and its arithmetic.

Imports neither of the trainers, so that each of them can run it in an environment of its own.
"""

import json
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

PAD, EOS, BOS = 0, 1, 2
FIRST_WORD = 3
# Sampled in place of an end that the schedule does not have.
STAND_IN = FIRST_WORD


@dataclass(frozen=True)
class Shape:
    """A Llama shape; 135m is that of SmolLM2-135M. trl_rows: sequences in a micro-batch of TRL's."""

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    intermediate: int
    trl_rows: int


SHAPES = {
    "1.5m": Shape(512, 128, 7, 4, 4, 384, 16),
    "25m": Shape(32_000, 384, 8, 6, 6, 1024, 16),
    "135m": Shape(49_152, 576, 30, 9, 3, 1536, 8),
}


@dataclass(frozen=True)
class Workload:
    """One step: `prompts` × `samples` answers of `shortest` to `max_new` tokens to prompts of about `prompt_tokens`."""

    size: str
    prompts: int = 8
    samples: int = 8
    prompt_tokens: int = 40
    max_new: int = 128

    def prompt_ids(self, steps: int) -> list[list[int]]:
        """Random prompts for so many steps, in the order in which they are trained on, within 20 % in length."""
        generator = random.Random(1)
        around = self.prompt_tokens // 5
        vocabulary = SHAPES[self.size].vocabulary
        return [
            [
                generator.randrange(FIRST_WORD, vocabulary)
                for _ in range(self.prompt_tokens + generator.randint(-around, around))
            ]
            for _ in range(steps * self.prompts)
        ]

    def lengths(self, step: int) -> list[int]:
        """Length of each answer of a step: uniform from max_new / 8 to 1.1 · max_new; above max_new it is cut off."""
        generator = random.Random(7_000_021 + step)
        bounds = max(1, self.max_new // 8), self.max_new * 11 // 10
        return [generator.randint(*bounds) for _ in range(self.prompts * self.samples)]


def reward(ids: Sequence[int]) -> float:
    """Share of the ids that three divides: differs within every group, and costs nothing."""
    return sum(token % 3 == 0 for token in ids) / max(1, len(ids))


def words(ids: Iterable[int]) -> str:
    """Text that the tokenizer of `save_model` turns into these ids."""
    return " ".join(f"t{token}" for token in ids)


def save_model(size: str, folder: Path) -> int:
    """Random weights of a shape, seeded, with a tokenizer of one token a word; the number of parameters."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    shape = SHAPES[size]
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_heads,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            bos_token_id=BOS,
        )
    )
    model.save_pretrained(folder)
    names = ["<pad>", "<eos>", "<bos>", *(f"t{token}" for token in range(FIRST_WORD, shape.vocabulary))]
    tokenizer = Tokenizer(models.WordLevel({name: token for token, name in enumerate(names)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", bos_token="<bos>", padding_side="left"
    ).save_pretrained(folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    return sum(weight.numel() for weight in model.parameters())


@dataclass(frozen=True)
class Arithmetic:
    """Operations that a step needs at least, without those of attention: 2 for each weight and token that samples, 6
    for each that is trained on, each prompt once for its group, the head only where a token is predicted."""

    sampling: float
    training: float

    @staticmethod
    def of_step(shape: Shape, prompt_tokens: int, answer_tokens: int) -> "Arithmetic":
        """Counted from the tokens of all prompts, each once, and of all answers."""
        head = shape.vocabulary * shape.hidden
        width = shape.hidden // shape.heads * shape.key_heads
        attention = 2 * shape.hidden * shape.hidden + 2 * shape.hidden * width
        body = shape.layers * (attention + 3 * shape.hidden * shape.intermediate)
        forward = 2.0 * (body * (prompt_tokens + answer_tokens) + head * answer_tokens)
        return Arithmetic(sampling=forward, training=3 * forward)


def matmul_rate(dtype: torch.dtype, rows: int = 1024, repeats: int = 9) -> float:
    """Operations a second of a square product, median, by this process's CPU time and with its threads."""
    one, other = (torch.randn(rows, rows).to(dtype) for _ in range(2))
    torch.mm(one, other)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(4):
            torch.mm(one, other)
        seconds.append((time.process_time() - start) / 4)
    return 2 * rows**3 / statistics.median(seconds)


def write_record(file: str, record: dict[str, object]) -> None:
    """What a worker measured, for the process that started it."""
    Path(file).write_text(json.dumps(record))
