"""Checks before a model is used: the packed pass computes what its own does, and every prompt fits into its context."""

import numpy as np
import torch

from groupwise.errors import DataError, listed
from groupwise.model.load import Policy
from groupwise.model.packing import Ids, SequenceGroup, pack
from groupwise.model.prompt import PromptRenderer
from groupwise.model.score import Scoring, score
from groupwise.problem import Problem

# Two orders of summation in float32 differ by about 1e-5 nats; a wrong mask, position or scale by whole nats.
TOLERANCE_NATS = 1e-3


@torch.no_grad()
def check_scoring(policy: Policy) -> float:
    """Compare log-probabilities of a few tokens with those of the unpacked model; the largest difference in nats.

    Raises:
        DataError: if they differ, so that this architecture cannot be trained right.
    """
    vocabulary = policy.model.get_input_embeddings().num_embeddings
    draws = np.random.Generator(np.random.Philox(0)).integers(0, vocabulary, 24)
    groups = [
        SequenceGroup(draws[:5], (draws[5:9], draws[9:10])),
        SequenceGroup(draws[10:13], (draws[13:19], draws[19:24])),
    ]
    try:
        with torch.autocast(policy.device.type, enabled=False):
            packed = pack(groups, policy.device)
            exact = Policy(**{**vars(policy), "compute_dtype": torch.float32})
            ours_N = score(exact, packed, Scoring(temperature=1.0, chunk_tokens=7)).logps_N.cpu()
        theirs_N = torch.cat(
            [_unpacked(policy, group.prompt_ids, ids) for group in groups for ids in group.completion_ids]
        )
    except (RuntimeError, TypeError, AttributeError, ValueError) as error:
        raise DataError(
            f"the architecture of '{policy.name}' ({type(policy.model).__name__}) cannot be trained: {error}. "
            "Expected a causal language model of transformers with rotary positions and exchangeable attention"
        ) from error
    difference = float((ours_N - theirs_N).abs().max())
    if not difference <= TOLERANCE_NATS:
        raise DataError(
            f"the architecture of '{policy.name}' ({type(policy.model).__name__}) cannot be trained: packed log-"
            f"probabilities differ from the model's own by {difference:.3g} nats, at most {TOLERANCE_NATS} is expected"
        )
    return difference


def _unpacked(policy: Policy, prompt_ids: Ids, completion_ids: Ids) -> torch.Tensor:
    model = policy.model
    chosen = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        ids_1T = torch.from_numpy(np.concatenate([prompt_ids, completion_ids])).to(policy.device).unsqueeze(0)
        logits_TV = model(input_ids=ids_1T, use_cache=False).logits[0].float()
    finally:
        model.set_attn_implementation(chosen)
    logps_TV = torch.log_softmax(logits_TV, dim=-1)[len(prompt_ids) - 1 : -1]
    return logps_TV.gather(1, torch.from_numpy(completion_ids).to(policy.device).unsqueeze(1)).squeeze(1).cpu()


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
