"""What each of several processes does in `test_ranks.py`; results go to files, one for each rank."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file

from groupwise.config import TrainConfig
from groupwise.config.objective import AdvantageOptions, EntropyOptions, ObjectiveOptions
from groupwise.model.reference import frozen_copy
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline
from groupwise.objective.advantages.reinforce_plus_plus import ReinforcePlusPlus
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.kl.penalty import KlOptions
from groupwise.objective.masks.m2po import M2po
from groupwise.objective.surrogates.bapo import Bapo
from groupwise.objective.surrogates.real import Real
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.ranks import Ranks
from groupwise.training.advantages import advantages_of
from groupwise.training.balance import balanced
from groupwise.training.collect import collect
from groupwise.training.loop import over_ranks
from groupwise.training.rollout_metrics import rollout_metrics
from groupwise.training.step_batch import count_step
from groupwise.training.streams import with_token_advantages
from groupwise.training.update import Updated, accumulate_gradient, update
from tests.support.episodes import REDUCTIONS, TrainGroup, batch_of, config_of, labelled, train_groups
from tests.support.fakes import Engine, Pay, fake_sampler
from tests.support.tiny import build, gradients, policy_of


def pay_at(position: int) -> list[Pay]:
    """Signal at every third position; one group cannot be judged, and in one only the format differs."""
    if position == 4:
        return [None, (1.0, 0.0)]
    if position == 5:
        return [(1.0, 1.0), (1.0, 0.0)]
    return [(1.0, 0.0), (0.0 if position % 3 == 0 else 1.0, float(position % 2))]


def collected(ranks: Ranks) -> dict[str, Any]:
    """One step of active sampling: what is admitted here, and the measurements of all ranks."""
    config = TrainConfig.model_validate(
        {
            "batch": {"prompts_per_step": 4, "samples_per_prompt": 2},
            "advantage": {"estimator": {"type": "group", "scale": "batch_std"}},
        }
    )
    engine = Engine(length_of=lambda position, sample: 1 + (position + sample) % 4)
    result = collect(fake_sampler(config, pay_at, engine), 1, 0, frozenset(), ranks)
    nothing = Updated({}, np.empty(0, dtype=np.float32))
    over_tokens = config.model_copy(update={"advantage": AdvantageOptions(estimator=ReinforcePlusPlus())})
    estimated = [advantages_of(result.admitted, one, ranks) for one in (config, over_tokens)]
    advantages = np.concatenate(estimated, axis=1)
    return {
        "admitted": [group.position for group in result.admitted],
        "sampled": [group.position for group in result.sampled],
        "advantages": {group.position: row.tolist() for group, row in zip(result.admitted, advantages, strict=True)},
        "next_position": result.next_position,
        "metrics": over_ranks([rollout_metrics(result, config)], nothing, ranks, result.sampled),
    }


def gradient(groups: list[TrainGroup], reduction: str, ranks: Ranks) -> dict[str, torch.Tensor]:
    """The gradient of one optimizer step, summed over all ranks."""
    policy = policy_of(build("llama").double())
    config = config_of(40, reduction)
    batch = batch_of(groups)
    accumulate_gradient(policy, batch, count_step(batch, ranks), config)
    own = gradients(policy.model)
    full = {name: own.get(name, torch.zeros_like(weight)) for name, weight in policy.model.named_parameters()}
    ranks.sum_gradients(list(full.values()))
    return full


# Those of the whole optimizer step; the bounds of the first have to move to reach its target.
STEPWISE = (Bapo(target=0.45, low_step=0.01, high_step=0.01), Real())


def stepwise(
    groups: list[TrainGroup], surrogate: Surrogate, ranks: Ranks
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """As `updated`, with a surrogate and a mask that are computed from the whole optimizer step."""
    policy = policy_of(build("llama").double())
    config = config_of(40, "sequence_mean_token_mean", epochs_per_step=2)
    objective = config.objective.model_copy(update={"surrogate": surrogate})
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.3)
    mask = M2po(reference="old")
    config = config.model_copy(update={"objective": objective, "off_policy_mask": mask})
    updated = update(policy, None, optimizer, batch_of(groups), 1, config, ranks)
    return policy.model.state_dict(), over_ranks([updated.metrics], updated, ranks)


def updated(groups: list[TrainGroup], ranks: Ranks) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Weights and merged measurements after two epochs of plain gradient steps."""
    policy = policy_of(build("llama").double())
    reference = frozen_copy(policy_of(build("llama", seed=1).double()))
    config = config_of(40, "token_mean", epochs_per_step=2).model_copy(
        update={
            "kl": KlOptions(coefficient=0.05),
            "entropy": EntropyOptions(tokens=TopEntropy(fraction=0.6), covariance=KlCov(fraction=0.1)),
        }
    )
    groups = [replace(group, kl_coefficient=0.05) for group in groups]
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.3)
    updated = update(policy, reference, optimizer, batch_of(groups), 1, config, ranks, entropy_coefficient=0.01)
    return policy.model.state_dict(), over_ranks([updated.metrics], updated, ranks)


def in_minibatches(groups: list[TrainGroup], ranks: Ranks) -> dict[str, torch.Tensor]:
    """Weights after three optimizer steps in each of two epochs, on the groups as `balanced` divides them."""
    policy = policy_of(build("llama").double())
    config = config_of(40, "token_mean", epochs_per_step=2, minibatches_per_step=3)
    batch = batch_of(groups)
    batch = replace(batch, position_P=tuple(10 * position for position in batch.positions(ranks)))
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.3)
    update(policy, None, optimizer, balanced(batch, config, 1, ranks), 1, config, ranks)
    weights: dict[str, torch.Tensor] = policy.model.state_dict()
    return weights


def with_token_baseline(groups: list[TrainGroup], ranks: Ranks) -> dict[str, torch.Tensor]:
    """Weights after a step on advantages of single tokens, with old log-probabilities of the same pass."""
    policy = policy_of(build("llama").double())
    groups = [
        replace(group, sequences=tuple(replace(s, reward=float(len(s.ids) % 3)) for s in group.sequences))
        for group in groups
    ]
    config = config_of(40, "token_mean", epochs_per_step=2).model_copy(
        update={
            "advantage": AdvantageOptions(estimator=OptimalTokenBaseline()),
            "objective": ObjectiveOptions(old_logps="trainer"),
        }
    )
    batch = batch_of(groups)
    batch, _ = with_token_advantages(policy, batch, np.zeros((1, len(batch.lengths_E))), config)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.3)
    update(policy, None, optimizer, batch, 1, config, ranks)
    weights: dict[str, torch.Tensor] = policy.model.state_dict()
    return weights


def work(rank: int, size: int, folder: str) -> None:
    """Everything that the test compares with one process."""
    torch.set_num_threads(1)
    if size > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=size)
    ranks = Ranks.current()
    assert (ranks.rank, ranks.size) == (rank, size)
    groups = ranks.share(train_groups(build("llama")))
    tensors: dict[str, torch.Tensor] = {}
    for reduction in REDUCTIONS:
        summed = gradient(groups, reduction, ranks)
        tensors |= {f"{reduction}/{name}": tensor for name, tensor in summed.items()}
    weights, metrics = updated(groups, ranks)
    tensors |= {f"updated/{name}": tensor.contiguous() for name, tensor in weights.items()}
    # The first rank alone has a group.
    uneven, _ = updated(train_groups(build("llama"))[:1] if rank == 0 else [], ranks)
    tensors |= {f"uneven/{name}": tensor.contiguous() for name, tensor in uneven.items()}
    divided = in_minibatches(groups, ranks)
    tensors |= {f"divided/{name}": tensor.contiguous() for name, tensor in divided.items()}
    weights = with_token_baseline(groups, ranks)
    tensors |= {f"token_baseline/{name}": tensor.contiguous() for name, tensor in weights.items()}
    measured = {}
    for surrogate in STEPWISE:
        moved, measured[surrogate.type] = stepwise(labelled(groups), surrogate, ranks)
        tensors |= {f"{surrogate.type}/{name}": tensor.contiguous() for name, tensor in moved.items()}
    save_file(tensors, f"{folder}/tensors-{rank}-of-{size}.safetensors")
    rows_N, own = ranks.concatenate(torch.arange(2.0 * rank))
    facts = {
        "rows": [rows_N.tolist(), rows_N[own].tolist()],
        "metrics": metrics,
        "stepwise": measured,
        "collected": collected(ranks),
        "totals": vars(count_step(batch_of(groups), ranks)),
        "sum": ranks.sum([1.0 + rank, 0.1]),
        "gather": ranks.gather({"rank": rank, "text": "é" * rank}),
    }
    Path(f"{folder}/facts-{rank}-of-{size}.json").write_text(json.dumps(facts))
    if size > 1:
        dist.destroy_process_group()
