"""The model's own forward pass on padded batches: its attention, masks, states and positions are its own.

Right for every causal model of transformers, and slower than packed passes: a prompt is read once for each of its
completions, and rows are filled up to the longest. Padding stands behind the tokens, where none of them looks.

Axes: B rows, T positions, N response tokens, D model width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupwise.model.backends.activation_checkpointing import checkpointed_layers
from groupwise.model.backends.attention import similar
from groupwise.model.backends.head import own_logits, score_hidden
from groupwise.model.backends.protocol import InPlace, SamplingMask, Scores, Scoring
from groupwise.model.backends.router import ASKED, with_routed
from groupwise.model.load import Policy
from groupwise.model.packing import PackedBatch


def turning_point(config: Any) -> int | None:
    """Tokens up to which all positions rotate by other angles than in a longer sequence; None where none do.

    With long-rope a model takes the angles of all positions from the longest sequence of the batch.
    """
    stated = getattr(config, "rope_parameters", None) or {}
    kinds = [stated, *(kind for kind in stated.values() if isinstance(kind, dict))]
    limits = [kind["original_max_position_embeddings"] for kind in kinds if kind.get("rope_type") == "longrope"]
    return min(limits, default=None)


@dataclass(frozen=True)
class Row:
    """One pass of a sequence: the packed tokens that it holds, and where scored tokens N have their predictors."""

    tokens_T: NDArray[np.int64]
    predictors: NDArray[np.int64]
    scored: NDArray[np.int64]


def rows_of(batch: PackedBatch, turn: int | None) -> list[Row]:
    """The sequences of a batch as rows.

    A token is scored as the model scores what stands before it, as it was sampled: a sequence that passes `turn`
    tokens makes two rows, one for the tokens that are predicted up to there, and a whole one for those behind.
    """
    runs = batch.attention.runs
    predictor_N = batch.predictor_N.cpu().numpy()
    rows, first = [], 0
    own = zip(runs.starts, runs.lengths, runs.owners, batch.lengths_B.tolist(), strict=True)
    for start, length, owner, count in own:
        begin, prompt = runs.prompts[owner]
        tokens_T = np.concatenate([np.arange(begin, begin + prompt), np.arange(start, start + length)])
        found = predictor_N[first : first + count]
        places = np.where(found < begin + prompt, found - begin, found - start + prompt)
        scored = np.arange(first, first + count)
        first += count
        early = places < (turn or len(tokens_T))
        for part, most in ((early, turn), (~early, None)):
            if part.any():
                rows.append(Row(tokens_T[:most][: places[part].max() + 1], places[part], scored[part]))
    return rows


class Plain:
    """See `Backend`."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.router_logits: list[list[Tensor]] = []

    def hidden_states(self, batch: PackedBatch, scoring: Scoring) -> Tensor:
        """Hidden states that predict the scored tokens, behind the last norm, (N, D)."""
        turn = turning_point(self.policy.model.config)
        rows = rows_of(batch, turn)
        sides = [[row for row in rows if (turn is not None and len(row.tokens_T) > turn) == long] for long in (0, 1)]
        found, order = [], []
        for bucket in self._buckets(sides if turn is not None else sides[:1]):
            found.append(self._pass(batch, bucket, scoring))
            order += [row.scored for row in bucket]
        inverse_N = torch.from_numpy(np.concatenate(order).argsort()).to(batch.predictor_N.device)
        return torch.cat(found).index_select(0, inverse_N)

    def score(self, batch: PackedBatch, scoring: Scoring, mask: SamplingMask | None = None) -> Scores:
        """See `Backend`."""
        head = partial(own_logits, self.policy.model)
        scores = score_hidden(head, self.hidden_states(batch, scoring), batch.target_ids_N, scoring, mask)
        layers = [torch.cat(parts) for parts in zip(*self.router_logits, strict=True)]
        return with_routed(scores, self.policy.model, layers)

    def in_place(self, scoring: Scoring, masked: bool) -> InPlace:  # noqa: ARG002
        """See `Backend`."""
        return InPlace(head=False, embedding=False)

    def _buckets(self, sides: Sequence[list[Row]]) -> list[list[Row]]:
        """The rows that go through the model together, of similar length."""
        if self.policy.shards is not None:
            # As many on each rank: all rows of a side, or one that nothing is scored of.
            nothing = np.zeros(0, np.int64)
            return [side or [Row(np.zeros(1, np.int64), nothing, nothing)] for side in sides]
        return [[side[i] for i in members] for side in sides for members in similar([len(r.tokens_T) for r in side])]

    def _pass(self, batch: PackedBatch, rows: Sequence[Row], scoring: Scoring) -> Tensor:
        """Hidden states at the predictors of the rows, end to end."""
        device, backbone = batch.token_ids_1T.device, self.policy.backbone
        width = max(len(row.tokens_T) for row in rows)
        # Nothing looks back from padding to a token, so that no mask is needed: kernels without one are faster, and a
        # row of a mask that hides everything, behind the end of a sliding window, is not a number in some precisions.
        index_BT = np.stack([np.pad(row.tokens_T, (0, width - len(row.tokens_T))) for row in rows])
        with checkpointed_layers(backbone, scoring.checkpoint_layers):
            output = backbone(
                input_ids=batch.token_ids_1T[0][torch.from_numpy(index_BT).to(device)],
                position_ids=torch.arange(width, device=device).expand(len(rows), -1),
                use_cache=False,
                **({ASKED: True} if scoring.router else {}),
            )
        if scoring.router:
            read = np.concatenate([np.arange(len(row.tokens_T)) + b * width for b, row in enumerate(rows)])
            read_T = torch.from_numpy(read).to(device)
            self.router_logits.append([layer.reshape(-1, layer.shape[-1])[read_T] for layer in output.router_logits])
        hidden_BTD: Tensor = output.last_hidden_state
        places = np.concatenate([row.predictors + b * width for b, row in enumerate(rows)])
        return hidden_BTD.flatten(0, 1).index_select(0, torch.from_numpy(places).to(device))
