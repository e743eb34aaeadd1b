"""Short ways to translate a few options, and to look at what comes of them."""

from typing import Any

from groupwise.importing import trl, verl
from groupwise.importing.record import Imported, Source

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
GRPO = {"algorithm.adv_estimator": "grpo", f"{ROLLOUT}.n": 8}


def from_trl(processes: int = 1, problems: int | None = None, **options: Any) -> Imported:
    return trl.translate(Source("grpo.yaml", options), processes, problems)


def from_verl(options: dict[str, Any], problems: int | None = None) -> Imported:
    return verl.translate(Source("ppo.yaml", GRPO | options), problems)


def option(imported: Imported, key: str) -> Any:
    """The value of an option; of a technique, its name."""
    value: Any = imported.config
    for section in key.split("."):
        value = {"type": value} if isinstance(value, str) else value
        value = (value or {}).get(section)
    return value["type"] if isinstance(value, dict) and "type" in value else value


def said(imported: Imported, key: str) -> str:
    """Everything that is said about a key."""
    return " | ".join(remark.text for remark in imported.no_counterpart + imported.differs if remark.key == key)
