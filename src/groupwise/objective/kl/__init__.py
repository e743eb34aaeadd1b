"""Estimates of the KL divergence from the reference: `kl.estimator`. The list of estimators."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.kl.k1 import K1
from groupwise.objective.kl.k2 import K2
from groupwise.objective.kl.k3 import K3
from groupwise.technique import by_name

KlEstimatorOption = Annotated[K1 | K2 | K3, Field(discriminator="type"), by_name(K3)]
