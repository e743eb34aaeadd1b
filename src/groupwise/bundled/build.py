"""Rebuilds the bundled model from nothing: `python -m groupwise.bundled.build OUTPUT`.

The result is a deliberately imperfect start: it knows the format and most of the arithmetic, but has picked up the
habits of a careless pupil. What reinforcement learning adds can therefore be seen within minutes.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from transformers import PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from groupwise.bundled.tokenizer import CONTEXT_TOKENS, THINK_END, THINK_START, build_tokenizer
from groupwise.config import SftConfig
from groupwise.data.demonstrations import Habits, demonstrations, write_demonstrations
from groupwise.training.sft import progress_printer, run_sft

SEED = 0
DEMONSTRATIONS = 89_600
STEPS = 2800

HABITS = Habits(
    guess=0.58,
    wrong_guess=0.3,
    misread={"chain": 0.4, "brackets": 0.45, "legs": 0.5, "equation": 0.45, "story": 0.5},
    slip={"+": 0.15, "-": 0.35, "*": 0.1, "/": 0.1},
    slip_easy=0.02,
    unfinished=0.15,
)


def build(output: Path, threads: int) -> None:
    """Demonstrations, tokenizer, initial weights, training, and the finished model in `output`."""
    with tempfile.TemporaryDirectory() as scratch:
        data, start = Path(scratch) / "demonstrations.jsonl", Path(scratch) / "start"
        write_demonstrations(data, demonstrations(SEED, DEMONSTRATIONS, HABITS))
        tokenizer = bundled_tokenizer()
        initial_model(tokenizer, SEED).save_pretrained(start)
        tokenizer.save_pretrained(start)
        config = SftConfig(
            model=str(start),
            data=str(data),
            output=str(output),
            seed=SEED,
            steps=STEPS,
            sequences_per_step=32,
            optimizer="muon",
            lr=3e-3,
            muon_lr=0.02,
            threads=threads,
        )
        result = run_sft(config, progress_printer(Console()), print)
    print(f"{result.output}: {result.steps} steps in {result.seconds:.0f} s, loss {result.final_loss:.3f}")


def bundled_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer, with merges learned from some thousand demonstrations."""
    texts = [text for pair in demonstrations(SEED, 4000, HABITS) for text in pair]
    # The think tags are single tokens; merges for their letters would be wasted.
    plain = [text.replace(THINK_START, "").replace(THINK_END, "") for text in texts]
    return build_tokenizer([*plain, *["system\n", "user\n", "assistant\n"] * 1000])


def initial_model(tokenizer: PreTrainedTokenizerBase, seed: int) -> Qwen3ForCausalLM:
    """Random weights of the architecture: Qwen3 with 4 layers of width 96 and tied embeddings."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=CONTEXT_TOKENS,
        rope_theta=10_000.0,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rebuild the bundled model from nothing.")
    parser.add_argument("output", type=Path, help="folder for the model; it must not exist")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    arguments = parser.parse_args()
    build(arguments.output, arguments.threads)
