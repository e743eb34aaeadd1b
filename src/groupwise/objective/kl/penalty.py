"""The KL penalty: its coefficient, its estimate, and where it acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from groupwise.findings import Finding, error, shown, unused, warning
from groupwise.objective.kl import KlEstimatorOption
from groupwise.objective.kl.k3 import K3
from groupwise.objective.reductions import KlReductionOption
from groupwise.objective.reductions.as_policy import AsPolicy
from groupwise.options import NonNegativeFloat, NonNegativeInt
from groupwise.technique import Card, Section

if TYPE_CHECKING:
    from groupwise.config import TrainConfig


class KlOptions(Section):
    """Penalty for leaving the reference, the policy at step 0. It is not loaded when every coefficient is 0."""

    coefficient: NonNegativeFloat = 0.0
    """For problems of every domain that states none in domains.NAME.kl_coefficient."""

    estimator: KlEstimatorOption = K3()
    """The estimate of KL(π ‖ π_ref) at a token."""

    importance: Literal["none", "token", "sequence_product"] = "token"
    """Weight of the estimate: none (GRPO), the live ratio of the token (DeepSeek-V3.2) or of the answer."""

    in_reward: bool = False
    """Penalise in the reward of each token, as k1 with what follows it, instead of in the loss."""

    reduction: KlReductionOption = AsPolicy()
    """How the KL of tokens is weighted: as the policy loss, or by another reduction. `sequence_mean_token_mean` is the
    length-normalised form."""

    refresh_reference_every_steps: NonNegativeInt = 0
    """The policy becomes the reference every so many steps; 0 for never."""

    cards: ClassVar[tuple[Card, ...]] = (
        Card(
            number=4,
            name="no KL penalty",
            source="DAPO 2503.14476, Dr. GRPO 2503.20783",
            what="no penalty for leaving the reference, which is not loaded",
            equation="β = 0",
            values="0",
            keys=("kl.coefficient", "domains.NAME.kl_coefficient"),
            is_on=lambda c: not c.uses_kl,
            cost="saves the reference and its forward pass",
            test="explaining/test_explain.py::test_costs_of_a_reference",
        ),
        Card(
            number=8,
            name="KL by domain",
            source="DeepSeek-V3.2 2512.02556 §3.1",
            what="each domain of problems has its own KL coefficient",
            equation="β of the answer's domain",
            values="none published; weak or none for mathematics",
            keys=("domains.NAME.kl_coefficient", "kl.coefficient"),
            is_on=lambda c: c.uses_kl and any(c.kl_coefficient_of(name) != c.kl.coefficient for name in c.domains),
            cost="reference model; its pass only over groups with a coefficient",
            test="objective/test_loss.py::test_kl_coefficients_differ_by_sequence_and_leave_the_policy_term_alone",
            differs="The seed's 0 for mathematics and 0.02 for code are its own.",
        ),
        Card(
            number=9,
            name="reweighted KL",
            source="DeepSeek-V3.2 2512.02556 eq. 7",
            what="the KL estimate is weighted by the live ratio, which makes its gradient that of the KL divergence",
            equation="r·(e^{-δ} - 1 + δ), δ = log π_new - log π_ref, gradient through both",
            values="per token, with k3",
            keys=("kl.importance", "kl.estimator"),
            is_on=lambda c: c.uses_kl and not c.kl.in_reward and c.kl.importance != "none",
            cost="reference model and its forward pass",
            test="objective/test_kl.py::test_token_weighted_forms_are_the_local_gradient",
            differs="The seed weighs k1 of the whole answer by the ratio of the whole answer: `estimator=k1` with "
            "`importance=sequence_product`, unbiased, with an exploding spread. Its reason, a look at the answers that "
            "changed most, is not the paper's, which is bias.",
        ),
        Card(
            name="KL in the reward",
            source="PPO for language models (2203.02155)",
            what="each token is charged k1 for itself and for all that follows it",
            equation="A_t = A - β·Σ_{u≥t} log(π_old/π_ref)",
            values="β 0.02",
            keys=("kl.in_reward",),
            is_on=lambda c: c.uses_kl and c.kl.in_reward,
            cost="reference model and its forward pass",
            test="objective/test_kl.py::test_k1_in_the_reward_is_exact_on_policy",
        ),
        Card(
            name="KL with another reduction",
            source="the seed, repair 1",
            what="KL is weighted per token or per answer, whatever the policy term does",
            equation="for example (1/S) Σ_i (1/L_i) Σ_t KL_it, the length-normalised form",
            values="none",
            keys=("kl.reduction",),
            is_on=lambda c: c.uses_kl and not c.kl.in_reward and not isinstance(c.kl.reduction, AsPolicy),
            cost="as 8",
            test="objective/test_loss.py::test_kl_may_have_a_reduction_of_its_own",
            differs="It changes the size and not the direction: k1 as a loss has an expected gradient of 0 either way.",
        ),
        Card(
            name="moving reference",
            source="DeepSeek-R1 2501.12948",
            what="the policy becomes the reference every so many steps",
            equation="π_ref ← π every n steps",
            values="400 steps of 512 answers",
            keys=("kl.refresh_reference_every_steps",),
            is_on=lambda c: c.uses_kl and c.kl.refresh_reference_every_steps > 0,
            cost="the reference is in the checkpoints",
            test="explaining/test_explain.py::test_costs_of_a_reference",
        ),
    )

    def findings(self, config: TrainConfig) -> Iterator[Finding]:
        """Options of a penalty that is not there or acts elsewhere, and estimates with another gradient than KL's."""
        if not config.uses_kl:
            names = [name for name in type(self).model_fields if name != "coefficient"]
            yield from self._unused(names, "kl.coefficient=0", "give it a coefficient")
            for name, domain in config.domains.items():
                if domain.kl_coefficient is not None:
                    key = f"domains.{name}.kl_coefficient"
                    text = (
                        f"{key}=0 with kl.coefficient=0: every coefficient is 0, so that nothing is penalised; give "
                        "one of them a value, or leave this one out"
                    )
                    yield error((key, "kl.coefficient"), text)
            return
        if self.in_reward:
            names = ["estimator", "importance", "reduction"]
            yield from self._unused(names, "kl.in_reward=true", "set kl.in_reward=false")
            yield from self._spread_gradient(config)
        yield from self._never(config)
        if self.in_reward:
            return
        trap = self.estimator.trap(self.importance)
        if trap:
            text = f"kl.estimator={self.estimator.type} with kl.importance={self.importance}: {trap}"
            yield warning(("kl.estimator", "kl.importance"), text)
        if self.importance == "sequence_product":
            text = (
                "kl.importance=sequence_product weights every token by the product of the ratios of up to "
                f"{config.sampling.max_new_tokens} tokens, whose spread grows with the length; set kl.importance=token"
            )
            yield warning(("kl.importance", "sampling.max_new_tokens"), text)

    def _unused(self, names: list[str], because: str, remedy: str) -> Iterator[Finding]:
        for name in names:
            yield from unused(f"kl.{name}", getattr(self, name), type(self).model_fields[name].default, because, remedy)

    def _spread_gradient(self, config: TrainConfig) -> Iterator[Finding]:
        objective = config.objective
        if objective.ratio.of_episode or objective.surrogate.type == "gmpo":
            text = (
                f"kl.in_reward=true with objective.ratio={objective.ratio.type}: the penalty differs from token to "
                "token, and a ratio of the whole answer spreads its gradient over all of them; set objective.ratio="
                "gspo_token or token, or kl.in_reward=false"
            )
            yield warning(("kl.in_reward", "objective.ratio"), text)

    def _never(self, config: TrainConfig) -> Iterator[Finding]:
        trained = config.trained_domains
        if trained and all(config.kl_coefficient_of(name) == 0 for name in trained):
            stated = {name: f"domains.{name}.kl_coefficient" for name in trained if name in config.domains}
            keys = [stated.get(name, "kl.coefficient") for name in trained]
            text = (
                f"{' and '.join(dict.fromkeys(keys))}=0 with problems.train={shown(config.problems.train)}: all of its "
                f"problems are of the domain {' or '.join(trained)}, so that a reference is loaded and penalises "
                "nothing; train on problems of other domains too, or set every coefficient to 0"
            )
            yield warning((*keys, "problems.train"), text)
        if self.refresh_reference_every_steps >= config.run.steps:
            text = (
                f"kl.refresh_reference_every_steps={self.refresh_reference_every_steps} is not less than run.steps="
                f"{config.run.steps}: the reference is never refreshed; run longer, or set it to 0"
            )
            yield warning(("kl.refresh_reference_every_steps", "run.steps"), text)
