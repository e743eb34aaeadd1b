"""What is made of ratio and advantage: `objective.surrogate`. The list of surrogates."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SerializeAsAny

from groupwise.objective.own.bind import stated
from groupwise.objective.surrogates.aspo import Aspo
from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.ce_gppo import CeGppo
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.dppo import Dppo
from groupwise.objective.surrogates.dppo_kl import DppoKl
from groupwise.objective.surrogates.fipo import Fipo
from groupwise.objective.surrogates.gmpo import Gmpo
from groupwise.objective.surrogates.ipo import Ipo
from groupwise.objective.surrogates.own import OwnSurrogate
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.real import Real
from groupwise.objective.surrogates.reinforce import Reinforce
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.seed_clip import SeedClip
from groupwise.objective.surrogates.topr import Topr
from groupwise.objective.surrogates.vespo import Vespo
from groupwise.technique import by_name

SurrogateOption = Annotated[
    PpoClip
    | Cispo
    | Sapo
    | Reinforce
    | Dppo
    | Vespo
    | Gmpo
    | Topr
    | Fipo
    | Bapo
    | Real
    | SeedClip
    | Ipo
    | DppoKl
    | Aspo
    | CeGppo
    | OwnSurrogate,
    Field(discriminator="type"),
    SerializeAsAny(),
    by_name(PpoClip),
    BeforeValidator(stated),
]
