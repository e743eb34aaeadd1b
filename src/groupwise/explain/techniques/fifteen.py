"""The fifteen techniques, in the order and with the numbers of the table that they are known by."""

from groupwise.explain.techniques.technique import Technique

GOLDEN = "objective/test_golden_loss.py::test_loss_and_gradient"

FIFTEEN: tuple[Technique, ...] = (
    Technique(
        number=1,
        name="zero-signal filter",
        source="DAPO 2503.14476 eq. 11",
        what="groups whose rewards are all equal are not trained on",
        equation="keep a group iff max R ≠ min R",
        values="0 < right answers < G",
        keys=("active_sampling.filter",),
        is_on=lambda c: c.active_sampling.filter != "none",
        cost="none; fewer tokens are forwarded",
        test="train/test_collect.py::test_what_the_filter_names_has_to_differ",
        differs="Exact equality decides: eight float32 rewards of 1.05 have a small standard deviation that is not "
        "0. A group that is left out is left out of the KL and entropy terms too; `filter=none` keeps it in them and "
        "in the denominator.",
    ),
    Technique(
        number=2,
        name="active sampling",
        source="DAPO 2503.14476 (dynamic sampling); OLMo 3",
        what="problems are sampled until the step has its groups with signal",
        equation="draw problems until P groups pass the filter, or the budget is spent",
        values="DAPO: no limit in the paper; its code asks for 3 times the batch, at most 10 times over",
        keys=("active_sampling.refill", "active_sampling.max_prompts_per_step_factor"),
        is_on=lambda c: (
            c.active_sampling.filter != "none"
            and c.active_sampling.refill
            and c.active_sampling.max_prompts_per_step_factor > 1
        ),
        cost="sampling of the groups that are dropped, up to the factor",
        test="train/test_collect.py::test_refill_until_the_step_is_full",
        differs="The seed says that DAPO skips the update; it refills. Here the position in the stream moves behind "
        "everything drawn, so that a substitute is not trained on again in the next step.",
    ),
    Technique(
        number=3,
        name="token-level loss",
        source="DAPO 2503.14476 eq. 12",
        what="every token of the optimizer step weighs the same, so long answers weigh more",
        equation="(1/M) Σ_i Σ_t ℓ_it, M the tokens of all answers",
        values="M of the group as printed, of the batch as run",
        keys=("objective.reduction",),
        is_on=lambda c: c.objective.reduction in ("token_mean", "group_token_mean"),
        cost="none",
        test=GOLDEN + "[dapo_0.2_0.28.token_mean]",
        differs="The seed calls a token ratio token-level; GRPO has that already. What DAPO changes is the "
        "denominator. `group_token_mean` is the printed form, `token_mean` that over the optimizer step.",
    ),
    Technique(
        number=4,
        name="no KL penalty",
        source="DAPO 2503.14476, Dr. GRPO 2503.20783",
        what="no penalty for leaving the reference, which is not loaded",
        equation="β = 0",
        values="0",
        keys=("kl.coefficient", "domains.NAME.kl_coefficient"),
        is_on=lambda c: not c.uses_kl,
        cost="saves the reference and its forward pass",
        test="explain/test_explain.py::test_costs_of_a_reference",
    ),
    Technique(
        number=5,
        name="clip-higher",
        source="DAPO 2503.14476 eq. 10",
        what="the upper bound of the clip is wider than the lower one",
        equation="min(r·A, clip(r, 1-ε_low, 1+ε_high)·A)",
        values="0.2 / 0.28; OLMo 3: 0.2 / 0.272",
        keys=("objective.clip_low", "objective.clip_high"),
        is_on=lambda c: (
            c.objective.surrogate in ("ppo_clip", "dppo", "gmpo")
            and (c.objective.ratio != "none" or c.objective.surrogate == "dppo")
            and c.objective.clip_high > c.objective.clip_low
        ),
        cost="none",
        test="objective/test_surrogate.py::test_each_bound_acts_on_one_sign",
        differs="The seed gives 10 for ε_high, which is DeepSeek-R1's ε for both sides, and takes max where A < 0, so "
        "that ε_low bounds nothing. Here it is PPO's min for both signs.",
    ),
    Technique(
        number=6,
        name="truncated importance sampling",
        source="Yao et al. 2025 (TIS)",
        what="the policy term is weighted for what the engine computes otherwise than the trainer, up to a cap",
        equation="w = min(π_old/π_engine, C), detached, times the policy term",
        values="C 2 to 10 in use; OLMo 3: 2",
        keys=("engine_correction.form", "engine_correction.level", "engine_correction.high", "objective.old_logps"),
        is_on=lambda c: c.engine_correction.form == "truncate",
        cost="old log-probabilities of the trainer: one more forward pass with several optimizer steps",
        test=GOLDEN + "[grpo_tis_C2.token_mean]",
        differs="The seed caps the live ratio π_new/π_old under this name, which cuts gradients instead of weighting "
        "them. With float32 the built-in engine is the trainer, and the weight is 1. Others call both the product "
        "and the geometric mean over an answer 'sequence'.",
    ),
    Technique(
        number=7,
        name="no division by the deviation",
        source="Dr. GRPO 2503.20783",
        what="advantages are differences of rewards, so that easy and hard problems are not magnified",
        equation="A = R - baseline",
        values="together with a constant in the place of the length",
        keys=("advantage.scale",),
        is_on=lambda c: c.advantage.estimator == "group" and c.advantage.scale == "none",
        cost="none",
        test="objective/test_advantage.py::test_golden",
        differs="The seed's reason is noise at small deviations; the paper's is that 1/std weighs problems by how easy "
        "or hard they are. The other half of Dr. GRPO is `reduction=constant_length`.",
    ),
    Technique(
        number=8,
        name="KL by domain",
        source="DeepSeek-V3.2 2512.02556 §3.1",
        what="each domain of problems has a KL coefficient of its own",
        equation="β of the answer's domain",
        values="none published; weak or none for mathematics",
        keys=("domains.NAME.kl_coefficient", "kl.coefficient"),
        is_on=lambda c: c.uses_kl and any(c.kl_coefficient_of(name) != c.kl.coefficient for name in c.domains),
        cost="reference model; its pass only over groups with a coefficient",
        test="objective/test_loss.py::test_kl_coefficients_differ_by_sequence_and_leave_the_policy_term_alone",
        differs="The seed's 0 for mathematics and 0.02 for code are its own.",
    ),
    Technique(
        number=9,
        name="reweighted KL",
        source="DeepSeek-V3.2 2512.02556 eq. 7",
        what="the KL estimate is weighted by the live ratio, which makes its gradient that of the KL divergence",
        equation="r·(e^{-δ} - 1 + δ), δ = log π_new - log π_ref, gradient through both",
        values="per token, with k3",
        keys=("kl.importance", "kl.estimator"),
        is_on=lambda c: c.uses_kl and c.kl.placement == "loss" and c.kl.importance != "none",
        cost="reference model and its forward pass",
        test="objective/test_kl.py::test_token_weighted_forms_are_the_local_gradient",
        differs="The seed weighs k1 of the whole answer by the ratio of the whole answer: `estimator=k1` with "
        "`importance=sequence_product`, unbiased, with an exploding spread. Its reason, a look at the answers that "
        "changed most, is not the paper's, which is bias.",
    ),
    Technique(
        number=10,
        name="off-policy sequence mask",
        source="DeepSeek-V3.2 2512.02556 eq. 9",
        what="a bad answer that the policy has left already is not pushed down further",
        equation="M_i = 0 iff A_i < 0 and (1/L_i) Σ_t log(π_engine/π_new) > δ",
        values="δ not published; 1e-4 to 0.5 elsewhere",
        keys=("off_policy_mask.against", "off_policy_mask.threshold_nats"),
        is_on=lambda c: c.off_policy_mask.against != "none",
        cost="none",
        test="objective/test_mask.py::test_off_policy_mask_golden",
        differs="The seed compares with the trainer's old log-probabilities (`against=old`); the paper with the "
        "engine's, so that mismatch counts as well as staleness. The denominator keeps the masked answers.",
    ),
    Technique(
        number=11,
        name="keep sampling mask",
        source="DeepSeek-V3.2 2512.02556 §3.1",
        what="every scorer normalises over the tokens that top-k, top-p or min-p kept",
        equation="log π^K(v) = log π(v) - log Σ_{u∈K} π(u)",
        values="top-p not published",
        keys=("sampling.keep_mask", "sampling.top_k", "sampling.top_p", "sampling.min_p"),
        is_on=lambda c: c.sampling.keep_mask == "replay",
        cost="4 bytes for each kept token id, at most 4 KiB a token",
        test="objective/test_entropy.py::test_kept_set_golden",
        differs="The code that the seed follows multiplies 0 by -∞ in the entropy, which is NaN, and scores at another "
        "temperature than it samples at. Some trainers filter the trainer's own logits again, which are not exactly "
        "the engine's.",
    ),
    Technique(
        number=12,
        name="standard GRPO normalisation",
        source="DeepSeekMath 2402.03300 §4.1.2",
        what="advantages are divided by the standard deviation of their group",
        equation="A = (R - mean) / (std + ε)",
        values="neither divisor nor ε stated",
        keys=("advantage.scale", "advantage.std_ddof", "advantage.std_epsilon"),
        is_on=lambda c: (
            c.advantage.estimator == "group"
            and c.advantage.scale == "group_std"
            and c.advantage.baseline == "group_mean"
        ),
        cost="none",
        test="objective/test_advantage.py::test_golden",
        differs="The seed's table attributes it to DeepSeek-V3.2, which subtracts the mean and does not divide. "
        "Divisors differ: G-1 in most trainers, G in some; 1.155 apart at G = 4. ε is 1e-4 to 1e-9.",
    ),
    Technique(
        number=13,
        name="decoupled reward normalisation",
        source="GDPO 2601.05242",
        what="each reward is normalised in its group, weighted, summed, and the sum whitened over the batch",
        equation="S = Σ_k w_k (R_k - mean)/(std + ε); A = (S - mean_batch S)/(std_batch S + ε)",
        values="weights by task",
        keys=("advantage.estimator", "rewards.format.weight", "rewards.overlong.buffer_tokens"),
        is_on=lambda c: c.advantage.estimator == "gdpo",
        cost="none",
        test="objective/test_advantage.py::test_gdpo_golden",
        differs="The seed leaves the last step out, and the code it follows does it per group, which inflates weak "
        "groups again. Some whiten over tokens, so that long answers count more; here over answers.",
    ),
    Technique(
        number=14,
        name="sequence-level importance sampling",
        source="GSPO 2507.18071",
        what="ratio and clip belong to the whole answer: the geometric mean of its token ratios",
        equation="s_i = exp((1/L_i) Σ_t log(π_new/π_old)); min(s·A, clip(s)·A)",
        values="3e-4 / 4e-4, 4 minibatches, no KL",
        keys=("objective.ratio", "objective.clip_low", "objective.clip_high", "objective.reduction"),
        is_on=lambda c: c.objective.ratio in ("sequence_geometric_mean", "gspo_token"),
        cost="none; answers are never divided between micro-batches",
        test=GOLDEN + "[gspo_3e-4_4e-4.seq_mean_token_mean]",
        differs="The seed's own sequence ratio is the product (`ratio=sequence_product`), and it places GSPO between "
        "GRPO and DAPO by calling GRPO free of ratios. `gspo_token` has the same value and, with "
        "equal advantages, the same gradient.",
    ),
    Technique(
        number=15,
        name="clipped importance weights",
        source="CISPO, MiniMax-M1 2506.13585",
        what="the ratio is a detached, capped weight, and no token loses its gradient",
        equation="sg(min(r, cap))·A·log π",
        values="cap not published, no lower bound; ScaleRL 2510.13786: 5",
        keys=("objective.surrogate", "objective.cispo_cap", "objective.cispo_floor"),
        is_on=lambda c: c.objective.surrogate == "cispo",
        cost="none",
        test=GOLDEN + "[cispo_max5.token_mean]",
        differs="`cispo_cap` is absolute. Elsewhere the number under this name is absolute too (TRL), 1 + it "
        "(open-instruct), or both bounds 1 ± it (verl): 0.2 in the wrong place weighs every token by 0.2. It has no "
        "trust region; the seed's 'closer to PPO' is the reverse.",
    ),
)
