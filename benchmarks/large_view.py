"""The page of 50,000 made-up completions: how large it is, how long it takes to make, to open, to filter and to search.

python benchmarks/large_view.py [STEPS]     needs chromium and playwright
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright
from tokenizers import Tokenizer

from groupwise.config import TrainConfig
from groupwise.config.compose import dump_config
from groupwise.model.size import model_folder
from groupwise.track.rollouts import name_of, packed
from groupwise.view.build import page_of

GROUPS, SAMPLES, PROBLEMS = 25, 8, 600


def made_up(folder: Path, steps: int) -> None:
    """Steps of 25 groups of 8, of 200 to 340 tokens each, as a run writes them."""
    (folder / "rollouts").mkdir(parents=True)
    (folder / "config.yaml").write_text(dump_config(TrainConfig()))
    (folder / "context.json").write_text('{"config": {"model": {"path": "bundled"}}}')
    tokenizer = Tokenizer.from_file(str(model_folder("bundled") / "tokenizer.json"))
    words = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
    known = np.array([token for token, word in enumerate(words) if word and "\ufffd" not in word and "<" not in word])
    draws = np.random.default_rng(0)
    for step in range(1, steps + 1):
        content = b""
        for position in range((step - 1) * GROUPS, step * GROUPS):
            group = [made_up_row(tokenizer, known, draws, position, g, step / steps) for g in range(SAMPLES)]
            content += packed(group)
        (folder / name_of(step)).write_bytes(content)


def made_up_row(tokenizer: Any, known: Any, draws: Any, position: int, sample: int, progress: float) -> dict[str, Any]:
    """One completion; more of them are right later."""
    tokens, problem = int(draws.integers(200, 340)), position % PROBLEMS
    ids = known[draws.zipf(1.3, tokens) % len(known)].tolist()
    right = bool(draws.random() < 0.2 + 0.6 * progress)
    return {
        "position": position,
        "problem": f"sums/{problem}",
        "question": f"What is {problem} plus {problem}?",
        "answer": str(2 * problem),
        "sample": sample,
        "completion": tokenizer.decode(ids),
        "tokens": tokens,
        "finish_reason": "stop",
        "rewards": {"correctness": float(right)},
        "status": {"correctness": "scored"},
        "total": float(right),
        "advantage": round(float(draws.normal()), 4),
        "ids": ids,
        "logps": np.round(-draws.exponential(0.4, tokens), 4).tolist(),
        "ratios": np.round(np.exp(draws.normal(0, 0.05, tokens)), 4).tolist(),
        "entropies": np.round(draws.exponential(0.4, tokens), 4).tolist(),
    }


def seconds(act: Callable[[], Any]) -> float:
    """How long something takes."""
    start = time.monotonic()
    act()
    return time.monotonic() - start


def shown(page: Any, act: Callable[[], Any], begins: str) -> float:
    """How long it takes from an action until the summary begins with this."""

    def until() -> None:
        act()
        while not page.locator("#summary").text_content().startswith(begins):
            time.sleep(0.005)

    return seconds(until)


def main(steps: int = 250) -> None:
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder, file = Path(place) / "run", Path(place) / "rollouts.html"
        made_up(folder, steps)
        size = sum(path.stat().st_size for path in (folder / "rollouts").iterdir())
        made = seconds(lambda: file.write_text("".join(page_of(str(folder), max_megabytes=1e6)), encoding="utf-8"))
        count = f"{steps * GROUPS * SAMPLES:,}"
        print(f"{count} completions: rollouts/ {size / 1e6:.0f} MB")
        print(f"page: {file.stat().st_size / 1e6:.0f} MB in {made:.0f} s")
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()

        def opened() -> None:
            page.goto(file.as_uri())
            page.wait_for_selector("body[data-ready=true]")

        print(f"until it can be used: {seconds(opened):.2f} s")
        page.evaluate("() => { document.getElementById('filters').open = true }")
        correct = page.locator("#outcomes .chip", has_text="correct")
        hits = str(correct.text_content()).split()[-1]
        print(f"filter: {shown(page, correct.click, f'{hits} of'):.2f} s")
        page.click("#reset")
        for what in ("search for what is not there", "again for something else"):
            wanted = what.replace(" ", "-")
            print(f"{what}: {shown(page, lambda wanted=wanted: page.fill('#search', wanted), '0 of'):.2f} s")
            page.click("#reset")
        browser.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
