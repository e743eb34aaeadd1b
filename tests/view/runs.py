"""Folders of runs with rollouts that are made up."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupwise.config import TrainConfig
from groupwise.config.compose import dump_config
from groupwise.model.size import model_folder
from groupwise.track.rollouts import name_of, packed
from groupwise.track.run_folder import RunFolder
from groupwise.view.pieces import decoder_of

HOSTILE = (
    "</script><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
    "<svg onload=\"document.title='ran'\">javascript:document.title='ran' \u202etxet \u2028 <!-- ]]> &lt;b&gt;"
)


def encoded(text: str) -> list[int]:
    from tokenizers import Tokenizer

    return list(Tokenizer.from_file(str(model_folder("bundled") / "tokenizer.json")).encode(text).ids)


def decoded(ids: Sequence[int]) -> str:
    decode = decoder_of(Path("/nowhere"), "bundled")
    assert decode is not None
    return decode(ids)


def row(position: int, sample: int, text: str, right: bool, **changes: Any) -> dict[str, Any]:
    """A record as a run writes it, its numbers by a rule that a test can repeat."""
    ids = encoded(text)
    made = {
        "position": position,
        "problem": f"sums/{position % 3}",
        "domain": "math",
        "question": f"What is {position % 3} + {position % 3}?",
        "answer": str(2 * (position % 3)),
        "prompt": f"<|im_start|>user\nWhat is {position % 3} + {position % 3}?<|im_end|>",
        "sample": sample,
        "completion": text,
        "tokens": len(ids),
        "finish_reason": "stop" if right else "length",
        "rewards": {"correctness": float(right), "format": 1.0},
        "status": {"correctness": "scored", "format": "scored"},
        "detail": {"correctness": "correct" if right else "wrong"},
        "verdict": {
            "status": "correct" if right else "wrong",
            "extracted": str(sample),
            "method": "integer",
            "flags": [],
        },
        "total": float(right) + 0.2,
        "advantage": 0.5 if right else -0.5,
        "ids": ids,
        "logps": [-0.01 * number for number in range(len(ids))],
        "ratios": [1.0 + 0.01 * number for number in range(len(ids))],
        "entropies": [0.02 * number for number in range(len(ids))],
    }
    return made | changes


def run_of(folder: Path, steps: Mapping[int, Sequence[Sequence[Mapping[str, Any]]]]) -> Path:
    """A run with these groups in these steps."""
    made = RunFolder.create(str(folder), "x", lambda _path, _aside: TrainConfig())
    made.config.write_text(dump_config(TrainConfig()))
    for step, groups in steps.items():
        content = b"".join(packed([dict(record) for record in group]) for group in groups)
        (folder / name_of(step)).write_bytes(content)
    made.close()
    return folder


def small_run(folder: Path) -> Path:
    """Three steps of two groups of four; in step 2 a group wrote what could run, and was not trained on."""
    texts = ["The answer is 4.", "Let us add: 2 + 2 = 4.", "It is five.", "No idea"]
    steps: dict[int, list[list[dict[str, Any]]]] = {}
    for step in (1, 2, 3):
        steps[step] = [
            [row(2 * step + group, g, text, right=g < step) for g, text in enumerate(texts)] for group in (0, 1)
        ]
    untrained = {"advantage": None, "ratios": None, "entropies": None}
    prompt = {"prompt": HOSTILE, "question": HOSTILE, "answer": HOSTILE, "problem": HOSTILE}
    steps[2][1] = [
        row(5, g, f"{HOSTILE} {g} é日本🙂", right=False, **untrained, **prompt, detail={"correctness": HOSTILE})
        for g in range(4)
    ]
    return run_of(folder, steps)
