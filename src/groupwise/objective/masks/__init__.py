"""Masks of the policy term by how far the policy has moved: `off_policy_mask`. The list of masks."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SerializeAsAny

from groupwise.objective.masks.m2po import M2po
from groupwise.objective.masks.off_policy import NoOffPolicyMask, SequenceMask
from groupwise.objective.masks.own import OwnMask
from groupwise.objective.own.bind import stated
from groupwise.technique import by_name

OffPolicyMaskOption = Annotated[
    NoOffPolicyMask | SequenceMask | M2po | OwnMask,
    Field(discriminator="type"),
    SerializeAsAny(),
    by_name(NoOffPolicyMask),
    BeforeValidator(stated),
]
