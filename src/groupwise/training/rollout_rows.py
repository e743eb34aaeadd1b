"""The record of a completion: what was sampled, how it was judged, and what the update saw of each of its tokens."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from groupwise.grading.graded_group import GradedGroup
from groupwise.grading.records import Score, Verdict
from groupwise.ranks import Ranks
from groupwise.rollout.sampling import derive_seed
from groupwise.track.rollouts import Rollouts, packed, within
from groupwise.training.token_pass import Key, TokenValues, rounded

Row = dict[str, Any]


def group_rows(
    group: GradedGroup, advantages_G: Sequence[float] | None, tokens: Mapping[Key, TokenValues], by_token: bool
) -> list[Row]:
    """A record of each completion of a group; by_token: whether its tokens have advantages apart."""
    logps_N = rounded(np.concatenate([completion.logps for completion in group.completions]))
    logps_GT = np.split(logps_N, np.cumsum([len(completion.ids) for completion in group.completions])[:-1])
    return [
        {
            "position": group.position,
            "problem": group.problem.id,
            "domain": group.problem.domain,
            "question": group.problem.question,
            "answer": group.problem.answer,
            "prompt": group.prompt.text,
            "prompt_ids": group.prompt.ids.tolist(),
            "sample": g,
            "completion": group.texts_G[g],
            "tokens": len(completion.ids),
            "finish_reason": completion.finish_reason,
            "version": completion.version,
            "rewards": {name: score.value for name, score in zip(group.names_K, scores, strict=True)},
            "status": {name: score.status for name, score in zip(group.names_K, scores, strict=True)},
            "detail": {name: score.detail for name, score in zip(group.names_K, scores, strict=True) if score.detail},
            "verdict": _verdict_row(verdict),
            "total": float(group.totals_G[g]),
            "advantage": None if advantages_G is None else float(advantages_G[g]),
            "ids": completion.ids.tolist(),
            "logps": logps_GT[g].tolist(),
            **_span_fields(group.names_K, scores),
            **_token_fields(tokens.get((group.position, g)), by_token),
        }
        for g, (completion, scores, verdict) in enumerate(
            zip(group.completions, group.scores_GK, group.verdicts_G, strict=True)
        )
    ]


def kept_rollouts(
    rows_of: Mapping[int, Sequence[Row]], size_bytes: int, seed: int, step: int, ranks: Ranks
) -> Rollouts | None:
    """The groups of a step, by position, that fit into `size_bytes`, from all ranks; None on all but the first."""
    drawn = sorted((derive_seed(seed, "rollouts", step, position), position) for position in rows_of)
    # What one rank cannot fit by itself would not fit with the groups of others before it either.
    own = within(size_bytes, ((draw, position, packed(rows_of[position])) for draw, position in drawn))
    sampled = round(ranks.sum([float(len(rows_of))])[0])
    groups = own
    if ranks.size > 1:
        sent = [[draw, position, b64encode(content).decode()] for draw, position, content in own]
        received = ranks.gather_bytes(json.dumps(sent).encode(), "the rollouts of the step")
        if ranks.rank > 0:
            return None
        everywhere = [group for part in received for group in json.loads(part)]
        groups = within(size_bytes, sorted((draw, position, b64decode(text)) for draw, position, text in everywhere))
    kept = sorted(groups, key=lambda group: group[1])
    return Rollouts(tuple(content for _, _, content in kept), sampled)


def _span_fields(names_K: Sequence[str], scores: Sequence[Score]) -> Row:
    """The spans by function, where any were scored."""
    found = {name: [list(s) for s in score.spans] for name, score in zip(names_K, scores, strict=True) if score.spans}
    return {"spans": found} if found else {}


def _token_fields(values: TokenValues | None, by_token: bool) -> Row:
    if values is None:
        return {"ratios": None, "entropies": None}
    fields: Row = {"ratios": values.ratios_T.tolist(), "entropies": values.entropies_T.tolist()}
    return {**fields, "token_advantages": values.advantages_T.tolist()} if by_token else fields


def _verdict_row(verdict: Verdict | None) -> Row | None:
    if verdict is None:
        return None
    return {
        "status": verdict.status,
        "extracted": verdict.extracted[:200],
        "method": verdict.method,
        "flags": list(verdict.flags),
    }
