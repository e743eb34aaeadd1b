"""The engine that a configuration asks for."""

from groupwise.config import TrainConfig
from groupwise.model.load import Policy
from groupwise.rollout.engine import RolloutEngine
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.options import InProcess


def make_engine(config: TrainConfig, policy: Policy) -> RolloutEngine:
    """An engine with the policy's weights of now, version 0. Whoever asks for it closes it."""
    match config.engine:
        case InProcess(batch_sequences=sequences):
            return InProcessEngine(policy, sequences)
