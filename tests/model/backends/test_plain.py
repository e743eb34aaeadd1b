"""The plain back-end computes what the model computes of each sequence alone, and the engine draws from the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from groupwise.model.backends.head import head_of, own_logits
from groupwise.model.backends.plain import Plain, turning_point
from groupwise.model.choose_backend import choose_backend, run_by
from groupwise.model.load import Policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import SamplingMask, Scoring, backend_of, score
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import InProcessEngine
from groupwise.rollout.sampling import derive_seed
from tests.support.sampling import recorded
from tests.support.tiny import gradients, policy_of, relative_difference
from tests.support.zoo import ORIGINAL_CONTEXT, VOCABULARY, WINDOW, ZOO, build

CPU = torch.device("cpu")

# Soft caps, sinks, linear attention, chunks, a window, a rotation that depends on the length, absolute positions, value
# heads narrower than keys.
QUICK = ("Gemma2", "GPT-OSS", "Qwen3.5", "Llama4", "Mistral, window", "Phi-3, long-rope", "GPT-2", "DeepSeek-V3")
ALL = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]

# Shorter and longer than the window and the turning point, in one group and apart; prompts of one token and past both.
SHAPES = ((7, (5, 1, 9)), (1, (4,)), (12, (60, 4)), (40, (8, 50, 1)))


def groups_of(shapes: Sequence[tuple[int, Sequence[int]]] = SHAPES) -> list[SequenceGroup]:
    generator = np.random.default_rng(2)

    def ids(length: int) -> Any:
        return generator.integers(0, VOCABULARY, length)

    return [SequenceGroup(ids(prompt), tuple(ids(length) for length in lengths)) for prompt, lengths in shapes]


def plain_of(name: str) -> tuple[PreTrainedModel, Policy]:
    """The model as transformers builds it, and a policy that runs a copy of it by the plain back-end."""
    model = build(name)
    policy, note = choose_backend(policy_of(model, (1, 2, 3), 256), "plain", 200)
    assert note == ""
    assert type(backend_of(policy)) is Plain
    return model, policy


def logits_alone(model: PreTrainedModel, group: SequenceGroup, index: int) -> Tensor:
    """The model's logits that predict each token of a completion, of the unpadded sequence.

    Where a rotation changes with the length, each prefix is rotated as a sequence of its own length.
    """
    ids_1T = torch.from_numpy(np.concatenate([group.prompt_ids, group.completion_ids[index]])).unsqueeze(0)
    logits_TV: Tensor = model(input_ids=ids_1T[:, :-1], use_cache=False).logits[0]
    turn = turning_point(model.config)
    if turn is not None and ids_1T.shape[1] - 1 > turn:
        before_TV = model(input_ids=ids_1T[:, :turn], use_cache=False).logits[0]
        logits_TV = torch.cat([before_TV, logits_TV[turn:]])
    return logits_TV[len(group.prompt_ids) - 1 :].double()


def logps_alone(model: PreTrainedModel, groups: Sequence[SequenceGroup], temperature: float) -> Tensor:
    parts = []
    for group in groups:
        for index, ids in enumerate(group.completion_ids):
            logps_TV = (logits_alone(model, group, index) / temperature).log_softmax(-1)
            parts.append(logps_TV[torch.arange(len(ids)), torch.from_numpy(ids)])
    return torch.cat(parts)


def weighted(logps_N: Tensor) -> Tensor:
    """A different factor of either sign for each token."""
    return (logps_N.double() * torch.linspace(-1.0, 2.0, len(logps_N), dtype=torch.float64)).sum()


def global_difference(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Of all weights as one vector, relative: a weight whose gradient is 0 but for rounding has no relative error."""
    assert actual.keys() == expected.keys()
    away = sum(float((actual[name] - expected[name]).double().square().sum()) for name in actual)
    size = sum(float(gradient.double().square().sum()) for gradient in expected.values())
    return float((away / size) ** 0.5)


# With these weights the unpadded pass of Gemma 4 in float32 is itself 3e-5 nats, and its gradient 6e-5, away from the
# one in float64, in which it is compared to 1e-9 below.
ROUNDING = {"Gemma4": (1e-4, 2e-4)}


@pytest.mark.parametrize("name", ALL)
def test_scores_and_gradients_are_those_of_each_sequence_alone(name: str) -> None:
    model, policy = plain_of(name)
    groups = groups_of()
    expected_N = logps_alone(model, groups, 0.7)
    weighted(expected_N).backward()
    logps_N = score(policy, pack(groups, CPU), Scoring(0.7, 30)).logps_N
    weighted(logps_N).backward()
    of_scores, of_gradients = ROUNDING.get(name, (5e-5, 1e-5))
    torch.testing.assert_close(logps_N.double(), expected_N, atol=of_scores, rtol=0)
    assert global_difference(gradients(policy.model), gradients(model)) < of_gradients


@pytest.mark.parametrize("name", ["Gemma2", "Mistral, window", "Phi-3, long-rope", "GPT-2", "Qwen3.5", "Gemma4"])
def test_scores_in_double_precision(name: str) -> None:
    model = build(name).double()
    policy = run_by(policy_of(model, max_context_tokens=256), "plain", "eager")
    groups = groups_of()
    expected_N = logps_alone(model, groups, 1.0)
    weighted(expected_N).backward()
    logps_N = score(policy, pack(groups, CPU), Scoring(1.0, 1000)).logps_N
    weighted(logps_N).backward()
    torch.testing.assert_close(logps_N, expected_N, atol=1e-9, rtol=0)
    # Softmax, norms and rotations of these models round to float32 whatever their weights are.
    assert global_difference(gradients(policy.model), gradients(model)) < 1e-6


@pytest.mark.parametrize("chunk_tokens", [9, 1000])
@pytest.mark.parametrize("name", ["Gemma2", "Qwen3.5"])
def test_entropies_kept_sets_and_squares(name: str, chunk_tokens: int) -> None:
    model, policy = plain_of(name)
    groups = groups_of()
    with torch.no_grad():
        logits = [logits_alone(model, group, i) for group in groups for i in range(len(group.completion_ids))]
    logits_NV = torch.cat(logits)
    target_N = torch.from_numpy(np.concatenate([ids for group in groups for ids in group.completion_ids]))
    kept_NV = torch.rand(logits_NV.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    kept_NV[torch.arange(len(target_N)), target_N] = True
    for mask in (None, SamplingMask(kept_NV.nonzero()[:, 1], kept_NV.sum(1))):
        kept = logits_NV / 0.8 if mask is None else (logits_NV / 0.8).masked_fill(~kept_NV, -torch.inf)
        probabilities_NV = kept.softmax(-1)
        scoring = Scoring(0.8, chunk_tokens, entropy_gradient=True, square_sums=True)
        scores = score(policy, pack(groups, CPU), scoring, mask)
        own_N = probabilities_NV[torch.arange(len(target_N)), target_N]
        torch.testing.assert_close(scores.logps_N.double(), own_N.log(), atol=5e-5, rtol=0)
        entropies_N = torch.special.entr(probabilities_NV).sum(-1)
        torch.testing.assert_close(scores.entropies_N.double(), entropies_N, atol=5e-5, rtol=0)
        at_1_N = torch.special.entr(logits_NV.softmax(-1)).sum(-1)
        torch.testing.assert_close(scores.entropies_at_1_N.double(), at_1_N, atol=5e-5, rtol=0)
        assert scores.square_sums_N is not None
        torch.testing.assert_close(scores.square_sums_N.double(), probabilities_NV.square().sum(-1), atol=5e-5, rtol=0)
        assert scores.entropies_N.requires_grad


@pytest.mark.parametrize("name", ["Qwen3.5", "Phi-3, long-rope"])
def test_only_sampled_tokens_of_turns_are_scored(name: str) -> None:
    _, policy = plain_of(name)
    groups = groups_of()
    generator = np.random.default_rng(0)
    sampled = []
    for group in groups:
        spans = [generator.random(len(ids)) < 0.5 for ids in group.completion_ids]
        for span in spans:
            span[-1] = True
        sampled.append(SequenceGroup(group.prompt_ids, group.completion_ids, tuple(spans)))
    with torch.no_grad():
        every_N = score(policy, pack(groups, CPU), Scoring(1.0, 1000)).logps_N
        some_N = score(policy, pack(sampled, CPU), Scoring(1.0, 1000)).logps_N
    chosen_N = torch.from_numpy(np.concatenate([span for group in sampled for span in group.sampled or ()]))
    torch.testing.assert_close(some_N, every_N[chosen_N], atol=2e-6, rtol=0)


def test_layers_that_are_computed_again_have_the_same_gradient() -> None:
    (_, policy), (_, again) = plain_of("Gemma3"), plain_of("Gemma3")
    for one, checkpointing in ((policy, False), (again, True)):
        weighted(
            score(one, pack(groups_of(), CPU), Scoring(1.0, 1000, checkpoint_layers=checkpointing)).logps_N
        ).backward()
    assert relative_difference(gradients(again.model), gradients(policy.model)) < 1e-6


# The head


@pytest.mark.parametrize("name", ["Gemma2, final cap only", "Granite", "Cohere2", "OPT", "GPT-2", "Gemma4", "Llama4"])
def test_the_head_has_the_scale_and_the_cap_of_its_model(name: str) -> None:
    model = build(name)
    hidden_CD = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    seen: list[Tensor] = []
    layer = model.get_output_embeddings()
    hook = layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))  # noqa: ARG005
    whole_1TV = model(input_ids=torch.arange(7).unsqueeze(0), use_cache=False).logits
    hook.remove()
    torch.testing.assert_close(own_logits(model, seen[0][0]), whole_1TV[0], atol=1e-6, rtol=0)
    torch.testing.assert_close(head_of(model)(hidden_CD), own_logits(model, hidden_CD), atol=0, rtol=0)
    assert "forward" not in vars(model.get_decoder())


# The engine

PROMPTS = (9, 1, 20, 40)
ROOM = SamplingParams(1.0, 60, (1, 2))


# A step of one token is other code of transformers than a whole pass: for Nemotron-H it leaves out the lower limit of
# step sizes, and for gated linear attention it sums in another order, in float32 whatever the weights are.
STEP_BOUNDS = {"Nemotron-H": 1e-3, "Qwen3-Next": 2e-4}


def asked(samples: int = 4) -> list[SampleRequest]:
    generator = np.random.default_rng(11)
    return [
        SampleRequest(
            generator.integers(0, VOCABULARY, length), tuple(derive_seed(3, "test", i, g) for g in range(samples))
        )
        for i, length in enumerate(PROMPTS)
    ]


def scored(policy: Policy, requests: Sequence[SampleRequest], answers: Any, mask: SamplingMask | None = None) -> Tensor:
    groups = [SequenceGroup(r.prompt_ids, tuple(c.ids for c in g)) for r, g in zip(requests, answers, strict=True)]
    with torch.no_grad():
        return score(policy, pack(groups, CPU), Scoring(1.0, 1000), mask).logps_N


@pytest.mark.parametrize("name", ALL)
def test_the_engine_draws_from_what_the_trainer_scores(name: str) -> None:
    """Whatever else is in the batch, and in whatever order it is asked."""
    _, policy = plain_of(name)
    requests = asked()
    answers = InProcessEngine(policy, 256).generate(requests, ROOM)
    assert {len(c.ids) for group in answers for c in group} > {60}
    assert {c.finish_reason for group in answers for c in group} == {"stop", "length"}
    bound = STEP_BOUNDS.get(name, 5e-5)
    torch.testing.assert_close(recorded(answers), scored(policy, requests, answers), atol=bound, rtol=0)
    others = InProcessEngine(policy, 3).generate(requests[::-1], ROOM)[::-1]
    pairs = [(c, o) for group, other in zip(answers, others, strict=True) for c, o in zip(group, other, strict=True)]
    assert all(c.ids.tolist() == o.ids.tolist() for c, o in pairs)


def test_the_engine_draws_the_tokens_that_the_packed_one_draws() -> None:
    packed = policy_of(build("Qwen3"), (1, 2), 256)
    _, plain = plain_of("Qwen3")
    of_packed, of_plain = (InProcessEngine(policy, 256).generate(asked(), ROOM) for policy in (packed, plain))
    assert [c.ids.tolist() for g in of_packed for c in g] == [c.ids.tolist() for g in of_plain for c in g]
    torch.testing.assert_close(recorded(of_plain), recorded(of_packed), atol=2e-5, rtol=0)


def test_kept_sets_are_those_that_tokens_were_drawn_from() -> None:
    _, policy = plain_of("Qwen3.5")
    requests = asked()
    answers = InProcessEngine(policy, 5).generate(requests, SamplingParams(1.0, 24, (1, 2), top_k=7, record_kept=True))
    kept = [c.kept for group in answers for c in group]
    counts = np.concatenate([one.counts_T for one in kept if one is not None])
    ids = np.concatenate([one.ids for one in kept if one is not None])
    assert set(counts.tolist()) == {7}
    mask = SamplingMask(torch.from_numpy(ids).long(), torch.from_numpy(counts).long())
    torch.testing.assert_close(recorded(answers), scored(policy, requests, answers, mask), atol=5e-5, rtol=0)


def test_groups_are_handed_out_as_they_end_and_contexts_are_not_passed() -> None:
    model = build("GPT-2")
    policy, _ = choose_backend(policy_of(model, (), 44), "plain", 44)
    found = dict(InProcessEngine(policy, 2).stream(asked(2), SamplingParams(1.0, 60, ())))
    assert list(found) == [1, 0, 2, 3]
    assert [[len(c.ids) for c in found[i]] for i in range(4)] == [[35, 35], [43, 43], [24, 24], [4, 4]]


# Which back-end an architecture gets


@pytest.mark.parametrize("name", ALL)
def test_what_is_chosen_computes_what_the_model_does(name: str) -> None:
    policy, note = choose_backend(policy_of(build(name), max_context_tokens=256), "auto", 100)
    assert (policy.backend == "plain") == bool(note)
    if note:
        assert note.startswith("plain: ")
        assert "\n" not in note
    groups = groups_of()
    with torch.no_grad():
        logps_N = score(policy, pack(groups, CPU), Scoring(1.0, 1000)).logps_N
        torch.testing.assert_close(logps_N.double(), logps_alone(build(name), groups, 1.0), atol=5e-5, rtol=0)


@pytest.mark.parametrize(
    ("name", "tokens", "reason"),
    [
        ("Mistral, window", WINDOW + 1, "sliding_window of 16"),
        ("Phi-3, long-rope", ORIGINAL_CONTEXT + 1, "more than 32 tokens"),
        ("Llama4", 65, "attention_chunk_size of 64"),
        ("Gemma2", WINDOW, "soft-capped"),
        ("Qwen3.5", 24, "packed log-probabilities differ from the model's own by"),
    ],
)
def test_why_a_model_is_run_by_its_own_pass(name: str, tokens: int, reason: str) -> None:
    model = build(name)
    _, note = choose_backend(policy_of(model), "auto", tokens)
    assert reason in note
    assert "prompt is read once for each completion" in note


@pytest.mark.parametrize(("name", "tokens"), [("Mistral, window", WINDOW), ("Phi-3, long-rope", ORIGINAL_CONTEXT)])
def test_short_sequences_of_such_models_are_packed(name: str, tokens: int) -> None:
    policy, note = choose_backend(policy_of(build(name)), "auto", tokens)
    assert (policy.backend, note) == ("packed", "")


def test_a_cap_of_scores_is_never_left_to_a_kernel_without_one() -> None:
    """Also where it is so wide that a short check sees nothing of it."""
    model = build("Gemma2")
    model.config.attn_logit_softcapping = 1e4
    policy, _ = choose_backend(policy_of(model), "plain", 24)
    assert policy.model.config._attn_implementation == "eager"
