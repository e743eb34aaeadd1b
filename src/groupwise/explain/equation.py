"""The objective of a configuration as an equation with its numbers put in, in plain text."""

from dataclasses import dataclass
from typing import assert_never

from groupwise.config import TrainConfig
from groupwise.explain.rewards import reward_terms
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
    options = config.objective
    mean, counted = _reduction(options.reduction, config)
    counts = [counted]
    policy = _factors(config) + _surrogate(config)
    terms = [*_ratio(config), *_advantage(config), *_factor_terms(config)]
    inside, outside = [policy], []
    if config.uses_kl and config.kl.placement == "loss":
        penalty = f"β·{_weighted_kl(config)}"
        if config.kl.reduction == "as_policy":
            inside.append(f"- {penalty}")
        else:
            kl_mean, kl_counted = _reduction(config.kl.reduction, config)
            outside.append(f"- {kl_mean} {penalty}")
            counts += [kl_counted] if kl_counted != counted else []
    inside += _entropy(config)
    if config.entropy.covariance == "kl_cov":
        inside.append(f"- {config.entropy.kl_cov_coefficient:g}·|log π - log π_old|·[t is picked]")
    body = " ".join(inside)
    objective = f"J = {mean} [ {body} ]" + "".join(f" {part}" for part in outside)
    terms += [*_kl_terms(config), *_entropy_terms(config), *counts, *_circumstances(config)]
    return Equation(objective, tuple(terms))


def _reduction(name: str, config: TrainConfig) -> tuple[str, tuple[str, str]]:
    """How tokens are summed, and what its symbol stands for."""
    answers = config.answers_per_update
    sequences = ("S", f"{answers} answers of an optimizer step, L_i tokens each")
    match name:
        case "token_mean":
            return "(1/M) Σ_i Σ_t", ("M", f"tokens of all {answers} answers of an optimizer step")
        case "sequence_mean_token_mean":
            return "(1/S) Σ_i (1/L_i) Σ_t", sequences
        case "sequence_mean_token_sum":
            return "(1/S) Σ_i Σ_t", sequences
        case "constant_length":
            constant = config.objective.constant_length_tokens or config.sampling.max_new_tokens
            return f"1/(S·{constant}) Σ_i Σ_t", sequences
        case "group_token_mean":
            return "(1/Q) Σ_g (1/M_g) Σ_i∈g Σ_t", (
                "Q",
                "groups of an optimizer step, M_g tokens in the answers of each",
            )
        case _:
            raise ValueError(name)


def _surrogate(config: TrainConfig) -> str:
    options = config.objective
    low, high = number(1 - options.clip_low), number(1 + options.clip_high)
    ratio_free = options.ratio == "none"
    match options.surrogate:
        case "ppo_clip":
            if ratio_free:
                return "A·log π"
            clipped = f"min(r·A, clip(r, {low}, {high})·A)"
            if options.dual_clip > 0:
                return f"max({clipped}, {number(options.dual_clip)}·A where A < 0)"
            return clipped
        case "cispo":
            cap, floor = number(options.cispo_cap), number(options.cispo_floor)
            weight = f"min(r, {cap})" if options.cispo_floor == 0 else f"clip(r, {floor}, {cap})"
            return "A·log π" if ratio_free else f"sg[{weight}]·A·log π"
        case "sapo":
            return "A·log π" if ratio_free else "A·(4/τ)·σ(τ·(r - 1))"
        case "reinforce":
            return "A·log π" if ratio_free else "r·A"
        case "dppo":
            factor = "A·log π" if ratio_free else "r·A"
            return f"{factor}·[A > 0: π - π_old ≤ {number(options.clip_high)}; A < 0: ≥ -{number(options.clip_low)}]"
        case "vespo":
            return "sg[r^k·e^(λ·(1 - r))]·A·log π"
        case "gmpo":
            return "s·A"
        case "seed_clip":
            return "A·log π" if ratio_free else f"A·min(r, {high})"
        case _:
            assert_never(options.surrogate)


def _ratio(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.objective
    old = "the engine's log-probabilities" if options.old_logps == "sampler" else "scored by the trainer"
    meaning = {
        "token": f"π/π_old of the token; π_old: {old}",
        "sequence_geometric_mean": f"exp((1/L) Σ_t log π/π_old) of the answer; π_old: {old}",
        "gspo_token": f"exp((1/L) Σ_t log π/π_old) in value, its gradient that of the token; π_old: {old}",
        "sequence_product": f"Π_t π/π_old of the answer; π_old: {old}",
    }
    if options.ratio in meaning:
        terms = [("r", meaning[options.ratio])]
    else:
        terms = [("π_old", old)] if config.uses_of_old else []
    if options.surrogate == "sapo" and options.ratio != "none":
        positive, negative = number(options.sapo_temperature_positive), number(options.sapo_temperature_negative)
        terms.append(("τ", f"{positive} where A > 0, else {negative}"))
    elif options.surrogate == "vespo":
        positive = f"{number(options.vespo_k_positive)}, {number(options.vespo_lambda_positive)}"
        negative = f"{number(options.vespo_k_negative)}, {number(options.vespo_lambda_negative)}"
        terms.append(("k, λ", f"{positive} where A > 0, else {negative}"))
    elif options.surrogate == "gmpo":
        low, high = number(options.clip_low), number(options.clip_high)
        bounded = f"log r at most {high} where A > 0, at least -{low} where A < 0"
        terms.append(("s", f"exp((1/L) Σ_t log r) of the answer, each {bounded}"))
    return terms


def _advantage(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.advantage
    divisor = "G-1" if options.std_ddof == 1 else "G"
    epsilon = number(options.std_epsilon)
    baseline = {"group_mean": "mean(R)", "leave_one_out": "mean of the others", "none": ""}[options.baseline]
    centred = f"R - {baseline}" if baseline else "R"
    match options.estimator:
        case "group":
            text = {
                "none": centred,
                "group_std": f"({centred}) / (std(R) + {epsilon}), squares over {divisor}",
                "batch_std": f"({centred}) / (std of the step's R + {epsilon})",
            }[options.scale]
        case "gdpo":
            text = (
                f"(Z - mean(Z)) / (std(Z) + {epsilon}) over the step, Z = Σ_k w_k·(R_k - mean(R_k)) / (std(R_k) + "
                f"{epsilon}) in the group, squares over {divisor}"
            )
        case "max_rl":
            text = "(R - mean(R)) / mean(R)"
        case "pass_at_k":
            text = f"pass@{options.pass_k}: (1 - R̄)/σ if right, (1 - R̄ - C(N₋-1, k-1)/C(N-1, k-1))/σ if wrong"
        case _:
            assert_never(options.estimator)
    if options.clip > 0:
        text += f", within ±{number(options.clip)}"
    terms = [("A", text)]
    if config.uses_kl and config.kl.placement == "reward":
        terms[0] = ("A", text + ", and for each token - β·Σ_{u≥t} log(π_old/π_ref)")
    return [*terms, *reward_terms(config)]


def _factors(config: TrainConfig) -> str:
    selected = config.entropy.train_top_share < 1 or config.entropy.covariance == "clip_cov"
    symbols = ["w"] if config.engine_correction.form != "none" else []
    symbols += ["m"] if config.off_policy_mask.against != "none" else []
    symbols += ["c"] if selected else []
    return "".join(f"{symbol}·" for symbol in symbols)


def _factor_terms(config: TrainConfig) -> list[tuple[str, str]]:
    correction, mask, entropy = config.engine_correction, config.off_policy_mask, config.entropy
    terms = []
    if correction.form != "none":
        ratio = {
            "token": "π_old/π_engine of the token",
            "sequence_product": "Π_t π_old/π_engine of the answer",
            "sequence_geometric_mean": "exp((1/L) Σ_t log π_old/π_engine) of the answer",
        }[correction.level]
        limited = f"min({ratio}, {number(correction.high)})"
        if correction.form == "band":
            limited = f"{ratio}, 0 outside of {number(correction.low)} … {number(correction.high)}"
        terms.append(("w", f"{limited}; detached"))
    if mask.against != "none":
        who = "π_engine" if mask.against == "sampler" else "π_old"
        terms.append(("m", f"0 where A < 0 and (1/L) Σ_t log({who}/π) > {number(mask.threshold_nats)}, else 1"))
    chosen = []
    if entropy.train_top_share < 1:
        chosen.append(f"1 for the {100 * entropy.train_top_share:g} % of tokens with the highest entropy, else 0")
    if entropy.covariance == "clip_cov":
        band = f"{number(entropy.clip_cov_low)} … {number(entropy.clip_cov_high)}"
        share = f"{100 * entropy.covariance_share:g} % of tokens"
        chosen.append(f"0 for {share}, drawn among those with a covariance of log π and A in {band}")
    return [*terms, ("c", "; ".join(chosen))] if chosen else terms


def _weighted_kl(config: TrainConfig) -> str:
    estimate = {"k1": "δ", "k2": "δ²/2", "k3": "(e^(-δ) - 1 + δ)"}[config.kl.estimator]
    weight = {"none": "", "token": "ρ·", "sequence_product": "ρ·"}[config.kl.importance]
    return weight + estimate


def _kl_terms(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.kl
    if not config.uses_kl:
        return []
    moved = options.refresh_reference_every_steps
    reference = f"the policy of every {moved}th step" if moved else "the policy at step 0"
    own = {name: domain.kl_coefficient for name, domain in config.domains.items()}
    domains = ", ".join(f"{value:g} for {name}" for name, value in own.items() if value is not None)
    beta = f"{options.coefficient:g}" + (f"; {domains}" if domains else "")
    terms = [("β", beta)]
    if options.placement == "loss":
        if options.importance != "none":
            product = options.importance == "sequence_product"
            terms.append(
                ("ρ", ("Π_t π/π_old of the answer" if product else "π/π_old of the token") + ", with gradient")
            )
        terms.append(("δ", "log π - log π_ref of the token"))
    return [*terms, ("π_ref", reference)]


def _entropy(config: TrainConfig) -> list[str]:
    options = config.entropy
    if options.target_nats > 0:
        return ["+ α·H"]
    return [f"+ {options.coefficient:g}·H"] if options.coefficient > 0 else []


def _entropy_terms(config: TrainConfig) -> list[tuple[str, str]]:
    options = config.entropy
    terms = []
    if options.target_nats > 0:
        moves = f"from {options.coefficient:g} on by {options.coefficient_step:g} a step towards H = "
        terms.append(("α", f"{moves}{options.target_nats:g}, within 0 … {options.max_coefficient:g}"))
    if options.target_nats > 0 or options.coefficient > 0:
        terms.append(("H", "entropy of π at the token, nats"))
    if options.covariance == "kl_cov":
        terms.append(
            ("picked", f"the {100 * options.covariance_share:g} % of tokens with the largest covariance of log π and A")
        )
    return terms


def _circumstances(config: TrainConfig) -> list[tuple[str, str]]:
    sampling, active, batch = config.sampling, config.active_sampling, config.batch
    where = f"at temperature {sampling.temperature:g}"
    filters = [f"top-k {sampling.top_k}"] if sampling.top_k else []
    filters += [f"top-p {sampling.top_p:g}"] if sampling.top_p < 1 else []
    filters += [f"min-p {sampling.min_p:g}"] if sampling.min_p else []
    if filters:
        over = "over the recorded sets of" if sampling.keep_mask == "replay" else "sampled with, not scored with,"
        where += f", {over} {', '.join(filters)}"
    what = {"correctness": "correctness", "total": "the total reward", "any_component": "any one reward"}
    groups = "all, with signal or without"
    if active.filter != "none":
        groups = f"those in which {what[active.filter]} differs"
        if active.refill:
            groups += f", out of up to {number(active.max_prompts_per_step_factor)} times {batch.prompts_per_step}"
    if active.retire_pass_rate > 0:
        groups += f"; problems with {100 * active.retire_pass_rate:g} % right are retired"
    updates = config.updates_per_step
    steps = f"{updates} optimizer steps on" if updates > 1 else "1 optimizer step on"
    answers = f"{steps} {batch.prompts_per_step} × {batch.samples_per_prompt} answers"
    if config.objective.truncated == "mask":
        answers += ", truncated ones left out"
    return [("π", where), ("groups", groups), ("step", answers)]
