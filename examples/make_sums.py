"""Writes easy sums as problem files: `python make_sums.py FOLDER` makes FOLDER/train.jsonl and FOLDER/eval.jsonl.

All a + b and a - b with a and b from 1 to 30 and a result of at least 0, shuffled and divided once.
"""

import json
import random
import sys
from pathlib import Path

LARGEST = 30
EVAL_PROBLEMS = 128


def main(folder: Path) -> None:
    """Write both files."""
    numbers = range(1, LARGEST + 1)
    rows = [{"problem": f"{a} + {b}", "answer": a + b} for a in numbers for b in numbers]
    rows += [{"problem": f"{a} - {b}", "answer": a - b} for a in numbers for b in numbers if a >= b]
    random.Random(0).shuffle(rows)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("eval", rows[:EVAL_PROBLEMS]), ("train", rows[EVAL_PROBLEMS:])):
        text = "".join(json.dumps(row) + "\n" for row in part)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{folder / name}.jsonl: {len(part)} problems")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
