"""What a page of rollouts holds, read back from the page; and what it leaves out, which it says."""

import base64
import gzip
import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groupwise.errors import DataError
from groupwise.track.rollouts import name_of, packed, rollout_files
from groupwise.view.build import SCRIPTS, page_of, thinned
from groupwise.view.levels import (
    ALPHABET,
    HIGHEST,
    MIDDLE,
    MOST_ENTROPY,
    MOST_LOG_RATIO,
    MOST_NATS,
    above,
    around,
    counts,
)
from groupwise.view.pieces import Pieces
from tests.view.runs import HOSTILE, decoded, encoded, row, run_of, small_run


def blocks_in(page: str) -> dict[str, Any]:
    found = re.findall(r'<script type="application/octet-stream" id="([^"]*)">([^<]*)</script>', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(text))) for name, text in found}


def levels_in(text: str) -> list[int]:
    return [ALPHABET.find(letter) for letter in text]


def lengths_in(text: str) -> list[int]:
    lengths, now = [], 0
    for level in levels_in(text):
        now += level
        if level < HIGHEST:
            lengths.append(now)
            now = 0
    return lengths


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return small_run(tmp_path / "run")


def test_every_completion_is_in_the_index(run: Path) -> None:
    index = blocks_in("".join(page_of(str(run))))["index"]
    columns = index["columns"]
    assert columns["step"] == [1] * 8 + [2] * 8 + [3] * 8
    assert columns["sample"] == [0, 1, 2, 3] * 6
    assert columns["position"] == [position for position in range(2, 8) for _ in range(4)]
    assert index["outcomes"] == ["correct", "wrong"]
    assert [index["outcomes"][number] for number in columns["outcome"][:4]] == ["correct", "wrong", "wrong", "wrong"]
    assert [index["finishes"][number] for number in columns["finish"][:2]] == ["stop", "length"]
    assert columns["advantage"][:2] == [0.5, -0.5]
    assert columns["advantage"][12:16] == [None] * 4
    assert index["components"] == ["correctness", "format"]
    assert index["rewards"][1] == [1.0] * 24
    assert index["problems"][columns["problem"][0]] == ["sums/2", "math", "What is 2 + 2?", "4"]
    assert (index["run"], index["steps"], index["notes"]) == ("run", [1, 2, 3], [])


def test_texts_and_numbers_of_tokens_are_in_the_blocks_of_their_step(run: Path) -> None:
    blocks = blocks_in("".join(page_of(str(run))))
    texts, values = blocks["text-1"], blocks["values-1"]
    assert texts["prompts"] == [f"<|im_start|>user\nWhat is {n} + {n}?<|im_end|>" for n in (2, 0)]
    assert [row[0] for row in texts["rows"]] == [0] * 4 + [1] * 4
    _, text, judged, detail = texts["rows"][1]
    assert text == "Let us add: 2 + 2 = 4."
    assert (judged, detail) == (["1", "integer", []], {"correctness": "wrong"})
    own, ids = values[1], encoded("Let us add: 2 + 2 = 4.")
    lengths = lengths_in(own["cuts"])
    assert len(lengths) == len(ids)
    cuts = np.cumsum([0, *lengths])
    assert [text[start:end] for start, end in itertools.pairwise(cuts)] == [decoded([token]) for token in ids]
    numbers = np.arange(len(ids))
    surprise = MOST_NATS * (np.array(levels_in(own["surprise"])) / HIGHEST) ** 3
    assert surprise == pytest.approx(0.01 * numbers, rel=0.12, abs=1e-4)
    entropies = MOST_ENTROPY * (np.array(levels_in(own["entropy"])) / HIGHEST) ** 3
    assert entropies == pytest.approx(0.02 * numbers, rel=0.12, abs=1e-4)
    logs = MOST_LOG_RATIO * ((np.array(levels_in(own["ratio"])) - MIDDLE) / MIDDLE) ** 3
    assert logs == pytest.approx(np.log(1 + 0.01 * numbers), rel=0.25, abs=1e-4)
    assert set(blocks["values-2"][4]) == {"cuts", "surprise"}


def test_what_a_model_wrote_is_only_in_the_blocks(run: Path) -> None:
    page = "".join(page_of(str(run)))
    assert "ran'" not in page
    assert page.count("</script>") == 7 + 1
    text = blocks_in(page)["text-2"]["rows"][4][1]
    assert text == f"{HOSTILE} 0 é日本🙂"


def test_advantages_of_tokens_have_a_scale_of_their_own(tmp_path: Path) -> None:
    own = row(1, 0, "It is 4.", right=True)
    own["token_advantages"] = [0.5 * number - 1 for number in range(len(own["ids"]))]
    values = blocks_in("".join(page_of(str(run_of(tmp_path / "run", {1: [[own]]})))))["values-1"][0]
    assert values["most"] == max(abs(value) for value in own["token_advantages"])
    found = values["most"] * ((np.array(levels_in(values["advantage"])) - MIDDLE) / MIDDLE) ** 3
    assert found == pytest.approx(np.array(own["token_advantages"]), rel=0.1, abs=1e-3)


def test_numbers_that_are_none_are_shown_as_such(tmp_path: Path) -> None:
    own = row(1, 0, "It is 4.", right=True)
    own |= {"total": float("nan"), "entropies": [float("nan"), *own["entropies"][1:]], "ratios": own["ratios"][1:]}
    own["rewards"] = {"correctness": float("nan")}
    blocks = blocks_in("".join(page_of(str(run_of(tmp_path / "run", {1: [[own]]})))))
    assert blocks["index"]["columns"]["total"] == [None]
    assert blocks["index"]["rewards"] == [[None]]
    assert blocks["values-1"][0]["entropy"][0] == " "
    # Fewer than tokens: not known which.
    assert "ratio" not in blocks["values-1"][0]


def test_a_file_that_is_being_written_is_shown_as_far_as_it_is_there(run: Path) -> None:
    last = rollout_files(run)[3]
    last.write_bytes(last.read_bytes()[:-20])
    columns = blocks_in("".join(page_of(str(run))))["index"]["columns"]
    assert columns["step"][-1] == 3
    assert 20 <= len(columns["step"]) < 24


def test_steps_can_be_chosen_and_a_large_run_is_thinned(run: Path) -> None:
    assert blocks_in("".join(page_of(str(run), 2, 2)))["index"]["steps"] == [2]
    files = rollout_files(run)
    size = max(path.stat().st_size for path in files.values())
    index = blocks_in("".join(page_of(str(run), max_megabytes=2.1 * size / 1e6)))["index"]
    assert index["steps"] == [1, 3]
    assert index["notes"] == ["2 of 3 steps, evenly spaced: --max-megabytes or --steps shows more."]
    assert list(thinned(files, 0.0)) == [3]


def test_groups_that_were_not_kept_are_counted(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"step": 1, "groups/sampled": 2}\n{"step": 2, "groups/sampled": 8}\n{"st')
    (note,) = blocks_in("".join(page_of(str(run))))["index"]["notes"]
    assert note.startswith("1 steps have a draw of their groups, 25% of them")


def test_records_of_older_versions_are_shown_without_tokens(tmp_path: Path) -> None:
    old = [{"problem": "p", "sample": g, "completion": "7", "total": 1.0, "advantage": None} for g in (0, 1)]
    other = [{**record, "problem": "q"} for record in old]
    folder = run_of(tmp_path / "run", {})
    text = "".join(json.dumps(record) + "\n" for record in [*old, *other])
    (folder / "rollouts" / "step_000010.jsonl").write_text(text)
    blocks = blocks_in("".join(page_of(str(folder))))
    assert blocks["index"]["columns"]["position"] == [0, 0, 1, 1]
    assert blocks["index"]["outcomes"] == ["not graded"]
    assert blocks["values-10"] == [{}] * 4


def test_what_cannot_be_shown_is_an_error(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {})
    with pytest.raises(DataError, match=r"has no rollouts from step 1 on.*rollouts_every_steps"):
        page_of(str(folder))
    (folder / name_of(1)).write_bytes(packed([row(1, 0, "4", right=True), {"problem": "p", "sample": -1}]))
    with pytest.raises(DataError, match=r"step_000001.jsonl.gz' cannot be shown: line 2: sample"):
        page_of(str(folder))
    with pytest.raises(DataError, match="is not the folder of a run"):
        page_of(str(tmp_path / "nothing"))


def test_without_a_tokenizer_the_text_is_shown(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupwise.view.build.decoder_of", lambda *_: None)
    blocks = blocks_in("".join(page_of(str(run))))
    assert blocks["values-1"] == [{}] * 8
    assert blocks["text-1"]["rows"][0][1] == "The answer is 4."
    assert "tokenizer.json was not found" in blocks["index"]["notes"][0]


@pytest.mark.parametrize(
    "text", ["The answer is 4.", "é日本🙂 and 🙂🙂", " leading", "line\n\nline", "<think>x</think>"]
)
def test_pieces_of_tokens_make_the_text(text: str) -> None:
    ids = encoded(text)
    pieces = Pieces(decoded).of(ids)
    assert "".join(pieces) == decoded(ids)
    assert len(pieces) == len(ids)
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_character_that_is_cut_off_is_shown_at_its_end() -> None:
    ids = encoded("🙂")[:-1]
    pieces = Pieces(decoded).of(ids)
    assert len(pieces) == len(ids) > 1
    assert pieces[:-1] == [""] * (len(ids) - 1)
    assert "\ufffd" in pieces[-1]


def test_levels() -> None:
    assert levels_in(above([0.0, 20.0, 99.0, -1.0], 20.0)) == [0, HIGHEST, HIGHEST, 0]
    assert levels_in(around([0.0, -3.0, 3.0, 99.0, float("nan")], 3.0)) == [MIDDLE, 0, HIGHEST, HIGHEST, -1]
    assert lengths_in(counts([0, 1, 89, 90, 91, 400])) == [0, 1, 89, 90, 91, 400]
    assert not set(ALPHABET) & set('"\\')


def test_every_script_is_in_the_page(run: Path) -> None:
    page = "".join(page_of(str(run)))
    folder = Path(__file__).parents[2] / "src" / "groupwise" / "view"
    assert sorted(SCRIPTS) == sorted(path.name for path in folder.glob("*.js"))
    assert all((folder / name).read_text("utf-8") in page for name in SCRIPTS)


def test_spans_that_a_reward_scored_are_in_the_values(tmp_path: Path) -> None:
    """Those that lie in the answer and have a score; without the run's tokenizer too."""
    spans = {"steps": [[0, 4, 1.0], [4, 6, 0.25]], "odd": [[3, 3, 1.0], [2, 900, 1.0], [0, 1, float("nan")]]}
    made = row(0, 0, "Let us add: 2 + 2 = 4.", True, spans=spans)
    run = run_of(tmp_path / "run", {1: [[made, row(0, 1, "No idea", False)]]})
    first, second = blocks_in("".join(page_of(str(run))))["values-1"]
    assert first["spans"] == {"steps": [[0, 4, 1.0], [4, 6, 0.25]]}
    assert "cuts" in first
    assert "spans" not in second
