"""How far groupwise and TRL are apart on the same tensors: `python benchmarks/agree_with_trl.py [FILE.md]`.

Needs TRL (`pip install 'groupwise[trl]'`). Prints docs/agreement-with-trl.md, or writes it to the file that is named.
The cases are those of tests/training/test_trl_agreement.py.
"""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.trl_batch import make_batch
from tests.support.trl_cases import (
    DIFFERENT,
    EQUAL,
    OF_MICRO_BATCHES,
    SPLIT,
    Case,
    difference,
    groupwise_gradients,
    options_of,
)
from tests.support.trl_side import trl_gradients

SEEDS = range(5)
PAGE = """# Agreement with TRL

TRL {trl}, transformers {transformers}, torch {torch}, float32 on a CPU. Made by `python benchmarks/agree_with_trl.py`;
`tests/training/test_trl_agreement.py` asserts the same cases.

**What is compared.** TRL's own `GRPOTrainer._generate_and_score_completions` and `_compute_loss` run on given tensors:
only the network, the sampling and the reward functions are replaced by what the batch says. So the advantages, the
vLLM weights, the masks, the loss and the scaling over micro-batches are TRL's code. The same options go through
`groupwise import trl` and then through groupwise's own training code: `advantages_of`, `with_selection`,
`loss_inputs`, `policy_loss`. Each batch has 16 completions of 1 to 9 tokens for 4 problems, two rewards with the
weights 1 and 0.5, truncated answers, and one group without signal; the four log-probability streams differ by up to
1.5 nats. Gradients are those towards the log-probabilities and entropies of the tokens; their largest element is about
0.01 to 0.1. Numbers are the largest absolute difference over {seeds} batches.

## Equal

{equal}
## Equal over micro-batches

TRL adds up four micro-batches of four completions; groupwise weights every token once for the whole step.

{split}
## Different by definition

What `groupwise import trl` says about these options, in numbers. bnpo by its definition, as the mean over micro-batches
of groupwise's token means, is {bnpo_loss} and {bnpo_gradient} apart from TRL's.

{different}
Not in the tables, because no single loss shows it: TRL mixes the policy into the reference (`ref_model_mixup_alpha`)
where groupwise replaces it; with `use_adaptive_entropy` TRL leaves the bonus out of steps whose entropy was above the
target; TRL finds truncated answers by their last token, groupwise by what the engine says; TRL computes advantages in
float32, groupwise in float64, so that equal rewards of 1000.1 in a group of six give an advantage of -0.366 there and
of exactly 0 here.
"""


def apart(case: Case, mean_of_groups: bool = False) -> tuple[str, str]:
    """Largest difference of loss and gradient over the batches, with one digit."""
    options = options_of(case)
    found = [
        difference(groupwise_gradients(options, batch, mean_of_groups), trl_gradients(options, batch))
        for batch in map(make_batch, SEEDS)
    ]
    loss, gradient = (max(row[which] for row in found) for which in (0, 1))
    return f"{loss:.0e}" if loss else "0", f"{gradient:.0e}" if gradient else "0"


def rows(cases: Sequence[Case], explained: bool = False) -> str:
    """The table of some cases."""
    lines = ["| TRL's option | loss | gradient |" + (" because |" if explained else "")]
    lines.append("|---|---|---|" + ("---|" if explained else ""))
    for case in cases:
        loss, gradient = apart(case)
        lines.append(f"| {case.name} | {loss} | {gradient} |" + (f" {case.why} |" if explained else ""))
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> None:
    """Compute all tables and print or write the page."""
    bnpo_loss, bnpo_gradient = apart(OF_MICRO_BATCHES, mean_of_groups=True)
    page = PAGE.format(
        **{name: version(name) for name in ("trl", "transformers", "torch")},
        seeds=len(SEEDS),
        bnpo_loss=bnpo_loss,
        bnpo_gradient=bnpo_gradient,
        equal=rows(EQUAL),
        split=rows(SPLIT),
        different=rows(DIFFERENT, explained=True),
    )
    if arguments:
        Path(arguments[0]).write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)


if __name__ == "__main__":
    main(sys.argv[1:])
