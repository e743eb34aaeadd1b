"""Checks before a model is used: the packed pass computes what its own does, and every prompt fits into its context."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from groupwise.errors import DataError, listed
from groupwise.model.backends.plain import turning_point
from groupwise.model.finite import not_finite, shown
from groupwise.model.load import Policy
from groupwise.model.packing import Ids, SequenceGroup, pack
from groupwise.model.prompt import PromptRenderer
from groupwise.model.score import Scoring, score
from groupwise.problem import Problem

# Two orders of summation in float32 differ by about 1e-5 nats; a wrong mask, position or scale by whole nats.
TOLERANCE_NATS = 1e-3

# The longest sequence of a check has as many tokens as this many multiplications by a weight allow, some ten seconds of
# a CPU, but no fewer than SURE_TOKENS: a sequence or two of the hundreds that a step has.
CHECK_MULTIPLICATIONS = 1e12
SURE_TOKENS = 256

# Of the longest sequence the last tokens are compared: what they see is all that there is.
LAST_TOKENS = 16

# Eager attention holds a square of so many tokens for every head.
EAGER_TOKENS = 1024


def check_weights(policy: Policy) -> None:
    """Raises DataError, with the names of the tensors, for a model with weights that are not finite."""
    weights = not_finite(itertools.chain(policy.model.named_parameters(), policy.model.named_buffers()))
    if weights:
        raise DataError(
            f"the model '{policy.name}' is damaged: weights are not finite: {shown(weights)}. Take an earlier "
            "checkpoint, or load the model again from where it came"
        )


@torch.no_grad()
def check_scoring(policy: Policy, longest_tokens: int = 0) -> float:
    """Compare log-probabilities with those of the unpacked model, long and short sequences in one pack; the largest
    difference in nats.

    The longest sequence is as long as the run's, as far as `checked_tokens` allows.

    Raises:
        DataError: if they differ, so that this architecture cannot be trained right.
    """
    vocabulary = policy.vocabulary or policy.model.get_input_embeddings().num_embeddings
    longest = checked_tokens(policy, longest_tokens)
    draws = np.random.Generator(np.random.Philox(0)).integers(0, vocabulary, 24 + longest)
    groups = [
        SequenceGroup(draws[:5], (draws[5:9], draws[9:10])),
        SequenceGroup(draws[10:13], (draws[13:19], draws[19:24])),
    ]
    if longest > 24:
        prompt = min(longest // 2, longest - LAST_TOKENS)
        answer = draws[24 + prompt :]
        last = np.arange(len(answer)) >= len(answer) - LAST_TOKENS
        groups.append(SequenceGroup(draws[24 : 24 + prompt], (answer,), (last,)))
    try:
        difference = _difference(policy, groups)
        short = (
            difference if len(groups) < 3 else _difference(policy, groups[:2]) if difference > TOLERANCE_NATS else 0.0
        )
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise DataError(
            f"the architecture of '{policy.name}' ({type(policy.model).__name__}) cannot be trained: {error}. "
            "Expected a causal language model of transformers with rotary positions and exchangeable attention"
        ) from error
    if not difference <= TOLERANCE_NATS:
        length = f"; shorter ones agree, so that it is their length of {longest} tokens{about_angles(policy)}"
        raise DataError(
            f"the architecture of '{policy.name}' ({type(policy.model).__name__}) cannot be trained: packed log-"
            f"probabilities differ from the model's own by {difference:.3g} nats, at most {TOLERANCE_NATS} is expected"
            + (length if short <= TOLERANCE_NATS else "")
        )
    return difference


def checked_tokens(policy: Policy, longest: int) -> int:
    """How long the longest sequence of a check is in a run whose longest sequence has so many tokens."""
    weights = sum(weight.numel() for weight in policy.model.parameters())
    return min(longest, policy.max_context_tokens, max(SURE_TOKENS, int(CHECK_MULTIPLICATIONS / weights)))


def about_angles(policy: Policy) -> str:
    """A remark on the kind of rotary angles, where they are scaled."""
    kinds = {str(kind) for kind, _ in _rotary(policy)} - {"default", "None"}
    return f" (rotary scaling: {', '.join(sorted(kinds))})" if kinds else ""


def _rotary(policy: Policy) -> list[tuple[Any, Any]]:
    """Kind and original length of each set of rotary angles: one for all layers, or one for each kind of layer."""
    config = policy.model.config
    stated = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    tables = [table for table in stated.values() if isinstance(table, dict)] or [stated]
    own = getattr(config, "original_max_position_embeddings", None)
    return [
        (table.get("rope_type", table.get("type")), table.get("original_max_position_embeddings") or own)
        for table in tables
    ]


def _difference(policy: Policy, groups: Sequence[SequenceGroup]) -> float:
    longest = max(len(group.prompt_ids) + len(ids) for group in groups for ids in group.completion_ids)
    with torch.autocast(policy.device.type, enabled=False):
        exact = Policy(**{**vars(policy), "compute_dtype": torch.float32})
        packed = pack(groups, policy.device)
        # Several chunks, whose borders are none of the sequences'.
        ours_N = score(exact, packed, Scoring(temperature=1.0, chunk_tokens=7)).logps_N.cpu()
    theirs_N = torch.cat(list(_unpacked(policy, groups, eager=longest <= EAGER_TOKENS)))
    return float((ours_N - theirs_N).abs().max())


def _unpacked(policy: Policy, groups: Sequence[SequenceGroup], eager: bool) -> Iterable[torch.Tensor]:
    """Log-probabilities by the model's own forward pass and attention, each sequence alone."""
    model = policy.model
    chosen = model.config._attn_implementation
    # The fused attention leaves out caps of scores, and some models have none.
    eager = eager or bool(getattr(model.config, "attn_logit_softcapping", None))
    try:
        model.set_attn_implementation("eager" if eager else "sdpa")
    except (ValueError, ImportError):
        model.set_attn_implementation("eager")
    try:
        for group in groups:
            for index, ids in enumerate(group.completion_ids):
                scored = len(ids) if group.sampled is None else int(group.sampled[index].sum())
                yield _last_logps(policy, np.concatenate([group.prompt_ids, ids]), scored)
    finally:
        model.set_attn_implementation(chosen)


def _last_logps(policy: Policy, ids: Ids, count: int) -> torch.Tensor:
    """Log-probabilities of the last tokens, each as of a sequence that ends with it: of some models it then turns by
    other angles."""
    turn, inputs = turning_point(policy.model.config), len(ids) - 1
    if turn and inputs - count < turn < inputs:
        behind = inputs - turn
        return torch.cat([_last_logps(policy, ids[:-behind], count - behind), _last_logps(policy, ids, behind)])
    ids_1T = torch.from_numpy(ids).to(policy.device).unsqueeze(0)
    # A model that does not know the argument gives the logits of all tokens.
    try:
        logits_1TV = policy.model(input_ids=ids_1T[:, :-1], use_cache=False, logits_to_keep=count).logits
    except TypeError:
        logits_1TV = policy.model(input_ids=ids_1T[:, :-1], use_cache=False).logits
    logps_TV = torch.log_softmax(logits_1TV[0, -count:, : policy.vocabulary].float(), dim=-1)
    return logps_TV.gather(1, ids_1T[0, -count:].unsqueeze(1)).squeeze(1).cpu()


def check_prompts(renderer: PromptRenderer, problems: list[Problem], policy: Policy, max_new_tokens: int) -> int:
    """Render every problem; the longest prompt in tokens.

    Raises:
        DataError: naming the problems that do not fit into the context together with their completions, or one with
            a token that the model has no embedding for.
    """
    longest, too_long = 0, []
    vocabulary = policy.model.get_input_embeddings().num_embeddings
    for problem in problems:
        ids = renderer.render(problem.messages).ids
        tokens = len(ids)
        longest = max(longest, tokens)
        if tokens and (highest := int(ids.max())) >= vocabulary:
            raise DataError(
                f"{problem.place}: the prompt has the token {highest} "
                f"({policy.tokenizer.convert_ids_to_tokens(highest)!r}), and the model knows only {vocabulary}: "
                "tokenizer and model do not belong together"
            )
        if tokens + max_new_tokens > policy.max_context_tokens:
            too_long.append(f"{problem.place}: {tokens} tokens")
    if too_long:
        shown = "\n".join(listed(too_long))
        raise DataError(
            f"{len(too_long)} of {len(problems)} prompts do not fit: the model's context is "
            f"{policy.max_context_tokens} tokens, and sampling.max_new_tokens={max_new_tokens} of them are for the "
            f"completion. Shorten the prompts, remove these problems, or lower sampling.max_new_tokens:\n{shown}"
        )
    return longest
