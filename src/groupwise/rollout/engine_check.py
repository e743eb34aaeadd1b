"""The check of an engine before it samples: the trainer gives its tokens the same log-probabilities."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from groupwise.errors import DataError
from groupwise.model.load import Policy
from groupwise.model.packing import Ids, SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.model.startup_check import TOLERANCE_NATS, about_angles, checked_tokens
from groupwise.rollout.engine import RolloutEngine, SampleRequest, SamplingParams
from groupwise.rollout.sampling import derive_seed

# Decoding steps of the check: as many as show a mean, and a hundredth of what a step of a run has.
STEPS = 32


@dataclass(frozen=True)
class EngineGap:
    """Distance between the log-probabilities of trainer and engine in nats, and the longest sequence that was tried."""

    largest: float
    mean: float
    tokens: int


@torch.no_grad()
def check_engine(
    engine: RolloutEngine, policy: Policy, prompt: Ids, longest: int, sampling: SamplingParams, seed: int
) -> EngineGap:
    """Sample a few tokens behind a prompt, a part of it, and a repetition of it as long as the longest sequence, all in
    one batch, and score each by itself.

    Raises:
        DataError: if they differ in float32, or are no numbers.
    """
    steps = min(STEPS, sampling.max_new_tokens)
    length = max(checked_tokens(policy, longest) - steps, 1)
    prompts = [prompt, prompt[: max(len(prompt) // 2, 1)], np.resize(prompt, length)]
    # From the whole vocabulary, behind the end too: then both say what the model itself does, of as many tokens.
    plain = replace(sampling, max_new_tokens=steps, stop_ids=(), top_k=0, top_p=1.0, min_p=0.0, record_kept=False)
    requests = [
        SampleRequest(ids, tuple(derive_seed(seed, "engine check", index, sample) for sample in range(count)))
        for index, (ids, count) in enumerate(zip(prompts, (4, 2, 2), strict=True))
    ]
    answers = engine.generate(requests, plain)
    groups = [SequenceGroup(ids, tuple(c.ids for c in own)) for ids, own in zip(prompts, answers, strict=True)]
    scoring = Scoring(sampling.temperature, STEPS)
    # Each by itself: what a batch of long and short sequences does to the short ones shows as well.
    scored_N = torch.cat([score(policy, pack([group], policy.device), scoring).logps_N for group in groups])
    sampled_N = torch.from_numpy(np.concatenate([c.logps for own in answers for c in own]))
    gap_N = (scored_N.float().cpu() - sampled_N).abs()
    gap = EngineGap(float(gap_N.max()), float(gap_N.mean()), length + steps)
    limit = TOLERANCE_NATS if policy.compute_dtype == torch.float32 else float("inf")
    if not gap.largest <= limit:
        raise DataError(
            f"the engine cannot sample from '{policy.name}' ({type(policy.model).__name__}) for training: its log-"
            f"probabilities differ from the trainer's by {gap.largest:.3g} nats in {str(policy.compute_dtype)[6:]}, at "
            f"most {limit:g} is expected, with sequences of up to {gap.tokens} tokens{about_angles(policy)}"
        )
    return gap
