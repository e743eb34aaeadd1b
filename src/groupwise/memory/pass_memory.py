"""The memory of one pass of training at any size, from passes of a small part of the model that can be run anywhere.

- Passes through one layer and through two, at the real lengths of prompt and answers but for few groups, say what every
  layer keeps for the backward pass, and what its own backward pass takes: linear in the groups, and in the layers.
- A pass through the head, with the whole vocabulary and all rows of logits but narrow hidden states, says what the
  logits take. Gradients of head and embedding, which are as wide as the vocabulary, are counted.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch

from groupwise.config import TrainConfig
from groupwise.config.data import KEPT_LIMIT
from groupwise.memory.live_bytes import LiveBytes
from groupwise.memory.truncated_model import head_alone, truncated
from groupwise.model.load import Policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import SamplingMask, backend_of, score, scoring_of
from groupwise.objective.entropy.bonus import NoBonus

# Where the logits are divided, one part after another takes no more than two.
HEAD_PARTS = 2
HEAD_WIDTH = 8
# What is there once, such as masks and weights in another precision, is counted for every multiple of these.
ENOUGH_TOKENS = 512
# As few as a softmax over the kept sets needs.
FEW_TOKENS = 64
SHORTEST_ANSWER = 16
FLOAT32 = 4


@dataclass(frozen=True)
class Shape:
    """Groups of a prompt with its answers, all of one length in tokens. Both numbers may be parts of a whole."""

    prompt: int
    answer: int
    samples: float
    groups: float = 1.0

    @property
    def answer_tokens(self) -> float:
        """Tokens of all answers."""
        return self.groups * self.samples * self.answer

    @property
    def tokens(self) -> float:
        """Packed tokens: a prompt once, and of an answer all but the last token."""
        return self.groups * (self.prompt + self.samples * (self.answer - 1))


def worst_shapes(budget: int, prompt: int, longest: int, samples: int, most_groups: int) -> list[Shape]:
    """Full micro-batches of the longest prompt and `budget` more tokens, with answers as long as can be, or shorter.

    Attention may keep more for short answers. An answer that is longer than the budget stands alone.
    """
    shapes, answer = [], longest
    while True:
        inputs = max(answer - 1, 1)
        group = prompt + samples * inputs
        if inputs >= budget:
            shapes.append(Shape(prompt, answer, 1))
        elif group <= budget + prompt:
            shapes.append(Shape(prompt, answer, samples, min((budget + prompt) / group, most_groups)))
        else:
            shapes.append(Shape(prompt, answer, budget / inputs))
        if answer <= SHORTEST_ANSWER:
            return shapes
        answer = max(SHORTEST_ANSWER, answer // 4)


def worst_rows(budget: int, prompt: int, longest: int, most: int) -> list[Shape]:
    """The same where a prompt is read for each answer, so that all tokens count: `most` answers, or fewer."""
    shapes, answer = [], longest
    while True:
        shapes.append(Shape(prompt, answer, 1, max(1, min(budget / (prompt + answer - 1), most))))
        if answer <= SHORTEST_ANSWER:
            return shapes
        answer = max(SHORTEST_ANSWER, answer // 4)


class PassMemory:
    """Bytes of passes without those of weights, their gradient, and the optimizer; each part is run once.

    Nothing stays behind: no gradient, no state, no draw of random numbers.
    """

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        self._config = config
        self._policy = policy
        self._layers = int(policy.model.config.num_hidden_layers)
        self._of_layers: dict[Shape, tuple[int, int, int]] = {}
        self._of_head: dict[tuple[int, int], int] = {}

    def can_run(self, shape: Shape) -> bool:
        """Whether a part of the model is a model: what some of them compute depends on how many layers there are."""
        try:
            self._layers_of(shape)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, IndexError, KeyError, AttributeError):
            if self._policy.backend == "packed":
                raise
            return False
        return True

    def bytes(self, shape: Shape) -> int:
        """The most that is alive at any time of a pass of this shape."""
        layer, kept, peak = self._layers_of(shape)
        waiting, of_embedding = self._wide_gradients()
        # Of all rows, the head keeps their hidden states and makes the gradient of these.
        rows = 3 * FLOAT32 * int(self._policy.model.config.hidden_size) * shape.answer_tokens
        more = max(self._layers - 2, 0) * layer
        # In the head's backward pass, its gradient and a part of it; behind that it waits for the embedding's, where
        # both are one, and is added to it.
        in_head = more + kept + self._head(shape.answer_tokens) + rows + 2 * waiting
        return round(max(in_head, more + peak + waiting, of_embedding + 2 * waiting))

    def _wide_gradients(self) -> tuple[int, int]:
        """Bytes of what autograd makes for the weights of head and embedding; none where `.grad` is added to."""
        modules = self._policy.head, self._policy.model.get_input_embeddings()
        scoring = scoring_of(self._config, acts_on_entropy(self._config))
        in_place = backend_of(self._policy).in_place(scoring, self._config.sampling.replay_mask)
        trained = ([weight for weight in module.parameters() if weight.requires_grad] for module in modules)
        sizes = (FLOAT32 * sum(weight.numel() for weight in weights) for weights in trained)
        waiting, of_embedding = (0 if added else size for size, added in zip(sizes, in_place, strict=True))
        return waiting, of_embedding

    def _layers_of(self, shape: Shape) -> tuple[float, float, float]:
        """What one layer more keeps, what two keep, and the most in a pass through two; of one where there is one."""
        whole = Shape(shape.prompt, shape.answer, max(1, int(shape.samples)))
        whole = replace(whole, groups=max(1, min(int(shape.groups), math.ceil(ENOUGH_TOKENS / whole.tokens))))
        if whole not in self._of_layers:
            chunk_tokens = self._config.batch.logits_chunk_tokens
            one, two = (truncated(self._policy, layers, FEW_TOKENS) for layers in (1, min(2, self._layers)))
            kept_of_one, _ = run_pass(one, self._config, whole, chunk_tokens, backward=False)
            kept_of_two, timeline = run_pass(two, self._config, whole, chunk_tokens)
            self._of_layers[whole] = (kept_of_two - kept_of_one, kept_of_two, max(timeline))
        share = shape.tokens / whole.tokens
        layer, kept, peak = self._of_layers[whole]
        return share * layer, share * kept, share * peak

    def _head(self, rows: float) -> int:
        """The most in a pass through a narrow head whose logits have `rows` rows."""
        chunk_tokens = min(self._config.batch.logits_chunk_tokens, math.ceil(rows))
        parts = HEAD_PARTS if rows > chunk_tokens else 1
        if (chunk_tokens, parts) not in self._of_head:
            head = head_alone(self._policy, HEAD_WIDTH)
            _, timeline = run_pass(head, self._config, Shape(1, parts * chunk_tokens, 1), chunk_tokens)
            self._of_head[chunk_tokens, parts] = max(timeline)
        return self._of_head[chunk_tokens, parts]


def run_pass(
    policy: Policy, config: TrainConfig, shape: Shape, chunk_tokens: int, backward: bool = True
) -> tuple[int, list[int]]:
    """One pass, forward and by default backward, over groups of whole answers.

    Returns:
        The bytes alive between the two, and those alive behind each operation.
    """
    vocabulary = dict(policy.head.named_parameters())["weight"].shape[0]
    answers = (np.zeros(shape.answer, dtype=np.int64),) * max(1, round(shape.samples))
    prompt = np.zeros(shape.prompt, dtype=np.int64)
    groups = [SequenceGroup(prompt, answers)] * max(1, round(shape.groups))
    positions = len(groups) * len(answers) * shape.answer
    scoring = replace(scoring_of(config, acts_on_entropy(config)), chunk_tokens=chunk_tokens)
    weights = [weight for _, weight in policy.trainable()]
    # Only the first pass of a step has no gradient to add to.
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    alive = LiveBytes()
    try:
        with alive:
            mask = None
            if config.sampling.replay_mask:
                size = min(config.sampling.top_k or KEPT_LIMIT, KEPT_LIMIT, vocabulary)
                mask = SamplingMask(
                    torch.arange(size, device=policy.device).repeat(positions),
                    torch.full((positions,), size, device=policy.device),
                )
            scores = score(policy, pack(groups, policy.device), scoring, mask)
            between = alive.now
            loss = scores.logps_N.sum() + (scores.entropies_N.sum() if scoring.entropy_gradient else 0.0)
            if backward:
                loss.backward()
    finally:
        for weight in weights:
            weight.grad = None
    return between, alive.timeline


def acts_on_entropy(config: TrainConfig) -> bool:
    """Whether a pass of the run may carry a gradient of the entropy."""
    return not isinstance(config.entropy.bonus, NoBonus)
