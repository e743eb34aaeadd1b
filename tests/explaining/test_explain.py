"""`groupwise explain`: equations have their numbers, techniques are those of the options, costs are counted."""

import ast
import random
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from groupwise.bundled import __file__ as bundled_file
from groupwise.config import TrainConfig
from groupwise.config.checks import contradictions
from groupwise.config.compose import compose_to_explain, compose_train_config
from groupwise.config.describe import all_keys
from groupwise.config.schema import as_named_sections, as_section, as_techniques
from groupwise.errors import UsageError
from groupwise.explaining.costs import Cost, costs_of
from groupwise.explaining.docs import document
from groupwise.explaining.equation import equation_of
from groupwise.explaining.report import explain, plan_lines, to_json, to_text
from groupwise.explaining.reward_table import domain_lines, domain_table
from groupwise.explaining.techniques import ADDITIONS, FIFTEEN, cards_of
from groupwise.grading.components.component import RewardComponent
from groupwise.grading.reward_options import FunctionOptions
from groupwise.memory.needs import shown_bytes
from groupwise.model.load import load_policy
from groupwise.model.size import ModelSize, read_size
from groupwise.technique import Card, Technique, sections_in
from tests.support.commands import groupwise

TESTS = Path(__file__).parents[1]
TECHNIQUES = (*FIFTEEN, *ADDITIONS)


def build(**sections: object) -> TrainConfig:
    return TrainConfig.model_validate(sections)


def terms(config: TrainConfig) -> dict[str, str]:
    found = equation_of(config).terms
    assert len({symbol for symbol, _ in found}) == len(found), "every symbol is explained once"
    return dict(found)


# The equation

OBJECTIVES = [
    (build(), "J = (1/M) Σ_i Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) ]"),
    (
        build(objective={"reduction": "constant_length", "surrogate": {"clip_low": 0.1, "dual_clip": 3.0}}),
        "J = 1/(S·512) Σ_i Σ_t [ max(min(r·A, clip(r, 0.9, 1.28)·A), 3·A where A < 0) ]",
    ),
    (
        build(objective={"reduction": "sequence_mean_token_mean"}, kl={"coefficient": 0.04, "importance": "none"}),
        "J = (1/S) Σ_i (1/L_i) Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) - β·(e^(-δ) - 1 + δ) ]",
    ),
    (
        build(
            kl={"coefficient": 0.04, "estimator": "k2", "importance": "none", "reduction": "sequence_mean_token_sum"}
        ),
        "J = (1/M) Σ_i Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) ] - (1/S) Σ_i Σ_t β·δ²/2",
    ),
    (
        build(objective={"surrogate": "cispo"}, entropy={"bonus": {"type": "fixed", "coefficient": 0.001}}),
        "J = (1/M) Σ_i Σ_t [ sg[min(r, 5)]·A·log π + 0.001·H ]",
    ),
    (
        build(objective={"surrogate": {"type": "cispo", "cap": 2.0, "floor": 0.5}}, entropy={"bonus": "target"}),
        "J = (1/M) Σ_i Σ_t [ sg[clip(r, 0.5, 2)]·A·log π + α·H ]",
    ),
    (build(objective={"surrogate": "sapo"}), "J = (1/M) Σ_i Σ_t [ A·(4/τ)·σ(τ·(r - 1)) ]"),
    (build(objective={"surrogate": "reinforce"}), "J = (1/M) Σ_i Σ_t [ r·A ]"),
    (build(objective={"surrogate": "reinforce", "ratio": "none"}), "J = (1/M) Σ_i Σ_t [ A·log π ]"),
    (
        build(objective={"surrogate": {"type": "dppo", "tv_low": 0.2, "tv_high": 0.1}}),
        "J = (1/M) Σ_i Σ_t [ r·A·[A > 0: π - π_old ≤ 0.1; A < 0: ≥ -0.2] ]",
    ),
    (
        build(objective={"surrogate": {"type": "dppo_kl", "reference": "old", "cap": 5.0}}),
        "J = (1/M) Σ_i Σ_t [ min(r, 5)·A·[A > 0: π ≤ π_old or D ≤ 0.05; A < 0: π ≥ π_old or D ≤ 0.05] ]",
    ),
    (build(objective={"surrogate": "ipo"}), "J = (1/M) Σ_i Σ_t [ r·A·[|π - π_engine| ≤ 0.3] ]"),
    (
        build(objective={"surrogate": "vespo", "ratio": "sequence_product"}),
        "J = (1/M) Σ_i Σ_t [ sg[r^k·e^(λ·(1 - r))]·A·log π ]",
    ),
    (build(objective={"surrogate": "gmpo"}), "J = (1/M) Σ_i Σ_t [ s·A ]"),
    (build(objective={"surrogate": "ce_gppo"}), "J = (1/M) Σ_i Σ_t [ ω·A·r/sg[r] ]"),
    (build(objective={"surrogate": "aspo"}), "J = (1/M) Σ_i Σ_t [ sg[ω]·A·log π ]"),
    (
        build(objective={"surrogate": "fipo"}),
        "J = (1/M) Σ_i Σ_t [ max(min(r·f·A, clip(r, 0.8, 1.28)·f·A), 10·f·A where A < 0) ]",
    ),
    (build(objective={"surrogate": {"type": "seed_clip", "clip_high": 10.0}}), "J = (1/M) Σ_i Σ_t [ A·min(r, 11) ]"),
    (
        build(
            objective={"old_logps": "trainer", "reduction": "group_token_mean"},
            engine_correction="tis",
            off_policy_mask={"type": "sequence", "reference": "old"},
            entropy={"tokens": "top_entropy"},
        ),
        "J = (1/Q) Σ_g (1/M_g) Σ_i∈g Σ_t [ w·m·c·min(r·A, clip(r, 0.8, 1.28)·A) ]",
    ),
    (
        build(entropy={"covariance": "kl_cov"}),
        "J = (1/M) Σ_i Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) - 1·|log π - log π_old|·[t is picked] ]",
    ),
]


@pytest.mark.parametrize(("config", "objective"), OBJECTIVES, ids=[str(i) for i in range(len(OBJECTIVES))])
def test_objective(config: TrainConfig, objective: str) -> None:
    assert equation_of(config).objective == objective


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "R - mean(R)"),
        ({"baseline": "leave_one_out"}, "R - mean of the others"),
        ({"baseline": "none"}, "R"),
        ({"scale": "group_std", "std_epsilon": 1e-6}, "(R - mean(R)) / (std(R) + 1e-06), squares over G-1"),
        ({"scale": "group_std", "std_ddof": 0}, "(R - mean(R)) / (std(R) + 0.0001), squares over G"),
        ({"scale": "batch_std"}, "(R - mean(R)) / (std of the step's R + 0.0001)"),
        ("max_rl", "(R - mean(R)) / mean(R)"),
        ("pass_at_k", "pass@4: (1 - R̄)/σ if right, (1 - R̄ - C(N₋-1, k-1)/C(N-1, k-1))/σ if wrong"),
    ],
)
def test_advantage_of_the_equation(options: dict[str, object] | str, text: str) -> None:
    assert terms(build(advantage={"estimator": options}))["A"] == text
    assert terms(build(advantage={"estimator": options, "clip": 5.0}))["A"] == f"{text}, within ±5"


def test_gdpo_has_one_reward_for_each_component() -> None:
    config = build(advantage={"estimator": "gdpo"}, rewards={"format": {"weight": 0.5}})
    assert terms(config)["R_k"] == "correct, 0.5·format"
    assert terms(config)["A"].startswith("(Z - mean(Z)) / (std(Z) + 0.0001) over the step, Z = Σ_k w_k·")


def test_rewards_of_the_equation() -> None:
    rewards: dict[str, object] = {
        "correctness": {"weight": 2.0},
        "format": {"weight": 0.1},
        "overlong": {"buffer_tokens": 112},
    }
    assert terms(build(rewards=rewards))["R"] == "2·correct + 0.1·format + overlong (0 up to 400 tokens, -1 at 512)"
    conditional = build(rewards={"format": {"weight": 1.0, "requires": "correctness"}})
    assert terms(conditional)["R"] == "correct + format·[correctness full]"


def test_every_component_of_the_equation() -> None:
    config = build(
        rewards={
            "format": {"weight": 0.1, "strictness": "soft"},
            "overlong": {"buffer_tokens": 100, "weight": 0.5},
            "length": {"weight": 0.2, "free_tokens": 12},
            "language": {"weight": 0.3, "script": "Han"},
            "repetition": {"weight": 0.4, "ngram_tokens": 5, "free_fraction": 0.25},
            "functions": {
                "polite": {"path": "m:f", "weight": -0.5, "requires": "format"},
                "watched": {"path": "m:g", "weight": 0.0},
            },
            "gate": "correctness",
        }
    )
    assert terms(config)["R"] == (
        "correct + 0.1·format (a quarter for each of 4 parts) + 0.5·overlong (0 up to 412 tokens, -1 at 512) + "
        "0.2·length (0 up to 12 tokens, -1 at 512) + 0.3·language (fraction of letters in Han) + 0.4·repetition (minus "
        "the fraction of repeated 5-grams beyond 0.25) + -0.5·polite·[format full]; without full correctness only what "
        "is below 0"
    )
    relative = build(rewards={"length": {"weight": 1.0, "type": "group_relative"}})
    assert terms(relative)["R"] == (
        "correct + length (from 0.5 for the shortest of the group to -0.5 for the longest, wrong ones at most 0)"
    )


DOMAINS: dict[str, dict[str, object]] = {
    "kl": {"coefficient": 0.01},
    "rewards": {"format": {"weight": 0.2}},
    "domains": {
        "code": {
            "kl_coefficient": 0.02,
            "rewards": {"format": {"weight": 0.0}, "functions": {"brevity": {"path": "m:f", "weight": 0.5}}},
        },
        "proofs": {"kl_coefficient": 0.0},
    },
    "problems": {"train": "x.jsonl"},
}


def test_domains_are_one_table_of_weights_and_kl() -> None:
    assert domain_lines(domain_table(build(**DOMAINS))) == [
        "domain  KL coefficient  correctness  format  brevity",
        "others  0.01            1            0.2     0",
        "code    0.02            1            0       0.5",
        "proofs  0               1            0.2     0",
    ]
    assert domain_table(TrainConfig()) == []


def test_domains_in_the_equation() -> None:
    equation = equation_of(build(**DOMAINS))
    assert dict(equation.terms)["R"] == "correct + 0.2·format"
    assert dict(equation.terms)["R code"] == "correct + 0.5·brevity"
    assert equation.short().endswith("; R = correct + 0.2·format; R code = correct + 0.5·brevity")
    assert ("β", "0.01; 0.02 for code, 0 for proofs") in equation.terms


def test_domains_are_explained() -> None:
    explanation = explain(build(**DOMAINS))
    assert "domains, with the weights of their rewards\n  domain  KL coefficient" in to_text(explanation)
    explained = to_json(explanation)
    assert explained["domains"][1] == {
        "domain": "code",
        "kl_coefficient": 0.02,
        "weights": {"correctness": 1.0, "format": 0.0, "brevity": 0.5},
    }
    options = {name: found["options"] for found in explained["techniques"] if (name := found["name"])}
    assert options["rewards by domain"] == {
        "domains.code.rewards": {
            "format": {"weight": 0.0},
            "functions": {"brevity": build(**DOMAINS).rewards_of("code").functions["brevity"].model_dump()},
        }
    }
    assert options["KL by domain"] == {
        "domains.code.kl_coefficient": 0.02,
        "domains.proofs.kl_coefficient": 0.0,
        "kl.coefficient": 0.01,
    }
    assert options["format reward"]["domains.code.rewards.format.weight"] == 0.0
    assert options["reward functions"]["domains.code.rewards.functions.brevity.path"] == "m:f"


def test_the_trap_of_the_format_is_explained_with_its_numbers_in_every_table() -> None:
    config = build(
        rewards={"format": {"weight": 1.0}, "language": {"weight": 0.5}},
        domains={"code": {"rewards": {"format": {"requires": "correctness"}, "language": {"weight": 1.0}}}},
        problems={"train": "x.jsonl"},
    )
    text = re.sub(r"\s+", " ", to_text(explain(config)))
    assert "warning: rewards: a wrong answer can earn 1 (format) + 0.5 (language) = 1.5, more than the 1" in text
    assert "warning: domains.code.rewards: a wrong answer can earn 1 (language), as much as the 1" in text
    assert "lower domains.code.rewards.language.weight to less than 1" in text


def test_terms_have_the_numbers() -> None:
    config = build(
        sampling={"temperature": 0.8, "top_k": 20, "top_p": 0.9, "replay_mask": True},
        batch={"prompts_per_step": 12, "samples_per_prompt": 4, "minibatches_per_step": 3, "epochs_per_step": 2},
        objective={"old_logps": "trainer", "ratio": "sequence_geometric_mean", "mask_truncated": True},
        engine_correction={"type": "mis", "level": "sequence_product", "low": 0.5, "high": 5.0},
        off_policy_mask={"type": "sequence", "threshold_nats": 0.05},
        domains={"code": {"kl_coefficient": 0.02}},
        kl={"coefficient": 0.01, "refresh_reference_every_steps": 7},
        entropy={"bonus": "target", "covariance": "clip_cov"},
        active_sampling={"filter": "total", "max_prompts_per_step_factor": 3.0},
    )
    assert terms(config) == {
        "r": "exp((1/L) Σ_t log π/π_old) of the answer; π_old: scored by the trainer",
        "A": "R - mean(R)",
        "R": "correct",
        "w": "Π_t π_old/π_engine of the answer, 0 outside of 0.5 … 5; detached",
        "m": "0 where A < 0 and (1/L) Σ_t log(π_engine/π) > 0.05, else 1",
        "c": "0 for 0.02 % of tokens, drawn among those with a covariance of log π and A in 1 … 5",
        "β": "0.01; 0.02 for code",
        "ρ": "π/π_old of the token, with gradient",
        "δ": "log π - log π_ref of the token",
        "π_ref": "the policy of every 7th step",
        "α": "from 0 on by 0.005 a step towards H = 0.2, within 0 … 1",
        "H": "entropy of π at the token, nats",
        "M": "tokens of all 16 answers of an optimizer step",
        "π": "at temperature 0.8, over the recorded sets of top-k 20, top-p 0.9",
        "groups": "those in which the total reward differs, out of up to 3 times 12",
        "step": "6 optimizer steps on 12 × 4 answers, truncated ones left out",
    }


def test_a_penalty_in_the_reward_is_part_of_the_advantage() -> None:
    config = build(kl={"coefficient": 0.02, "in_reward": True})
    assert terms(config)["A"] == "R - mean(R), and for each token - β·Σ_{u≥t} log(π_old/π_ref)"
    assert "β" not in equation_of(config).objective
    assert terms(config)["β"] == "0.02"


def test_the_plan_has_the_short_form() -> None:
    objective, technique = plan_lines(build(rewards={"format": {"weight": 0.2}}))
    assert objective == (
        "objective J = (1/M) Σ_i Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) ]; A = R - mean(R); R = correct + 0.2·format"
    )
    assert technique == "technique 1 2 3 4 5 7, format reward"


# Techniques

TURNED_ON: dict[str, dict[str, Any]] = {
    "truncated importance sampling": {
        "engine_correction": "tis",
        "objective": {"old_logps": "trainer"},
    },
    "KL by domain": {"kl": {"coefficient": 0.1}, "domains": {"code": {"kl_coefficient": 0.2}}},
    "reweighted KL": {"kl": {"coefficient": 0.1}},
    "sampling mask replay": {"sampling": {"top_p": 0.9, "replay_mask": True}},
    "standard GRPO normalisation": {"advantage": {"estimator": {"scale": "group_std"}}},
    "sequence-level importance sampling": {"objective": {"ratio": "gspo_token"}},
    "LUSPO": {"objective": {"ratio": "sequence_geometric_mean", "reduction": "sequence_mean_token_sum"}},
    "leave-one-out baseline": {"advantage": {"estimator": {"baseline": "leave_one_out"}}},
    "batch deviation": {"advantage": {"estimator": {"scale": "batch_std"}}},
    "process supervision": {"rewards": {"functions": {"own": {"path": "m:f", "returns": "token_spans"}}}},
    "advantage clip": {"advantage": {"clip": 0.5}},
    "dual clip": {"objective": {"surrogate": {"dual_clip": 3.0}}},
    "VESPO": {"objective": {"surrogate": "vespo", "ratio": "sequence_product"}},
    "REAL": {"objective": {"surrogate": "real", "reduction": "sequence_mean_token_mean"}},
    "masked importance sampling": {"engine_correction": "mis", "objective": {"old_logps": "trainer"}},
    "KL in the reward": {"kl": {"coefficient": 0.1, "in_reward": True}},
    "KL with another reduction": {"kl": {"coefficient": 0.1, "reduction": "sequence_mean_token_mean"}},
    "moving reference": {"kl": {"coefficient": 0.1, "refresh_reference_every_steps": 5}},
    "format reward": {"rewards": {"format": {"weight": 0.1}}},
    "printed format reward": {"rewards": {"format": {"type": "tag_order", "weight": 0.1}}},
    "conditional rewards": {"rewards": {"format": {"weight": 0.1, "requires": "correctness"}}},
    "reward gate": {"rewards": {"gate": "correctness"}},
    "overlong penalty": {"rewards": {"overlong": {"buffer_tokens": 8}}},
    "length reward": {"rewards": {"length": {"weight": 0.1, "type": "group_relative"}}},
    "price on length": {"rewards": {"length": {"weight": 0.1}}},
    "partial credit for programs": {"rewards": {"correctness": {"code": {"credit": "fraction"}}}},
    "second grader": {"rewards": {"correctness": {"second_grader": "math_verify"}}},
    "reward functions": {"rewards": {"functions": {"own": {"path": "m:f"}}}},
    "rewards by domain": {"domains": {"math": {"rewards": {"gate": "correctness"}}}},
    "mixed sources": {"problems": {"train": {"arithmetic": 1, "toy_code": 1}}},
    "overlong filtering": {"objective": {"mask_truncated": True}},
    "retirement": {"active_sampling": {"retire_accuracy": 0.875}, "problems": {"train": "x.jsonl"}},
    "filtered sampling": {"sampling": {"min_p": 0.1, "replay_mask": True}},
}
"""The least that turns a technique on that the defaults do not have, where more has to be said than its name."""

TURNED_OFF: dict[str, dict[str, Any]] = {
    "zero-signal filter": {"active_sampling": {"filter": "none", "refill": False}},
    "active sampling": {"active_sampling": {"refill": False}},
    "token-level loss": {"objective": {"reduction": "sequence_mean_token_mean"}},
    "no KL penalty": {"domains": {"math": {"kl_coefficient": 0.1}}},
    "clip-higher": {"objective": {"surrogate": {"clip_high": 0.2}}},
    "no division by the deviation": {"advantage": {"estimator": {"scale": "batch_std"}}},
}
"""The least that turns each technique off that the defaults have."""


def chosen(card: Card, model: type[BaseModel] = TrainConfig) -> dict[str, Any]:
    """The configuration that chooses the technique with this card; empty where it is no choice of its own."""
    for name, info in model.model_fields.items():
        for type_name, technique in as_techniques(info.annotation).items():
            if card in technique.cards:
                weight = {"weight": 0.1} if "weight" in technique.model_fields else {}
                return {name: {"type": type_name, **weight}}
        section = as_section(info.annotation)
        if section is not None and issubclass(section, RewardComponent) and card in section.cards:
            return {name: {"weight": 0.1}}
        if section is not None and (below := chosen(card, section)):
            return {name: below}
    return {}


@pytest.mark.parametrize("technique", TECHNIQUES, ids=[t.name for t in TECHNIQUES])
def test_every_technique_can_be_turned_on_and_off(technique: Card) -> None:
    by_default = technique.is_on(TrainConfig())
    assert by_default == (technique.name in TURNED_OFF)
    stated = (TURNED_OFF if by_default else TURNED_ON).get(technique.name)
    changed = build(**(chosen(technique) if stated is None else stated))
    assert technique.is_on(changed) != by_default
    assert [finding for finding in contradictions(changed) if finding.level == "error"] == []
    sections = {key.partition(".")[0] for key in technique.keys}
    assert sections & changed.model_fields_set, "what turns it is among its options"


def test_numbers_names_and_keys() -> None:
    assert [technique.number for technique in FIFTEEN] == list(range(1, 16))
    assert all(technique.number is None for technique in ADDITIONS)
    assert len({technique.name for technique in TECHNIQUES}) == len(TECHNIQUES)
    keys = set(all_keys(TrainConfig))
    assert {key for technique in TECHNIQUES for key in technique.keys} <= keys


def test_every_technique_of_the_objective_has_a_card_or_is_the_plain_one() -> None:
    """A new surrogate, estimator or correction states a card, or it would be invisible."""
    plain = {"ppo_clip", "group", "token", "gspo_token", "none", "all", "as_policy", "k1", "k2", "k3"}
    plain |= {"sequence_mean_token_mean", "group_token_mean"}
    # Code of the user's own has a card from its own name and formula.
    plain |= {"function"}
    techniques = [section for section in sections_in(TrainConfig) if issubclass(section, Technique)]
    techniques = [technique for technique in techniques if technique.__module__.startswith("groupwise.objective")]
    assert len(techniques) > 25
    for technique in techniques:
        name = technique.model_fields["type"].default
        assert name in plain or technique.cards, name


@pytest.mark.parametrize("technique", TECHNIQUES, ids=[t.name for t in TECHNIQUES])
def test_the_test_of_a_technique_exists(technique: Card) -> None:
    file, _, function = technique.test.partition("::")
    text = (TESTS / file).read_text()
    name, _, case = function.partition("[")
    assert name in {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert case == "" or f'"{case.removesuffix("]")}"' in text


def test_the_page_is_that_of_the_registry() -> None:
    page = (TESTS.parent / "docs" / "techniques.md").read_text(encoding="utf-8")
    assert page == document(), "make docs-pages"
    rows = [line.replace("\\|", "") for line in page.splitlines() if "](techniques/" in line and line.startswith("| ")]
    numbered = [row for row in rows if re.fullmatch(r"\| \d+ (\|[^|]*){3}\|", row)]
    assert (len(numbered), len(rows)) == (15, len(TECHNIQUES))
    assert all(re.fullmatch(r"(\|[^|]*){3,4}\|", row) for row in rows)


# Costs

# 1000 weights, 100 of them embeddings; a token takes 2·2·3·4 = 48 numbers in the cache.
SIZE = ModelSize(1000, 100, layers=2, kv_heads=3, head_dim=4, hidden=12, intermediate=30, vocabulary=50)
SMALL: dict[str, Mapping[str, object]] = {
    "sampling": {"max_new_tokens": 10},
    "batch": {"prompts_per_step": 2, "samples_per_prompt": 4},
    "active_sampling": {"max_prompts_per_step_factor": 2.0},
}


def quantities(config: TrainConfig, size: ModelSize | None = SIZE) -> dict[str, int | None]:
    return {cost.name: cost.quantity for cost in costs_of(config, size)}


def test_costs_of_the_plain_case() -> None:
    assert quantities(build(**SMALL)) == {
        "weights": 4000,
        "gradient and AdamW moments": 12000,
        # 2 times 2 problems of 4 answers at once, 10 tokens each.
        "key/value cache": 48 * 4 * 16 * 10,
    }


def test_costs_of_several_updates() -> None:
    """A copy of 1000 weights and their two moments."""
    for batch in ({"epochs_per_step": 2}, {"minibatches_per_step": 2}):
        assert quantities(build(**{**SMALL, "batch": {**SMALL["batch"], **batch}}))["copy of the last step"] == 12000


def test_costs_of_a_reduced_engine() -> None:
    model: dict[str, object] = {"compute_dtype": "bfloat16", "trainable": "all_but_embeddings"}
    config = build(**{**SMALL, "sampling": {"max_new_tokens": 10}, "engine": {"batch_sequences": 3}}, model=model)
    found = quantities(config)
    assert found["engine copy"] == 2000
    assert found["gradient and AdamW moments"] == 12 * 900
    assert found["key/value cache"] == 48 * 2 * 3 * 10


def test_costs_of_a_reference() -> None:
    found = quantities(build(**SMALL, kl={"coefficient": 0.1, "refresh_reference_every_steps": 5}))
    assert found["reference model"] == 4000
    assert found["reference's pass"] == 1
    assert "reference model" not in quantities(build(**SMALL, kl={"coefficient": 0.0}))


def test_costs_of_recorded_sets() -> None:
    def bound(size: ModelSize | None, **sampling: object) -> int | None:
        replay = {"max_new_tokens": 10, "replay_mask": True, **sampling}
        return quantities(build(**{**SMALL, "sampling": replay}), size)["recorded kept sets"]

    assert bound(None, top_p=0.9) == 4 * 1024 * 160
    assert bound(None, top_k=2000) == 4 * 1024 * 160
    assert bound(None, top_k=20) == 4 * 20 * 160
    assert bound(SIZE, top_p=0.9) == 4 * 50 * 160


@pytest.mark.parametrize(
    ("sections", "passes", "why"),
    [
        ({"objective": {"old_logps": "trainer"}, "batch": {"epochs_per_step": 2}}, 1, "old log-probabilities"),
        ({"objective": {"old_logps": "trainer"}}, 0, "of the one optimizer step itself"),
        ({"entropy": {"tokens": "top_entropy"}}, 1, "entropies or covariances"),
        (
            {
                "objective": {"old_logps": "trainer"},
                "batch": {"epochs_per_step": 2},
                "entropy": {"covariance": "kl_cov"},
            },
            1,
            "old log-probabilities of the trainer and entropies",
        ),
    ],
)
def test_passes_of_the_trainer(sections: dict[str, Any], passes: int, why: str) -> None:
    (cost,) = [c for c in costs_of(build(**sections), None) if c.name == "trainer's pass before the step"]
    assert (cost.quantity, cost.unit) == (passes, "forward passes")
    assert why in cost.why


def test_without_a_size_bytes_are_unknown() -> None:
    assert quantities(build(kl={"coefficient": 0.1}), None)["reference model"] is None
    explanation = explain(build(model={"path": "/there/is/nothing"}))
    assert explanation.size is None
    assert "cannot be read" in explanation.size_note
    assert "weights: unknown" in to_text(explanation)


def test_shown_bytes() -> None:
    assert [shown_bytes(n) for n in (0, 1023, 1536, 200 * 2**10, 5 * 2**20, 7 * 2**40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "200 KiB",
        "5.0 MiB",
        "7.0 TiB",
    ]


def test_the_size_of_the_bundled_model_and_of_its_folder() -> None:
    size = read_size("bundled")
    assert isinstance(size, ModelSize)
    policy = load_policy("bundled")
    assert size.parameters == sum(weight.numel() for weight in policy.model.parameters())
    assert size.embedding_parameters == policy.model.get_input_embeddings().weight.numel()
    assert size.vocabulary == policy.model.config.vocab_size
    # 4 layers, 1 key and 1 value head of width 32.
    assert size.cache_values_per_token == 256
    assert read_size(str(Path(bundled_file).parent / "model")) == size


# Any configuration


def any_value(info: FieldInfo, draw: random.Random) -> Any:
    """A value that an option accepts."""
    origin, arguments = typing.get_origin(info.annotation), typing.get_args(info.annotation)
    if origin is Literal:
        return draw.choice(arguments)
    section, entry = as_section(info.annotation), as_named_sections(info.annotation)
    if techniques := as_techniques(info.annotation):
        # Code of the user's own needs a file.
        name, technique = draw.choice([item for item in techniques.items() if item[0] != "function"])
        return {**any_section(technique, draw), "type": name}
    if section is not None:
        return any_section(section, draw)
    if entry is not None:
        return {name: NEEDED.get(entry, {}) | any_section(entry, draw) for name in draw.choice([[], ["math", "code"]])}
    if type(None) in arguments:
        return draw.choice([None, 0.0, 0.1])
    if info.annotation is bool:
        return draw.random() < 0.5
    low, high = 0.0, 8.0
    for bound in info.metadata:
        low = float(getattr(bound, "ge", low))
        high = float(getattr(bound, "le", high))
        low = float(bound.gt) + 1e-3 if hasattr(bound, "gt") else low
        high = float(bound.lt) - 1e-3 if hasattr(bound, "lt") else high
    return draw.randint(int(low), max(8, int(low) + 1)) if info.annotation is int else draw.uniform(low, high)


NEEDED: dict[type[BaseModel], dict[str, Any]] = {FunctionOptions: {"path": "m:f"}}
WORDS: dict[str, list[Any]] = {
    "path": ["m:f"],
    "gate": ["", "correctness", "format", "math"],
    "requires": ["", "correctness", "format", "code"],
    "grader": ["auto", "math", "code", "maths"],
    "script": ["Latin", "Han", "English"],
    "pattern": ["", "a+", "("],
    "stop": [[], ["</answer>", ""]],
    "stop_ids": [[], [7, "<|im_end|>"]],
    "addresses": [[], ["http://127.0.0.1:8000"]],
    "context_tokens": [None, 4096],
    "folder": ["", "weights"],
    "api_key_variable": ["", "VLLM_KEY"],
}
"""What options that are text, or lists, are drawn from."""


def any_section(section: type[BaseModel], draw: random.Random) -> dict[str, Any]:
    """A third of a section's options."""
    chosen = {name: info for name, info in section.model_fields.items() if draw.random() < 1 / 3}
    return {
        name: draw.choice(WORDS[name]) if info.annotation is str or name in WORDS else any_value(info, draw)
        for name, info in chosen.items()
    }


def any_config(seed: int) -> TrainConfig:
    """A configuration whose options of rewards and objective are drawn at random, a third of them each time."""
    draw = random.Random(seed)
    left_out = ("run", "model", "prompt", "problems", "optimizer", "sandbox")
    drawn = {name: any_value(info, draw) for name, info in TrainConfig.model_fields.items() if name not in left_out}
    return TrainConfig.model_validate(drawn)


def as_listed(key: str) -> str:
    """A key with NAME where a name of the user's stands, and without the repetition of rewards by domain."""
    key = re.sub(r"^domains\.\w+\.rewards\.", "rewards.", key)
    return re.sub(r"^(domains|rewards\.functions)\.\w+", r"\1.NAME", key)


def test_any_configuration_is_explained() -> None:
    refused = 0
    for seed in range(200):
        config = any_config(seed)
        equation = equation_of(config)
        assert equation.objective.startswith("J = ")
        terms(config)
        costs = costs_of(config, SIZE)
        assert all(isinstance(cost, Cost) and cost.quantity is not None for cost in costs)
        findings = contradictions(config)
        refused += any(finding.level == "error" for finding in findings)
        assert all(finding.message.strip() and finding.keys for finding in findings)
        assert {as_listed(key) for finding in findings for key in finding.keys} <= set(all_keys(TrainConfig))
        cards_of(config)
    assert refused > 100, "most of what is drawn at random contradicts itself"


# The command


def test_a_refused_configuration_is_explained_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sampling.top_p=0.9", "kl.coefficient=0.1", "kl.estimator=k1", "kl.importance=none"]
    with pytest.raises(UsageError):
        compose_train_config(arguments)
    assert compose_to_explain(arguments).sampling.top_p == 0.9
    outcome = groupwise(capsys, "explain", *arguments)
    assert outcome.code == 2
    text = re.sub(r"\s+", " ", outcome.out)
    for part in ("- β·δ ]", "error: sampling.top_p=0.9", "warning: kl.estimator=k1", "refused: `groupwise train`"):
        assert part in text
    assert outcome.err == ""


def test_a_wrong_value_is_an_error_as_ever() -> None:
    with pytest.raises(UsageError, match=r"objective\.ratio"):
        compose_to_explain(["objective.ratio=tokn"])


def test_explained_for_programs() -> None:
    explained = to_json(explain(compose_train_config(["demo"])))
    assert explained["objective"] == "J = (1/M) Σ_i Σ_t [ min(r·A, clip(r, 0.8, 1.28)·A) ]"
    assert {"symbol": "R", "meaning": "correct + 0.2·format"} in explained["terms"]
    assert [technique["number"] for technique in explained["techniques"]] == [1, 2, 3, 4, 5, 7, None]
    assert explained["techniques"][4]["options"] == {
        "objective.surrogate.clip_low": 0.2,
        "objective.surrogate.clip_high": 0.28,
    }
    size = read_size("bundled")
    assert isinstance(size, ModelSize)
    assert explained["parameters"] == size.parameters
    assert explained["costs"][0] == {
        "name": "weights",
        "unit": "bytes",
        "quantity": 4 * size.parameters,
        "why": "float32, 4 bytes each",
    }
    assert (explained["findings"], explained["refused"]) == ([], False)


def test_explained_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = groupwise(capsys, "explain", "batch.epochs_per_step=2")
    assert outcome.code == 0
    for part in (
        "objective, maximised",
        "   5  clip-higher:",
        "objective.surrogate.clip_high=0.28",
        "weights: 1.7 MiB",
    ):
        assert part in outcome.out
    assert "findings: none" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 120
