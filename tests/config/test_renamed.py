"""The keys of 0.1.0: each is refused, and what is suggested instead is understood."""

import re
from pathlib import Path

import pytest

from groupwise.config.compose import compose_to_explain
from groupwise.config.hints import renamed_keys
from groupwise.config.messages import in_quotes
from groupwise.errors import UsageError

RENAMED = renamed_keys()
FUNCTION = "rewards.functions.mine.path=my:mine"


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_key_is_refused_with_how_it_is_written_now(old: str) -> None:
    key, _, value = old.replace("NAME", "mine").partition("=")
    argument = f"{key}={value or '0.5'}"
    with pytest.raises(UsageError) as caught:
        compose_to_explain([FUNCTION, argument])
    (line,) = str(caught.value).splitlines()[1:]
    assert line.startswith(f"- {argument}: {key}")
    assert line.endswith(f"; since 0.2.0: {in_quotes(RENAMED[old].replace('NAME', 'mine'))}")


@pytest.mark.parametrize("new", [new for new in RENAMED.values() if "=" in new and "..." not in new and " " not in new])
def test_a_suggestion_that_is_complete_can_be_run(new: str) -> None:
    compose_to_explain([FUNCTION, new])


@pytest.mark.parametrize(
    ("choice", "technique", "option"),
    [found for new in RENAMED.values() for found in re.findall(r"([\w.]+)={type: (\w+), (\w+): \.\.\.}", new)],
)
def test_a_suggested_technique_has_the_suggested_option(choice: str, technique: str, option: str) -> None:
    value = {"baseline": "none", "scale": "none"}.get(option, "1")
    value = "1.0" if value == "1" and option not in ("std_ddof", "k", "tokens") else value
    assert compose_to_explain([f"{choice}={{type: {technique}, {option}: {value}}}"])


def test_an_old_key_of_a_domain_and_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("domains:\n  code:\n    rewards:\n      repetition: {free_share: 0.5}\n")
    with pytest.raises(UsageError) as caught:
        compose_to_explain([str(path)])
    assert f"{path}:4: domains.code.rewards.repetition.free_share is not an option; since 0.2.0: " in str(caught.value)
    assert str(caught.value).endswith("domains.code.rewards.repetition.free_fraction")
