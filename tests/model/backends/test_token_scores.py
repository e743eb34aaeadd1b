"""Log-probabilities and entropies straight from hidden states, against autograd on all logits in double precision."""

import math

import pytest
import torch
from torch import Tensor, nn

from groupwise.model.backends import token_scores
from groupwise.model.backends.token_scores import TokenScores

N, VOCABULARY, WIDTH = 13, 29, 8


def case(seed: int, scale: float = 2.0) -> tuple[Tensor, nn.Linear, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden_ND = (scale * torch.randn(N, WIDTH, generator=generator, dtype=torch.float64)).requires_grad_()
    head = nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(torch.randn(VOCABULARY, WIDTH, generator=generator))
    target_N = torch.randint(VOCABULARY, (N,), generator=generator)
    return hidden_ND, head, target_N, torch.randn(N, generator=generator)


def reference(hidden_ND: Tensor, weight_VD: Tensor, target_N: Tensor, temperature: float) -> tuple[Tensor, ...]:
    logits_NV = hidden_ND @ weight_VD.T
    scaled_NV, at_1_NV = (logits_NV / temperature).log_softmax(-1), logits_NV.log_softmax(-1)
    entropies = (-(logps_NV.exp() * logps_NV).sum(-1) for logps_NV in (scaled_NV, at_1_NV))
    return scaled_NV[torch.arange(N), target_N], *entropies, scaled_NV.exp().square().sum(-1)


def tiles_of(monkeypatch: pytest.MonkeyPatch, columns: int, kept: int) -> None:
    """Tiles of so many columns for a chunk of any size."""
    monkeypatch.setattr(token_scores, "TILE_BYTES", {"cpu": 0})
    monkeypatch.setattr(token_scores, "NARROWEST_TILE", columns)
    monkeypatch.setattr(token_scores, "KEPT_TILES", kept)


@pytest.mark.parametrize("temperature", [1.0, 0.01, 1.7])
@pytest.mark.parametrize("chunk", [1, 4, 13, 14])
@pytest.mark.parametrize("columns", [1, 7, 29, 30])
@pytest.mark.parametrize("kept", [0, 3, 1000])
def test_values_and_gradients(
    temperature: float, chunk: int, columns: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits go up to 350, and over the lowest temperature to 35 000."""
    tiles_of(monkeypatch, columns, kept)
    for scale in (0.01, 40.0):
        hidden_ND, head, target_N, factor_N = case(chunk, scale)
        expected = reference(hidden_ND, head.weight, target_N, temperature)
        wanted = torch.autograd.grad((expected[0] * factor_N).sum(), (hidden_ND, head.weight))
        actual = TokenScores.apply(hidden_ND, head.weight, target_N, temperature, chunk, False, True)
        assert [scores.requires_grad for scores in actual] == [True, False, False, False]
        without = TokenScores.apply(hidden_ND, head.weight, target_N, temperature, chunk)
        assert all(map(torch.equal, without, actual[:3]))
        assert len(without) == 3
        for scores, wished in zip(actual, expected, strict=True):
            torch.testing.assert_close(scores, wished, atol=1e-12, rtol=1e-12)
        given = torch.autograd.grad((actual[0] * factor_N).sum(), (hidden_ND, head.weight))
        for gradient, wished in zip(given, wanted, strict=True):
            assert float((gradient - wished).norm()) <= 1e-11 * max(1.0, float(wished.norm()))


@pytest.mark.parametrize(("kept", "again"), [(0, 15), (4, 11), (1000, 0)])
def test_only_so_many_tiles_wait_for_the_backward_pass(kept: int, again: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """13 tokens in chunks of 5, 29 columns in tiles of 7: three times five tiles."""
    tiles_of(monkeypatch, 7, kept)
    shapes: list[tuple[int, ...]] = []
    logits_of = token_scores.Rows.logits

    def noting(rows: token_scores.Rows, tile: token_scores.Tile) -> Tensor:
        logits_CW = logits_of(rows, tile)
        shapes.append(tuple(logits_CW.shape))
        return logits_CW

    monkeypatch.setattr(token_scores.Rows, "logits", noting)
    hidden_ND, head, target_N, _ = case(6)
    with torch.no_grad():
        TokenScores.apply(hidden_ND, head.weight, target_N, 1.0, 5)
    everything = [(rows, columns) for rows in (5, 5, 3) for columns in (7, 7, 7, 7, 1)]
    assert shapes == everything
    shapes.clear()
    logps_N = TokenScores.apply(hidden_ND, head.weight, target_N, 1.0, 5)[0]
    assert shapes == everything
    shapes.clear()
    logps_N.sum().backward()
    assert shapes == everything[len(everything) - again :]


def errors(actual: tuple[Tensor, ...], exact: tuple[Tensor, ...]) -> list[tuple[float, float]]:
    gaps = [(one.double() - other).abs() for one, other in zip(actual, exact, strict=True)]
    return [(float(gap.mean()), float(gap.max())) for gap in gaps]


@pytest.mark.parametrize("vocabulary", [512, 32_000])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kept", [0, 1000])
@pytest.mark.parametrize("scale", [0.3, 12.0])
def test_rounding_is_no_worse_than_that_of_log_softmax(
    vocabulary: int, temperature: float, kept: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of log-probabilities, entropies and both gradients in float32, from the same float32 logits in float64.

    Flat distributions (entropy close to its maximum) and peaked ones (a quarter of a nat at the larger scale).
    """
    tiles_of(monkeypatch, vocabulary // 4, kept)
    generator = torch.Generator().manual_seed(vocabulary)
    hidden_ND = (scale / 8 * torch.randn(64, 64, generator=generator)).requires_grad_()
    weight_VD = torch.randn(vocabulary, 64, generator=generator).requires_grad_()
    logits_NV = (hidden_ND @ weight_VD.T).detach()
    target_N = (logits_NV / temperature).softmax(-1).multinomial(1, generator=generator).squeeze(1)
    factor_N = torch.randn(64, generator=generator)

    def scores_and_gradients(logits_NV: Tensor) -> tuple[Tensor, ...]:
        logits_NV = logits_NV.detach().requires_grad_()
        logps_NV = (logits_NV / temperature).log_softmax(-1)
        chosen_N = logps_NV[torch.arange(64), target_N]
        (slope_NV,) = torch.autograd.grad((chosen_N * factor_N).sum(), logits_NV)
        entropies_N = torch.special.entr(logps_NV.detach().exp()).sum(-1)
        products = slope_NV @ weight_VD.to(slope_NV.dtype), slope_NV.T @ hidden_ND.to(slope_NV.dtype)
        return chosen_N.detach(), entropies_N, *(product.detach() for product in products)

    exact = scores_and_gradients(logits_NV.double())
    logps_N, entropies_N, _ = TokenScores.apply(hidden_ND, weight_VD, target_N, temperature, 16)
    gradients = torch.autograd.grad((logps_N * factor_N).sum(), (hidden_ND, weight_VD))
    ours = errors((logps_N.detach(), entropies_N, *gradients), exact)
    for (mean, highest), (plain_mean, plain_highest) in zip(
        ours, errors(scores_and_gradients(logits_NV), exact), strict=True
    ):
        assert mean <= 1.1 * plain_mean
        # Which single value is the worst is chance.
        assert highest <= 2 * plain_highest


@pytest.mark.parametrize("chunk", [1, 100])
def test_the_logarithm_of_a_probability_near_one_is_not_lost_in_rounding(chunk: int) -> None:
    """Logits 40 and 28, exact in float32, whose last bit is worth 4e-6 nats there."""
    head = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[40.0, 0.0], [28.0, 0.0], [28.0, 0.0]]))
    hidden_ND = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    logps_N = TokenScores.apply(hidden_ND, head.weight, torch.tensor([0, 1]), 1.0, chunk)[0]
    expected = -math.log1p(2 * math.exp(-12))
    assert logps_N.tolist() == pytest.approx([expected, expected - 12], abs=2e-7, rel=1e-7)


@pytest.mark.parametrize("chunk", [4, 100])
def test_a_second_backward_pass_adds_the_same_again(chunk: int) -> None:
    hidden_ND, head, target_N, factor_N = case(1)
    logps_N = TokenScores.apply(hidden_ND, head.weight, target_N, 0.8, chunk)[0]
    loss = (logps_N * factor_N).sum()
    first = torch.autograd.grad(loss, (hidden_ND, head.weight), retain_graph=True)
    second = torch.autograd.grad(loss, (hidden_ND, head.weight))
    for once, again in zip(first, second, strict=True):
        torch.testing.assert_close(again, once, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("chunk", [4, 100])
def test_strides_of_inputs_and_of_the_gradient_do_not_matter(chunk: int) -> None:
    hidden_ND, head, target_N, _ = case(2)
    strided_ND = hidden_ND.detach().T.contiguous().T.requires_grad_()
    spread_N = torch.stack([target_N, target_N], dim=1)[:, 0]
    plain = TokenScores.apply(hidden_ND, head.weight, target_N, 1.3, chunk)[0]
    other = TokenScores.apply(strided_ND, head.weight, spread_N, 1.3, chunk)[0]
    # The gradient of a sum is one number, seen N times.
    (of_plain,) = torch.autograd.grad(plain, hidden_ND, torch.ones(N))
    (of_other,) = torch.autograd.grad(other.sum(), strided_ND)
    torch.testing.assert_close(of_other, of_plain, atol=0, rtol=0)


@pytest.mark.parametrize("chunk", [4, 100])
def test_a_weight_that_is_tied_gets_both_gradients(chunk: int) -> None:
    _, head, target_N, factor_N = case(3)
    ids_N = torch.arange(N) % VOCABULARY
    expected = reference(head.weight[ids_N], head.weight, target_N, 0.7)[0]
    (wanted,) = torch.autograd.grad((expected * factor_N).sum(), head.weight)
    logps_N = TokenScores.apply(head.weight[ids_N], head.weight, target_N, 0.7, chunk)[0]
    (given,) = torch.autograd.grad((logps_N * factor_N).sum(), head.weight)
    assert float((given - wanted).norm() / wanted.norm()) < 1e-5


@pytest.mark.parametrize("frozen", ["hidden", "head"])
def test_what_is_frozen_gets_no_gradient(frozen: str) -> None:
    hidden_ND, head, target_N, factor_N = case(4)
    (hidden_ND if frozen == "hidden" else head.weight).requires_grad_(False)
    logps_N = TokenScores.apply(hidden_ND, head.weight, target_N, 1.0, 5)[0]
    (logps_N * factor_N).sum().backward()
    assert (hidden_ND.grad is None) == (frozen == "hidden")
    assert (head.weight.grad is None) == (frozen == "head")


@pytest.mark.parametrize("chunk", [4, 100])
def test_products_in_bfloat16_are_those_of_autograd(chunk: int) -> None:
    hidden_ND, head, target_N, factor_N = case(5)
    hidden_ND, head = hidden_ND.detach().float().requires_grad_(), head.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits_NV = head(hidden_ND).float() / 0.7
        logps_N = TokenScores.apply(hidden_ND, head.weight, target_N, 0.7, chunk)[0]
    expected_N = logits_NV.log_softmax(-1).gather(1, target_N.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(logps_N, expected_N, atol=1e-5, rtol=0)
    wanted = torch.autograd.grad((expected_N * factor_N).sum(), (hidden_ND, head.weight))
    given = torch.autograd.grad((logps_N * factor_N).sum(), (hidden_ND, head.weight))
    for gradient, wished in zip(given, wanted, strict=True):
        assert gradient.dtype == wished.dtype == torch.float32
        # A sum over chunks that is kept in float32 is nearer to the truth than autograd's, by the 8 bits of bfloat16.
        assert float((gradient - wished).norm() / wished.norm()) < 0.01
