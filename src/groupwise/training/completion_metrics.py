"""What is measured of the completions of a step as such: their ends, their ids, their repetitions and answers."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groupwise.grading.graded_group import GradedGroup
from groupwise.model.load import Policy
from groupwise.objective.metric import Metric

REPEATED_TOKENS = 4
"""Length of the runs of tokens that are looked for a second time in a completion."""


def completion_metrics(groups: Sequence[GradedGroup], policy: Policy) -> dict[str, Metric]:
    """Of everything sampled in a step, graded or not."""
    completions = [completion for group in groups for completion in group.completions]
    if not completions:
        return {}
    stop_ids = set(policy.stop_ids)
    ended = sum(c.finish_reason == "stop" and int(c.ids[-1]) in stop_ids for c in completions)
    ids_N = np.concatenate([completion.ids for completion in completions])
    failed = sum(any(score.status == "error" for score in scores) for group in groups for scores in group.scores_GK)
    metrics = {
        "completion/stop_id_fraction": Metric(ended / len(completions), "mean", len(completions)),
        "completion/ungraded_fraction": Metric(failed / len(completions), "mean", len(completions)),
    }
    if policy.vocabulary is not None:
        outside = float((ids_N >= policy.vocabulary).mean())
        metrics["completion/unknown_id_fraction"] = Metric(outside, "mean", ids_N.size)
    repeated_B = repetition([completion.ids for completion in completions])
    if repeated_B.size:
        metrics["completion/repetition"] = Metric(float(repeated_B.mean()), "mean", repeated_B.size)
    different = [len(set(answers_of(group))) for group in groups]
    metrics["groups/unique_answers"] = Metric(sum(different) / len(groups), "mean", len(groups))
    return metrics


def lengths_of(groups: Sequence[GradedGroup]) -> NDArray[np.float32]:
    """Over B: the tokens of every completion."""
    return np.array([len(c.ids) for group in groups for c in group.completions], dtype=np.float32)


def answers_of(group: GradedGroup) -> list[str]:
    """What the grader read as the answer of each completion, empty where there was none; its text where nothing is read
    out of it, as of programs and for functions of the user's own."""
    return [
        text if verdict is None else verdict.extracted or ("" if verdict.status == "no_answer" else text)
        for verdict, text in zip(group.verdicts_G, group.texts_G, strict=True)
    ]


def repetition(ids_B: Sequence[NDArray[np.int64]], length: int = REPEATED_TOKENS) -> NDArray[np.float64]:
    """Share of the runs of `length` tokens that stand in the completion for the second time or more; without the
    completions that are shorter."""
    long_B = [ids for ids in ids_B if len(ids) >= length]
    if not long_B:
        return np.empty(0)
    counts_B = np.array([len(ids) - length + 1 for ids in long_B])
    sequence_R = np.repeat(np.arange(len(long_B)), counts_B)
    # Equal runs have equal keys, and others have them with a probability of 2⁻⁶⁴.
    keys_R = np.concatenate([_keys(ids, length) for ids in long_B])
    order_R = np.lexsort((keys_R, sequence_R))
    same_R = (np.diff(keys_R[order_R]) == 0) & (np.diff(sequence_R[order_R]) == 0)
    repeated_B = np.bincount(sequence_R[order_R][1:][same_R], minlength=len(long_B))
    shares_B: NDArray[np.float64] = repeated_B / counts_B
    return shares_B


def _keys(ids: NDArray[np.int64], length: int) -> NDArray[np.uint64]:
    keys_R = np.zeros(len(ids) - length + 1, dtype=np.uint64)
    for offset in range(length):
        # A multiplication modulo 2⁶⁴ by an odd number loses nothing; the shift brings high bits down.
        keys_R = (keys_R ^ ids[offset : offset + keys_R.size].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        keys_R ^= keys_R >> np.uint64(29)
    return keys_R
