"""What is done for the entropy of the policy: a bonus, a choice of tokens, covariances. The lists of each."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.entropy.bonus import FixedBonus, NoBonus
from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.covariance import NoCovariance
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.target_bonus import TargetBonus
from groupwise.objective.entropy.top_entropy import AllTokens, TopEntropy
from groupwise.technique import by_name

BonusOption = Annotated[NoBonus | FixedBonus | TargetBonus, Field(discriminator="type"), by_name(NoBonus)]
TokensOption = Annotated[AllTokens | TopEntropy, Field(discriminator="type"), by_name(AllTokens)]
CovarianceOption = Annotated[NoCovariance | ClipCov | KlCov, Field(discriminator="type"), by_name(NoCovariance)]
