"""Several sources of problems in one run."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupwise.config.data import ProblemOptions
from groupwise.data.sources import eval_problems, open_sources, read_files, usable_files
from groupwise.data.stream import ProblemStream, mixed_stream, shuffled_stream
from groupwise.errors import DataError
from groupwise.problem import Message, Problem
from groupwise.training.setup import check_domains


def named(name: str) -> ProblemStream:
    return ProblemStream(lambda index: Problem(f"{name}{index}", (Message("user", name),), ""))


def ids(stream: ProblemStream, count: int) -> list[str]:
    return [stream.at(position).id for position in range(count)]


def test_equal_shares_take_turns() -> None:
    assert ids(mixed_stream([named("a"), named("b")], [1, 1]), 6) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_one_source_is_itself() -> None:
    stream = named("a")
    assert mixed_stream([stream], [0.3]) is stream


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=5), st.integers(1, 300))
@settings(deadline=None, max_examples=60)
def test_every_share_is_kept_within_a_problem_and_no_problem_is_skipped(shares: list[float], count: int) -> None:
    stream = mixed_stream([named(chr(97 + i)) for i in range(len(shares))], shares)
    drawn = ids(stream, count)
    for i, share in enumerate(shares):
        own = [name for name in drawn if name[0] == chr(97 + i)]
        assert own == [f"{chr(97 + i)}{n}" for n in range(len(own))]
        # The largest deficit first keeps every source within one problem per other source of its share.
        assert abs(len(own) - share / sum(shares) * count) < len(shares)


def test_a_position_is_the_same_problem_in_whatever_order_it_is_asked() -> None:
    forwards, backwards = (mixed_stream([named("a"), named("b")], [3, 1]) for _ in range(2))
    expected = ids(forwards, 40)
    assert [backwards.at(position).id for position in reversed(range(40))][::-1] == expected


def test_files_come_round_within_the_stated_epoch() -> None:
    files = [shuffled_stream([Problem(f"{c}{n}", (), "") for n in range(size)], 0) for c, size in (("a", 3), ("b", 10))]
    stream = mixed_stream(files, [1, 1])
    assert stream.problems_per_epoch == 20
    assert len(set(ids(stream, 20))) == 13
    assert mixed_stream([files[0], named("c")], [1, 1]).problems_per_epoch is None


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_files_and_generators_are_mixed_by_share(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [{"question": f"{n}?", "answer": str(n), "domain": "sums"} for n in range(5)])
    options = ProblemOptions.model_validate({"train": {file: 1.0, "arithmetic": 3.0}, "eval_problems": 4})
    files = read_files(options, options.train_sources)
    assert set(files) == {file}
    source = open_sources(options, files, seed=3)
    assert Counter(source.stream.at(position).domain for position in range(40)) == {"math": 30, "sums": 10}
    assert source.domains == ("math", "sums")
    assert source.shown.startswith("25% ")
    # Of a file nothing is held out unless a file is named for it.
    assert {problem.source.partition(":")[0] for problem in eval_problems(options, files)} == {"arithmetic"}
    other = open_sources(options, files, seed=4)
    assert other.fingerprint != source.fingerprint


def test_up_to_one_row_in_a_hundred_is_left_out_and_listed(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "answer": str(n)} for n in range(200)]
    rows[7]["answer"] = ""
    file = write(tmp_path / "a.jsonl", rows)
    options = ProblemOptions(train=file)
    usable, remarks = usable_files(read_files(options, [file]), {})
    assert len(usable[file].problems) == 199
    assert any("a.jsonl:8" in remark for remark in remarks)
    whole, _ = usable_files(read_files(options, [file]), {"odd": lambda problem: ""})  # noqa: ARG005
    assert whole[file].fingerprint == usable[file].fingerprint
    with pytest.raises(DataError, match=r"100 of 200 rows"):
        usable_files(
            read_files(options, [file]),
            {"odd": lambda p: "odd" if int(p.question[:-1]) % 2 and p.answer != "7" else ""},
        )


def test_a_domain_without_problems_is_remarked_and_a_misspelt_one_refused() -> None:
    assert check_domains(("code", "math"), ["math"]) == []
    (remark,) = check_domains(("math",), ["math", "code"])
    assert "domain code" in remark
    with pytest.raises(DataError, match="did you mean 'math'"):
        check_domains(("math",), ["maths"])
