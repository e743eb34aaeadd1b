"""Fractions with their intervals, and pass@k."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fraction with its 95 % interval. n: problems that it was measured on."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def estimate_fraction(fraction_per_problem: Sequence[float]) -> Estimate:
    """The mean over problems of a fraction in [0, 1].

    Samples of one problem are not independent, so that the problem is the unit: the variance between problems gives
    the effective number of independent trials, and Wilson's interval (1927) for that many stays inside [0, 1]. With
    one sample a problem this is Wilson's interval itself.

    Raises:
        ValueError: without problems.
    """
    n = len(fraction_per_problem)
    if n == 0:
        raise ValueError("a fraction of no problems is not defined")
    mean = math.fsum(fraction_per_problem) / n
    between = math.fsum((fraction - mean) ** 2 for fraction in fraction_per_problem) / n
    trials = n * mean * (1 - mean) / between if between > 0 else n
    centre = (mean + Z95**2 / (2 * trials)) / (1 + Z95**2 / trials)
    half = Z95 / (1 + Z95**2 / trials) * math.sqrt(mean * (1 - mean) / trials + Z95**2 / (4 * trials**2))
    return Estimate(mean, max(0.0, centre - half), min(1.0, centre + half), n)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Probability that at least one of k answers drawn without replacement is right: 1 - C(n-c, k)/C(n, k).

    The unbiased estimator of Chen et al. 2021 (2107.03374, eq. 1).

    Raises:
        ValueError: unless 0 <= correct <= samples and 1 <= k <= samples.
    """
    if not (0 <= correct <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} is not defined for {correct} right of {samples} samples")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)
