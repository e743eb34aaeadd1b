"""The reduction of the policy loss, for a term that has no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from groupwise.technique import Technique

if TYPE_CHECKING:
    from groupwise.objective.reductions.reduction import Reduction


class AsPolicy(Technique):
    """As the policy loss is weighted."""

    type: Literal["as_policy"] = "as_policy"

    def given(self, policy: Reduction) -> Reduction:
        """The reduction of the policy loss."""
        return policy
