"""A loop of one's own around the steps of runs: learning rates are compared, and what falls far behind is stopped.

python examples/own_loop.py
"""

from collections import deque

import groupwise

STEPS = 12
PROBLEMS = [{"question": f"{a} + {b} = ?", "answer": a + b} for a in range(2, 10) for b in range(2, 10)]
SMALL = {
    "run": {"steps": STEPS, "threads": 1, "checkpoint_every_steps": 0},
    "batch": {"prompts_per_step": 4, "samples_per_prompt": 8},
    "sampling": {"max_new_tokens": 32},
}


def reward_of(lr: float, best: float) -> float:
    """The mean reward of the last four steps at this learning rate; stopped when it is less than half of the best."""
    recent: deque[float] = deque(maxlen=4)
    with groupwise.steps(
        ["demo", SMALL], problems=PROBLEMS, quiet=True, optimizer={"lr": lr, "warmup_steps": 0}
    ) as steps:
        for step in steps:
            recent.append(step.metrics["reward/total/mean"])
            longest = max(step.rollouts, key=lambda row: row["tokens"])
            print(f"lr {lr:g}  step {step.number}  reward {recent[-1]:.3f}  longest: {longest['completion'][:40]!r}")
            if step.number >= 6 and sum(recent) / len(recent) < best / 2:
                step.stop()
    return sum(recent) / len(recent)


if __name__ == "__main__":
    rewards: dict[float, float] = {}
    for lr in (1e-3, 1e-5):
        rewards[lr] = reward_of(lr, max(rewards.values(), default=0.0))
    best = max(rewards, key=rewards.__getitem__)
    print(f"best: {best:g} with a reward of {rewards[best]:.3f}")
