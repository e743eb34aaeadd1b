"""Masks of the policy term by how far the policy has moved: `off_policy_mask`. The list of masks."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.masks.off_policy import NoOffPolicyMask, SequenceMask
from groupwise.technique import by_name

OffPolicyMaskOption = Annotated[NoOffPolicyMask | SequenceMask, Field(discriminator="type"), by_name(NoOffPolicyMask)]
