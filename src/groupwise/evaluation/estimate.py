"""Fractions with their intervals, and pass@k."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959963984540054
WORST_PROBLEMS = 2
"""Problems of the largest possible variance that are added to those measured. With 2 the interval holds the true value
in at least 94 % of cases from 8 problems on: see the simulation in tests/evaluation/test_estimate.py."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A fraction with its 95 % interval. n: problems that it was measured on."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def estimate_fraction(fraction_per_problem: Sequence[float], samples_per_problem: int) -> Estimate:
    """The mean over problems of a fraction in [0, 1], each of this many samples.

    Samples of one problem are not independent, so that the problem is the unit: the variance between problems gives
    the effective number of independent trials, and the interval is the exact one of Clopper and Pearson (1934) for that
    many (Korn and Graubard 1998, Survey Methodology 24, 193-201). The variance of a few problems is itself uncertain:
    `WORST_PROBLEMS` more of the largest variance that the mean allows are counted in, the trials are lowered by the
    quantiles of Student's t, and they lie between the number of problems and that of samples. With one sample a
    problem this is Clopper's and Pearson's interval itself.

    Raises:
        ValueError: without problems.
    """
    n = len(fraction_per_problem)
    if n == 0:
        raise ValueError("a fraction of no problems is not defined")
    mean = math.fsum(fraction_per_problem) / n
    trials, largest = float(n), mean * (1 - mean)
    if n > 1 and 0 < mean < 1:
        squares = math.fsum((fraction - mean) ** 2 for fraction in fraction_per_problem)
        between = (squares + WORST_PROBLEMS * largest) / (n - 1 + WORST_PROBLEMS)
        effective = n * largest / between * (Z95 / student_t95(n - 1)) ** 2
        trials = min(max(effective, n), n * samples_per_problem)
    return Estimate(mean, *clopper_pearson95(mean * trials, trials), n)


def standard_error(fraction_per_problem: Sequence[float]) -> float:
    """Of the mean over problems: their standard deviation divided by the root of their number; 0 for one problem."""
    n = len(fraction_per_problem)
    mean = math.fsum(fraction_per_problem) / n
    return math.sqrt(math.fsum((fraction - mean) ** 2 for fraction in fraction_per_problem) / max(n - 1, 1) / n)


def clopper_pearson95(successes: float, trials: float) -> tuple[float, float]:
    """The exact 95 % interval of a binomial fraction; the counts need not be whole numbers."""
    failures = trials - successes
    low = beta_quantile(0.025, successes, failures + 1) if successes > 0 else 0.0
    high = 1 - beta_quantile(0.025, failures, successes + 1) if failures > 0 else 1.0
    return low, high


@functools.cache
def student_t95(freedom: int) -> float:
    """The bound that |t| exceeds with a probability of 5 %."""
    x = beta_quantile(0.05, freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Where the distribution function of Beta(a, b) reaches a probability, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 1e-14:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_probability(middle, a, b) < probability else (low, middle)
    return high


def beta_probability(x: float, a: float, b: float) -> float:
    """The distribution function of Beta(a, b) for 0 < x < 1: the regularised incomplete beta function.

    Its continued fraction (DLMF 8.17.22) by the method of Lentz, which converges fast below the mean.
    """
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_probability(1 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)) / a
    fraction = numerator = 1.0
    denominator = 0.0
    for k in range(1, 10_000):
        m = k // 2
        if k % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + term * denominator)
        numerator = 1 + term / numerator
        fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return front / fraction


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Probability that at least one of k answers drawn without replacement is right: 1 - C(n-c, k)/C(n, k).

    The unbiased estimator of Chen et al. 2021 (2107.03374, eq. 1).

    Raises:
        ValueError: unless 0 <= correct <= samples and 1 <= k <= samples.
    """
    if not (0 <= correct <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} is not defined for {correct} right of {samples} samples")
    return 1.0 - math.comb(samples - correct, k) / math.comb(samples, k)
