"""The in-process engine: what it samples, what it records, and what it spends."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from groupwise.completion import Completion
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import SamplingMask, Scoring, score
from groupwise.rollout.engine import SampleRequest, SamplingParams
from groupwise.rollout.inprocess import COMPACT_BELOW, InProcessEngine
from groupwise.rollout.sampling import derive_seed, draw, filtered_logits, uniforms
from tests.support.sampling import PROMPTS, STOPS, recorded, requests, sampling, scored
from tests.support.tiny import (
    ARCHITECTURES,
    VOCABULARY,
    arithmetic_prompts,
    build,
    floats,
    plain_logits,
    policy_of,
)


def engine_of(model: PreTrainedModel, batch_sequences: int = 256, max_context_tokens: int = 128) -> InProcessEngine:
    return InProcessEngine(policy_of(model, STOPS, max_context_tokens), batch_sequences)


def assert_same(actual: Completion, expected: Completion) -> None:
    assert actual.ids.tolist() == expected.ids.tolist()
    assert actual.finish_reason == expected.finish_reason
    np.testing.assert_allclose(actual.logps, expected.logps, atol=1e-5, rtol=0)


# What is recorded


@pytest.mark.parametrize("temperature", [1.0, 0.7, 1.4])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_recorded_log_probabilities_are_those_of_the_trainer(architecture: str, temperature: float) -> None:
    policy = policy_of(build(architecture), STOPS)
    answers = InProcessEngine(policy, 256).generate(requests(), sampling(temperature, max_new_tokens=10))
    assert {completion.finish_reason for group in answers for completion in group} == {"stop", "length"}
    torch.testing.assert_close(recorded(answers), scored(policy, requests(), answers, temperature), atol=1e-5, rtol=0)


def test_recorded_log_probabilities_of_the_bundled_model() -> None:
    policy = load_policy("bundled")
    asked = requests((8, 4, 1, 5, 6, 2), arithmetic_prompts(policy, 6))
    answers = InProcessEngine(policy, 256).generate(asked, sampling(1.0, 48, policy.stop_ids))
    torch.testing.assert_close(recorded(answers), scored(policy, asked, answers, 1.0), atol=1e-5, rtol=0)


def test_ids_and_log_probabilities_have_the_types_of_the_record() -> None:
    ((completion, *_), *_) = engine_of(build("llama")).generate(requests(), sampling())
    assert completion.ids.dtype == np.int64
    assert completion.logps.dtype == np.float32
    assert len(completion.ids) == len(completion.logps)


# What company changes: nothing


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_company_order_and_batch_size_change_nothing(architecture: str) -> None:
    """Padded or not, whole groups or divided ones: every completion is that of its prompt and its seed."""
    model = build(architecture)
    asked = requests()
    together = engine_of(model).generate(asked, sampling())
    for index, request in enumerate(asked):
        for g, seed in enumerate(request.seeds):
            # Alone there is neither padding nor another row.
            ((alone,),) = engine_of(model).generate([SampleRequest(request.prompt_ids, (seed,))], sampling())
            assert_same(alone, together[index][g])
    for batch_sequences in (1, 4, 7):
        divided = engine_of(model, batch_sequences).generate(asked, sampling())
        for actual, expected in zip(itertools.chain(*divided), itertools.chain(*together), strict=True):
            assert_same(actual, expected)
    for order in ([3, 1, 0, 2], [2, 3, 1, 0]):
        reordered = engine_of(model).generate([asked[index] for index in order], sampling())
        for position, index in enumerate(order):
            for actual, expected in zip(reordered[position], together[index], strict=True):
                assert_same(actual, expected)


def test_a_longer_limit_only_continues_what_was_cut_off() -> None:
    model = build("qwen3")
    short = engine_of(model).generate(requests(), sampling(max_new_tokens=6))
    long = engine_of(model).generate(requests(), sampling(max_new_tokens=30))
    for cut, whole in zip(itertools.chain(*short), itertools.chain(*long), strict=True):
        assert cut.ids.tolist() == whole.ids[:6].tolist()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_is_that_of_transformers(architecture: str) -> None:
    model = build(architecture)
    answers = engine_of(model).generate(requests((1, 1, 1, 1)), sampling(0.0))
    for prompt, (completion,) in zip(PROMPTS, answers, strict=True):
        theirs = model.generate(
            torch.from_numpy(prompt).unsqueeze(0),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            do_sample=False,
            max_new_tokens=24,
            eos_token_id=list(STOPS),
            pad_token_id=0,
        )[0, len(prompt) :]
        assert completion.ids.tolist() == theirs.tolist()


# How a completion ends


def test_every_stop_id_ends_a_completion_and_belongs_to_it() -> None:
    answers = engine_of(build("qwen3")).generate(requests((64, 64, 64, 64)), sampling())
    ends = set()
    for completion in itertools.chain(*answers):
        assert not set(completion.ids[:-1].tolist()) & set(STOPS)
        last = int(completion.ids[-1])
        assert (completion.finish_reason == "stop") == (last in STOPS)
        assert completion.finish_reason == "stop" or len(completion.ids) == 24
        ends |= {last} & set(STOPS)
    assert ends == set(STOPS)


def test_without_stop_ids_every_completion_has_full_length() -> None:
    answers = engine_of(build("llama")).generate(requests(), sampling(max_new_tokens=10, stop_ids=()))
    assert {(len(c.ids), c.finish_reason) for c in itertools.chain(*answers)} == {(10, "length")}


def test_a_stop_token_at_the_last_allowed_place_is_a_stop() -> None:
    model = build("qwen3")
    request = [SampleRequest(PROMPTS[0], (5,))]
    ((free,),) = engine_of(model).generate(request, sampling(stop_ids=()))
    place = next(i for i, token in enumerate(free.ids) if i > 3 and token not in free.ids[:i])
    stop = int(free.ids[place])
    ((at_the_limit,),) = engine_of(model).generate(request, sampling(max_new_tokens=place + 1, stop_ids=(stop,)))
    assert (at_the_limit.finish_reason, len(at_the_limit.ids)) == ("stop", place + 1)
    ((one_too_short,),) = engine_of(model).generate(request, sampling(max_new_tokens=place, stop_ids=(stop,)))
    assert (one_too_short.finish_reason, len(one_too_short.ids)) == ("length", place)


def test_a_completion_of_one_token() -> None:
    model = build("qwen3")
    request = [SampleRequest(PROMPTS[0], (5,))]
    ((free,),) = engine_of(model).generate(request, sampling(stop_ids=()))
    ((stopped,),) = engine_of(model).generate(request, sampling(stop_ids=(int(free.ids[0]),)))
    assert (stopped.ids.tolist(), stopped.finish_reason) == (free.ids[:1].tolist(), "stop")
    ((cut,),) = engine_of(model).generate(request, sampling(max_new_tokens=1, stop_ids=()))
    assert (cut.ids.tolist(), cut.finish_reason) == (free.ids[:1].tolist(), "length")
    np.testing.assert_allclose(stopped.logps, free.logps[:1], atol=1e-6)


def test_rows_end_at_the_end_of_the_context() -> None:
    """Prompts of 9, 1, 20 and 4 tokens in a context of 21: one of them has room for a single token."""
    model = build("llama")
    limited = engine_of(model, max_context_tokens=21).generate(requests(), sampling(stop_ids=()))
    free = engine_of(model).generate(requests(), sampling(stop_ids=()))
    for group, expected, room in zip(limited, free, (12, 20, 1, 17), strict=True):
        for completion, unlimited in zip(group, expected, strict=True):
            assert (len(completion.ids), completion.finish_reason) == (room, "length")
            assert completion.ids.tolist() == unlimited.ids[:room].tolist()


@pytest.mark.parametrize("tokens", [0, 20, 25])
def test_a_prompt_without_room_is_an_error(tokens: int) -> None:
    with pytest.raises(ValueError, match=f"a prompt of {tokens} tokens leaves no room"):
        engine_of(build("llama"), max_context_tokens=20).generate([SampleRequest(np.arange(tokens), (0,))], sampling())


def test_nothing_asked_nothing_answered() -> None:
    engine = engine_of(build("llama"))
    assert engine.generate([], sampling()) == []
    assert engine.generate([SampleRequest(PROMPTS[0], ())], sampling()) == [[]]


# Seeds and distributions


def test_a_seed_decides_the_completion() -> None:
    engine = engine_of(build("qwen3"))
    ((first, second, again),) = engine.generate([SampleRequest(PROMPTS[0], (7, 8, 7))], sampling(stop_ids=()))
    assert first.ids.tolist() == again.ids.tolist()
    assert first.ids.tolist() != second.ids.tolist()


def test_uniform_numbers_of_a_seed_do_not_depend_on_how_many_are_drawn() -> None:
    few_BT, many_BT = uniforms([3, 2**64 - 1], 5), uniforms([2**64 - 1, 3, 4], 50)
    assert torch.equal(few_BT, many_BT[[1, 0], :5])
    assert many_BT.dtype == torch.float64


def test_seeds_differ_with_every_part_and_its_type() -> None:
    parts: list[tuple[int | str, ...]] = [(0, "a", 1), (0, "a", 2), (1, "a", 1), (0, "b", 1), (0, "a", "1"), (0, "a")]
    assert len({derive_seed(*part) for part in parts}) == len(parts)
    assert derive_seed(1, 23) != derive_seed(12, 3)


DRAWS = 4000


def first_tokens(params: SamplingParams) -> tuple[NDArray[np.int64], list[Completion], NDArray[np.float64]]:
    """Counts of the first token over many seeds, the completions, and the logits that they were drawn from."""
    model = build("qwen3")
    (answers,) = engine_of(model, DRAWS).generate([SampleRequest(PROMPTS[0], tuple(range(DRAWS)))], params)
    tokens = np.array([completion.ids[0] for completion in answers])
    with torch.no_grad():
        logits_V = plain_logits(model, PROMPTS[0], np.array([0]))[0].double().numpy()
    return np.bincount(tokens, minlength=VOCABULARY), answers, logits_V


def softmax(logits_V: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials_V = np.exp(logits_V - logits_V.max())
    result: NDArray[np.float64] = exponentials_V / exponentials_V.sum()
    return result


def kept_tokens(logits_V: NDArray[np.float64], params: SamplingParams) -> list[int]:
    """Independently: sort, keep the k largest of the tempered logits, then the shortest head whose mass reaches top_p,
    then those of at least min_p of the largest probability."""
    kept = np.argsort(-logits_V)[: params.top_k or VOCABULARY]
    shares = softmax(logits_V[kept] / params.temperature)
    kept = kept[: int(np.sum(np.cumsum(shares) < params.top_p)) + 1]
    shares = shares[: len(kept)]
    return sorted(int(token) for token in kept[shares >= params.min_p * shares[0]])


FILTERS = [
    (1.0, 0, 1.0, 0.0),
    (0.5, 0, 1.0, 0.0),
    (2.0, 0, 1.0, 0.0),
    (1.0, 5, 1.0, 0.0),
    (1.0, 0, 0.6, 0.0),
    (1.0, 0, 1.0, 0.2),
    (1.5, 20, 0.8, 0.1),
    (0.7, 1, 1.0, 0.0),
]


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), FILTERS)
def test_tokens_are_drawn_from_the_stated_distribution(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = sampling(temperature, 1, (), top_k, top_p, min_p)
    counts_V, answers, logits_V = first_tokens(params)
    kept = kept_tokens(logits_V, params)
    expected_V = np.zeros(VOCABULARY)
    expected_V[kept] = softmax(logits_V[kept] / temperature)

    assert counts_V[expected_V == 0].sum() == 0
    for completion in answers[:200]:
        assert floats(completion.logps) == pytest.approx([np.log(expected_V[completion.ids[0]])], abs=1e-5)
    # Pearson's statistic over the tokens of enough mass, the others pooled; mean df, standard deviation sqrt(2 df).
    large_V = expected_V * DRAWS >= 5
    groups = [(counts_V[v], expected_V[v]) for v in np.flatnonzero(large_V)]
    if expected_V[~large_V].sum() * DRAWS >= 1:
        groups.append((counts_V[~large_V].sum(), expected_V[~large_V].sum()))
    statistic = sum((count - DRAWS * share) ** 2 / (DRAWS * share) for count, share in groups)
    freedom = len(groups) - 1
    assert statistic <= freedom + 4 * np.sqrt(2 * freedom)
    assert freedom >= (0 if top_k == 1 else 3)


def test_later_tokens_are_drawn_from_the_distribution_after_the_earlier_ones() -> None:
    """Counts of the second token, over all completions that begin with the most frequent first token."""
    model = build("llama")
    (answers,) = engine_of(model, DRAWS).generate(
        [SampleRequest(PROMPTS[3], tuple(range(DRAWS)))], sampling(1.0, 2, ())
    )
    pairs = np.array([completion.ids for completion in answers])
    first = int(np.bincount(pairs[:, 0]).argmax())
    seconds = pairs[pairs[:, 0] == first, 1]
    with torch.no_grad():
        expected_V = softmax(plain_logits(model, PROMPTS[3], np.array([first, 0]))[1].double().numpy())
    counts_V = np.bincount(seconds, minlength=VOCABULARY)
    large_V = expected_V * len(seconds) >= 5
    statistic = float(
        ((counts_V - len(seconds) * expected_V)[large_V] ** 2 / (len(seconds) * expected_V)[large_V]).sum()
    )
    assert len(seconds) > 200
    assert statistic <= large_V.sum() + 4 * np.sqrt(2 * large_V.sum())


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), [f for f in FILTERS if f != (1.0, 0, 1.0, 0.0)])
def test_recorded_sets_are_those_that_were_sampled_from(
    temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    """Every scorer that normalises over them finds what the engine recorded."""
    model = build("llama")
    policy = policy_of(model, STOPS)
    params = sampling(temperature, 10, STOPS, top_k, top_p, min_p, record_kept=True)
    answers = InProcessEngine(policy, 7).generate(requests(), params)
    flat = list(itertools.chain(*answers))
    for request, group in zip(requests(), answers, strict=True):
        for completion in group:
            assert completion.kept is not None
            assert len(completion.kept.counts_T) == len(completion.ids)
            sets = np.split(completion.kept.ids, np.cumsum(completion.kept.counts_T)[:-1])
            with torch.no_grad():
                logits_TV = plain_logits(model, request.prompt_ids, completion.ids).double().numpy()
            for recorded_set, logits_V, token in zip(sets, logits_TV, completion.ids, strict=True):
                assert sorted(recorded_set.tolist()) == kept_tokens(logits_V, params)
                assert token in recorded_set
    sequences = [
        SequenceGroup(request.prompt_ids, tuple(completion.ids for completion in group))
        for request, group in zip(requests(), answers, strict=True)
    ]
    kept = SamplingMask(
        torch.from_numpy(np.concatenate([c.kept.ids for c in flat if c.kept is not None])).long(),
        torch.from_numpy(np.concatenate([c.kept.counts_T for c in flat if c.kept is not None])).long(),
    )
    with torch.no_grad():
        logps_N = score(policy, pack(sequences, policy.device), Scoring(temperature, 6), kept).logps_N
    torch.testing.assert_close(logps_N, recorded(answers), atol=1e-5, rtol=0)


def test_sets_are_recorded_only_on_request() -> None:
    answers = engine_of(build("llama")).generate(requests(), sampling(top_k=3))
    assert all(completion.kept is None for completion in itertools.chain(*answers))


# What it costs


def count_rows(policy: Policy) -> list[int]:
    """The number of tokens in every forward pass from now on."""
    seen: list[int] = []
    layer = policy.model.model.layers[0].mlp
    layer.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))  # noqa: ARG005
    return seen


def test_a_prompt_is_prefilled_once_for_its_whole_group() -> None:
    policy = policy_of(build("llama"), STOPS)
    seen = count_rows(policy)
    InProcessEngine(policy, 256).generate(requests(), sampling())
    assert seen[0] == sum(len(prompt) for prompt in PROMPTS)
    # After that only new tokens: never more than one for each sequence.
    assert max(seen[1:]) <= 15


def test_finished_rows_leave_the_batch() -> None:
    policy = policy_of(build("llama"), STOPS)
    seen = count_rows(policy)
    answers = InProcessEngine(policy, 256).generate(requests((40, 40, 40, 40)), sampling(max_new_tokens=40))
    lengths = np.array([len(completion.ids) for completion in itertools.chain(*answers)])
    decoded = seen[1:]
    # A pass after t tokens serves the rows that have more than t.
    running = [int((lengths > t).sum()) for t in range(1, int(lengths.max()))]
    assert len(decoded) == len(running)
    for rows, needed in zip(decoded, running, strict=True):
        assert needed <= rows <= needed / COMPACT_BELOW
    assert decoded[0] > 3 * decoded[-1]


def test_waiting_samples_take_the_places_of_those_that_end() -> None:
    policy = policy_of(build("llama"), STOPS)
    seen = count_rows(policy)
    answers = InProcessEngine(policy, 20).generate(requests((40, 40, 40, 40)), sampling(max_new_tokens=40))
    tokens = sum(len(completion.ids) for completion in itertools.chain(*answers))
    # Where whole batches waited for their longest row, there would be eight of them.
    decoded = [rows for rows in seen if rows <= 20]
    assert max(decoded) == 20
    assert tokens > 1000
    assert sum(decoded) < 1.35 * tokens


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (1, 4), (3, 1)])
def test_groups_of_equal_and_of_unequal_size(architecture: str, sizes: tuple[int, int]) -> None:
    policy = policy_of(build(architecture), STOPS)
    asked = requests(sizes, PROMPTS[:2])
    answers = InProcessEngine(policy, 256).generate(asked, sampling(max_new_tokens=10))
    torch.testing.assert_close(recorded(answers), scored(policy, asked, answers, 1.0), atol=1e-5, rtol=0)


def test_groups_are_handed_out_before_the_last_one_is_complete() -> None:
    policy = policy_of(build("llama"), STOPS)
    seen = count_rows(policy)
    stream = InProcessEngine(policy, 8).stream(requests((8, 8, 8, 8)), sampling())
    index, completions = next(stream)
    passes = len(seen)
    others = dict(stream)
    assert len(completions) == 8
    assert sorted([index, *others]) == [0, 1, 2, 3]
    assert len(seen) > passes + 5


def test_a_prompt_stays_in_the_cache_while_a_sample_of_it_waits_or_runs() -> None:
    """One group in rows for three: its prompt is prefilled again only if no row continued it."""
    policy = policy_of(build("llama"), STOPS)
    seen = count_rows(policy)
    InProcessEngine(policy, 3).generate(requests((30,), PROMPTS[2:3]), sampling())
    assert seen[0] == 20
    assert seen.count(20) <= 2


@pytest.mark.parametrize("vocabulary", [5, 128, 129, 300])
def test_logits_that_are_not_numbers_still_give_a_token(vocabulary: int) -> None:
    """Weights that have diverged are for the trainer to report; the rows beside them are drawn as ever."""
    logits_BV = torch.full((3, vocabulary), torch.nan)
    logits_BV[1] = torch.arange(vocabulary) % 3
    token_B, logp_B, _ = draw(logits_BV, torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64), sampling())
    alone_B, _, _ = draw(logits_BV[1:2], torch.tensor([0.5], dtype=torch.float64), sampling())
    assert all(0 <= token < vocabulary for token in token_B.tolist())
    assert token_B[1] == alone_B[0]
    assert logp_B.isnan().tolist() == [True, False, True]


# Weights


def test_the_engine_samples_with_the_trainers_own_weights_in_float32() -> None:
    policy = policy_of(build("llama"), STOPS)
    engine = InProcessEngine(policy, 256)
    before = engine.generate(requests(), sampling())
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.1)
    engine.load_weights(policy.model.named_parameters(), version=4)
    after = engine.generate(requests(), sampling())
    assert {completion.version for completion in itertools.chain(*before)} == {0}
    assert {completion.version for completion in itertools.chain(*after)} == {4}
    assert engine.version == 4
    torch.testing.assert_close(recorded(after), scored(policy, requests(), after, 1.0), atol=1e-5, rtol=0)
    assert float((scored(policy, requests(), before, 1.0) - recorded(before)).abs().max()) > 0.01


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_a_reduced_copy_takes_over_new_weights(architecture: str) -> None:
    policy = policy_of(build(architecture), STOPS, compute_dtype=torch.bfloat16)
    engine = InProcessEngine(policy, 256)
    assert all(weight.dtype == torch.float32 for weight in policy.model.parameters())
    before = engine.generate(requests(), sampling())
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.2)
    stale = engine.generate(requests(), sampling())
    assert [c.ids.tolist() for c in itertools.chain(*stale)] == [c.ids.tolist() for c in itertools.chain(*before)]

    engine.load_weights(policy.model.named_parameters(), version=1)
    after = engine.generate(requests(), sampling())
    fresh = InProcessEngine(policy, 256).generate(requests(), sampling())
    assert {completion.version for completion in itertools.chain(*after)} == {1}
    for actual, expected in zip(itertools.chain(*after), itertools.chain(*fresh), strict=True):
        assert_same(actual, expected)
    # bfloat16 has 8 bits: the trainer, which keeps its residual stream in float32, is near but not equal.
    gap_N = (scored(policy, requests(), after, 1.0) - recorded(after)).abs()
    assert float(gap_N.mean()) < 0.05


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_a_reduced_copy_is_given_back_and_made_again(architecture: str) -> None:
    policy = policy_of(build(architecture), STOPS, compute_dtype=torch.bfloat16)
    engine = InProcessEngine(policy, 256)
    sizes = {name: weight.shape for name, weight in engine._model.named_parameters()}
    engine.sleep()
    engine.sleep()
    assert sum(weight.untyped_storage().nbytes() for weight in engine._model.parameters()) == 0
    with pytest.raises(RuntimeError, match="samples again after load_weights"):
        engine.generate(requests(), sampling())
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.mul_(1.2)
    engine.load_weights(policy.model.named_parameters(), version=1)
    assert {name: weight.shape for name, weight in engine._model.named_parameters()} == sizes
    again, fresh = (one.generate(requests(), sampling()) for one in (engine, InProcessEngine(policy, 256)))
    for actual, expected in zip(itertools.chain(*again), itertools.chain(*fresh), strict=True):
        assert_same(actual, replace(expected, version=1))


def test_an_engine_on_the_trainer_s_weights_has_nothing_to_give_back() -> None:
    policy = policy_of(build("llama"), STOPS)
    engine = InProcessEngine(policy, 256)
    engine.sleep()
    assert all(weight.numel() > 0 for weight in policy.model.parameters())
    assert sum(map(len, engine.generate(requests(), sampling()))) > 0


def test_a_reduced_copy_keeps_the_rotary_frequencies() -> None:
    """Rounded to bfloat16, a frequency of 1 % off turns by whole radians some hundred tokens on."""
    policy = policy_of(build("llama"), compute_dtype=torch.bfloat16)
    twin = policy.sampling_copy()
    assert {weight.dtype for weight in twin.parameters()} == {torch.bfloat16}
    assert not any(weight.requires_grad for weight in twin.parameters())
    for (name, buffer), (_, expected) in zip(twin.named_buffers(), policy.model.named_buffers(), strict=True):
        torch.testing.assert_close(buffer, expected, msg=f"buffer {name}")


def test_a_reduced_copy_keeps_tied_embeddings_tied() -> None:
    twin = policy_of(build("qwen3"), compute_dtype=torch.bfloat16).sampling_copy()
    assert twin.get_output_embeddings().weight is twin.get_input_embeddings().weight


def test_exactly_k_of_equal_logits_pass() -> None:
    logits_BV = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    kept_BV = filtered_logits(logits_BV, sampling(top_k=3)) > -torch.inf
    assert kept_BV.sum(1).tolist() == [3, 3]
    assert kept_BV[0, 0]
    assert not kept_BV[0, 4]
