"""Reward functions as users write them, good and bad."""

import asyncio
import os
import sys
import time
from decimal import Decimal
from typing import Any


def length(text: str) -> float:
    return len(text) / 100


def sees_all(**everything: Any) -> float:
    assert sorted(everything) == ["finish_reason", "ids", "raw_text", "row", "text"]
    return float(sum(everything["ids"]))


def exact(text: str, row: dict[str, Any], scale: float = 2.0) -> float:
    return scale * (row["answer"] in text)


def truncated(finish_reason: str) -> bool:
    return finish_reason == "length"


def whole() -> int:
    return 3


def numpy_scalar() -> Any:
    import numpy as np

    return np.float32(0.5)


def decimal() -> Any:
    return Decimal("0.25")


async def slow_judge(text: str) -> float:
    await asyncio.sleep(0.01)
    return float(len(text))


def stricter(text: str, step: int, progress: float) -> float:
    return len(text) * progress + step


async def later(text: str, step: int = 100) -> float:
    await asyncio.sleep(0)
    return float(len(text) + step)


async def batch_stricter(text: list[str], step: int, progress: float) -> list[float]:
    return [len(item) * progress + step for item in text]


def batch_lengths(text: list[str], row: list[dict[str, Any]]) -> list[int]:
    assert len(text) == len(row)
    return [len(item) for item in text]


def batch_array(ids: list[list[int]]) -> Any:
    import numpy as np

    return np.array([len(item) for item in ids], dtype=np.float64)


async def batch_async(text: list[str]) -> tuple[float, ...]:
    return tuple([1.0 for _ in text])


async def batch_gathered(text: list[str]) -> list[Any]:
    async def asked(item: str) -> float:
        await asyncio.sleep(0)
        if item == "b":
            raise ConnectionError("the judge is away")
        return 1.0

    return await asyncio.gather(*map(asked, text), return_exceptions=True)


def batch_short(text: list[str]) -> list[float]:
    return [1.0] * (len(text) - 1)


def batch_single(text: list[str]) -> list[float]:
    return [float(len(text))]


def batch_number(text: list[str]) -> Any:
    return float(len(text))


def batch_generator(text: list[str]) -> Any:
    return (1.0 for _ in text)


def batch_partly(text: list[str]) -> list[Any]:
    return [1.0, float("nan"), None, 0.5][: len(text)]


def nothing() -> Any:
    return None


def nan() -> float:
    return float("nan")


def infinite() -> float:
    return float("inf")


def says_text() -> Any:
    return "0.5"


def complex_number() -> Any:
    return 1 + 2j


def vector() -> Any:
    import numpy as np

    return np.zeros(3)


def raises(row: dict[str, Any]) -> float:
    return float(row["price"])


def hangs() -> float:
    while True:
        time.sleep(1)


def hangs_on_b(text: str) -> float:
    while text == "b":
        pass
    return 1.0


def exits() -> Any:
    sys.exit(1)


def hard_exit() -> Any:
    os._exit(0)


def eats() -> Any:
    import numpy as np

    return float(np.ones(10**9).sum())


def forks() -> float:
    os.fork()
    return 1.0


def chatters() -> float:
    for _ in range(10_000):
        print("a line that is long enough to fill a pipe soon")
    return 1.0


def tells_and_raises() -> float:
    print("the judge said: no")
    raise RuntimeError("no verdict")


def sometimes(row: dict[str, Any]) -> float:
    with open(row["counter"], "a+") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) < 3:
            raise ConnectionError("try again")
    return 1.0


def trl_like(completions: list[str], answer: list[str]) -> list[float]:
    return [1.0 for _ in zip(completions, answer, strict=True)]


def trl_state(completions: list[str], trainer_state: Any) -> list[float]:
    return [float(trainer_state.global_step) for _ in completions]


def positional_only(text: str, /) -> float:
    return float(len(text))


class Judge:
    """A reward can also be a method, or an object that is called."""

    def __call__(self, text: str) -> float:
        return float(len(text))

    @staticmethod
    def of(text: str) -> float:
        return 2.0 * len(text)


judge = Judge()
CONSTANT = 5
