"""A page holds everything it needs, and nothing that a model wrote can be more than data in it."""

import base64
import gzip
import hashlib
import json
import re

import pytest

from groupwise.page import block, html_page

HOSTILE = '</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>" \u2028 \ud83d'


def page(**changes: str) -> str:
    given = {"title": "A & B </title>", "body": "<main></main>", "style": "p { color: red }", "script": "start();"}
    given |= changes
    blocks = {"index": block({"text": HOSTILE})}
    return "".join(html_page(given["title"], given["body"], [given["style"]], [given["script"]], blocks))


def test_what_a_model_wrote_is_no_markup() -> None:
    text = page()
    assert "alert" not in text
    assert "<title>A &amp; B &lt;/title&gt;</title>" in text
    (found,) = re.findall(r'<script type="application/octet-stream" id="index">([A-Za-z0-9+/=]*)</script>', text)
    assert json.loads(gzip.decompress(base64.b64decode(found)))["text"] == HOSTILE.replace("\ud83d", "?")
    assert text.count("<script") == 2


def test_only_its_own_script_and_style_may_run() -> None:
    text = page()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for directive, tag in (("script-src", "<script>"), ("style-src", "<style>")):
        content = text.partition(tag)[2].partition(tag.replace("<", "</"))[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.search(r"https?://", text)


@pytest.mark.parametrize("change", [{"script": "'</SCRIPT>'"}, {"script": "'<!--'"}, {"style": "</style>"}])
def test_a_script_that_would_end_its_element_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="would end its own element"):
        page(**change)


def test_the_same_value_makes_the_same_page() -> None:
    assert page() == page()
