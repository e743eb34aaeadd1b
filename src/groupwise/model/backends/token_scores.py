"""Log-probability and entropy of each token straight from its hidden state, without logits as wide as the vocabulary.

The vocabulary is passed in tiles of columns that stay in the processor's cache, with a running maximum and running sums
(Milakov and Gimelshein 2018, 1805.02867). Axes: N tokens, C of them in a chunk, V vocabulary, W columns of a tile, D
model width.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from groupwise.model.backends.in_place import gradient

# The exponentials of so many tiles wait for the backward pass, which computes those of the others again.
KEPT_TILES = 8
NARROWEST_TILE = 64
TILE_BYTES = {"cpu": 2**22}
TILE_BYTES_ELSEWHERE = 2**27
# Finite, also over a small temperature, so that 0 times it is 0.
BELOW_ALL_LOGITS = -1e30


class TokenScores(torch.autograd.Function):
    """(logps_N, entropies_N, entropies_at_1_N) of hidden states under a head without bias; only the first has gradient.

    `apply(hidden_ND, weight_VD, target_N, temperature, chunk, in_place, square_sums, vocabulary)`. Entropies are in
    nats, at the temperature and at 1. The scores are float32, or float64 where the weights are. Products run in the
    dtype of autocast, or of the weights. in_place: the weight's gradient is added to its `.grad` (see in_place.py).
    square_sums: a fourth result, Σ_v π(v)² at the temperature. vocabulary: rows of the head from there on have
    probability 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        target_N: Tensor,
        temperature: float,
        chunk: int,
        in_place: bool = False,
        square_sums: bool = False,
        vocabulary: int | None = None,
    ) -> tuple[Tensor, ...]:
        device = hidden_ND.device.type
        ctx.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VD.dtype
        ctx.temperature, ctx.chunk, ctx.kept, ctx.vocabulary = temperature, chunk, [], vocabulary
        ctx.leaf = weight_VD if in_place else None
        room = KEPT_TILES if any(ctx.needs_input_grad) else 0
        parts = []
        with torch.autocast(device, enabled=False):
            for hidden_CD, target_C in zip(hidden_ND.split(chunk), target_N.split(chunk), strict=True):
                rows = Rows(hidden_CD.to(ctx.dtype).contiguous(), weight_VD[:vocabulary], target_C, temperature)
                scores, kept = _forward(rows, room - len(ctx.kept), square_sums)
                parts.append(scores)
                ctx.kept += kept
        *scores_N, highest_N, total_N = (torch.cat(part) for part in zip(*parts, strict=True))
        ctx.save_for_backward(hidden_ND, weight_VD, target_N, highest_N, total_N)
        ctx.mark_non_differentiable(*scores_N[1:])
        return tuple(scores_N)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden_ND, weight_VD, target_N, highest_N, total_N = ctx.saved_tensors
        # What is added up over chunks and tiles is not rounded in between.
        wide = torch.promote_types(weight_VD.dtype, torch.float32)
        grad_ND = hidden_ND.new_zeros(hidden_ND.shape, dtype=wide) if ctx.needs_input_grad[0] else None
        grad_VD = None if ctx.leaf is None else gradient(ctx.leaf)
        if grad_VD is None and ctx.needs_input_grad[1]:
            grad_VD = weight_VD.new_zeros(weight_VD.shape, dtype=wide)
        # The backward pass works in place on what was kept; a second one computes everything again.
        kept, ctx.kept = ctx.kept[::-1], []
        for start in range(0, len(target_N), ctx.chunk):
            own = slice(start, start + ctx.chunk)
            hidden_CD = hidden_ND[own].to(ctx.dtype).contiguous()
            rows = Rows(hidden_CD, weight_VD[: ctx.vocabulary], target_N[own], ctx.temperature)
            grad_CD = None if grad_ND is None else grad_ND[own]
            _backward(rows, highest_N[own], total_N[own], grads[0][own], kept, grad_CD, grad_VD)
        given_ND = None if grad_ND is None else grad_ND.to(hidden_ND.dtype)
        given_VD = None if grad_VD is None or ctx.leaf is not None else grad_VD.to(weight_VD.dtype)
        return given_ND, given_VD, *[None] * 6


class Tile(NamedTuple):
    """Columns of the vocabulary: their weights, and where the target of each row is among them, if it is."""

    columns: slice
    weight_WD: Tensor
    target_C1: Tensor
    inside_C: Tensor


class Rows(NamedTuple):
    """A chunk of tokens; the hidden states are in the dtype of the products."""

    hidden_CD: Tensor
    weight_VD: Tensor
    target_C: Tensor
    temperature: float

    @property
    def wide(self) -> torch.dtype:
        """Of everything but products."""
        return torch.promote_types(self.hidden_CD.dtype, torch.float32)

    def tiles(self) -> Iterator[Tile]:
        """All tiles, from the left to the right."""
        tile_bytes = TILE_BYTES.get(self.hidden_CD.device.type, TILE_BYTES_ELSEWHERE)
        width = max(NARROWEST_TILE, tile_bytes // (self.wide.itemsize * max(1, len(self.hidden_CD))))
        for start in range(0, len(self.weight_VD), width):
            weight_WD = self.weight_VD[start : start + width].to(self.hidden_CD.dtype)
            target_C, last = self.target_C - start, len(weight_WD) - 1
            inside_C = (target_C >= 0) & (target_C <= last)
            columns = slice(start, start + len(weight_WD))
            yield Tile(columns, weight_WD, target_C.clamp(0, last).unsqueeze(1), inside_C)

    def logits(self, tile: Tile) -> Tensor:
        """Of the columns of a tile, at temperature 1."""
        return (self.hidden_CD @ tile.weight_WD.T).to(self.wide)


class _Softmax:
    """log Σ exp(l), entropy and Σ π² of logits that come in tiles, relative to the highest so far; sums in float64."""

    def __init__(self, like_C: Tensor, square_sums: bool = False) -> None:
        self.total_C = torch.zeros_like(like_C, dtype=torch.float64)
        self._moment_C = torch.zeros_like(self.total_C)
        self._squares_C = torch.zeros_like(self.total_C) if square_sums else None

    def add(self, below_CW: Tensor, rise_C: Tensor) -> Tensor:
        """Exponentials of further logits, given below the highest, which rose by `rise_C`; overwrites the logits."""
        fallen_C = (-rise_C.double()).exp()
        exp_CW = below_CW.exp()
        self._moment_C = fallen_C * (self._moment_C - rise_C * self.total_C) + below_CW.mul_(exp_CW).sum(dim=1)
        self.total_C = fallen_C * self.total_C + exp_CW.sum(dim=1)
        if self._squares_C is not None:
            self._squares_C = fallen_C.square() * self._squares_C + exp_CW.square().sum(dim=1)
        return exp_CW

    def log_total_C(self) -> Tensor:
        return self.total_C.log()

    def entropies_C(self) -> Tensor:
        return self.log_total_C() - self._moment_C / self.total_C

    def square_sums_C(self) -> list[Tensor]:
        """Σ π², or nothing where it was not asked for."""
        return [] if self._squares_C is None else [self._squares_C / self.total_C.square()]


def _forward(rows: Rows, room: int, square_sums: bool) -> tuple[tuple[Tensor, ...], list[tuple[Tensor, Tensor]]]:
    """The scores of a chunk, the highest logit and the sum of exponentials of each row; at most `room` kept tiles.

    A kept tile is its exponentials and the logit of each row that they are relative to.
    """
    highest_C = rows.hidden_CD.new_full(rows.target_C.shape, BELOW_ALL_LOGITS, dtype=rows.wide)
    own_C = torch.zeros_like(highest_C)
    scaled, at_1 = _Softmax(highest_C, square_sums), _Softmax(highest_C)
    kept: list[tuple[Tensor, Tensor]] = []
    for tile in rows.tiles():
        logits_CW = rows.logits(tile)
        own_C = torch.where(tile.inside_C, logits_CW.gather(1, tile.target_C1).squeeze(1), own_C)
        before_C, highest_C = highest_C, torch.maximum(highest_C, logits_CW.amax(dim=1))
        rise_C = highest_C - before_C
        below_CW = logits_CW.sub_(highest_C.unsqueeze(1))
        if rows.temperature != 1.0:
            at_1.add(below_CW.clone(), rise_C)
            below_CW, rise_C = below_CW.div_(rows.temperature), rise_C / rows.temperature
        exp_CW = scaled.add(below_CW, rise_C)
        if len(kept) < room:
            kept.append((exp_CW, highest_C))
    logps_C = (own_C - highest_C).double() / rows.temperature - scaled.log_total_C()
    entropies_C = scaled.entropies_C()
    at_1_C = entropies_C if rows.temperature == 1.0 else at_1.entropies_C()
    scores = tuple(part_C.to(rows.wide) for part_C in (logps_C, entropies_C, at_1_C, *scaled.square_sums_C()))
    return (*scores, highest_C, scaled.total_C), kept


def _backward(
    rows: Rows,
    highest_C: Tensor,
    total_C: Tensor,
    grad_C: Tensor,
    kept: list[tuple[Tensor, Tensor]],
    grad_CD: Tensor | None,
    grad_VD: Tensor | None,
) -> None:
    """Add the gradients of a chunk. That of a log-probability towards its logits is (one-hot - softmax) / temperature.

    kept: tiles in reverse order, taken from the end.
    """
    dtype, temperature = rows.hidden_CD.dtype, rows.temperature
    slope_C = grad_C.double() / temperature
    for tile in rows.tiles():
        if kept:
            exp_CW, relative_C = kept.pop()
            scale_C = ((relative_C - highest_C).double() / temperature).exp() / total_C
        else:
            exp_CW = rows.logits(tile).sub_(highest_C.unsqueeze(1))
            exp_CW = (exp_CW if temperature == 1.0 else exp_CW.div_(temperature)).exp_()
            scale_C = total_C.reciprocal()
        slope_CW = exp_CW.mul_((-slope_C * scale_C).to(rows.wide).unsqueeze(1))
        hit_C1 = torch.where(tile.inside_C, slope_C, 0.0).to(rows.wide).unsqueeze(1)
        slope_CW = slope_CW.scatter_add_(1, tile.target_C1, hit_C1).to(dtype)
        if grad_CD is not None:
            _add_product(grad_CD, slope_CW, tile.weight_WD)
        if grad_VD is not None:
            _add_product(grad_VD[tile.columns], slope_CW.T, rows.hidden_CD)


def _add_product(sum_XY: Tensor, left_XZ: Tensor, right_ZY: Tensor) -> None:
    if sum_XY.dtype == left_XZ.dtype:
        sum_XY.addmm_(left_XZ, right_ZY)
    else:
        sum_XY.add_(left_XZ @ right_ZY)
