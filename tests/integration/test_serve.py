"""The serving example, with real clients: HTTP, and a headless browser where one is installed."""

from __future__ import annotations

import itertools
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from browser import browser
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from places import ROOT, TESTS

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
    """The example in a process of its own, which may have `files` file descriptors."""

    def __init__(self, trained, *more: str, files: int | None = None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (a pipe would fill up)
        self.process = subprocess.Popen(
            [sys.executable, str(SERVE), str(trained.data), "--path", str(trained.checkpoint), "--bpe", "subword_nmt",
             "--bpe-codes", str(trained.codes), "--beam", "2", "--cpu", "--port", str(self.port), *more],
            stdout=subprocess.DEVNULL, stderr=self.log,
            preexec_fn=files and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))),
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        for _ in range(300):
            if self.process.poll() is not None:
                raise AssertionError(self.logged())
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

    def logged(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def connect(self, sent: bytes = b"", timeout: float = 30) -> socket.socket:
        """A connection over which this was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        connection.sendall(sent)
        return connection

    def post(self, **json: object) -> socket.socket:
        """A connection over which this was asked for."""
        body = dumps(json)
        return self.connect(head(f"Content-Length: {len(body)}") + body)

    def ask(self, **json: object) -> httpx.Response:
        return httpx.post(f"{self.url}/translate", json=json, timeout=120)


def head(*headers: str) -> bytes:
    """The head of a request for a translation."""
    return "\r\n".join(
        ["POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, "", ""]
    ).encode()


def dumps(value: object) -> bytes:
    return json.dumps(value).encode()


def read(connection: socket.socket) -> bytes:
    """What still comes until the server closes the connection."""
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


@pytest.fixture
def held(tmp_path, monkeypatch, fake_parser):
    """While this file is there, the parser ``held`` does not come back."""
    (tmp_path / "held-1.0.dist-info").mkdir()
    (tmp_path / "held-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: held\nVersion: 1.0\n")
    (tmp_path / "held-1.0.dist-info/entry_points.txt").write_text("[fairseq_syntax.parsers]\nheld = held:HeldParser\n")
    (tmp_path / "held.py").write_text(HELD_PARSER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    return tmp_path / "hold"


def test_two_hundred_requests_at_a_time_are_all_answered_with_their_own(trained, server):
    words = " ".join(trained.lines).split()
    sentences = [" ".join(words[i : i + 3 + i % 7]) for i in range(200)]
    model = SyntaxTransformerModel.from_pretrained(
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
    for text in ("   ", *(f"one{separator}two" for separator in ("\n", "\r", "\v", "\u2028"))):
        answer = server.ask(text=text)
        assert (answer.status_code, answer.json()["detail"]) == (422, "expected one line of text")
    assert server.ask(text="").status_code == 422
    assert server.ask(sentence="x").json()["detail"] == "text: Field required; sentence: Extra inputs are not permitted"
    for body in (b'{"text": "\\ud800"}', b'{"text": NaN}', b"{"):
        answer = httpx.post(f"{server.url}/translate", content=body, headers=JSON)
        assert (answer.status_code, type(answer.json()["detail"])) == (422, str)
    huge = httpx.post(f"{server.url}/translate", content=b"x" * 10**6)
    assert (huge.status_code, "at most" in huge.json()["detail"]) == (413, True)
    for body in (b'{"text": ' + b"[" * 3000, b'{"text": ' + b"1" * 3000 + b"}", b'{"text": "\xff"}', b"null"):
        answer = httpx.post(f"{server.url}/translate", content=body, headers=JSON)
        assert answer.status_code in (400, 422)
    assert httpx.get(f"{server.url}/translate").status_code == 405
    assert server.ask(text=trained.lines[0]).status_code == 200


def test_who_waits_too_long_is_told(trained):
    with Server(trained, "--timeout", "0.001") as server:
        answer = server.ask(text=trained.lines[0])
        assert (answer.status_code, answer.json()["detail"]) == (504, "there was no translation after 0.001 seconds")
    with Server(trained, "--max-waiting", "1", "--max-batch", "1") as server, ThreadPoolExecutor(30) as clients:
        codes = {answer.status_code for answer in clients.map(lambda _: server.ask(text=trained.lines[0]), range(30))}
        assert codes == {200, 503}


def test_a_body_is_bounded_however_its_length_is_declared(trained, server):
    text = dumps({"text": trained.lines[0]})
    chunked, length = "Transfer-Encoding: chunked", "Content-Length: 10"
    for headers, status in (([length, chunked], b"400"), ([chunked], b"413"), (["Content-Length: 300000000"], b"413")):
        connection = server.connect(head(*headers))
        chunk = b"%x\r\n%b\r\n" % (2**16, b" " * 2**16)
        sent = 0
        try:
            while sent < 10**8:
                connection.sendall(chunk)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 3 * 10**7  # what the sockets of both sides hold
        assert read(connection).startswith(b"HTTP/1.1 " + status)
    answer = httpx.post(f"{server.url}/translate", content=iter([text[:9], text[9:]]), headers=JSON)
    assert answer.json() == server.ask(text=trained.lines[0]).json()


def test_attention_is_bounded_and_nobody_waits_for_it(trained, server):
    refused = server.ask(text="a" * 200, attention=True)
    expected = "attention: expected at most 176 subwords with </s>, found 201"
    assert (refused.status_code, refused.json()["detail"]) == (422, expected)
    assert server.ask(text="a" * 200).status_code == 200
    largest = server.ask(text="a" * 175, attention=True)
    assert len(largest.json()["subwords"]) == 176
    assert len(largest.content) < 2 * 10**6
    with Server(trained, "--max-attention", "2000000") as unbounded, ThreadPoolExecutor(1) as pool:
        shares = []
        for _ in range(3):  # other processes, too, make the clients wait
            start = time.perf_counter()
            asked = pool.submit(unbounded.ask, text="a" * 490, attention=True)
            waits = []
            while not asked.done():
                before = time.perf_counter()
                assert read(unbounded.connect(b"GET / HTTP/1.0\r\n\r\n"))
                waits.append(time.perf_counter() - before)
            assert len(asked.result().content) > 10**7
            shares.append(max(waits) / (time.perf_counter() - start))
        assert min(shares) < 0.3


def test_slow_clients_are_cut_off_and_others_are_not(trained):
    with Server(trained, "--client-timeout", "2", "--max-attention", "2000000") as server, ExitStack() as stack:
        slow = [
            server.connect(),
            server.connect(b"POST /translate HTTP/1.1\r\nX-Header: "),
            server.connect(head("Content-Length: 1000") + b'{"text":'),
            server.connect(head("Transfer-Encoding: chunked")),
        ]
        deaf = stack.enter_context(socket.socket())
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", server.port))
        body = dumps({"text": "a" * 490, "attention": True})
        deaf.sendall(head(f"Content-Length: {len(body)}") + body)
        start = time.perf_counter()
        lived = [0.0] * len(slow)

        def drip(i: int) -> None:
            slow[i].settimeout(0.1)
            while time.perf_counter() - start < 20:
                try:
                    if i:
                        slow[i].sendall(b"a" if i < 3 else b"1\r\n \r\n")
                    if not slow[i].recv(1000):
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            lived[i] = time.perf_counter() - start

        threads = [threading.Thread(target=drip, args=[i]) for i in range(len(slow))]
        for thread in threads:
            thread.start()
        with httpx.Client(base_url=server.url, timeout=30) as polite:
            while time.perf_counter() - start < 5:
                assert polite.post("/translate", json={"text": "a"}).status_code == 200
                time.sleep(0.5)
        for thread in threads:
            thread.join()
        assert all(1 < seconds < 8 for seconds in lived)
        deaf.settimeout(10)
        assert len(read(deaf)) < 10**7  # the answer was larger


def test_the_server_ends_in_time(trained, held):
    with Server(trained, "--parser", "held", "--grace", "2") as server, ThreadPoolExecutor(1) as pool:
        halves = [
            server.connect(x)
            for x in (b"", b"POST /tra", head("Content-Length: 10"), head("Content-Length: 10") + b"{")
        ]
        held.touch()
        asked = pool.submit(server.ask, text="a")
        time.sleep(0.5)
        server.process.terminate()
        start = time.perf_counter()
        assert [read(half) for half in halves] == [b""] * 4
        assert time.perf_counter() - start < 1.5
        held.unlink()
        assert asked.result().status_code == 200  # it was under way
        server.process.wait(timeout=5)
    with Server(trained, "--parser", "held", "--grace", "1") as server:
        held.touch()
        with server.post(text="a"), server.post(text="b"):
            time.sleep(0.5)
            server.process.terminate()
            start = time.perf_counter()
            server.process.wait(timeout=20)
            assert time.perf_counter() - start < 5


def test_who_is_gone_or_waited_too_long_takes_no_place(trained, held):
    limits = "--max-waiting", "2", "--max-batch", "1", "--timeout", "4"
    with Server(trained, "--parser", "held", *limits) as server, ThreadPoolExecutor(9) as pool:

        def fill() -> None:
            """One request is being translated, two wait."""
            held.touch()
            for _ in range(3):
                waiting.append(server.post(text="a"))
                time.sleep(0.3)
            assert server.ask(text="a").status_code == 503

        def assert_there_is_room() -> None:
            asked = pool.submit(server.ask, text="b")
            time.sleep(0.3)
            held.unlink()
            assert asked.result().status_code == 200

        waiting: list[socket.socket] = []
        fill()
        for connection in waiting:
            connection.close()
        time.sleep(0.3)
        assert_there_is_room()
        waiting.clear()
        fill()
        for connection in waiting:
            assert b" 504 " in connection.recv(1000)
            connection.close()
        assert_there_is_room()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_connections_never_take_the_last_descriptor(trained):
    with Server(trained, files=100) as server:
        stat = Path(f"/proc/{server.process.pid}/stat")

        def seconds() -> float:
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

        with ExitStack() as stack:
            for _ in range(40):
                last = stack.enter_context(server.connect())
            assert last.recv(12) == b"HTTP/1.1 503"
            for _ in range(200):
                connection = stack.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex(("127.0.0.1", server.port))
            before = seconds()
            time.sleep(2)
            assert seconds() - before < 0.5
        assert server.ask(text=trained.lines[0]).status_code == 200
        assert "Too many open files" not in server.logged()


def test_options_that_make_no_sense_are_refused(trained, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SERVE.parent))
    import serve

    counts = "--beam", "--max-chars", "--max-batch", "--max-waiting", "--max-attention", "--max-connections"
    wrong = dict.fromkeys(counts, ("0", "expected a number from 1, found '0'"))
    times = "--timeout", "--client-timeout", "--grace"
    wrong |= dict.fromkeys(times, ("nan", "expected more than 0 seconds, found 'nan'"))
    for option, (value, expected) in wrong.items():
        with pytest.raises(SystemExit, match="2"):
            serve.main([str(trained.data), "--path", str(trained.checkpoint), option, value])
        assert f"argument {option}: {expected}" in capsys.readouterr().err
    monkeypatch.setattr(resource, "getrlimit", lambda _: (60, 60))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(SystemExit, match=r"expected at least \d+ file descriptors, found 60 \(ulimit -n\)"):
        serve.room_for_connections(1)


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
