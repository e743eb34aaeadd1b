"""All cases, by block."""

from tests.battery import (
    test_config_and_cli,
    test_crash_and_resume,
    test_data,
    test_model_and_tokenizer,
    test_numerics,
    test_rewards,
    test_system,
)
from tests.battery.case import Case

BLOCKS: dict[str, tuple[Case, ...]] = {
    "Crash and resume": test_crash_and_resume.CASES,
    "Numerics": test_numerics.CASES,
    "Rewards": test_rewards.CASES,
    "Data": test_data.CASES,
    "Model and tokenizer": test_model_and_tokenizer.CASES,
    "Configuration and command line": test_config_and_cli.CASES,
    "System": test_system.CASES,
}
CASES = [case for cases in BLOCKS.values() for case in cases]
