"""Norm, rotary embedding and gated activation against their formulas and finite differences."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from groupwise.model.backends.packed_cpu.fused import rms_norm, rotary, rotary_table, swiglu


def doubles(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def angles(tokens: int, width: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine, (T, D), both halves alike."""
    half = torch.arange(tokens, dtype=torch.float64)[:, None] * 0.3 ** torch.arange(width // 2)
    return torch.cat([half, half], 1).cos(), torch.cat([half, half], 1).sin()


def test_gradients_are_those_of_finite_differences() -> None:
    check = torch.autograd.gradcheck
    assert check(lambda x, w: rms_norm(x, w, 1e-3, torch.float64), (doubles(5, 6), doubles(6, seed=1)))
    assert check(lambda x: rms_norm(x, torch.ones(6, dtype=torch.float64), 1e-3, torch.float64), (doubles(5, 6),))
    assert check(swiglu, (doubles(5, 6), doubles(5, 6, seed=1)))
    table = rotary_table(*angles(5, 4), 3)
    assert check(lambda x: rotary(x, *table, 4), (doubles(5, 12),))


def test_the_norm_is_that_of_torch() -> None:
    x_TD, weight_D = doubles(7, 16), doubles(16, seed=1)
    expected = functional.rms_norm(x_TD, (16,), weight_D, 1e-5)
    torch.testing.assert_close(rms_norm(x_TD, weight_D, 1e-5, torch.float64), expected, atol=1e-13, rtol=0)


@pytest.mark.parametrize(("dtype", "roundings"), [(torch.float32, 2), (torch.bfloat16, 0.5)])
def test_sums_of_the_norm_are_in_float32(dtype: torch.dtype, roundings: float) -> None:
    """A result in bfloat16 is rounded once, at the end."""
    x_TD, weight_D = doubles(7, 64).detach().to(dtype), doubles(64, seed=1).detach().float()
    exact = functional.rms_norm(x_TD.double(), (64,), weight_D.double(), 1e-5)
    actual = rms_norm(x_TD, weight_D, 1e-5, dtype)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), exact, atol=1e-6, rtol=roundings * torch.finfo(dtype).eps)


def test_a_weight_without_gradient_gets_none() -> None:
    x_TD, weight_D = doubles(3, 4), doubles(4).detach()
    (grad_TD,) = torch.autograd.grad(rms_norm(x_TD, weight_D, 1e-5, torch.float64).sum(), x_TD)
    expected = torch.autograd.grad(functional.rms_norm(x_TD, (4,), weight_D, 1e-5).sum(), x_TD)[0]
    torch.testing.assert_close(grad_TD, expected, atol=1e-13, rtol=0)


def test_the_rotation_is_that_of_complex_numbers() -> None:
    """Elements i and i + D / 2 are the real and imaginary part of a number that is turned by the angle."""
    x_TX = doubles(5, 12)
    cosine_TD, sine_TD = angles(5, 4)
    halves = x_TX.detach().view(5, 3, 2, 2)
    turned = torch.complex(halves[:, :, 0], halves[:, :, 1]) * torch.complex(cosine_TD, sine_TD)[:, None, :2]
    expected = torch.stack([turned.real, turned.imag], dim=2).view(5, 12)
    actual = rotary(x_TX, *rotary_table(cosine_TD, sine_TD, 3), 4)
    torch.testing.assert_close(actual, expected, atol=1e-14, rtol=0)


def test_the_gate_is_that_of_torch_in_every_precision() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        gate_TF, up_TF = (doubles(9, 8, seed=seed).detach().to(dtype).requires_grad_() for seed in (0, 1))
        factors_TF = doubles(9, 8, seed=2).detach().to(dtype)
        expected = functional.silu(gate_TF) * up_TF
        actual = swiglu(gate_TF, up_TF)
        torch.testing.assert_close(actual, expected, atol=0, rtol=0)
        ours, theirs = (torch.autograd.grad(out, (gate_TF, up_TF), factors_TF) for out in (actual, expected))
        torch.testing.assert_close(ours, theirs, atol=0, rtol=2 * torch.finfo(dtype).eps)
