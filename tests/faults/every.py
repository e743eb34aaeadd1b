"""All faults."""

from tests.faults import grading, objective, rollout, training

FAULTS = (*objective.FAULTS, *training.FAULTS, *rollout.FAULTS, *grading.FAULTS)
