"""What a run says of its prompts and stops before it begins."""

from pathlib import Path

import pytest

from groupwise.config.compose import compose_train_config
from groupwise.errors import DataError
from groupwise.evaluation.sample import evaluate
from groupwise.track.tracker import Tracker
from groupwise.training.setup import prepare

SMALL = ("demo", "run.threads=1", "problems.eval_problems=4", "problems.eval_samples_per_prompt=1")
SHORT = ("sampling.max_new_tokens=8",)


class Notes(Tracker):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def template(tmp_path: Path) -> str:
    file = tmp_path / "mine.jinja"
    file.write_text("{% for m in messages %}{{ m.content }} ### {% endfor %}", encoding="utf-8")
    return f"prompt.chat_template={file}"


def test_a_run_warns_of_answers_that_do_not_end_and_shows_its_first_prompt(template: str) -> None:
    notes = Notes()
    prepared = prepare(compose_train_config([*SMALL, *SHORT, template]), notes, micro_batch_tokens=1024)
    (warned,) = [text for text in notes.texts if text.startswith("warning:")]
    assert "ends an answer with '###'" in warned
    (shown,) = [text for text in notes.texts if text.startswith("prompt")]
    assert shown.endswith(". ### ")
    assert prepared.sampler.sampling.stop == ()


def test_stops_of_the_configuration_reach_the_engine_and_no_warning_is_left(template: str) -> None:
    notes = Notes()
    stops = ('sampling.stop=["###"]', 'sampling.stop_ids=["</think>"]')
    prepared = prepare(compose_train_config([*SMALL, *SHORT, template, *stops]), notes, micro_batch_tokens=1024)
    assert not [text for text in notes.texts if text.startswith("warning:")]
    assert prepared.sampler.sampling.stop == ("###",)
    assert prepared.sampler.sampling.stop_ids == prepared.policy.stop_ids == (2, 511)


def test_a_stop_that_is_no_token_ends_the_run_before_it_begins() -> None:
    with pytest.raises(DataError, match=r"sampling\.stop_ids has 'zebra'"):
        prepare(compose_train_config([*SMALL, 'sampling.stop_ids=["zebra"]']), Notes())


def test_a_measurement_warns_and_stops_too(template: str) -> None:
    result = evaluate(compose_train_config([*SMALL, *SHORT, template]))
    assert any("ends an answer with '###'" in remark for remark in result["remarks"])
    stopped = evaluate(compose_train_config([*SMALL, "sampling.max_new_tokens=40", 'sampling.stop=["is"]']))
    assert stopped["measured"]["greedy"]["mean_tokens"] < 8
    assert stopped["measured"]["greedy"]["truncated"]["value"] == 0
