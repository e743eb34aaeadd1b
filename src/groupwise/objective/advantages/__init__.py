"""From the rewards of a group to advantages: `advantage.estimator`. The list of estimators."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SerializeAsAny

from groupwise.objective.advantages.gdpo import Gdpo
from groupwise.objective.advantages.group import Group
from groupwise.objective.advantages.max_rl import MaxRl
from groupwise.objective.advantages.opo import Opo
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline
from groupwise.objective.advantages.own import OwnEstimator
from groupwise.objective.advantages.pass_at_k import PassAtK
from groupwise.objective.advantages.reinforce_plus_plus import ReinforcePlusPlus
from groupwise.objective.own.bind import stated
from groupwise.technique import by_name

EstimatorOption = Annotated[
    Group | Gdpo | MaxRl | Opo | OptimalTokenBaseline | PassAtK | ReinforcePlusPlus | OwnEstimator,
    Field(discriminator="type"),
    SerializeAsAny(),
    by_name(Group),
    BeforeValidator(stated),
]
