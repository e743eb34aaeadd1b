"""Which back-end each architecture gets, and how far it is from the model: `python benchmarks/models_table.py`.

Prints the table of docs/models.md. Every model is tiny, with random weights, in float32 (tests/support/zoo.py). Gaps
are the largest difference of a token's log-probability, in nats, over prompts of 1 to 40 tokens and answers of up to
60:

- trainer: the back-end's scores against transformers' own eager forward pass of each sequence alone;
- engine: what the in-process engine recorded when it drew against the trainer's scores;
- gradient: of all weights as one vector, relative, against autograd through those unpadded passes;
- reloaded: whether the folder that is saved gives the same logits, bit by bit, in plain transformers.

The time is that of a training pass over 8 prompts of 48 tokens with 8 answers of 24 each, as a multiple of Llama's,
whose layers are the fast ones; the least of five. A model of other sizes would have other multiples.
"""

import logging
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).parents[1]))

from groupwise.model.choose_backend import choose_backend
from groupwise.model.load import Policy, load_policy
from groupwise.model.packing import SequenceGroup, pack
from groupwise.model.score import Scoring, score
from groupwise.rollout.inprocess import InProcessEngine
from tests.model.backends.test_plain import (
    ROOM,
    asked,
    global_difference,
    groups_of,
    logps_alone,
    scored,
    weighted,
)
from tests.support.sampling import recorded
from tests.support.tiny import gradients, policy_of
from tests.support.zoo import VOCABULARY, ZOO, build, save

LONGEST = 100
ROUNDS = 5
CPU = torch.device("cpu")


def reloads(name: str, folder: Path) -> bool:
    """Whether a saved model is the model, in plain transformers."""
    save(name, folder)
    ours = load_policy(str(folder)).model
    ours.set_attn_implementation("eager")
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    ids = torch.arange(3, 50).unsqueeze(0)
    with torch.no_grad():
        return torch.equal(ours(input_ids=ids).logits, theirs(input_ids=ids).logits)


def seconds(policy: Policy) -> float:
    """Of a training pass."""
    generator = np.random.default_rng(0)
    groups = [
        SequenceGroup(ids[:48], tuple(generator.integers(0, VOCABULARY, 24) for _ in range(8)))
        for ids in generator.integers(0, VOCABULARY, (8, 48))
    ]
    taken = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        score(policy, pack(groups, CPU), Scoring(1.0, 2048, in_place=True)).logps_N.sum().backward()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def row(name: str, folder: Path, fast: float) -> str:
    """One line of the table."""
    model = build(name)
    policy, note = choose_backend(policy_of(model, (1, 2), 256), "auto", LONGEST)
    groups = groups_of()
    expected_N = logps_alone(model, groups, 1.0)
    weighted(expected_N).backward()
    logps_N = score(policy, pack(groups, CPU), Scoring(1.0, 1000)).logps_N
    weighted(logps_N).backward()
    trainer = float((logps_N.double() - expected_N).abs().max())
    gradient = global_difference(gradients(policy.model), gradients(model))
    answers = InProcessEngine(policy, 256).generate(asked(), ROOM)
    engine = float((recorded(answers) - scored(policy, asked(), answers)).abs().max())
    saved = "yes" if reloads(name, folder) else "NO"
    reason = note.removeprefix("plain: ").partition(". Slower")[0]
    numbers = f"{trainer:.0e} | {engine:.0e} | {gradient:.0e} | {saved} | {seconds(policy) / fast:.1f}"
    return f"| {name} | {policy.backend} | {numbers} | {reason} |"


def main() -> None:
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    print("| architecture | back-end | trainer | engine | gradient | reloaded | time | why it is not packed |")
    print("|---|---|---|---|---|---|---|---|")
    fast = seconds(policy_of(build("Llama")))
    with tempfile.TemporaryDirectory() as folder:
        for name in ZOO:
            print(row(name, Path(folder) / name, fast), flush=True)


if __name__ == "__main__":
    main()
