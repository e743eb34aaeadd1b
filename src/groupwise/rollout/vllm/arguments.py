"""What vLLM is started with: the same for the engine in this process and for a server."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from groupwise.model.load import Policy
from groupwise.rollout.engine_options import VllmBase

GIB = 1 << 30

# What a server needs that groupwise did not start, too: docs/vllm.md has them.
READER = "groupwise.rollout.vllm.weight_reader.WeightReader"
FIXED: dict[str, Any] = {
    # Of the distribution that a token was drawn from, for as many tokens as there are.
    "logprobs_mode": "processed_logprobs",
    "max_logprobs": -1,
    # Nothing of a model's generation_config.json: what is sampled is the run's to say.
    "generation_config": "vllm",
    "worker_extension_cls": READER,
}


def dtype_of(options: VllmBase, policy: Policy) -> torch.dtype:
    """What vLLM computes in."""
    return policy.compute_dtype if options.dtype == "auto" else getattr(torch, options.dtype)


def engine_arguments(options: VllmBase, dtype: torch.dtype, context_tokens: int, is_cpu: bool) -> dict[str, Any]:
    """Fields of vLLM's `EngineArgs`. context_tokens: of the model."""
    return {
        **FIXED,
        "dtype": str(dtype).removeprefix("torch."),
        "max_model_len": min(options.context_tokens or context_tokens, context_tokens),
        "max_num_seqs": options.batch_sequences,
        "enforce_eager": options.enforce_eager or is_cpu,
        # On a CPU the environment says it.
        **({} if is_cpu else {"kv_cache_memory_bytes": int(options.cache_gib * GIB)}),
    }


def as_flags(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The same as arguments of a command line."""
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            yield flag
        elif value is not False:
            yield from (flag, str(value))


def environment(cache_gib: float) -> dict[str, str]:
    """What vLLM has to find in the environment: no network, the threads as they are, on a CPU the size of its cache."""
    return {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": str(max(1, round(cache_gib))),
    }


def write_configuration(policy: Policy, folder: Path) -> None:
    """What vLLM reads of a model apart from its weights."""
    policy.model.config.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
