"""The bundled model: its size, its tokenizer, its chat template, and how good a start it is."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

import groupwise.bundled
from groupwise.bundled.build import build, bundled_tokenizer, initial_model
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.model.load import load_policy

FOLDER = Path(groupwise.bundled.__file__).parent / "model"
TOKENIZER = AutoTokenizer.from_pretrained(FOLDER)


def encode(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


def test_the_weights_are_small_safetensors_and_nothing_is_pickled() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    assert (FOLDER / "model.safetensors").stat().st_size <= 3_000_000
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 3_000_000


def test_the_folder_loads_as_any_hugging_face_model() -> None:
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    assert model.config.model_type == "qwen3"
    assert model.config.vocab_size == len(TOKENIZER) == 512
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert 400_000 <= sum(weight.numel() for weight in model.parameters()) <= 1_000_000
    assert model.generation_config.eos_token_id == TOKENIZER.eos_token_id
    prompt = TOKENIZER.apply_chat_template(
        [{"role": "user", "content": "What is 2 + 3 + 4?"}], add_generation_prompt=True, return_tensors="pt"
    )
    out = model.generate(**prompt, max_new_tokens=64, do_sample=False)
    text = TOKENIZER.decode(out[0, prompt["input_ids"].shape[1] :])
    assert text.endswith("}.<|im_end|>")


def test_special_tokens() -> None:
    ids = [encode(token) for token in ("<|pad|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")]
    assert all(len(found) == 1 for found in ids)
    assert len({found[0] for found in ids}) == 5
    assert (TOKENIZER.pad_token, TOKENIZER.eos_token) == ("<|pad|>", "<|im_end|>")
    # Decoding for the grader drops the end of turn, but has to keep the reasoning's tags.
    text = "<think>1 + 1 = 2</think>The answer is \\boxed{2}."
    assert TOKENIZER.decode(encode(text + "<|im_end|>"), skip_special_tokens=True) == text


@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert TOKENIZER.decode(encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  two  spaces\t\r\n\n",
        "naïve café 日本語 🙂👩‍👩‍👧",
        "12345 - -7",
        "\\boxed{-12}",
        "a<think>b</think>",
        "\x00\x7f",
    ],
)
def test_chosen_texts_survive(text: str) -> None:
    assert TOKENIZER.decode(encode(text)) == text


def test_numbers_are_digits_and_the_answer_is_short() -> None:
    assert TOKENIZER.convert_ids_to_tokens(encode("1234")) == ["1", "2", "3", "4"]
    assert all(sum(letter.isdigit() for letter in token) <= (len(token) == 1) for token in TOKENIZER.get_vocab())
    assert len(encode("The answer is \\boxed{42}.")) == 7
    assert len(encode("<think>12 + 7 = 19; 19 - 5 = 14</think>")) == 17


def test_the_chat_template() -> None:
    chat = [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}]
    closed = TOKENIZER.apply_chat_template(chat, tokenize=False)
    assert closed == "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
    opened = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert opened == closed + "<|im_start|>assistant\n"
    assert len(encode("<|im_start|>assistant\n")) == 3


def test_the_policy_knows_the_think_tokens() -> None:
    policy = load_policy("bundled")
    assert policy.think_ids == (encode("<think>")[0], encode("</think>")[0])
    assert policy.stop_ids == (TOKENIZER.eos_token_id,)
    assert policy.max_context_tokens == 1024


def test_the_builder_makes_the_tokenizer_and_the_architecture_that_ship() -> None:
    built = bundled_tokenizer()
    assert built.get_vocab() == TOKENIZER.get_vocab()
    assert built.chat_template == TOKENIZER.chat_template
    model, shipped = initial_model(built, seed=0), json.loads((FOLDER / "config.json").read_text())
    ours = json.loads(model.config.to_json_string(use_diff=False))
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim")
    assert {key: ours[key] for key in keys} == {key: shipped[key] for key in keys}


def test_the_builder_runs_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.bundled.build.STEPS", 2)
    monkeypatch.setattr("groupwise.bundled.build.DEMONSTRATIONS", 64)
    build(tmp_path / "model", threads=torch.get_num_threads())
    assert {path.name for path in (tmp_path / "model").iterdir()} == {path.name for path in FOLDER.iterdir()}
    assert AutoTokenizer.from_pretrained(tmp_path / "model").get_vocab() == TOKENIZER.get_vocab()


@pytest.mark.slow
def test_the_start_is_weak_but_not_hopeless() -> None:
    """Greedy answers of 256 problems, with and without forced thinking, through plain Hugging Face generation."""
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    problems = [arithmetic_problem(0, "eval", index) for index in range(256)]

    def accuracy(prefill: str) -> float:
        prompts = [
            TOKENIZER.apply_chat_template(
                [{"role": "user", "content": problem.question}], add_generation_prompt=True, tokenize=False
            )
            + prefill
            for problem in problems
        ]
        batch = TOKENIZER(prompts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        out = model.generate(**batch, max_new_tokens=64, do_sample=False)
        texts = TOKENIZER.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        ends = [f"\\boxed{{{problem.answer}}}." for problem in problems]
        return float(np.mean([text.endswith(end) for text, end in zip(texts, ends, strict=True)]))

    assert accuracy("") <= 0.30
    assert 0.45 <= accuracy("<think>") <= 0.65
