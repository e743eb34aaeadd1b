"""What is written of each completion, against the model itself; and that ranks find the tokens of their own groups."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import groupwise
from groupwise.model.load import load_policy
from groupwise.ranks import Ranks
from groupwise.track.rollouts import packed
from groupwise.training.rollout_rows import kept_rollouts
from groupwise.training.token_pass import TokenPass, token_values

OPTIONS = {
    "model": "bundled",
    "problems": "arithmetic",
    "run.steps": 1,
    "run.threads": 1,
    "problems.eval_problems": 0,
    "batch.prompts_per_step": 4,
    "batch.samples_per_prompt": 6,
    "rewards.format.weight": 0.2,
    "active_sampling.filter": "none",
    "active_sampling.refill": False,
    "sampling.max_new_tokens": 24,
    "sampling.temperature": 0.8,
    "optimizer.lr": 1e-3,
}


def trained(tmp_path: Any, **options: Any) -> tuple[groupwise.Run, list[dict[str, Any]]]:
    given = {**OPTIONS, **options}
    model, problems = given.pop("model"), given.pop("problems")
    run = groupwise.train(model=model, problems=problems, output=str(tmp_path / "run"), config=given, quiet=True)
    return run, run.rollouts(1)


def test_a_record_says_what_the_model_says(tmp_path: Any) -> None:
    """Log-probabilities and entropies anew from the logits of transformers, of the ids that are written."""
    _, rows = trained(tmp_path)
    policy = load_policy("bundled")
    model = policy.model
    model.set_attn_implementation("eager")
    moved = 0
    for row in rows:
        ids = torch.tensor([row["prompt_ids"] + row["ids"]])
        with torch.no_grad():
            logits_TV = model(ids).logits[0, len(row["prompt_ids"]) - 1 : -1].double() / 0.8
        logps_TV = logits_TV.log_softmax(-1)
        logps_T = logps_TV.gather(1, torch.tensor(row["ids"])[:, None])[:, 0]
        assert np.abs(logps_T.numpy() - row["logps"]).max() < 2e-3
        assert policy.tokenizer.decode(row["prompt_ids"]) == row["prompt"]
        assert row["question"] in row["prompt"]
        sampled = row["ids"][:-1] if row["finish_reason"] == "stop" else row["ids"]
        assert policy.tokenizer.decode(sampled) == row["completion"]
        assert len(row["ids"]) == len(row["logps"]) == row["tokens"]
        # An answer without an advantage is not forwarded.
        assert (row["ratios"] is None) == (row["entropies"] is None) == (row["advantage"] == 0)
        if row["entropies"] is not None:
            entropies_T = -(logps_TV.exp() * logps_TV).sum(-1)
            assert np.abs(entropies_T.numpy() - row["entropies"]).max() < 2e-3
            assert row["ratios"] == [1.0] * row["tokens"]
            moved += 1
    assert moved > 0


def test_the_last_pass_over_a_token_counts(tmp_path: Any) -> None:
    run, rows = trained(tmp_path, **{"batch.epochs_per_step": 2})
    ratios = [ratio for row in rows for ratio in row["ratios"] or []]
    assert max(abs(ratio - 1) for ratio in ratios) > 1e-3
    assert run.metrics[0]["policy/ratio_max"] >= max(ratios) - 1e-4


def test_advantages_of_tokens_are_written_where_they_differ(tmp_path: Any) -> None:
    _, rows = trained(tmp_path, **{"advantage.estimator": "optimal_token_baseline"})
    written = [row for row in rows if row["ratios"] is not None]
    for row in written:
        assert np.mean(row["token_advantages"]) == pytest.approx(row["advantage"], abs=1e-3)
    assert any(len(set(row["token_advantages"])) > 1 for row in written)


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """Ranks as threads of this process."""

    place: dict[int, Any] = field(default_factory=dict)
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(1))

    def gather_bytes(self, own: bytes, what: str = "") -> list[bytes]:  # noqa: ARG002
        self.barrier.wait()
        self.place[self.rank] = own
        self.barrier.wait()
        return [self.place[rank] for rank in range(self.size)]

    def sum(self, values: list[float]) -> list[float]:
        self.barrier.wait()
        self.place[self.rank] = values
        self.barrier.wait()
        return [sum(parts) for parts in zip(*(self.place[rank] for rank in range(self.size)), strict=True)]


def on_ranks(size: int, act: Callable[[Ranks], Any]) -> list[Any]:
    place: dict[int, Any] = {}
    barrier, results = threading.Barrier(size), [None] * size

    def run(rank: int) -> None:
        results[rank] = act(ThreadRanks(rank, size, place=place, barrier=barrier))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    return results


def test_tokens_that_another_rank_trained_on_are_found() -> None:
    def passes(rank: int) -> list[TokenPass]:
        """Rank 1 trained on group 4 of rank 0; rank 0 had trained on it in an earlier pass."""
        values = [np.full((3, 5), rank + offset / 10, np.float32) for offset in (1, 2)]
        keys = [((4, 0), (4, 1)), ((4, 0), (7, 1))] if rank == 1 else [((4, 1),), ((2, 0), (2, 1))]
        lengths = [(2, 3), (1, 4)] if rank == 1 else [(5,), (2, 3)]
        return [TokenPass(*part) for part in zip(keys, lengths, values, strict=True)]

    own = {0: [2, 4], 1: [7]}
    found = on_ranks(2, lambda ranks: token_values(passes(ranks.rank), own[ranks.rank], ranks))
    assert sorted(found[0]) == [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert found[0][4, 0].ratios_T.tolist() == [3.3201]  # exp(1.2)
    assert found[0][4, 1].entropies_T.tolist() == [1.1] * 3
    assert {key: values.advantages_T.tolist() for key, values in found[1].items()} == {(7, 1): [1.2] * 4}


@pytest.mark.parametrize("room", [10**6, 300, 100, 0])
def test_any_number_of_ranks_keeps_the_same_groups(room: int) -> None:
    groups = {position: [{"position": position, "text": "x" * position}] for position in range(9)}
    alone = kept_rollouts(groups, room, 3, 5, Ranks())
    assert alone is not None
    assert alone.sampled == 9
    assert sum(map(len, alone.groups)) <= room
    assert (len(alone.groups) == 9) == (room == 10**6)

    def share_of(ranks: Ranks) -> Any:
        own = {position: rows for position, rows in groups.items() if position % ranks.size == ranks.rank}
        return kept_rollouts(own, room, 3, 5, ranks)

    for size in (2, 3):
        first, *others = on_ranks(size, share_of)
        assert first == alone
        assert others == [None] * (size - 1)
    assert list(alone.groups) == [packed(groups[row["position"]]) for row in alone.rows()]
