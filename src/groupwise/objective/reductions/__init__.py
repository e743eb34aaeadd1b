"""How tokens are weighted: `objective.reduction`. The list of reductions."""

from typing import Annotated

from pydantic import Field

from groupwise.objective.reductions.as_policy import AsPolicy
from groupwise.objective.reductions.constant_length import ConstantLength
from groupwise.objective.reductions.group_token_mean import GroupTokenMean
from groupwise.objective.reductions.sequence_mean_token_mean import SequenceMeanTokenMean
from groupwise.objective.reductions.sequence_mean_token_sum import SequenceMeanTokenSum
from groupwise.objective.reductions.token_mean import TokenMean
from groupwise.technique import by_name

ReductionOption = Annotated[
    TokenMean | SequenceMeanTokenMean | SequenceMeanTokenSum | ConstantLength | GroupTokenMean,
    Field(discriminator="type"),
    by_name(TokenMean),
]
KlReductionOption = Annotated[
    AsPolicy | TokenMean | SequenceMeanTokenMean | SequenceMeanTokenSum,
    Field(discriminator="type"),
    by_name(AsPolicy),
]
