"""Faults of sampling, and of the model that samples and scores."""

from tests.faults.fault import Fault

ENGINE = ("tests/rollout/test_engine.py",)
SCORING = ("tests/model/test_scoring.py",)

FAULTS = (
    Fault(
        "log-probabilities without the temperature",
        "rollout/sampling.py",
        "logits_BV = logits_BV / sampling.temperature",
        "logits_BV = logits_BV * 1.0",
        ENGINE,
    ),
    Fault(
        "top-p drops the token that reaches it",
        "rollout/sampling.py",
        "probabilities_BV.cumsum(dim=-1) - probabilities_BV >= sampling.top_p",
        "probabilities_BV.cumsum(dim=-1) > sampling.top_p",
        ENGINE,
    ),
    Fault(
        "top-k keeps ties",
        "rollout/sampling.py",
        "drop_BV = torch.ones_like(logits_BV, dtype=torch.bool).scatter_(1, kept_BK, False)",
        "drop_BV = logits_BV < logits_BV.gather(1, kept_BK[:, -1:])",
        ENGINE,
    ),
    Fault(
        "min-p compares with the smallest",
        "rollout/sampling.py",
        "smallest_B1 = logits_BV.amax(dim=-1, keepdim=True) + math.log(sampling.min_p)",
        "smallest_B1 = logits_BV.amin(dim=-1, keepdim=True) + math.log(sampling.min_p)",
        ENGINE,
    ),
    Fault(
        "greedy decoding draws",
        "rollout/sampling.py",
        "token_B1 = logits_BV.argmax(dim=-1, keepdim=True)",
        "token_B1 = logits_BV.argmin(dim=-1, keepdim=True)",
        ENGINE,
    ),
    Fault(
        "a seed does not tell 1 from '1'",
        "rollout/sampling.py",
        'f"{type(part).__name__}:{part}"',
        'f"{part}"',
        ENGINE,
    ),
    Fault(
        "the stop token is dropped",
        "rollout/batch.py",
        "length_A = torch.where(stopping_A, rows.position_A, ",
        "length_A = torch.where(stopping_A, (rows.position_A - 1).clamp(min=1), ",
        ENGINE,
    ),
    Fault(
        "an answer that stops at its last token counts as cut off",
        "rollout/batch.py",
        "self._length_B[rows.sequence_A] = length_A\n        self._stopped_B[rows.sequence_A] |= stopping_A",
        "self._stopped_B[rows.sequence_A] |= stopping_A & (rows.position_A < self._length_B[rows.sequence_A])\n"
        "        self._length_B[rows.sequence_A] = length_A",
        ENGINE,
    ),
    Fault(
        "only the first stop id ends an answer",
        "rollout/batch.py",
        "stopping_A = (token_A.unsqueeze(1) == self._stops).any(dim=1)",
        "stopping_A = (token_A.unsqueeze(1) == self._stops[:1]).any(dim=1)",
        ENGINE,
    ),
    Fault(
        "rows run over the end of the context",
        "rollout/batch.py",
        "self.limit_B = (context - self.prompt_length_B).clamp(max=most)",
        "self.limit_B = (0 * self.prompt_length_B + most)",
        ENGINE,
    ),
    Fault(
        "a row that moves keeps the numbers of its old place",
        "rollout/batch.py",
        "self.running_A, self.uniform_AT = self.running_A[kept], self.uniform_AT[kept]",
        "self.running_A, self.uniform_AT = self.running_A[kept], self.uniform_AT[: len(kept)]",
        ENGINE,
    ),
    Fault(
        "positions are one too far",
        "rollout/inprocess.py",
        "positions_A = queue.prompt_length_B[rows.sequence_A] + rows.position_A - 1",
        "positions_A = queue.prompt_length_B[rows.sequence_A] + rows.position_A",
        ENGINE,
    ),
    Fault(
        "completions carry the version before",
        "rollout/inprocess.py",
        "        self._asleep = False\n        self.version = version",
        "        self._asleep = False",
        (*ENGINE, "tests/training/test_run.py"),
    ),
    Fault(
        "a completion sees where its siblings stand",
        "model/packing.py",
        "positions.append(np.arange(prompt, prompt + inputs))",
        "positions.append(np.arange(cursor, cursor + inputs))",
        SCORING,
    ),
    Fault(
        "the first token is predicted by the end of the completion before",
        "model/packing.py",
        "np.concatenate([[last], np.arange(cursor, cursor + inputs)])",
        "np.concatenate([[cursor - 1], np.arange(cursor, cursor + inputs)])",
        SCORING,
    ),
    Fault(
        "scores at temperature 1",
        "model/score.py",
        "temperature=config.sampling.temperature",
        "temperature=1.0",
        ("tests/training/test_update.py",),
    ),
    Fault(
        "special tokens are added on top of the chat template",
        "model/prompt.py",
        "ids = self._tokenizer.encode(text, add_special_tokens=False)",
        "ids = self._tokenizer.encode(text, add_special_tokens=True)",
        ("tests/model/test_prompt.py",),
    ),
    Fault(
        "the reference follows the policy",
        "model/reference.py",
        "model=copy.deepcopy(policy.model).requires_grad_(False).eval()",
        "model=policy.model",
        ("tests/training/test_update_terms.py", "tests/training/test_checkpoint.py", "tests/training/test_run.py"),
    ),
    Fault(
        "all problems of a measurement have the same random numbers",
        "evaluation/measure.py",
        'derive_seed(seed, "measure", problem.id, g)',
        'derive_seed(seed, "measure", g)',
        ("tests/evaluation/test_measure.py",),
    ),
    Fault(
        "sampling sets are not recorded for scoring",
        "objective/sampling_mask.py",
        'return logits_NV.masked_fill(~kept_NV, float("-inf"))',
        "return logits_NV",
        ("tests/training/test_update_terms.py", *SCORING, "tests/objective/test_mask.py"),
    ),
)
