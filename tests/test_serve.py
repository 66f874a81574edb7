"""The serving example, with real clients: HTTP, and a headless browser where one is installed."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from fairseq_syntax.models.gated_syntax_transformer import GatedSyntaxTransformerModel

SERVE = Path(__file__).parent.parent / "examples/serve/serve.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

pytestmark = pytest.mark.usefixtures("fake_parser")


class Server:
    """The example in a process of its own."""

    def __init__(self, trained, *more: str):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, str(SERVE), str(trained.data), "--path", str(trained.checkpoint), "--bpe", "subword_nmt",
             "--bpe-codes", str(trained.codes), "--beam", "2", "--cpu", "--port", str(self.port), *more],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        for _ in range(300):
            if self.process.poll() is not None:
                raise AssertionError(self.process.stderr.read())
            try:
                httpx.get(self.url)
                return self
            except httpx.TransportError:
                time.sleep(0.2)
        raise AssertionError("the server does not answer")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=30)

    def ask(self, **json: object) -> httpx.Response:
        return httpx.post(f"{self.url}/translate", json=json, timeout=120)


@pytest.fixture
def server(trained):
    with Server(trained, "--max-chars", "200") as running:
        yield running


def test_two_hundred_requests_at_a_time_are_all_answered_with_their_own(trained, server):
    words = " ".join(trained.lines).split()
    sentences = [" ".join(words[i : i + 3 + i % 7]) for i in range(200)]
    model = GatedSyntaxTransformerModel.from_pretrained(
        str(trained.checkpoint.parent), trained.checkpoint.name, str(trained.data), bpe="subword_nmt",
        bpe_codes=str(trained.codes),
    )  # fmt: skip
    expected = model.translate(sentences, beam=2)
    with ThreadPoolExecutor(200) as clients:
        answers = list(clients.map(lambda sentence: server.ask(text=sentence), sentences))
    assert [answer.status_code for answer in answers] == [200] * 200
    found = [answer.json() for answer in answers]
    assert [answer["text"] for answer in found] == sentences
    assert [" ".join(answer["words"]) for answer in found] == sentences
    assert [answer["translation"] for answer in found] == expected
    assert len(set(expected)) > 5


def test_the_answer_holds_translation_parse_and_gates(trained, server):
    answer = server.ask(text=trained.lines[0], attention=True).json()
    words = trained.lines[0].split()
    n = len(answer["subwords"])
    assert answer["subwords"][-1] == "</s>"
    assert answer["words"] == words
    assert answer["heads"] == list(range(len(words)))
    assert answer["trees"].startswith("(S (")
    assert (answer["layers"], answer["masks"]) == ([1, 2], ["slr", "sdoi"])
    gates = list(itertools.chain.from_iterable(itertools.chain.from_iterable(answer["gates"])))
    assert len(gates) == 2 * 2 * 4
    assert all(0 < gate < 1 for gate in gates)
    assert len(answer["attention"]) == 2
    assert [len(answer["attention"][0]), len(answer["attention"][0][0])] == [4, n]
    assert sum(answer["attention"][1][3][0]) == pytest.approx(1, abs=0.01)
    assert "attention" not in server.ask(text=trained.lines[0]).json()
    unparsed = server.ask(text="FAIL to parse").json()
    assert (unparsed["trees"], unparsed["heads"]) == (None, None)
    assert unparsed["translation"]


def test_errors_are_useful_and_the_server_stays(trained, server):
    long = server.ask(text="a" * 201)
    assert (long.status_code, long.json()["detail"]) == (422, "expected at most 200 characters, found 201")
    for text in ("   ", "one\ntwo"):
        answer = server.ask(text=text)
        assert (answer.status_code, answer.json()["detail"]) == (422, "expected one line of text")
    assert server.ask(text="").status_code == 422
    assert server.ask(sentence="x").json()["detail"] == "text: Field required"
    for body in (b'{"text": "\\ud800"}', b'{"text": NaN}', b'{"text": ["\\ud800"]}'):
        answer = httpx.post(f"{server.url}/translate", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, type(answer.json()["detail"])) == (422, str)
    assert httpx.post(f"{server.url}/translate", content=b"{").status_code == 422
    huge = httpx.post(f"{server.url}/translate", content=b"x" * 10**6)
    assert (huge.status_code, "at most" in huge.json()["detail"]) == (413, True)
    unknown_length = httpx.post(f"{server.url}/translate", content=iter([b"{", b"}"]))
    assert unknown_length.status_code == 413
    assert httpx.get(f"{server.url}/translate").status_code == 405
    assert server.ask(text=trained.lines[0]).status_code == 200


def test_who_waits_too_long_is_told(trained):
    with Server(trained, "--timeout", "0.001") as server:
        answer = server.ask(text=trained.lines[0])
        assert (answer.status_code, answer.json()["detail"]) == (504, "there was no translation after 0.001 seconds")
    with Server(trained, "--max-waiting", "1", "--max-batch", "1") as server, ThreadPoolExecutor(30) as clients:
        codes = {answer.status_code for answer in clients.map(lambda _: server.ask(text=trained.lines[0]), range(30))}
        assert codes == {200, 503}


def test_the_page_in_a_browser(trained, server):
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        own = started.chromium.executable_path
        browser_path = own if os.path.exists(own) else next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser_path is None:
            pytest.skip(f"neither playwright's browser nor one of {', '.join(BROWSERS)} is installed")
        browser = started.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(error))
        page.goto(server.url)
        page.fill("#text", trained.lines[0])
        page.click("button")
        page.wait_for_selector("#results:not([hidden])")
        expected = server.ask(text=trained.lines[0]).json()
        assert page.inner_text("#translation") == expected["translation"]
        words = trained.lines[0].split()
        drawn = page.locator("#parse svg").first.locator("text.word").all_text_contents()
        assert drawn == words
        assert page.locator("#parse svg").nth(1).locator("path").count() == len(words) - 1
        assert page.locator("td.gate").count() == 2 * 2 * 4
        assert page.locator("td.gate").first.inner_text() == f"{expected['gates'][0][0][0]:.2f}"
        assert page.locator("#map td").count() == len(expected["subwords"]) ** 2
        page.locator("td.gate").last.click()
        assert "head 4 in layer 2" in page.inner_text("#map-title")
        page.fill("#text", "a" * 300)
        page.click("button")
        page.wait_for_function("document.getElementById('error').textContent")
        assert page.inner_text("#error") == "expected at most 200 characters, found 300"
        assert not page.is_visible("#results")
        page.fill("#text", "FAIL <b>here</b>")
        page.click("button")
        page.wait_for_selector("#results:not([hidden])")
        assert "There is no parse" in page.inner_text("#parse")
        assert problems == []
        browser.close()
