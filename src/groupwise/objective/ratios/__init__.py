"""The policy ratio π_new/π_old, of a token or of a whole answer: `objective.ratio`. The list of levels."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.ratios.gspo_token import GspoToken
from groupwise.objective.ratios.no_ratio import NoRatio
from groupwise.objective.ratios.sequence_geometric_mean import SequenceGeometricMean
from groupwise.objective.ratios.sequence_product import SequenceProduct
from groupwise.objective.ratios.token import TokenRatio
from groupwise.technique import by_name

RatioOption = Annotated[
    TokenRatio | SequenceGeometricMean | GspoToken | SequenceProduct | NoRatio,
    Field(discriminator="type"),
    by_name(TokenRatio),
]
