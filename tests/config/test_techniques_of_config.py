"""Options that choose a technique: how they are written, merged, refused, listed and written out."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from groupwise.config.describe import all_keys, describe_options, key_lines
from groupwise.config.merge import differences, merged
from groupwise.config.messages import explain
from groupwise.config.schema import locate
from groupwise.options import NonNegativeFloat, Options, PositiveFloat
from groupwise.technique import Technique, by_name


class Clip(Technique):
    """The clipped ratio."""

    type: Literal["clip"] = "clip"

    low: NonNegativeFloat = 0.2
    """Lower bound."""

    high: NonNegativeFloat = 0.28


class Cispo(Technique):
    """The capped weight.

    More.
    """

    type: Literal["cispo"] = "cispo"

    cap: PositiveFloat = 5.0
    """Largest weight."""


class SeedClip(Technique):
    """A misprint."""

    type: Literal["seed_clip"] = "seed_clip"

    high: PositiveFloat = 0.3


class Plain(Technique):
    """No options."""

    type: Literal["plain"] = "plain"


class InProcess(Technique):
    """The trainer's own process."""

    type: Literal["inprocess"] = "inprocess"

    sequences: int = 256


class Objective(Options):
    """The loss."""

    surrogate: Annotated[Clip | Cispo | SeedClip | Plain, Field(discriminator="type"), by_name(Clip)] = Clip()
    """What is made of the ratio."""

    other: bool = False


class Config(Options):
    """A small configuration."""

    objective: Objective = Objective()
    engine: Annotated[InProcess, by_name(InProcess)] = InProcess()
    entries: dict[str, Objective] = Field(default_factory=dict)


def read(*trees: dict[str, Any]) -> Config:
    whole: dict[str, Any] = {}
    for tree in trees:
        whole = merged(Config, whole, tree)
    return Config.model_validate(whole)


def surrogate(*values: Any) -> Technique:
    return read(*({"objective": {"surrogate": value}} for value in values)).objective.surrogate


def errors_of(*values: Any) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        surrogate(*values)
    return [explain(Config, detail, {("objective", "surrogate"): "my.yaml:3"}) for detail in caught.value.errors()]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Clip()),
        (["cispo"], Cispo()),
        ([{"type": "cispo", "cap": 4.0}], Cispo(cap=4.0)),
        ([{"low": 0.1}], Clip(low=0.1)),
        (["cispo", {"cap": 4.0}], Cispo(cap=4.0)),
        ([{"type": "cispo", "cap": 4.0}, "cispo"], Cispo()),
        ([{"type": "cispo", "cap": 4.0}, {"type": "cispo"}], Cispo(cap=4.0)),
        ([{"low": 0.1}, {"high": 0.3}], Clip(low=0.1, high=0.3)),
        ([{"low": 0.1}, {"type": "clip", "high": 0.3}], Clip(low=0.1, high=0.3)),
        ([{"low": 0.1}, {"type": "seed_clip", "high": 0.5}], SeedClip(high=0.5)),
        (["plain", {"type": "cispo"}], Cispo()),
        ([{"type": "cispo"}, None], Cispo()),
    ],
)
def test_names_replace_and_options_join_the_chosen_technique(values: list[Any], expected: Technique) -> None:
    assert surrogate(*values) == expected


def test_a_technique_of_an_entry_and_one_without_alternatives() -> None:
    config = read(
        {"entries": {"a": {"surrogate": "cispo"}, "b": None}, "engine": "inprocess"},
        {"entries": {"a": {"surrogate": {"cap": 3.0}}}, "engine": {"sequences": 8}},
    )
    assert config.entries == {"a": Objective(surrogate=Cispo(cap=3.0)), "b": Objective()}
    assert config.engine == InProcess(sequences=8)


def test_what_is_wrong_with_a_technique() -> None:
    assert errors_of({"cap": 4.0}) == [
        "my.yaml:3: objective.surrogate.cap is not an option of clip; cispo has it: "
        "'objective.surrogate={type: cispo, cap: ...}'"
    ]
    assert errors_of({"type": "cispo", "high": 4.0}) == [
        "my.yaml:3: objective.surrogate.high is not an option of cispo; clip and seed_clip have it: "
        "'objective.surrogate={type: clip, high: ...}' or 'objective.surrogate={type: seed_clip, high: ...}'"
    ]
    names = "one of clip, cispo, seed_clip, plain"
    assert errors_of("cisp") == [
        f"my.yaml:3: objective.surrogate: found the text 'cisp', expected {names}; did you mean cispo?"
    ]
    assert errors_of({"type": 3}) == [f"my.yaml:3: objective.surrogate: found the integer 3, expected {names}"]
    assert errors_of(7) == [f"my.yaml:3: objective.surrogate: found the integer 7, expected {names}"]
    assert errors_of([]) == [f"my.yaml:3: objective.surrogate: found a list of 0, expected {names}"]
    assert errors_of({"type": "cispo", "cap": "x"}) == [
        "my.yaml:3: objective.surrogate.cap: found the text 'x', expected a number of more than 0"
    ]
    assert errors_of({"lwo": 1.0}) == [
        "my.yaml:3: objective.surrogate.lwo is not an option; did you mean objective.surrogate.low?"
    ]
    assert errors_of({"type": "plain", "zzz": 1.0}) == [
        "my.yaml:3: objective.surrogate.zzz is not an option; plain has no options"
    ]


def test_an_unknown_name_where_there_is_one_technique() -> None:
    with pytest.raises(ValidationError) as caught:
        read({"engine": "elsewhere"})
    (detail,) = caught.value.errors()
    assert explain(Config, detail, {}) == "engine: found the text 'elsewhere', expected one of inprocess"
    assert locate(Config, detail["loc"]).path == ("engine",)


def test_a_path_leads_to_an_option_of_the_technique_that_has_it() -> None:
    place = locate(Config, ("objective", "surrogate", "cispo", "cap"))
    assert (place.path, place.owner) == (("objective", "surrogate", "cap"), Cispo)
    assert locate(Config, ("objective", "surrogate", "cap")).owner is Cispo
    assert locate(Config, ("entries", "a", "surrogate", "seed_clip", "high")).owner is SeedClip
    assert locate(Config, ("objective", "surrogate", "nothing")).annotation is None


def test_the_list_of_options_has_those_of_every_technique() -> None:
    rows = {(row.key, row.technique): row for row in describe_options(Config)}
    choice = rows["objective.surrogate", ""]
    assert (choice.type, choice.default) == ("one of clip, cispo, seed_clip, plain", "clip")
    assert choice.doc.splitlines() == [
        "What is made of the ratio.",
        "clip: The clipped ratio.",
        "cispo: The capped weight.",
        "seed_clip: A misprint.",
        "plain: No options.",
    ]
    assert rows["objective.surrogate.high", "clip"].default == 0.28
    assert rows["objective.surrogate.high", "seed_clip"].type == "a number of more than 0"
    assert rows["engine.sequences", "inprocess"].default == 256
    assert "objective.surrogate.cap (cispo): a number of more than 0 = 5.0" in list(key_lines(Config))
    keys = all_keys(Config)
    assert len(keys) == len(set(keys))
    assert {"objective.surrogate", "objective.surrogate.cap", "entries.NAME.other"} <= set(keys)
    assert "objective.surrogate.type" not in keys


def test_what_differs_of_a_technique_is_its_options_or_all_of_another() -> None:
    base = {"surrogate": {"type": "clip", "low": 0.2, "high": 0.28}}
    assert differences(base, {"surrogate": {"type": "clip", "low": 0.1, "high": 0.28}}) == {"surrogate": {"low": 0.1}}
    for other in ({"type": "seed_clip", "high": 0.28}, "plain"):
        changed = differences(base, {"surrogate": other})
        assert changed == {"surrogate": other}
        assert merged(Objective, base, changed) == {"surrogate": other}


def test_the_options_of_a_configuration_read_back_as_the_same() -> None:
    for value in (Clip(low=0.1), Cispo(), Plain()):
        config = Config(objective=Objective(surrogate=value))
        assert read(config.model_dump()) == config
    assert Config(objective=Objective(surrogate=Plain())).model_dump()["objective"]["surrogate"] == "plain"
