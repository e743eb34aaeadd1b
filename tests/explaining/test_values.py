"""Values of a configuration by key."""

from groupwise.config.compose import compose_train_config
from groupwise.explaining.values import values_at


def test_a_technique_has_its_name_and_its_own_options_alone() -> None:
    config = compose_train_config(["objective.surrogate={type: cispo, cap: 4}"])
    assert values_at(config, "objective.surrogate") == {"objective.surrogate": "cispo"}
    assert values_at(config, "objective.surrogate.cap") == {"objective.surrogate.cap": 4.0}
    assert values_at(config, "objective.surrogate.clip_low") == {}


def test_a_reward_stands_once_more_for_a_domain_in_which_it_differs() -> None:
    config = compose_train_config(
        [
            "problems.train={arithmetic: 1, toy_code: 1}",
            "domains.code.rewards.format={type: think_answer, weight: 0.5}",
            "domains.math.rewards.correctness.weight=2",
        ]
    )
    assert values_at(config, "rewards.format") == {
        "rewards.format": "think",
        "domains.code.rewards.format": "think_answer",
    }
    assert values_at(config, "rewards.format.weight") == {
        "rewards.format.weight": 0.0,
        "domains.code.rewards.format.weight": 0.5,
    }
    assert values_at(config, "rewards.correctness.weight") == {
        "rewards.correctness.weight": 1.0,
        "domains.math.rewards.correctness.weight": 2.0,
    }
