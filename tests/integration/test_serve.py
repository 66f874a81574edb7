"""The serving example with real clients: HTTP, and a headless browser."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import numpy as np
import pytest

import commands
from browser import browser
from fake_parser import install_parser
from places import ROOT, TESTS
from shell import free_port

SERVE = ROOT / "examples/serve/serve.py"
JSON = {"Content-Type": "application/json"}

HELD_PARSER = """
import os, time
from fake_parser import FakeParser

class HeldParser(FakeParser):
    def parse(self, lines):
        for _ in range(2000):
            if not os.path.exists(os.environ["HOLD"]):
                break
            time.sleep(0.01)
        return super().parse(lines)
"""

pytestmark = pytest.mark.usefixtures("fake_parser")


class Server:
    """The example in a process of its own."""

    def __init__(self, trained, *more: str):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (a pipe would fill up)
        self.process = subprocess.Popen(
            [sys.executable, str(SERVE), str(trained.data), "--path", str(trained.checkpoint), "--bpe", "subword_nmt",
             "--bpe-codes", str(trained.codes), "--beam", "2", "--cpu", "--port", str(self.port), *more],
            stdout=subprocess.DEVNULL, stderr=self.log,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        for _ in range(300):
            if self.process.poll() is not None:
                self.log.seek(0)
                raise AssertionError(self.log.read())
            try:
                httpx.get(self.url)
                return self
            except httpx.TransportError:
                time.sleep(0.2)
        raise AssertionError("the server does not answer")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        finally:
            self.process.kill()

    def connect(self, sent: bytes = b"", timeout: float = 30) -> socket.socket:
        """A connection over which this was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        connection.sendall(sent)
        return connection

    def post(self, text: str) -> socket.socket:
        """A connection over which the translation of a text was asked for."""
        body = json.dumps({"text": text}).encode()
        return self.connect(head(f"Content-Length: {len(body)}") + body)

    def ask(self, **content: object) -> httpx.Response:
        return httpx.post(f"{self.url}/translate", json=content, timeout=120)


def head(*headers: str) -> bytes:
    """The head of a request for a translation."""
    lines = ["POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode()


def read(connection: socket.socket) -> bytes:
    """Bytes that still come until the server closes the connection."""
    with connection:
        try:
            return b"".join(iter(lambda: connection.recv(1 << 20), b""))
        except ConnectionResetError:
            return b""


@pytest.fixture(scope="module")
def server(trained, fake_parser_site):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(fake_parser_site), str(TESTS)]))
        with Server(trained, "--max-chars", "200") as running:
            yield running


@pytest.fixture(scope="module")
def hold(fake_parser_site, tmp_path_factory):
    """A file that holds the parser "held" while it is there."""
    folder = install_parser(tmp_path_factory.mktemp("held"), "held", "held:HeldParser")
    (folder / "held.py").write_text(HELD_PARSER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (folder, fake_parser_site, TESTS))))
        patch.setenv("HOLD", str(folder / "hold"))
        yield folder / "hold"


@pytest.fixture(scope="module")
def held_server(trained, hold):
    """A server of small limits, with that parser."""
    limits = "--max-waiting=2", "--max-batch=1", "--timeout=4", "--client-timeout=2", "--max-connections=20"
    with Server(trained, "--parser=held", *limits) as running:
        yield running


@pytest.fixture(scope="module")
def impatient_server(trained, hold):
    with Server(trained, "--parser=held", "--grace=1") as running:
        yield running


def test_every_request_of_many_at_a_time_is_answered_with_its_own(trained, server):
    words = " ".join(trained.lines).split()
    sentences = [" ".join(words[i : i + 3 + i % 7]) for i in range(60)]
    expected = commands.hub(trained).translate(sentences, beam=2)
    with ThreadPoolExecutor(60) as clients:
        answers = list(clients.map(lambda sentence: server.ask(text=sentence), sentences))
    assert [answer.status_code for answer in answers] == [200] * 60
    found = [answer.json() for answer in answers]
    assert [(answer["text"], " ".join(answer["words"])) for answer in found] == [(one, one) for one in sentences]
    assert [answer["translation"] for answer in found] == expected
    assert len(set(expected)) > 5


def test_the_answer_holds_translation_parse_and_gates(trained, server):
    answer = server.ask(text=trained.lines[0], attention=True).json()
    words = trained.lines[0].split()
    n = len(answer["subwords"])
    assert answer["subwords"][-1] == "</s>"
    assert (answer["words"], answer["heads"]) == (words, list(range(len(words))))
    assert answer["trees"].startswith("(S (")
    assert (answer["layers"], answer["masks"]) == ([1, 2], ["slr", "sdoi"])
    gates, attention = np.array(answer["gates"]), np.array(answer["attention"])
    assert gates.shape == (2, 2, 4)
    assert ((gates > 0) & (gates < 1)).all()
    assert attention.shape == (2, 4, n, n)
    np.testing.assert_allclose(attention.sum(-1), 1, atol=0.01)
    assert "attention" not in server.ask(text=trained.lines[0]).json()
    unparsed = server.ask(text="FAIL to parse").json()
    assert (unparsed["trees"], unparsed["heads"]) == (None, None)
    assert unparsed["translation"]


def test_errors_are_useful_and_the_server_stays(trained, server):
    expected = {
        "a" * 201: "expected at most 200 characters, found 201",
        **dict.fromkeys(("   ", "one\ntwo", "one\rtwo", "one\vtwo", "one\u2028two"), "expected one line of text"),
    }
    for text, detail in expected.items():
        answer = server.ask(text=text)
        assert (answer.status_code, answer.json()["detail"]) == (422, detail)
    assert server.ask(sentence="x").json()["detail"] == "text: Field required; sentence: Extra inputs are not permitted"
    longest = server.ask(text="a" * 200, attention=True)
    assert longest.json()["detail"] == "attention: expected at most 176 subwords with </s>, found 201"
    assert len(server.ask(text="a" * 175, attention=True).json()["subwords"]) == 176
    bad_text = b'{"text": "\\ud800"}', b'{"text": NaN}', b'{"text": "\xff"}'
    for body in (b"", b"{", b"null", b'{"text": ' + b"[" * 999, *bad_text):
        assert httpx.post(f"{server.url}/translate", content=body, headers=JSON).status_code in (400, 422)
    assert httpx.get(f"{server.url}/translate").status_code == 405
    assert server.ask(text=trained.lines[0]).status_code == 200


def test_a_body_is_bounded_however_its_length_is_declared(trained, server):
    chunked, length = "Transfer-Encoding: chunked", "Content-Length: 10"
    for headers, status in (([length, chunked], b"400"), ([chunked], b"413"), (["Content-Length: 300000000"], b"413")):
        connection = server.connect(head(*headers))
        chunk = b"%x\r\n%b\r\n" % (2**16, b" " * 2**16)
        sent = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < 10**8:
                connection.sendall(chunk)
                sent += len(chunk)
        assert sent < 3 * 10**7  # what the sockets of both sides hold
        assert read(connection).startswith(b"HTTP/1.1 " + status)
    text = json.dumps({"text": trained.lines[0]}).encode()
    answer = httpx.post(f"{server.url}/translate", content=iter([text[:9], text[9:]]), headers=JSON)
    assert answer.json() == server.ask(text=trained.lines[0]).json()


@pytest.mark.nightly
def test_slow_clients_are_cut_off_and_too_many_refused(held_server):
    server = held_server
    slow = [
        server.connect(sent)
        for sent in (b"", b"POST /translate HTTP/1.1\r\nX-Header: ", head("Content-Length: 1000") + b'{"text":')
    ]
    start = time.perf_counter()
    more = [server.connect() for _ in range(20 - len(slow))]
    refused = server.connect()
    assert refused.recv(12) == b"HTTP/1.1 503"
    for connection in (refused, *more):
        connection.close()
    assert server.ask(text="a").status_code == 200  # others are not cut off
    assert [read(connection) for connection in slow] == [b""] * 3
    assert 1 < time.perf_counter() - start < 20


@pytest.mark.nightly
def test_a_request_that_is_gone_or_waited_too_long_takes_no_place(held_server, hold):
    server = held_server

    def fill() -> list[socket.socket]:
        """One request is being translated, two wait."""
        hold.touch()
        waiting = []
        while len(waiting) < 3:
            waiting.append(server.post(text="a"))
            time.sleep(0.3)
        assert server.ask(text="a").status_code == 503
        return waiting

    def assert_there_is_room() -> None:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(server.ask, text="b")
            time.sleep(0.3)
            hold.unlink()
            assert asked.result().status_code == 200

    for connection in fill():
        connection.close()
    time.sleep(0.3)
    assert_there_is_room()
    for connection in fill():
        assert b" 504 " in connection.recv(1000)
        connection.close()
    assert_there_is_room()


@pytest.mark.nightly
def test_the_server_ends_when_what_is_under_way_is_done(held_server, hold):  # the last test of this server
    server = held_server
    halves = [server.connect(x) for x in (b"", b"POST /tra", head("Content-Length: 10") + b"{")]
    hold.touch()
    with ThreadPoolExecutor(1) as pool, server.post(text="a"):
        asked = pool.submit(server.ask, text="a")
        time.sleep(0.5)
        server.process.terminate()
        assert [read(half) for half in halves] == [b""] * 3
        hold.unlink()
        assert asked.result().status_code == 200
        server.process.wait(timeout=10)


@pytest.mark.nightly
def test_the_server_ends_after_its_grace_where_the_parser_hangs(impatient_server, hold):
    hold.touch()
    with impatient_server.post(text="a"):
        time.sleep(0.5)
        impatient_server.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            impatient_server.process.wait(timeout=0.5)
        impatient_server.process.wait(timeout=9)  # the parser would be free after 20 seconds


def test_options_that_make_no_sense_are_refused(trained, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SERVE.parent))
    import serve

    for option, wrong, expected in (
        ("--beam", "0", "expected a number from 1, found '0'"),
        ("--timeout", "nan", "expected more than 0 seconds, found 'nan'"),
    ):
        with pytest.raises(SystemExit, match="2"):
            serve.main([str(trained.data), "--path", str(trained.checkpoint), option, wrong])
        assert f"argument {option}: {expected}" in capsys.readouterr().err


def test_the_page_in_a_browser(trained, server):
    with browser() as opened_browser:
        page = opened_browser.new_page()
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
