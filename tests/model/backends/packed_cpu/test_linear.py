"""Linear maps behind a norm as single steps of autograd, against the same in single operations."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from groupwise.model.backends.packed_cpu.linear import linear, normed_linears, normed_mlp

EPSILON = 1e-3
WIDTH, INNER = 6, 5


def doubles(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def layer(inputs: int, outputs: int, bias: bool, seed: int) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=bias, dtype=torch.float64)
    with torch.no_grad():
        made.weight.copy_(doubles(outputs, inputs, seed=seed))
        if bias:
            made.bias.copy_(doubles(outputs, seed=seed + 1))
    return made


def norm(x_TD: Tensor, scale_D: Tensor) -> Tensor:
    return functional.rms_norm(x_TD, (x_TD.shape[-1],), scale_D, EPSILON)


def check(ours: Callable[[], Tensor], theirs: Callable[[], Tensor], leaves: list[Tensor], tolerance: float) -> None:
    """Value and all gradients agree, relative to the largest number of each."""
    found, expected = ours(), theirs()
    factors = doubles(*expected.shape, seed=9).to(expected.dtype)
    pairs = [(found, expected)]
    pairs += zip(
        torch.autograd.grad((found * factors).sum(), leaves),
        torch.autograd.grad((expected * factors).sum(), leaves),
        strict=True,
    )
    for one, other in pairs:
        assert one.dtype == other.dtype
        assert float((one - other).detach().abs().max()) <= tolerance * float(other.detach().abs().max())


@pytest.mark.parametrize("bias", [True, False])
def test_a_map_is_that_of_torch(bias: bool) -> None:
    x_TD, one = doubles(4, WIDTH, seed=1).requires_grad_(), layer(WIDTH, INNER, bias, 2)
    check(lambda: linear(x_TD, one, torch.float64), lambda: one(x_TD), [x_TD, *one.parameters()], 1e-14)


@pytest.mark.parametrize("biases", [(True, True), (False, False), (True, False)])
def test_maps_behind_a_norm(biases: tuple[bool, bool]) -> None:
    x_TD, scale_D = doubles(4, WIDTH, seed=1).requires_grad_(), doubles(WIDTH, seed=2).requires_grad_()
    maps = [layer(WIDTH, INNER + index, bias, 3 + 2 * index) for index, bias in enumerate(biases)]
    leaves = [x_TD, scale_D, *(weight for one in maps for weight in one.parameters())]
    check(
        lambda: torch.cat(normed_linears(x_TD, scale_D, EPSILON, torch.float64, maps), 1),
        lambda: torch.cat([one(norm(x_TD, scale_D)) for one in maps], 1),
        leaves,
        1e-13,
    )


def mlp(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, list[nn.Linear]]:
    x_TD, scale_D = (
        values.to(dtype).requires_grad_() for values in (doubles(4, WIDTH, seed=1), doubles(WIDTH, seed=2))
    )
    shapes = [(WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)]
    return x_TD, scale_D, [layer(*shape, False, 3 + index).to(dtype) for index, shape in enumerate(shapes)]


def test_an_mlp_behind_a_norm() -> None:
    x_TD, scale_D, (gate, up, down) = mlp()

    def theirs() -> Tensor:
        normed_TD = norm(x_TD, scale_D)
        made_TD: Tensor = down(functional.silu(gate(normed_TD)) * up(normed_TD))
        return made_TD

    leaves = [x_TD, scale_D, gate.weight, up.weight, down.weight]
    check(lambda: normed_mlp(x_TD, scale_D, EPSILON, torch.float64, (gate, up, down)), theirs, leaves, 1e-13)


def test_gradients_are_those_of_finite_differences() -> None:
    x_TD, scale_D, (gate, up, down) = mlp()
    inputs = (x_TD, scale_D)
    assert torch.autograd.gradcheck(lambda x, s: normed_mlp(x, s, EPSILON, torch.float64, (gate, up, down)), inputs)
    assert torch.autograd.gradcheck(lambda x, s: normed_linears(x, s, EPSILON, torch.float64, [gate, up]), inputs)


def test_products_in_bfloat16_are_rounded_as_by_autocast() -> None:
    """Against autocast over single operations: the same roundings, but for those of the norm's gradient."""
    x_TD, scale_D, (gate, up, down) = mlp(torch.float32)

    def theirs() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            normed_TD = norm(x_TD, scale_D).bfloat16()
            made_TD: Tensor = down(functional.silu(gate(normed_TD)) * up(normed_TD))
        return made_TD

    leaves = [x_TD, scale_D, gate.weight, up.weight, down.weight]
    check(lambda: normed_mlp(x_TD, scale_D, EPSILON, torch.bfloat16, (gate, up, down)), theirs, leaves, 2.0**-6)


def test_frozen_weights_get_no_gradient() -> None:
    x_TD, scale_D, (gate, up, down) = mlp()
    for frozen in (scale_D, gate.weight, down.weight):
        frozen.requires_grad_(False)
    normed_mlp(x_TD, scale_D, EPSILON, torch.float64, (gate, up, down)).sum().backward()
    weights = (scale_D, gate.weight, up.weight, down.weight)
    assert [weight.grad is None for weight in weights] == [True, True, False, True]
    normed_TD = norm(x_TD, scale_D)
    made_TD = down(functional.silu(gate(normed_TD)) * up(normed_TD))
    torch.testing.assert_close(x_TD.grad, torch.autograd.grad(made_TD.sum(), x_TD)[0], atol=1e-12, rtol=0)
    up.weight.grad = None
    of_gate_TF, of_up_TF = normed_linears(x_TD.detach(), scale_D, EPSILON, torch.float64, [gate, up])
    (of_gate_TF.sum() + of_up_TF.sum()).backward()
    assert gate.weight.grad is None
    assert up.weight.grad is not None


def test_what_is_kept() -> None:
    """Of the MLP: its input, one number a row, gate and up; not what the maps read."""
    x_TD, scale_D, (gate, up, down) = mlp()
    weights = {weight.data_ptr() for weight in (scale_D, gate.weight, up.weight, down.weight)}
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.extend([] if tensor.data_ptr() in weights else [tensor.numel()])
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        normed_mlp(x_TD, scale_D, EPSILON, torch.float64, (gate, up, down))
    tokens = len(x_TD)
    assert sorted(kept) == sorted([tokens * WIDTH, tokens, tokens * INNER, tokens * INNER])
