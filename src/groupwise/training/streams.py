"""What the tokens of a step are given before its updates: other log-probabilities, and which of them are trained on."""

from dataclasses import replace

import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.config.objective import EntropyOptions
from groupwise.model.load import Policy
from groupwise.model.score import Scores, score, scoring_of
from groupwise.objective.advantages.estimator import clip_advantages
from groupwise.objective.advantages.optimal_token_baseline import OptimalTokenBaseline, TokenReturns
from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.covariance import Covariance, token_covariance
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.kl.kl_estimator import kl_to_go
from groupwise.objective.masks.policy_mask import PolicyMask
from groupwise.objective.metric import Metric
from groupwise.objective.segments import segment_mean
from groupwise.objective.step_tokens import StepTokens
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.ranks import Ranks
from groupwise.training.advantages import Advantages
from groupwise.training.passes import a_pass, counted, empty_pass
from groupwise.training.step_batch import StepBatch, micro_batches


def with_trainer_pass(policy: Policy, batch: StepBatch, config: TrainConfig) -> StepBatch:
    """What one pass of the trainer before the updates says of the trained tokens; once, if something reads it."""
    if not config.makes_trainer_pass or batch.trainer_logps_N is not None:
        return batch
    scores = scored(policy, batch, batch.trained_E, config, square_sums=config.advantage.estimator.of_token)
    logps_N, entropies_N, square_sums_N = scores.logps_N, scores.entropies_N, scores.square_sums_N
    return replace(batch, trainer_logps_N=logps_N, old_entropies_N=entropies_N, square_sums_N=square_sums_N)


def with_token_advantages(
    policy: Policy, batch: StepBatch, advantages_PG: Advantages, config: TrainConfig
) -> tuple[StepBatch, Advantages]:
    """A baseline for each token, by what a pass of the trainer says of it; and the mean advantage of each answer.

    Nothing changes for estimators of whole answers. Groups are whole on a rank, and nothing depends on any other.
    """
    options = config.advantage
    if not isinstance(options.estimator, OptimalTokenBaseline):
        return batch, advantages_PG
    batch = with_trainer_pass(policy, batch, config)
    trained = batch.trained_E.nonzero().flatten().numpy()
    own = batch.take(trained)
    if own.trainer_logps_N is None or own.square_sums_N is None:
        raise ValueError("a baseline for each token needs trainer_logps_N and square_sums_N")
    weights_N = None
    if options.estimator.engine_weights:
        correction = config.engine_correction
        weights_N = correction.limited(correction.weights(own.trainer_logps_N, own.sampler_logps_N, own.lengths_E))
    returns_N = own.rewards_E.repeat_interleave(own.lengths_E)
    tokens = TokenReturns(returns_N, own.trainer_logps_N, own.square_sums_N, own.lengths_E, own.group_E, weights_N)
    advantages_N = torch.zeros(len(batch.advantages_N), dtype=torch.float64)
    advantages_N[batch.tokens_of(trained)] = options.estimator.of(tokens)
    if options.clip > 0:
        advantages_N = clip_advantages(advantages_N, options.clip)
    means_PG = segment_mean(advantages_N, batch.lengths_E).numpy().reshape(advantages_PG.shape)
    return replace(batch, advantages_N=advantages_N.float()), means_PG


def with_old_logps(policy: Policy, batch: StepBatch, config: TrainConfig) -> StepBatch:
    """The one place that decides which log-probabilities are π_old.

    Those of the engine with `objective.old_logps=sampler`. Else the trainer's own: of one pass before the updates, or,
    with a single update, of the very pass that is trained on.
    """
    batch = with_trainer_pass(policy, batch, config)
    if config.objective.old_logps == "sampler":
        return batch
    if config.updates_per_step == 1 or batch.trainer_logps_N is None:
        return replace(batch, old_logps_N=None)
    trained_N = batch.trained_E.repeat_interleave(batch.lengths_E)
    return replace(batch, old_logps_N=torch.where(trained_N, batch.trainer_logps_N, batch.sampler_logps_N))


def with_ref_logps(reference: Policy, batch: StepBatch, config: TrainConfig) -> StepBatch:
    """A pass of the reference over the episodes that have a KL coefficient.

    The others get the policy's own log-probabilities, whose KL is multiplied by 0 anyway.
    """
    penalised_E = batch.trained_E & (batch.kl_coefficient_E > 0)
    ref_logps_N = scored(reference, batch, penalised_E, config).logps_N
    penalised_N = penalised_E.repeat_interleave(batch.lengths_E)
    return replace(batch, ref_logps_N=torch.where(penalised_N, ref_logps_N, batch.behaviour_logps_N))


def with_step_values(
    policy: Policy, batch: StepBatch, config: TrainConfig, ranks: Ranks
) -> tuple[StepBatch, dict[str, Metric]]:
    """What surrogate and mask compute from all trained tokens of one optimizer step, over all ranks; and its metrics.

    It may take a pass over this rank's tokens. Every rank takes part, also one without tokens.
    """
    trained_N = batch.trained_E.repeat_interleave(batch.lengths_E)
    logps_N = torch.zeros_like(batch.sampler_logps_N)
    if config.makes_step_pass:
        logps_N = scored(policy, batch, batch.trained_E, config).logps_N
    new_N, own = ranks.concatenate(logps_N[trained_N])
    # Without log-probabilities from before the update, those of this pass are the old ones.
    own_old_N = logps_N if batch.old_logps_N is None else batch.old_logps_N

    def everywhere(own_N: Tensor) -> Tensor:
        return ranks.concatenate(own_N[trained_N])[0]

    old_N = everywhere(own_old_N).to(new_N.dtype)
    lengths_E = ranks.concatenate(batch.lengths_E[batch.trained_E])[0].long()
    # Groups are numbered from 0 on every rank.
    group_E = batch.group_E[batch.trained_E] * ranks.size + ranks.rank
    tokens = StepTokens(
        log_ratio_N=config.objective.ratio.log_ratio(new_N, old_N, lengths_E),
        new_logps_N=new_N,
        old_logps_N=old_N,
        sampler_logps_N=everywhere(batch.sampler_logps_N),
        advantages_N=everywhere(batch.advantages_N),
        lengths_E=lengths_E,
        group_E=ranks.concatenate(group_E)[0].long().unique(return_inverse=True)[1],
        rewards_E=ranks.concatenate(batch.rewards_E[batch.trained_E])[0].double(),
    )
    metrics: dict[str, Metric] = {}

    def on_tokens(technique: Surrogate | PolicyMask, tokens: StepTokens) -> Tensor:
        values = technique.of_step(tokens)
        metrics.update(values.metrics)
        own_N = values.values_N.new_zeros((len(trained_N), *values.values_N.shape[1:]))
        own_N[trained_N] = values.values_N[own]
        return own_N

    surrogate, mask = config.objective.surrogate, config.off_policy_mask
    cost_N = kl_cost(batch, own_old_N, config)
    lowered = tokens if cost_N is None else replace(tokens, advantages_N=tokens.advantages_N - everywhere(cost_N))
    if surrogate.has_step_values:
        batch = replace(batch, surrogate_step_N=on_tokens(surrogate, lowered))
    if isinstance(mask, PolicyMask) and mask.has_step_values:
        batch = replace(batch, mask_step_N=on_tokens(mask, tokens))
    return batch, metrics


def kl_cost(batch: StepBatch, old_logps_N: Tensor, config: TrainConfig) -> Tensor | None:
    """What a KL penalty in the reward takes off the advantage of each token; None without one."""
    if not (config.uses_kl and config.kl.in_reward) or batch.ref_logps_N is None:
        return None
    to_go_N = kl_to_go(old_logps_N, batch.ref_logps_N, batch.lengths_E)
    return batch.kl_coefficient_E.repeat_interleave(batch.lengths_E) * to_go_N


def scored(
    policy: Policy, batch: StepBatch, wanted_E: Tensor, config: TrainConfig, square_sums: bool = False
) -> Scores:
    """Scores over N in the policy's precision, on the CPU and without gradient; 0 where not wanted."""
    wanted = wanted_E.nonzero().flatten().numpy()
    scoring = scoring_of(config, square_sums=square_sums)
    names = ("logps_N", "entropies_N", "entropies_at_1_N", *(["square_sums_N"] if square_sums else []))
    whole_XN = torch.zeros(len(names), len(batch.sampler_logps_N), dtype=batch.sampler_logps_N.dtype)
    made: list[tuple[Tensor, Tensor]] = []
    parts = counted(policy, micro_batches(batch.take(wanted), config.batch.micro_batch_tokens, policy.shares_prompts))
    for number, part in enumerate(parts, start=1):
        with a_pass(policy, f"scoring micro-batch {number} of {len(parts)}"), torch.no_grad():
            if part is None:
                empty_pass(policy, scoring)
                continue
            episodes = wanted[part]
            micro = batch.take(episodes)
            scores = score(policy, micro.packed(policy.device), scoring, micro.sampling_mask(policy.device))
        made.append((batch.tokens_of(episodes), torch.stack([getattr(scores, name) for name in names])))
    # Fetched together, so that a device never waits for this process between two micro-batches.
    values_XN = torch.cat([values for _, values in made], dim=1).cpu() if made else whole_XN
    whole_XN = whole_XN.to(values_XN.dtype)
    if made:
        whole_XN[:, torch.cat([places_N for places_N, _ in made])] = values_XN
    return Scores(**dict(zip(names, whole_XN, strict=True)))


def with_selection(batch: StepBatch, options: EntropyOptions, seed: int, ranks: Ranks) -> StepBatch:
    """Which tokens of one optimizer step the policy term acts on, by the entropies and covariances of the old policy.

    Picked from all trained tokens of the optimizer step over all ranks, so that no division changes the choice.
    """
    trained_N = batch.trained_E.repeat_interleave(batch.lengths_E)
    keep_N = trained_N.clone()
    drift_N = torch.zeros_like(batch.sampler_logps_N)
    covariance = options.covariance
    if isinstance(options.tokens, TopEntropy):
        if batch.old_entropies_N is None:
            raise ValueError("picking tokens by entropy needs old_entropies_N")
        everywhere_N, own = ranks.concatenate(batch.old_entropies_N[trained_N])
        threshold = float(options.tokens.threshold(everywhere_N))
        keep_N[trained_N] &= (everywhere_N >= threshold)[own]
    if isinstance(covariance, Covariance):
        logps_N, own = ranks.concatenate(batch.behaviour_logps_N[trained_N])
        advantages_N, _ = ranks.concatenate(batch.advantages_N[trained_N])
        covariance_N = token_covariance(logps_N.double(), advantages_N.double())
        if isinstance(covariance, ClipCov):
            keep_N[trained_N] &= ~covariance.selected(covariance_N, torch.Generator().manual_seed(seed))[own]
        elif isinstance(covariance, KlCov):
            drift_N[trained_N] = covariance.selected(covariance_N)[own].float() * covariance.coefficient
    return replace(batch, policy_mask_N=keep_N, drift_N=drift_N if isinstance(covariance, KlCov) else None)
