"""What a program passes to the API in these tests: small runs, problems, and rewards as an importable file has them."""

from typing import Any

OPTIONS: dict[str, Any] = {
    "run.steps": 3,
    "run.threads": 1,
    "run.checkpoint_every_steps": 2,
    "run.rollouts_every_steps": 1,
    "batch": {"prompts_per_step": 3, "samples_per_prompt": 4},
    "sampling.max_new_tokens": 20,
    "problems.eval_problems": 0,
    "optimizer": {"lr": 1e-3, "warmup_steps": 2, "schedule": "constant", "final_lr_fraction": 0.0},
}

PROBLEMS = [{"question": f"{a} + {b} = ?", "answer": a + b} for a in range(6) for b in range(6)]


def shortness(text: str) -> float:
    return 1 / (1 + len(text))


class Counted:
    """A reward that only this process can call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, text: str) -> float:
        self.calls += 1
        return len(text) / 100
