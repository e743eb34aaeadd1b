"""Attention in tiles against the textbook: who sees whom is stated per pair of tokens."""

import itertools

import pytest
import torch
from torch import Tensor

from groupwise.model.backends.attention import PackedRuns, SharedPromptAttention
from groupwise.model.backends.packed_cpu import tiles
from groupwise.model.backends.packed_cpu.tiles import Tile, tile_attention, tiles_of

SCALE = 0.6
CPU = torch.device("cpu")

# Prompts with their completions: tokens of each. A completion of one token has no input of its own.
GROUPS = [(7, (5, 0, 9)), (1, (4,)), (12, (0, 0)), (3, (6, 2, 2, 11, 1))]


class Layout:
    """The groups one behind the other in the packed tokens."""

    def __init__(self, groups: list[tuple[int, tuple[int, ...]]]) -> None:
        self.prompts: list[tuple[int, int]] = []
        self.starts: list[int] = []
        self.lengths: list[int] = []
        self.owners: list[int] = []
        cursor = 0
        for owner, (prompt, lengths) in enumerate(groups):
            self.prompts.append((cursor, prompt))
            cursor += prompt
            for length in lengths:
                self.starts.append(cursor)
                self.lengths.append(length)
                self.owners.append(owner)
                cursor += length
        self.tokens = cursor

    def plan(self) -> SharedPromptAttention:
        return SharedPromptAttention(PackedRuns(self.prompts, self.starts, self.lengths, self.owners), CPU)

    def tiles(self) -> list[Tile]:
        runs = [(start, start + length) for start, length in zip(self.starts, self.lengths, strict=True)]
        return [
            tile
            for group, (start, length) in enumerate(self.prompts)
            for tile in tiles_of(
                (start, start + length),
                [run for run, owner in zip(runs, self.owners, strict=True) if owner == group],
                CPU,
            )
        ]

    def sees(self) -> Tensor:
        """Whether token i sees token j: those before it in its own run, and of a completion also its whole prompt."""
        seen_TT = torch.zeros(self.tokens, self.tokens, dtype=torch.bool)
        runs = [(start, length, None) for start, length in self.prompts]
        own = zip(self.starts, self.lengths, self.owners, strict=True)
        for start, length, owner in [*runs, *own]:
            for token in range(start, start + length):
                seen_TT[token, start : token + 1] = True
                if owner is not None:
                    first, width = self.prompts[owner]
                    seen_TT[token, first : first + width] = True
        return seen_TT


def textbook(query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor, sees_TT: Tensor) -> Tensor:
    repeats = query_THD.shape[1] // key_TKD.shape[1]
    key_THD, value_THD = key_TKD.repeat_interleave(repeats, 1), value_TKD.repeat_interleave(repeats, 1)
    scores_HTS = torch.einsum("thd,shd->hts", SCALE * query_THD, key_THD).masked_fill(~sees_TT, -torch.inf)
    return torch.einsum("hts,shd->thd", scores_HTS.softmax(-1), value_THD)


def rows(tokens: int, heads: int, key_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int) -> Tensor:
        return torch.randn(tokens, count, 4, dtype=torch.float64, generator=generator).requires_grad_()

    return drawn(heads), drawn(key_heads), drawn(key_heads)


@pytest.mark.parametrize(("heads", "key_heads"), [(3, 3), (4, 2), (4, 1)])
@pytest.mark.parametrize("queries", [128, 8, 3, 1])
def test_values_and_gradients_are_the_textbook_s(
    monkeypatch: pytest.MonkeyPatch, heads: int, key_heads: int, queries: int
) -> None:
    monkeypatch.setattr(tiles, "QUERIES", queries)
    layout = Layout(GROUPS)
    inputs = rows(layout.tokens, heads, key_heads)
    factors_THD = torch.randn(inputs[0].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    actual, expected = tile_attention(*inputs, layout.tiles(), SCALE), textbook(*inputs, layout.sees())
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=0)
    ours, theirs = (torch.autograd.grad(out, inputs, factors_THD) for out in (actual, expected))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_blocks_of_the_fused_kernel_see_the_same() -> None:
    """What runs on an accelerator, here on the CPU."""
    layout = Layout(GROUPS)
    inputs = rows(layout.tokens, 4, 2)
    query, key, value = (tensor.transpose(0, 1).unsqueeze(0) for tensor in inputs)
    blocks = layout.plan()._padded.attend(query, key, value, SCALE)[0]
    torch.testing.assert_close(blocks, textbook(*inputs, layout.sees()), atol=1e-12, rtol=0)


def test_gradients_are_those_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "QUERIES", 4)
    layout = Layout([(3, (5, 1)), (2, (1, 1))])
    plan = layout.tiles()

    def attended(query_THD: Tensor, key_TKD: Tensor, value_TKD: Tensor) -> Tensor:
        return tile_attention(query_THD, key_TKD, value_TKD, plan, SCALE)

    assert torch.autograd.gradcheck(attended, rows(layout.tokens, 4, 2))


def test_tiles_hold_every_token_once_in_order() -> None:
    layout = Layout([(300, (20, 130, 0, 40, 60)), (10, (5, 5))])
    plan = layout.tiles()
    assert [(tile.first, tile.end) for tile in plan] == [
        (0, 128), (128, 256), (256, 300), (300, 320), (320, 448), (448, 450), (450, 550), (550, 570),
    ]  # fmt: skip
    # What a tile sees whole: the run before it, and its prompt unless it holds it itself.
    assert [tile.context for tile in plan] == [
        (), ((0, 128),), ((0, 256),), ((0, 300),), ((0, 300),), ((0, 300), (320, 448)), ((0, 300),), (),
    ]  # fmt: skip
    assert all(one.end == other.first for one, other in itertools.pairwise(plan))


def test_no_scores_are_kept() -> None:
    """What the backward pass keeps of a run grows with its length, not with its square: queries, keys and values."""
    layout = Layout([(300, (200,))])
    inputs = rows(layout.tokens, 2, 1)
    found: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        tile_attention(*inputs, layout.tiles(), SCALE)
    assert found == [tensor.numel() for tensor in inputs]
