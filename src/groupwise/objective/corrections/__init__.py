"""The weight π_old/π_sampler for what an engine computes differently: `engine_correction`. The list of corrections."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.corrections.correction import NoCorrection
from groupwise.objective.corrections.mis import Mis
from groupwise.objective.corrections.tis import Tis
from groupwise.technique import by_name

CorrectionOption = Annotated[NoCorrection | Tis | Mis, Field(discriminator="type"), by_name(NoCorrection)]
