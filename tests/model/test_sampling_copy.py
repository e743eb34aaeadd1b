"""What the copy of the model that samples in a reduced precision takes."""

import torch

from groupwise.memory.live_bytes import LiveBytes
from tests.support.tiny import build, policy_of


def test_a_reduced_copy_is_made_without_one_in_full_precision() -> None:
    policy = policy_of(build("qwen3"), compute_dtype=torch.bfloat16)
    weights_bytes = sum(weight.nbytes for weight in policy.model.parameters())
    buffers_bytes = sum(buffer.nbytes for buffer in policy.model.buffers())
    with LiveBytes() as live:
        twin = policy.sampling_copy()
    assert max(live.timeline) <= weights_bytes / 2 + buffers_bytes
    for weight, rounded in zip(policy.model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(weight.bfloat16(), rounded)
        assert weight.dtype == torch.float32
        assert weight.requires_grad
