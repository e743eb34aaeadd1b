"""The objective of a configuration as an equation with its numbers put in, in plain text."""

from dataclasses import dataclass

from groupwise.config import TrainConfig
from groupwise.explaining.reward_table import reward_terms, span_text
from groupwise.objective.entropy.clip_cov import ClipCov
from groupwise.objective.entropy.kl_cov import KlCov
from groupwise.objective.entropy.top_entropy import TopEntropy
from groupwise.objective.masks.policy_mask import PolicyMask
from groupwise.objective.reductions.as_policy import AsPolicy
from groupwise.technique import number


@dataclass(frozen=True)
class Equation:
    """`objective` is what is maximised; `terms` say what its symbols are, in order, each as (symbol, meaning)."""

    objective: str
    terms: tuple[tuple[str, str], ...]

    def short(self) -> str:
        """The objective with advantage and reward alone, in a line."""
        wanted = [(symbol, text) for symbol, text in self.terms if symbol.partition(" ")[0] in ("A", "R", "R_k")]
        return "; ".join([self.objective, *(f"{symbol} = {text}" for symbol, text in wanted)])


def equation_of(config: TrainConfig) -> Equation:
    """The equation of a configuration, also of one that is refused."""
    objective, kl, entropy = config.objective, config.kl, config.entropy
    longest, answers = config.sampling.max_new_tokens, config.answers_per_update
    ratio_is_one = objective.ratio.type == "none"
    counts = [objective.reduction.term(answers)]
    factors = _factors(config)
    inside = ["".join(f"{symbol}·" for symbol, _ in factors) + objective.surrogate.formula(ratio_is_one)]
    outside = ""
    if config.uses_kl and not kl.in_reward:
        penalty = f"β·{'' if kl.importance == 'none' else 'ρ·'}{kl.estimator.formula()}"
        if isinstance(kl.reduction, AsPolicy):
            inside.append(f"- {penalty}")
        else:
            outside = f" - {kl.reduction.formula(longest)} {penalty}"
            counted = kl.reduction.term(answers)
            counts += [counted] if counted not in counts else []
    inside += [entropy.bonus.formula()] if entropy.bonus.formula() else []
    if isinstance(entropy.covariance, KlCov):
        inside.append(f"- {entropy.covariance.coefficient:g}·|log π - log π_old|·[t is picked]")
    terms = [*_ratio(config), *objective.surrogate.terms(ratio_is_one)]
    terms += _advantage(config) if config.uses_advantages else reward_terms(config)
    terms += [(symbol, meaning) for symbol, meaning in factors]
    terms += [*_kl_terms(config), *_entropy_terms(config), *counts, *_circumstances(config)]
    return Equation(f"J = {objective.reduction.formula(longest)} [ {' '.join(inside)} ]{outside}", tuple(terms))


def _ratio(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.objective
    old = "the engine's log-probabilities" if options.old_logps == "sampler" else "scored by the trainer"
    if meaning := options.ratio.meaning():
        return [("r", f"{meaning}; π_old: {old}")]
    return [("π_old", old)] if config.uses_of_old else []


def _advantage(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.advantage
    texts = {}
    for domain, table in config.reward_tables().items():
        text = options.estimator.formula() + span_text(table)
        if options.clip > 0:
            text += f", within ±{number(options.clip)}"
        if config.uses_kl and config.kl.in_reward:
            text += ", and for each token - β·Σ_{u≥t} log(π_old/π_ref)"
        texts[domain] = text
    common = texts.pop("")
    terms = [("A", common), *((f"A {domain}", text) for domain, text in texts.items() if text != common)]
    return [*terms, *([("P", options.process.formula())] if config.span_key else []), *reward_terms(config)]


def _factors(config: TrainConfig) -> list[tuple[str, str]]:
    """What multiplies the policy term, each symbol with its meaning."""
    correction, mask, entropy = config.engine_correction, config.off_policy_mask, config.entropy
    factors = []
    if weight := correction.formula():
        factors.append(("w", f"{weight}; detached"))
    if isinstance(mask, PolicyMask):
        factors.append(("m", mask.formula()))
    chosen = [entropy.tokens.formula()] if isinstance(entropy.tokens, TopEntropy) else []
    chosen += [entropy.covariance.formula()] if isinstance(entropy.covariance, ClipCov) else []
    return [*factors, ("c", "; ".join(chosen))] if chosen else factors


def _kl_terms(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.kl
    if not config.uses_kl:
        return []
    moved = options.refresh_reference_every_steps
    reference = f"the policy of every {moved}th step" if moved else "the policy at step 0"
    own = {name: domain.kl_coefficient for name, domain in config.domains.items()}
    domains = ", ".join(f"{value:g} for {name}" for name, value in own.items() if value is not None)
    terms = [("β", f"{options.coefficient:g}" + (f"; {domains}" if domains else ""))]
    if not options.in_reward:
        if options.importance != "none":
            what = "Π_t π/π_old of the answer" if options.importance == "sequence_product" else "π/π_old of the token"
            terms.append(("ρ", f"{what}, with gradient"))
        terms.append(("δ", "log π - log π_ref of the token"))
    return [*terms, ("π_ref", reference)]


def _entropy_terms(config: TrainConfig) -> list[tuple[str, str]]:
    terms, covariance = config.entropy.bonus.terms(), config.entropy.covariance
    if isinstance(covariance, KlCov):
        terms.append(
            ("picked", f"the {100 * covariance.fraction:g} % of tokens with the largest covariance of log π and A")
        )
    return terms


def _circumstances(config: TrainConfig) -> list[tuple[str, str]]:
    sampling, active, batch = config.sampling, config.active_sampling, config.batch
    where = f"at temperature {sampling.temperature:g}"
    filters = [f"top-k {sampling.top_k}"] if sampling.top_k else []
    filters += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
    filters += [f"min-p {sampling.min_p:g}"] if sampling.min_p else []
    if filters:
        over = "over the recorded sets of" if sampling.replay_mask else "sampled with, not scored with,"
        where += f", {over} {', '.join(filters)}"
    what = {"correctness": "correctness", "total": "the total reward", "any_component": "any one reward"}
    groups = "all, with signal or without"
    if active.filter != "none":
        groups = f"those in which {what[active.filter]} differs"
        if active.refill:
            groups += f", out of up to {number(active.max_prompts_per_step_factor)} times {batch.prompts_per_step}"
    if active.retire_accuracy > 0:
        groups += f"; problems with {100 * active.retire_accuracy:g} % right are retired"
    updates = config.updates_per_step
    steps = f"{updates} optimizer steps on" if updates > 1 else "1 optimizer step on"
    answers = f"{steps} {batch.prompts_per_step} × {batch.samples_per_prompt} answers"
    if config.objective.mask_truncated:
        answers += ", truncated ones left out"
    return [("π", where), ("groups", groups), ("step", answers)]
