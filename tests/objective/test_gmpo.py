"""GMPO (2507.20673) on the second batch: loss and gradient by hand, which take the mean over answers."""

import torch

from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.objective.surrogates.gmpo import Gmpo
from tests.objective.five_answers import NEW, close, flat, loss_of_step, step_of

GRADIENT = flat(
    [-0.0359295] * 4, [0.0522771, 0], [0.0470444] * 3, [-0.0575137] * 2, [0, 0.031497, 0.031497]
)  # fmt: skip


def test_golden() -> None:
    loss, gradient_N = loss_of_step(Gmpo(), step_of(), SequenceMeanTokenMean(), torch.zeros_like(NEW))
    close(loss, 0.0814331)
    close(gradient_N, GRADIENT.tolist())


def test_under_the_token_mean_long_answers_weigh_more() -> None:
    _, gradient_N = loss_of_step(Gmpo(), step_of(), TokenMean(), torch.zeros_like(NEW))
    close(gradient_N, (GRADIENT * flat([4] * 4, [2] * 2, [3] * 3, [2] * 2, [3] * 3) * 5 / 14).tolist())
