"""The reference policy of a KL penalty: the policy at step 0, frozen."""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from groupwise.model.load import Policy


def frozen_copy(policy: Policy) -> Policy:
    """A copy of the policy as it is now, whatever it was loaded from, that nothing trains."""
    return replace(policy, model=copy.deepcopy(policy.model).requires_grad_(False).eval())


def refresh(reference: Policy, policy: Policy) -> None:
    """The policy as it is now becomes the reference."""
    reference.model.load_state_dict(policy.model.state_dict())


def fingerprint_weights(policy: Policy) -> str:
    """SHA-256 of all weights, in the order of their names."""
    weights: Mapping[str, Tensor] = policy.model.state_dict()
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
