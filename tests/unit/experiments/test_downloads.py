"""Downloads are checked, resumed where they were cut off, and taken from another address where one fails."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from steps_in import step_in

from syntax_data.errors import InputError
from syntax_experiments.steps.downloads import download

DATA = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()
MD5 = hashlib.md5(DATA).hexdigest()


@pytest.fixture
def server(monkeypatch):
    """Serves DATA; /cut only as far as its half, /whole knows no ranges, /missing is not there."""
    monkeypatch.setenv("no_proxy", "*")
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            start = self.headers.get("Range")
            asked.append((self.path, start))
            if self.path.startswith("/missing"):
                self.send_error(404)
                return
            begin = int(re.fullmatch(r"bytes=(\d+)-", start)[1]) if start and "whole" not in self.path else 0
            if begin >= len(DATA):
                self.send_error(416)
                return
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(DATA) - begin))
            self.end_headers()
            self.wfile.write(DATA[begin : len(DATA) // 2 if "cut" in self.path else None])

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", asked
    http.shutdown()
    thread.join()
    http.server_close()


def fetch(folder, **asked):
    download(step_in(folder, {}, local={"download": asked}))
    (file,) = folder.iterdir()
    return file


@pytest.mark.parametrize(
    ("checked", "message"),
    [
        ({"md5": MD5}, None),
        ({"sha256": SHA256, "size": len(DATA)}, None),
        ({}, None),
        ({"sha256": "0" * 64}, f"expected the sha256 {'0' * 64}, found {SHA256}; it is deleted"),
        ({"md5": "0" * 32}, f"expected the md5 {'0' * 32}, found {MD5}; it is deleted"),
        ({"size": 7, "sha256": SHA256}, f"expected 7 bytes, found {len(DATA)}; it is deleted"),
    ],
)
def test_a_file_is_checked_and_another_one_deleted(tmp_path, capsys, checked, message):
    (tmp_path / "all.tgz").write_bytes(DATA)
    asked = {"url": (tmp_path / "all.tgz").as_uri(), **checked}
    if message is None:
        file = fetch(tmp_path / "here", **asked)
        assert (file.name, file.read_bytes()) == ("all.tgz", DATA)
        assert (SHA256 in capsys.readouterr().out) == (checked == {}), "its hash is printed if none is known"
    else:
        with pytest.raises(InputError, match=message):
            fetch(tmp_path / "here", **asked)
        assert not list((tmp_path / "here").iterdir())


def test_a_download_that_was_cut_off_goes_on_at_the_next_address_or_run(tmp_path, server):
    address, asked = server
    half = len(DATA) // 2
    with pytest.raises(InputError, match=f"the connection ended after {half} of {len(DATA)} bytes. The next run goes"):
        fetch(tmp_path / "here", url=f"{address}/cut/all.tgz", sha256=SHA256)
    assert (tmp_path / "here/all.tgz.part").stat().st_size == half
    assert fetch(tmp_path / "here", url=f"{address}/all.tgz", sha256=SHA256).read_bytes() == DATA
    assert asked == [("/cut/all.tgz", None), ("/all.tgz", f"bytes={half}-")]
    urls = {"url": f"{address}/missing/1", "mirrors": [f"{address}/missing/2"]}
    with pytest.raises(InputError, match=r"missing/1: expected a download.*404.*missing/2: expected a download.*404"):
        fetch(tmp_path / "there", **urls)
    urls = {"url": f"{address}/missing/all.tgz", "mirrors": [f"{address}/cut/all.tgz", f"{address}/all.tgz"]}
    assert fetch(tmp_path / "there", **urls, sha256=SHA256).read_bytes() == DATA
    assert asked[-1] == ("/all.tgz", f"bytes={half}-")


@pytest.mark.parametrize(("path", "have"), [("all.tgz", len(DATA)), ("whole/all.tgz", 1000)])
def test_a_part_that_is_whole_and_a_server_without_ranges(tmp_path, server, path, have):
    address, asked = server
    (tmp_path / "here").mkdir()
    (tmp_path / "here/all.tgz.part").write_bytes(DATA[:have])
    assert fetch(tmp_path / "here", url=f"{address}/{path}", sha256=SHA256).read_bytes() == DATA
    assert asked == [(f"/{path}", f"bytes={have}-")]
