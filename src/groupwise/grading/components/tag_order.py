"""The format reward as the seed prints it: the order of the first two tags, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from groupwise.grading.components.component import Answers
from groupwise.grading.components.tagged_format import THINK, THINK_END, FormatReward, pieces_of
from groupwise.grading.records import Score
from groupwise.technique import Card

if TYPE_CHECKING:
    from groupwise.config.checks.table import Table
    from groupwise.findings import Finding


class TagOrderFormat(FormatReward):
    """For teaching: 1 where a <think> stands before a </think> in the completion, whatever else it says.

    An empty block, a repeated one, text before it and no answer behind it all earn the full reward. Where the prompt
    opens the block, as the templates of many reasoning models do, the completion has no <think>, and nothing earns it.
    """

    type: Literal["tag_order"] = "tag_order"

    cards = (
        Card(
            name="printed format reward",
            source="the seed, 26.5.4",
            what="for teaching: the first <think> before the first </think> is rewarded, whatever is in it",
            equation="format = 1 where the index of <think> is below that of </think>, else 0",
            values="λ 1",
            keys=("rewards.format", "rewards.format.weight"),
            is_on=lambda c: c.any_table(
                lambda table: isinstance(table.format, TagOrderFormat) and table.format.weight > 0
            ),
            cost="none",
            test="grading/test_tag_order.py::test_golden",
            differs="`think` asks for one block with something in it, nothing before it and an answer behind it, and "
            "knows of a block that the prompt has opened.",
        ),
    )

    def score(self, answers: Answers) -> list[Score]:
        scores = []
        for response in answers.responses_G:
            pieces = pieces_of(response, "think", answers.tag_ids, answers.decoder)
            missing = [tag for tag in (THINK, THINK_END) if tag not in pieces]
            in_order = not missing and pieces.index(THINK) < pieces.index(THINK_END)
            fault = f"no {missing[0]}" if missing else f"{THINK_END} before {THINK}"
            scores.append(Score(float(in_order), "scored", "" if in_order else fault))
        return scores

    def findings_in(self, table: Table) -> Iterator[Finding]:
        """That it is for teaching."""
        if self.weight > 0:
            text = (
                f"{table.key('format')}=tag_order is for teaching: an empty or repeated block, text before it and no "
                "answer behind it earn it in full, and nothing does where the prompt opens the block; set "
                f"{table.key('format')}=think"
            )
            yield table.warning(("format",), text)
