"""A request in vLLM's terms, and a completion out of what it answers: the same in process and over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from groupwise.completion import Completion, KeptSets
from groupwise.config.data import KEPT_LIMIT
from groupwise.model.load import Policy
from groupwise.model.stop_strings import StopStrings
from groupwise.rollout.engine import SampleRequest, SamplingParams

# A logit that is lowered by so much is never drawn; minus infinity cannot be asked for.
NEVER = -100.0


def arguments(sampling: SamplingParams, seed: int, prompt_tokens: int, policy: Policy) -> dict[str, Any]:
    """The fields of vLLM's `SamplingParams` for one completion behind a prompt of so many tokens."""
    size = int(policy.model.config.get_text_config().vocab_size)
    top_k = sampling.top_k
    if sampling.record_kept:
        top_k = min(top_k or KEPT_LIMIT, KEPT_LIMIT, size)
    made: dict[str, Any] = {
        "n": 1,
        "temperature": sampling.temperature,
        "top_k": top_k or -1,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": seed % 2**63,
        "max_tokens": min(sampling.max_new_tokens, policy.max_context_tokens - prompt_tokens),
        "stop_token_ids": list(sampling.stop_ids),
        # Stop ids are the run's own, whatever the model's files say.
        "ignore_eos": True,
        "detokenize": False,
        # Without further ones: the log-probability of the token that was drawn.
        "logprobs": top_k if sampling.record_kept else 0,
    }
    if policy.vocabulary is not None and policy.vocabulary < size:
        made["logit_bias"] = dict.fromkeys(range(policy.vocabulary, size), NEVER)
    return made


def completion(
    ids: Sequence[int],
    logps: Sequence[float],
    candidates: Sequence[Mapping[int, float]] | None,
    is_stopped: bool,
    sampling: SamplingParams,
    stop: StopStrings | None,
    version: int,
) -> Completion:
    """A completion out of tokens and their log-probabilities.

    candidates: at each position the log-probabilities of the tokens that could be drawn, and of others at minus
    infinity; where sets are recorded. stop: texts that end it; vLLM is not asked for them and may have gone on.
    """
    length = len(ids)
    if stop is not None:
        first = next((at for at in range(1, length + 1) if stop.are_in(ids[:at])), None)
        length, is_stopped = (first, True) if first is not None else (length, is_stopped)
    kept = None
    if sampling.record_kept and candidates is not None:
        sets = [sorted(token for token, logp in own.items() if logp > -np.inf) for own in candidates[:length]]
        kept = KeptSets(
            np.asarray([token for own in sets for token in own], dtype=np.int32),
            np.asarray([len(own) for own in sets], dtype=np.int32),
        )
    return Completion(
        ids=np.asarray(ids[:length], dtype=np.int64),
        logps=np.asarray(logps[:length], dtype=np.float32),
        finish_reason="stop" if is_stopped else "length",
        version=version,
        kept=kept,
    )


def check_room(requests: Sequence[SampleRequest], policy: Policy) -> None:
    """Raises ValueError for a prompt without tokens, or one that leaves no room in the context."""
    for request in requests:
        if len(request.prompt_ids) == 0 or len(request.prompt_ids) >= policy.max_context_tokens:
            raise ValueError(f"a prompt of {len(request.prompt_ids)} tokens leaves no room for a completion")


def stop_texts(policy: Policy, sampling: SamplingParams) -> StopStrings | None:
    """The texts of `sampling.stop` in this tokenizer's bytes."""
    return StopStrings.of(policy.tokenizer, sampling.stop) if sampling.stop else None
