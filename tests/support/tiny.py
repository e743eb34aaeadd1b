"""Small random models, and what their plain Hugging Face forward pass says about a sequence."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from groupwise.config.data import PromptOptions
from groupwise.data.arithmetic import arithmetic_problem
from groupwise.model.backends.attention import IMPLEMENTATION
from groupwise.model.load import Policy
from groupwise.model.packing import Ids, SequenceGroup, pack
from groupwise.model.prompt import PromptRenderer
from groupwise.model.score import Scoring, score

VOCABULARY = 53

# Weights large enough that a wrong mask, position or scale moves log-probabilities by whole nats.
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}

# Grouped queries with one and with two key heads, tied and untied embeddings, norms in different places.
ARCHITECTURES = ("qwen3", "llama", "mistral", "olmo2")


def build(architecture: str, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model with random weights, in evaluation mode, with its own eager attention."""
    torch.manual_seed(seed)
    model: PreTrainedModel
    sizes: dict[str, Any]
    match architecture:
        case "qwen3":
            sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "tie_word_embeddings": True}
            model = Qwen3ForCausalLM(Qwen3Config(**{**_SIZES, **sizes, **changes}))
        case "llama":
            sizes = {"num_attention_heads": 4, "num_key_value_heads": 1, "tie_word_embeddings": False}
            model = LlamaForCausalLM(LlamaConfig(**{**_SIZES, **sizes, **changes}))
        case "mistral":
            sizes = {"num_attention_heads": 2, "num_key_value_heads": 2, "sliding_window": None}
            model = MistralForCausalLM(MistralConfig(**{**_SIZES, **sizes, **changes}))
        case "olmo2":
            sizes = {"num_attention_heads": 4, "num_key_value_heads": 2}
            model = Olmo2ForCausalLM(Olmo2Config(**{**_SIZES, **sizes, **changes}))
        case _:
            raise ValueError(architecture)
    model.generation_config = GenerationConfig()
    return with_attention(model.eval(), "eager")


def with_attention(model: PreTrainedModel, implementation: str) -> PreTrainedModel:
    model.set_attn_implementation(implementation)
    return model


def policy_of(
    model: PreTrainedModel,
    stop_ids: tuple[int, ...] = (1,),
    max_context_tokens: int = 128,
    compute_dtype: torch.dtype = torch.float32,
) -> Policy:
    """A policy around a copy of the model, so that the model itself stays the reference."""
    return Policy(
        model=with_attention(copy.deepcopy(model), IMPLEMENTATION),
        tokenizer=None,
        name="tiny",
        compute_dtype=compute_dtype,
        stop_ids=stop_ids,
        think_ids=None,
        max_context_tokens=max_context_tokens,
    )


def random_ids(generator: np.random.Generator, length: int) -> Ids:
    return generator.integers(0, VOCABULARY, length)


def arithmetic_prompts(policy: Policy, count: int) -> list[Ids]:
    """Prompts of the bundled model as training sees them."""
    renderer = PromptRenderer(policy.tokenizer, PromptOptions())
    return [renderer.render(arithmetic_problem(0, "train", index).messages).ids for index in range(count)]


def ragged_groups(seed: int, shapes: Sequence[tuple[int, Sequence[int]]]) -> list[SequenceGroup]:
    """Groups of random ids: for each the length of its prompt and those of its completions."""
    generator = np.random.default_rng(seed)
    return [
        SequenceGroup(random_ids(generator, prompt), tuple(random_ids(generator, n) for n in lengths))
        for prompt, lengths in shapes
    ]


def plain_logits(model: PreTrainedModel, prompt: Ids, completion: Ids) -> Tensor:
    """The model's own logits that predict each token of the completion, alone in an unpadded row."""
    ids_1T = torch.from_numpy(np.concatenate([prompt, completion])).unsqueeze(0)
    logits: Tensor = model(input_ids=ids_1T, use_cache=False).logits[0, len(prompt) - 1 : -1]
    return logits


def plain_scores(model: PreTrainedModel, prompt: Ids, completion: Ids, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each token of the completion and entropy of its distribution, by the textbook."""
    probabilities_TV = (plain_logits(model, prompt, completion).double() / temperature).softmax(dim=-1)
    chosen_T = probabilities_TV[torch.arange(len(completion)), torch.from_numpy(completion)]
    return chosen_T.log(), -torch.special.xlogy(probabilities_TV, probabilities_TV).sum(dim=-1)


def packed_scores(
    policy: Policy, groups: Sequence[SequenceGroup], temperature: float, chunk_tokens: int = 1000
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of the packed pass."""
    scores = score(policy, pack(groups, policy.device), Scoring(temperature, chunk_tokens))
    return scores.logps_N, scores.entropies_N


def gradients(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def relative_difference(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Largest difference of any weight's gradient, relative to the norm of that weight's gradient."""
    assert actual.keys() == expected.keys()

    def norm(tensor: Tensor) -> float:
        return float(tensor.detach().double().norm())

    def difference(name: str) -> float:
        away = norm(actual[name] - expected[name])
        # A gradient that is 0 by construction has to be 0.
        return away / norm(expected[name]) if away > 0 and norm(expected[name]) > 0 else math.inf if away > 0 else 0.0

    return max(map(difference, expected))


def floats(array: NDArray[np.float32]) -> list[float]:
    return [float(value) for value in array]
