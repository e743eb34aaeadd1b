"""The pages of techniques are those of the registry, and their pictures show what the techniques compute."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from torch import Tensor

from groupwise.config import TrainConfig
from groupwise.explaining.docs import generated
from groupwise.explaining.pages import page, prose, subjects
from groupwise.explaining.pictures import DRAWN, picture_of, slopes
from groupwise.explaining.techniques import ADDITIONS, FIFTEEN
from groupwise.objective.surrogates.cispo import Cispo
from groupwise.objective.surrogates.ppo_clip import PpoClip
from groupwise.objective.surrogates.sapo import Sapo
from groupwise.objective.surrogates.surrogate import Surrogate
from groupwise.objective.surrogates.topr import Topr
from groupwise.technique import Technique, sections_in

PAGES = Path(__file__).parents[2] / "docs" / "techniques"


def test_the_pages_and_pictures_are_those_of_the_registry() -> None:
    made = dict(generated())
    written = {str(path.relative_to(PAGES)): path.read_bytes() for path in PAGES.rglob("*.*")}
    assert sorted(made) == sorted(written), "make docs-pages"
    assert [name for name in made if made[name] != written[name]] == [], "make docs-pages"


def test_every_technique_has_a_page() -> None:
    owners = {subject.owner for subject in subjects()}
    assert {id(card) for owner in owners for card in owner.cards} == {id(card) for card in (*FIFTEEN, *ADDITIONS)}
    without = {section for section in sections_in(TrainConfig) if issubclass(section, Technique)} - owners
    # What does nothing, the engines, and the user's own, which have another page.
    plain = ("none", "all", "as_policy", "inprocess", "vllm", "vllm_server", "function")
    assert all(section.model_fields["type"].default in plain for section in without)
    paths = [subject.path for subject in subjects()]
    assert len(set(paths)) == len(paths)


def test_what_a_page_says() -> None:
    (cispo,) = (subject for subject in subjects() if subject.name == "cispo")
    text = page(cispo, "a caption")
    for part in (
        "# cispo\n",
        "number 15 of [the fifteen](../../techniques.md#the-fifteen)",
        "![a caption](cispo.svg)",
        "[2506.13585](https://arxiv.org/abs/2506.13585)",
        "```text\nsg(min(r, cap))·A·log π\n```",
        "- `objective.surrogate.cap`: a number of more than 0, `5.0` by default.\n  Absolute upper bound",
        "J = (1/M) Σ_i Σ_t [ sg[min(r, 5)]·A·log π ]",
        "## What is checked\n\nA floor above the cap",
    ):
        assert part in text, part


def test_signs_and_tags_of_a_docstring_are_text() -> None:
    assert prose("a <think> b, *c* and `x_*<y>`, π_new, _z_") == r"a &lt;think> b, \*c\* and `x_*<y>`, π_new, \_z\_"
    assert prose("see 2503.14476 eq. 11") == "see [2503.14476](https://arxiv.org/abs/2503.14476) eq. 11"


DRAWN_TECHNIQUES = [made for subject in subjects() if isinstance(made := subject.with_defaults(), tuple(DRAWN))]


@pytest.mark.parametrize("technique", DRAWN_TECHNIQUES, ids=lambda made: type(made).__name__)
def test_a_picture_has_curves_and_no_ground(technique: Technique) -> None:
    drawn = picture_of(technique)
    assert drawn is not None
    caption, svg = drawn
    assert caption.endswith(".")
    root = ET.fromstring(svg)
    curves = [node for node in root.iter() if node.tag.endswith("}g") and node.get("id", "").startswith("line2d")]
    # Ticks are lines too; each axis has at least two of them, apart from a mask's.
    assert len(curves) >= 4
    assert "nan" not in svg.decode()
    # Nothing is filled but markers: whatever lies behind is seen.
    fills = set(re.findall(r"fill: (#\w+)", svg.decode()))
    assert not fills & {"#ffffff", "#000000"}
    assert picture_of(technique) == drawn


def expected_slope(surrogate: Surrogate, ratio: Tensor, advantage: float) -> Tensor:
    """By hand, from the equations: d/d log π of r·A is r·A, of sg(w)·A·log π it is w·A."""
    zero, one = torch.zeros_like(ratio), torch.ones_like(ratio)
    if isinstance(surrogate, PpoClip):
        return torch.where(ratio > 1.28, zero, ratio) if advantage > 0 else -torch.where(ratio < 0.8, zero, ratio)
    if isinstance(surrogate, Cispo):
        return advantage * ratio.clamp(max=5)
    if isinstance(surrogate, Topr):
        return one if advantage > 0 else -ratio.clamp(max=1)
    # d/dr of (4/τ)·σ(τ(r-1)) is 4·σ·(1-σ), times r.
    sigma = torch.sigmoid((1.0 if advantage > 0 else 1.05) * (ratio - 1))
    return advantage * 4 * sigma * (1 - sigma) * ratio


@pytest.mark.parametrize("surrogate", [PpoClip(), Cispo(), Topr(), Sapo()], ids=lambda surrogate: surrogate.type)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_slopes_that_are_drawn(surrogate: Surrogate, advantage: float) -> None:
    ratio, slope = slopes(surrogate, advantage)
    assert ratio.dtype == torch.float64
    assert float(ratio[0]) < 0.05
    assert float(ratio[-1]) > 2.9
    torch.testing.assert_close(slope, expected_slope(surrogate, ratio, advantage), rtol=1e-10, atol=1e-12)
