"""The documentation as a site: it builds without a warning, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from places import ROOT

#: What pages may fetch: badges; and README's picture, once its address is an absolute one.
FROM_ELSEWHERE = ("https://img.shields.io/badge/",)
LINK = re.compile(r'(?:href|src)="?([^"\s>]+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_lead_somewhere_fetch_nothing_but_badges_and_escape_no_bars(site):
    texts = {path: path.read_text() for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(texts) >= 18
    anchors = {page: set(re.findall(r'\bid="?([^"\s>]+)', text)) for page, text in texts.items()}
    for page, text in texts.items():
        for link in LINK.findall(text):
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not re.match("[a-z]+:", link):
                assert target.is_file(), (page, link)
                assert not anchor or anchor in anchors.get(target, {anchor}), (page, link)
        fetched = re.findall(r'<(?:script|img|iframe)[^>]* src="?(https?:[^"\s>]+)', text)
        fetched += re.findall(r'<link[^>]* rel="?(?:stylesheet|preconnect)"?[^>]* href="?(https?:[^"\s>]+)', text)
        assert all(url.startswith(FROM_ELSEWHERE) for url in fetched), (page, fetched)
        assert not re.findall(r"<td>(?:(?!</td>).)*\\\|", text), page


def test_the_api_page_has_what_it_names(site):
    names = re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(), re.M)
    text = (site / "docs/api.html").read_text()
    assert len(names) > 10
    assert all(f"id={name}" in text.replace('"', "") for name in names)
