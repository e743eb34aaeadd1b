"""Watches a run for what is broken: values that are no finite numbers, and steps that cannot teach anything any more.

`check_batch` and `check_update` come before anything of a step is kept. `check_step` comes behind it: what it stops can
be resumed. Counts begin anew when a run is resumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from groupwise.errors import BrokenRunError
from groupwise.grading.graded_group import GradedGroup
from groupwise.health.conditions import Context
from groupwise.model.finite import norm_of, not_finite, shown
from groupwise.model.shards import together
from groupwise.objective.metric import Metric
from groupwise.training.failed_step import save_failed_step, sound_before
from groupwise.training.health_guard import Health
from groupwise.training.reward_guard import Rewards
from groupwise.training.step_batch import StepBatch, step_batch
from groupwise.training.update import Updated
from groupwise.training.update_metrics import Gap

if TYPE_CHECKING:
    from groupwise.training.step import Run, Step

# Two orders of summation in float32 differ by about 1e-5 nats; another mask, position or weight by whole nats.
FLOAT32_GAP_NATS = 1e-3

# No useful update makes the weights so many times as long.
WEIGHT_GROWTH = 10.0

# So many steps in a row without an update are said.
IDLE_STEPS_SAID = 3


class Guards:
    """The guards of a run, from its first or resumed step on; every rank comes to the same verdict."""

    def __init__(self, run: Run) -> None:
        self._run, self._options = run, run.config.guards
        self._norm = norm_of(weight for _, weight in run.policy.trainable())
        self._skipped = self._idle = 0
        self._blown = ""
        self._rewards = Rewards(run.config)
        self._sampled: Sequence[GradedGroup] = ()
        filtered = run.config.filters_tokens and not run.config.sampling.replay_mask
        self._watches_gap = not filtered
        vocabulary = run.policy.vocabulary or run.policy.model.config.get_text_config().vocab_size
        context = Context(vocabulary, run.config.problems.eval_problems or Context.eval_problems)
        self._health = Health(run.folder.path, run.state.step, context)

    def check_batch(self, batch: StepBatch, sampled: Sequence[GradedGroup]) -> None:
        """Whether everything sampled has numbers to train on.

        Raises:
            BrokenRunError: for log-probabilities, rewards or advantages that are no finite numbers.
        """
        self._sampled = sampled
        logps_N = np.concatenate([*(c.logps for group in sampled for c in group.completions), np.empty(0, np.float32)])
        trained_N = batch.trained_E.repeat_interleave(batch.lengths_E)
        values = {
            "log-probabilities of the engine": logps_N,
            "rewards": batch.rewards_E[batch.trained_E].numpy(),
            "advantages": batch.advantages_N[trained_N].numpy(),
        }
        own = [
            f"{np.sum(~np.isfinite(v))} of {v.size} {name}" for name, v in values.items() if not np.isfinite(v).all()
        ]
        found = [text for rank in self._run.ranks.gather(own) for text in rank]
        if found:
            if own and own[0].endswith("of the engine"):
                # What was left out of the batch may be all there is.
                groups = list(sampled)
                batch = step_batch(groups, np.zeros((len(groups), len(groups[0].completions))), self._run.config)
            weights = " although every weight is finite" if "log-prob" in found[0] else ""
            # The weights that make them are those of the step before, and its checkpoint has them too.
            self._break(f"{' and '.join(found)} are not finite{weights}", batch, sound_step=self._number - 2)

    def check_update(self, batch: StepBatch, updated: Updated) -> dict[str, Metric]:
        """Whether the weights after the updates are numbers, and engine and trainer agree; the weights' norm.

        Raises:
            BrokenRunError: naming the tensors that have other values, or the sequence with the largest difference.
        """
        policy = self._run.policy
        with together(policy, "the norm of the weights"):
            before, self._norm = self._norm, norm_of(weight for _, weight in policy.trainable())
            tensors = [] if math.isfinite(self._norm) else not_finite(policy.trainable())
        if not math.isfinite(self._norm):
            self._break(f"weights are not finite after the update: {shown(tensors)} of {len(tensors)} tensors", batch)
        loss = float(updated.metrics["policy/loss"].value) if "policy/loss" in updated.metrics else 0.0
        lost = self._run.ranks.sum([float(not math.isfinite(loss) and not all(updated.faults))])
        if lost[0]:
            self._break("the loss is not finite, and its gradient is", batch)
        if self._norm > WEIGHT_GROWTH * before > 0:
            rate = self._run.config.optimizer.lr
            self._blown = (
                f"step {self._number} made the weights {self._norm / before:.0f} times as long (norm {before:.3g} to "
                f"{self._norm:.3g}): optimizer.lr={rate:g} is too high"
            )
            sound = sound_before(self._run.folder.checkpoints, self._number - 1)
            self._run.tracker.note(f"warning: {self._blown}. {sound}")
        self._check_gap(batch, updated)
        return {"optimizer/weight_norm": Metric(self._norm, "max")}

    def check_step(self, step: Step, faults: Sequence[str]) -> None:
        """Whether the finished step could teach anything.

        Raises:
            BrokenRunError: for updates that are skipped, steps without any, or a reward that fails, too often in a row.
        """
        number, options = step.number, self._options
        for fault in faults:
            self._skipped = self._skipped + 1 if fault else 0
            if self._skipped == 1:
                self._say(number, f"an update is skipped: {fault}")
            if options.skipped_updates and self._skipped >= options.skipped_updates:
                self._halt(f"{self._skipped} updates in a row are skipped: {fault}", "guards.skipped_updates=0")
        for problem in self._rewards.after(self._run.ranks.gather(self._rewards.counts(self._sampled))):
            if problem.stops:
                self._halt(problem.text, problem.option)
            self._say(number, problem.text)
        new = list(self._health.after(step.metrics)) if options.health != "off" else []
        if self._health.found is not None:
            self._run.tracker.health([one.head for one in self._health.found])
        for found in new:
            if found.severity == "critical" and options.health == "stop":
                self._halt(f"{found.rule}: {found.text}", "guards.health=warn")
            self._say(number, f"{found.rule}, from step {found.first_step}: {found.text}")
        self._idle = 0 if step.metrics["optimizer/updates"] else self._idle + 1
        most = options.steps_without_update
        text = idle(self._idle, step.metrics) + (f". Before that, {self._blown}" if self._blown else "")
        # Of a model that is destroyed no better step is to be hoped for.
        if most and self._idle >= (min(most, IDLE_STEPS_SAID) if self._blown else most):
            self._halt(text, "guards.steps_without_update=0")
        if self._idle == IDLE_STEPS_SAID:
            self._say(number, text)

    def _check_gap(self, batch: StepBatch, updated: Updated) -> None:
        mean = updated.metrics.get("engine/logp_gap_mean", Metric(0.0, "mean", 0.0))
        own: list[Any] = [updated.gap, float(mean.value), float(mean.weight)]
        everywhere = self._run.ranks.gather(own) if self._watches_gap else []
        gaps = [Gap(*gap) for gap, _, _ in everywhere if gap is not None]
        if not gaps:
            return
        worst = max(gaps, key=lambda gap: gap.nats)
        tokens = sum(weight for _, _, weight in everywhere)
        mean_nats = math.fsum(value * weight for _, value, weight in everywhere) / tokens
        if self._run.config.engine_is_trainer:
            found, limit, what = worst.nats, FLOAT32_GAP_NATS, "at most"
        else:
            # Where the start shows rounding of float32 alone, later steps round more.
            start = max(self._run.engine_gap_nats, FLOAT32_GAP_NATS / 100)
            found, limit = mean_nats, self._options.engine_gap_factor * start
            what = f"on average {found:.3g}, {self._options.engine_gap_factor:g} times that of the start is"
        if found <= limit:
            return
        text = (
            f"engine and trainer disagree with the same weights: by {worst.nats:.3g} nats at token {worst.token} of an "
            f"answer of {worst.answer_tokens} tokens behind a prompt of {worst.prompt_tokens}; {what} {limit:.3g} "
            "is expected. Their positions, masks or weights differ: what is learned from such tokens is wrong"
        )
        if self._options.engine_gap == "stop":
            self._break(text, batch)
        self._say(self._number, text)

    @property
    def _number(self) -> int:
        """Of the step that is not finished yet."""
        return self._run.state.step + 1

    def _say(self, number: int, text: str) -> None:
        self._run.tracker.note(f"warning: step {number}: {text}")

    def _halt(self, text: str, option: str) -> None:
        run = self._run
        raise BrokenRunError(
            f"{text}.\nThe run stopped after step {run.state.step} of {run.config.run.steps}, which is in a "
            f"checkpoint. Fix the cause and resume: groupwise train --resume {run.folder.path}, with {option} to be "
            "told only",
            is_sound=True,
        )

    def _break(self, text: str, batch: StepBatch, sound_step: int | None = None) -> None:
        run, number, rate = self._run, self._number, self._run.config.optimizer.lr
        saved = save_failed_step(run.folder.path, batch, self._sampled, number, text, run.ranks)
        sound = sound_before(run.folder.checkpoints, number - 1 if sound_step is None else sound_step)
        raise BrokenRunError(
            f"step {number} of {run.config.run.steps}: {text}.\nNothing of the step is kept. {saved} {sound} Resuming "
            f"repeats the step as it was, unless what caused it changes: most often optimizer.lr={rate:g} is too high; "
            f"lower it by groupwise train --resume {run.folder.path} --allow-change optimizer.lr optimizer.lr=RATE"
        )


def idle(steps: int, metrics: dict[str, Any]) -> str:
    """Why so many steps had no update, as the last one shows."""

    def percent(name: str) -> str:
        return f"{100 * metrics.get(name, 0.0):.0f} %"

    return (
        f"{steps} steps in a row without an update. Of the last one's {metrics['groups/sampled']:.0f} groups "
        f"{metrics['groups/admitted']:.0f} were admitted and {metrics['groups/failed']:.0f} failed; of those judged "
        f"{percent('groups/all_wrong')} are all wrong, {percent('groups/all_right')} all right; "
        f"{percent('completion/truncated_fraction')} of the answers have no end, −log p is "
        f"{metrics.get('completion/neg_logp', math.nan):.2f} nats a token. Problems that are "
        "neither too hard nor too easy are needed, or a model that an earlier step has not destroyed"
    )
