"""KL divergence between the policy and the reference, from samples.

With δ = log π_new - log π_ref of a sampled token, three estimates of KL(π_new ‖ π_ref) (Schulman 2020):

    k1 = δ            k2 = δ²/2            k3 = e^{-δ} - 1 + δ

Their values are close. Their gradients as a loss, in expectation over samples of π_new, are not (2506.09477,
2510.01555, 2512.21852; the tests enumerate a small policy):

    k1                        0: the score function has mean 0, the reference drops out
    k2                        ∇KL(π_new ‖ π_ref): of the visited states per token, exact on whole-sequence δ
    k3                        ∇KL(π_ref ‖ π_new), the other divergence
    r·k1, r·k3 with live r    ∇KL(π_new ‖ π_ref), also when the samples are of π_old
    sg(r)·k2                  the same
    sg(r)·k1                  0 again
    k1 in the reward          ∇KL(π_new ‖ π_ref), with the future of each token counted (`kl_to_go`)
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Literal

from groupwise.objective.ratios.sequence_product import SequenceProduct
from groupwise.objective.ratios.token import TokenRatio
from groupwise.objective.segments import segment_reverse_cumsum
from groupwise.technique import Technique

if TYPE_CHECKING:
    from torch import Tensor

Importance = Literal["none", "token", "token_detached", "sequence_product"]


class KlEstimator(Technique):
    """Base of the estimators."""

    type: Any

    @abstractmethod
    def estimate(self, delta: Tensor) -> Tensor:
        """The estimate of each element: token differences give token estimates, sums give sequence estimates."""

    @abstractmethod
    def formula(self) -> str:
        """The estimate in δ, as text."""

    def trap(self, importance: str) -> str:  # noqa: ARG002 - of those that have one
        """What is wrong with its gradient as a loss under this weight, and what to set; empty where nothing is."""
        return ""

    def per_token(
        self, new_logps_N: Tensor, old_logps_N: Tensor, ref_logps_N: Tensor, lengths_E: Tensor, importance: Importance
    ) -> Tensor:
        """Weighted estimate of each token over N, with gradient towards `new_logps_N`.

        Importance, for samples of π_old:
            none: the estimate alone (GRPO with k3, 2402.03300 eq. 4).
            token: times the live ratio π_new/π_old of the token; gradient through both (DeepSeek-V3.2 2512.02556 eq. 7
                with k3).
            token_detached: times that ratio as a constant.
            sequence_product: times the live ratio of the whole answer. Exact for sums over an answer, and with the
                spread of a product of ratios.
        """
        estimate_N = self.estimate(new_logps_N - ref_logps_N)
        if importance == "none":
            return estimate_N
        level = SequenceProduct() if importance == "sequence_product" else TokenRatio()
        live_N = new_logps_N.detach() if importance == "token_detached" else new_logps_N
        return level.log_ratio(live_N, old_logps_N, lengths_E).exp() * estimate_N


def kl_to_go(logps_N: Tensor, ref_logps_N: Tensor, lengths_E: Tensor) -> Tensor:
    """Σ of k1 from each token to the end of its episode, detached: the cost of a KL penalty in the reward.

    The advantage of token t becomes A - β·kl_to_go_t. `logps_N` is the policy that sampled.
    """
    return segment_reverse_cumsum((logps_N - ref_logps_N).detach(), lengths_E)
