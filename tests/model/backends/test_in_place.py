"""Gradients of embedding and head that are added to `.grad`: the same numbers as through autograd, and less memory."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from groupwise.config import TrainConfig
from groupwise.model.backends.in_place import embedded, takes_in_place
from groupwise.model.load import Policy
from groupwise.model.packing import pack
from groupwise.model.score import Scoring, score, scoring_of
from tests.support.tiny import build, gradients, policy_of, ragged_groups, relative_difference

CPU = torch.device("cpu")
SHAPES = [(7, (5, 1, 9)), (1, (4,)), (12, (1, 1))]


def trained(policy: Policy, in_place: bool, seeds: tuple[int, ...] = (1, 2)) -> dict[str, Tensor]:
    """The gradient of several passes."""
    for seed in seeds:
        scoring = Scoring(0.8, 5, in_place=in_place)
        score(policy, pack(ragged_groups(seed, SHAPES), CPU), scoring).logps_N.square().sum().backward()
    return gradients(policy.model)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_the_gradient_is_that_of_autograd(architecture: str, tied: bool) -> None:
    one, other = (policy_of(build(architecture, tie_word_embeddings=tied).double()) for _ in range(2))
    assert relative_difference(trained(one, True), trained(other, False)) < 1e-13


def test_nothing_of_the_vocabulary_s_size_is_made_but_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of(build("llama", tie_word_embeddings=True))
    weight = policy.head.weight
    assert isinstance(weight, nn.Parameter)
    trained(policy, True, (1,))
    first = weight.grad
    made: list[tuple[int, ...]] = []
    zeros = Tensor.new_zeros

    def noted(tensor: Tensor, *size: Any, **named: Any) -> Tensor:
        found = zeros(tensor, *size, **named)
        made.append(tuple(found.shape))
        return found

    monkeypatch.setattr(Tensor, "new_zeros", noted)
    trained(policy, True, (2,))
    assert weight.grad is first
    assert tuple(weight.shape) not in made
    trained(policy, False, (2,))
    assert tuple(weight.shape) in made


class Wide(TorchDispatchMode):
    """Counts the tensors of one shape that operations make."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape, self.made = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = {tensor.data_ptr() for tensor in args if isinstance(tensor, Tensor)}
        if isinstance(found, Tensor) and found.shape == self.shape and found.data_ptr() not in given:
            self.made += 1
        return found


def test_training_makes_one_gradient_of_the_vocabulary_s_size() -> None:
    policy = policy_of(build("llama", tie_word_embeddings=True))
    weight = policy.head.weight
    assert isinstance(weight, nn.Parameter)
    batch = pack(ragged_groups(1, SHAPES), CPU)
    made = []
    for scoring in (scoring_of(TrainConfig()), Scoring(1.0, 1024)):
        weight.grad = None
        with Wide(weight.shape) as wide:
            score(policy, batch, scoring).logps_N.sum().backward()
        made.append(wide.made)
    assert made[0] == 1
    assert made[1] > 1


def test_an_embedding_that_changes_its_weights_is_called_as_it_is() -> None:
    embedding = nn.Embedding(5, 3, max_norm=0.1)
    rows = embedded(embedding, torch.tensor([1]), in_place=True)
    assert float(rows.detach().norm()) <= 0.1 + 1e-6


def test_the_padding_row_gets_nothing_as_in_torch() -> None:
    embedding = nn.Embedding(9, 4, padding_idx=3)
    ids_T = torch.tensor([1, 3, 1, 8, 3])
    factors = torch.arange(20.0).view(5, 4)
    (embedding(ids_T) * factors).sum().backward()
    expected = embedding.weight.grad
    embedding.weight.grad = None
    (embedded(embedding, ids_T, in_place=True) * factors).sum().backward()
    assert expected is not None
    assert expected[3].tolist() == [0.0] * 4
    torch.testing.assert_close(embedding.weight.grad, expected, atol=0, rtol=0)


def test_who_goes_through_autograd() -> None:
    """A weight that somebody watches, a frozen one, and one in a reduced precision."""
    plain, hooked, accumulated = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    hooked.register_hook(lambda grad: grad)
    accumulated.register_post_accumulate_grad_hook(lambda weight: None)  # noqa: ARG005
    frozen = nn.Parameter(torch.zeros(2), requires_grad=False)
    assert [takes_in_place(weight) for weight in (plain, hooked, accumulated, frozen)] == [True, False, False, False]
    assert not takes_in_place(nn.Parameter(torch.zeros(2, dtype=torch.bfloat16)))
    assert not takes_in_place(torch.zeros(2, requires_grad=True))


def test_a_hook_on_the_tied_weight_sees_the_whole_gradient() -> None:
    one, other = (policy_of(build("llama", tie_word_embeddings=True).double()) for _ in range(2))
    seen: list[Tensor] = []
    weight = one.head.weight
    assert isinstance(weight, nn.Parameter)
    weight.register_hook(seen.append)
    expected = trained(other, False, (1,))
    found = trained(one, True, (1,))
    assert relative_difference(found, expected) < 1e-13
    (whole,) = seen
    torch.testing.assert_close(whole, weight.grad)


def test_an_embedding_that_is_not_plain_is_called_as_it_is() -> None:
    embedding = nn.Embedding(5, 3)
    seen: list[torch.Size] = []

    def double(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:  # noqa: ARG001
        seen.append(output.shape)
        return 2 * output

    embedding.register_forward_hook(double)
    rows = embedded(embedding, torch.tensor([1, 4]), in_place=True)
    torch.testing.assert_close(rows, 2 * embedding.weight[[1, 4]])
    assert seen == [(1, 2, 3)]
    rows.sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[1].tolist() == [2.0] * 3
