"""Log-probabilities and entropies straight from hidden states, against autograd on all logits in double precision."""

import math

import pytest
import torch
from torch import Tensor, nn

from groupwise.policy.token_scores import TokenScores

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
    at_heat_NV, at_1_NV = (logits_NV / temperature).log_softmax(-1), logits_NV.log_softmax(-1)
    entropies = (-(logps_NV.exp() * logps_NV).sum(-1) for logps_NV in (at_heat_NV, at_1_NV))
    return at_heat_NV[torch.arange(N), target_N], *entropies


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("chunk", [1, 4, 12, 13, 14])
@pytest.mark.parametrize("scale", [2.0, 40.0])
def test_values_and_gradients(temperature: float, chunk: int, scale: float) -> None:
    """Up to what the logits lose when they are rounded to float32: at the larger scale they go up to 350."""
    hidden_ND, head, target_N, factor_N = case(chunk, scale)
    expected = reference(hidden_ND, head.weight, target_N, temperature)
    wanted = torch.autograd.grad((expected[0] * factor_N).sum(), (hidden_ND, head.weight))
    actual = TokenScores.apply(hidden_ND, head.weight, head, target_N, temperature, chunk)
    assert [scores.requires_grad for scores in actual] == [True, False, False]
    for scores, wished in zip(actual, expected, strict=True):
        torch.testing.assert_close(scores.double(), wished, atol=3e-6 * scale, rtol=1e-6)
    given = torch.autograd.grad((actual[0] * factor_N).sum(), (hidden_ND, head.weight))
    for gradient, wished in zip(given, wanted, strict=True):
        assert float((gradient - wished).norm() / wished.norm()) < 1e-6 * scale


@pytest.mark.parametrize("chunk", [1, 100])
def test_the_logarithm_of_a_probability_near_one_is_not_lost_in_rounding(chunk: int) -> None:
    """Logits 40 and 28, exact in float32, whose last bit is worth 4e-6 nats there."""
    head = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[40.0, 0.0], [28.0, 0.0], [28.0, 0.0]]))
    hidden_ND = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    logps_N = TokenScores.apply(hidden_ND, head.weight, head, torch.tensor([0, 1]), 1.0, chunk)[0]
    expected = -math.log1p(2 * math.exp(-12))
    assert logps_N.tolist() == pytest.approx([expected, expected - 12], abs=2e-7, rel=1e-7)


@pytest.mark.parametrize("chunk", [4, 100])
def test_a_second_backward_pass_adds_the_same_again(chunk: int) -> None:
    hidden_ND, head, target_N, factor_N = case(1)
    logps_N = TokenScores.apply(hidden_ND, head.weight, head, target_N, 0.8, chunk)[0]
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
    plain = TokenScores.apply(hidden_ND, head.weight, head, target_N, 1.3, chunk)[0]
    other = TokenScores.apply(strided_ND, head.weight, head, spread_N, 1.3, chunk)[0]
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
    logps_N = TokenScores.apply(head.weight[ids_N], head.weight, head, target_N, 0.7, chunk)[0]
    (given,) = torch.autograd.grad((logps_N * factor_N).sum(), head.weight)
    assert float((given - wanted).norm() / wanted.norm()) < 1e-5


@pytest.mark.parametrize("frozen", ["hidden", "head"])
def test_what_is_frozen_gets_no_gradient(frozen: str) -> None:
    hidden_ND, head, target_N, factor_N = case(4)
    (hidden_ND if frozen == "hidden" else head.weight).requires_grad_(False)
    logps_N = TokenScores.apply(hidden_ND, head.weight, head, target_N, 1.0, 5)[0]
    (logps_N * factor_N).sum().backward()
    assert (hidden_ND.grad is None) == (frozen == "hidden")
    assert (head.weight.grad is None) == (frozen == "head")


@pytest.mark.parametrize("chunk", [4, 100])
def test_products_in_bfloat16_are_those_of_autograd(chunk: int) -> None:
    hidden_ND, head, target_N, factor_N = case(5)
    hidden_ND, head = hidden_ND.detach().float().requires_grad_(), head.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits_NV = head(hidden_ND).float() / 0.7
        logps_N = TokenScores.apply(hidden_ND, head.weight, head, target_N, 0.7, chunk)[0]
    expected_N = logits_NV.log_softmax(-1).gather(1, target_N.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(logps_N, expected_N, atol=1e-5, rtol=0)
    wanted = torch.autograd.grad((expected_N * factor_N).sum(), (hidden_ND, head.weight))
    given = torch.autograd.grad((logps_N * factor_N).sum(), (hidden_ND, head.weight))
    for gradient, wished in zip(given, wanted, strict=True):
        assert gradient.dtype == wished.dtype == torch.float32
        # A sum over chunks that is kept in float32 is nearer to the truth than autograd's, by the 8 bits of bfloat16.
        assert float((gradient - wished).norm() / wished.norm()) < 0.01
