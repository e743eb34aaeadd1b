"""The list of faults does not go stale: each can be put in, and a test is known that notices it."""

import pytest

from tests.faults.every import FAULTS
from tests.faults.fault import Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_can_be_put_in(fault: Fault) -> None:
    assert fault.places() == 1, f"{fault.file}: the text that is to become wrong stands there {fault.places()} times"
    assert fault.old != fault.new


def test_there_are_enough_of_every_room() -> None:
    assert len(FAULTS) >= 60
    assert len({fault.what for fault in FAULTS}) == len(FAULTS)
    assert {fault.file.split("/")[0] for fault in FAULTS} >= {"objective", "training", "rollout", "grading"}
