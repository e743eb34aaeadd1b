"""The model's own layers on packed tokens: its modules run unchanged, and their attention is our plan's.

Axes: T packed tokens, N response tokens, D model width.
"""

from torch import Tensor

from groupwise.model.backends.activation_checkpointing import checkpointed_layers
from groupwise.model.backends.head import head_of, score_hidden, streams_vocabulary
from groupwise.model.backends.in_place import takes_in_place
from groupwise.model.backends.protocol import InPlace, SamplingMask, Scores, Scoring
from groupwise.model.backends.router import ASKED, with_routed
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch


class Packed:
    """See `Backend`. Layers and head are called as modules, so that whatever replaced one of them takes part."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.router_logits: list[Tensor] = []

    def hidden_states(self, batch: PackedBatch, scoring: Scoring) -> Tensor:
        """Hidden states behind the last norm, (T, D)."""
        backbone = self.policy.backbone
        with checkpointed_layers(backbone, scoring.checkpoint_layers):
            output = backbone(
                input_ids=batch.token_ids_1T,
                position_ids=batch.position_ids_1T,
                use_cache=False,
                plan=batch.attention,
                **({ASKED: True} if scoring.router else {}),
            )
        self.router_logits = list(output.router_logits) if scoring.router else []
        hidden_1TD: Tensor = output.last_hidden_state
        return hidden_1TD[0]

    def score(self, batch: PackedBatch, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
        """See `Backend`."""
        hidden_ND = self.hidden_states(batch, scoring).index_select(0, batch.predictor_N)
        scores = score_hidden(head_of(self.policy.model), hidden_ND, batch.target_ids_N, scoring, mask)
        return with_routed(scores, self.policy.model, self.router_logits)

    def in_place(self, scoring: Scoring, masked: bool) -> InPlace:
        """See `Backend`."""
        streams = streams_vocabulary(head_of(self.policy.model), scoring, masked)
        return InPlace(head=streams and all(map(takes_in_place, self.policy.head.parameters())), embedding=False)
