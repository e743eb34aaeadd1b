"""Which back-end runs a model: packed tokens where that is right for it and for these lengths, else its own pass."""

from dataclasses import replace
from typing import Any, Literal

from groupwise.errors import DataError, first_line
from groupwise.model.backends.plain import turning_point
from groupwise.model.load import Policy
from groupwise.model.startup_check import check_scoring, check_weights

# The first is faster, and leaves out caps of scores; some models have the second alone.
PLAIN_ATTENTION = ("sdpa", "eager")


def choose_backend(policy: Policy, asked: Literal["auto", "plain"], longest_tokens: int) -> tuple[Policy, str]:
    """The policy with its back-end, and a line for the screen where `auto` had to take the slower one, else "".

    longest_tokens: of prompt and completion together.

    Raises:
        DataError: if weights are not finite, or if no back-end computes what the model does.
    """
    check_weights(policy)
    reason = ""
    if asked == "auto":
        reason = _not_packed(policy.model.config, longest_tokens) or _disagreement(policy, longest_tokens)
        if not reason:
            return policy, ""
    refused = ""
    capped = getattr(policy.model.config, "attn_logit_softcapping", None)
    for attention in PLAIN_ATTENTION[1:] if capped else PLAIN_ATTENTION:
        try:
            chosen = run_by(policy, "plain", attention)
        except (ValueError, ImportError) as error:
            refused = refused or first_line(error)
            continue
        refused = _disagreement(chosen, longest_tokens)
        if not refused:
            return chosen, f"plain: {reason}. Slower: a prompt is read once for each completion" if reason else ""
    raise DataError(
        f"the architecture of '{policy.name}' ({type(policy.model).__name__}) cannot be trained: {refused}. "
        "Expected a causal language model of transformers"
    )


def _disagreement(policy: Policy, longest_tokens: int) -> str:
    """How the back-end's log-probabilities are not the model's own, "" if they are."""
    try:
        check_scoring(policy, longest_tokens)
    except DataError as error:
        return str(error).partition("cannot be trained: ")[2] or str(error)
    return ""


def run_by(policy: Policy, backend: Literal["packed", "plain"], attention: str) -> Policy:
    """The policy with another back-end, and its model with this implementation of attention.

    Raises ValueError where the model has no such implementation.
    """
    policy.model.set_attn_implementation(attention)
    return replace(policy, backend=backend)


def run_like(policy: Policy, other: Policy) -> Policy:
    """The policy with the back-end of another one of the same model."""
    return run_by(policy, other.backend, other.model.config._attn_implementation)


def _not_packed(config: Any, longest_tokens: int) -> str:
    """Why sequences of this length cannot be packed, "" if they can."""
    layers = getattr(config, "layer_types", None)
    for kind, name in (("sliding_attention", "sliding_window"), ("chunked_attention", "attention_chunk_size")):
        window = getattr(config, name, None)
        if window and longest_tokens > window and (layers is None or kind in layers):
            return f"sequences of up to {longest_tokens} tokens are longer than its {name} of {window}"
    turn = turning_point(config)
    if turn and longest_tokens > turn:
        return f"its long-rope turns sequences of more than {turn} tokens by other angles; up to {longest_tokens} here"
    return ""
