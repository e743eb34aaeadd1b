"""The same tensors through TRL's own code and through groupwise's, by way of the translation of TRL's options.

Needs TRL (`pip install 'groupwise[trl]'`); the numbers are in docs/agreement-with-trl.md.
"""

from dataclasses import fields

import pytest
import torch

from groupwise.importing.option_rows import fields_of
from tests.support.trl_batch import make_batch
from tests.support.trl_cases import (
    DIFFERENT,
    EQUAL,
    OF_MICRO_BATCHES,
    SPLIT,
    Case,
    difference,
    groupwise_gradients,
    options_of,
)

trl = pytest.importorskip("trl")

from tests.support.trl_side import trl_gradients  # noqa: E402 - needs TRL

# Options that say what TRL does anyway.
DEFAULTS = ("loss_type=dapo", "loss_type=bnpo, one micro-batch", "scale_rewards=group")


@pytest.mark.parametrize("case", EQUAL + SPLIT, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_loss_gradient_and_advantages_are_those_of_trl(case: Case, seed: int) -> None:
    batch, options = make_batch(seed), options_of(case)
    ours, theirs = groupwise_gradients(options, batch), trl_gradients(options, batch)
    loss, gradient, advantages = difference(ours, theirs)
    assert loss < 1e-6
    assert gradient < 1e-6
    assert advantages < 1e-6


@pytest.mark.parametrize("case", [case for case in EQUAL if case.name not in DEFAULTS], ids=lambda case: case.name)
def test_every_compared_option_changes_what_trl_computes(case: Case) -> None:
    batch = make_batch()
    changed, usual = trl_gradients(options_of(case), batch), trl_gradients(options_of(Case("", {})), batch)
    both = [torch.cat([gradients.logps_N, gradients.entropies_N]) for gradients in (changed, usual)]
    assert float((both[0] - both[1]).abs().max()) > 1e-4


@pytest.mark.parametrize("case", DIFFERENT, ids=lambda case: case.name)
def test_what_is_said_to_differ_differs(case: Case) -> None:
    batch, options = make_batch(), options_of(case)
    _, gradient, advantages = difference(groupwise_gradients(options, batch), trl_gradients(options, batch))
    assert gradient > 1e-4
    assert advantages < 1e-6


@pytest.mark.parametrize("seed", [0, 1])
def test_bnpo_is_the_mean_over_micro_batches_of_their_token_means(seed: int) -> None:
    batch, options = make_batch(seed), options_of(OF_MICRO_BATCHES)
    ours = groupwise_gradients(options, batch, mean_of_groups=True)
    assert max(difference(ours, trl_gradients(options, batch))) < 1e-6


def test_every_option_of_the_installed_trl_is_known_with_its_default() -> None:
    known = {field.key: field for field in fields_of("trl")}
    options = {option.name: option.default for option in fields(trl.GRPOConfig)}
    assert [name for name in options if name not in known] == []
    stated = {name: known[name].default for name in options if known[name].kind != "idle"}
    assert {name: options[name] for name in stated if options[name] != stated[name]} == {}
