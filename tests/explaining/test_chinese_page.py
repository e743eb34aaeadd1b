"""The Chinese page on the fifteen techniques names options, settings and recipes that exist, and every number."""

import re
from pathlib import Path

from groupwise.config import TrainConfig
from groupwise.config.compose import compose_to_explain, list_recipes
from groupwise.config.describe import all_keys
from groupwise.explaining.techniques import FIFTEEN

PAGE = (Path(__file__).parents[2] / "docs" / "zh" / "techniques.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`((?:[a-z_]+\.)+[a-z_]+|[a-z_]+_(?:mask|correction)|domains)(?:=([a-z_0-9]+))?`", PAGE)


def test_options_and_settings_exist() -> None:
    keys = all_keys(TrainConfig)
    assert len(NAMED) > 25
    for key, value in NAMED:
        assert any(known == key or known.startswith(f"{key}.") for known in keys), key
        if value:
            compose_to_explain([f"{key}={value}"])


def test_commands_name_recipes() -> None:
    commands = re.findall(r"^groupwise explain (\S+)", PAGE, re.MULTILINE)
    assert len(commands) == 5
    assert set(commands) <= set(list_recipes())


def test_every_technique_is_listed_with_an_option_of_its_card() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in rows] == [card.number for card in FIFTEEN]
    for (number, options), card in zip(rows, FIFTEEN, strict=True):
        named = re.findall(r"`([^`]+)`", options)
        assert any(key.startswith(name) for key in card.keys for name in named), (number, card.keys)
