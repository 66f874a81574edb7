"""What the terminal shows while Snakemake runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("snakemake")

from snakemake_interface_logger_plugins.common import LogEvent

from syntax_experiments import progress

COUNT = {"event": LogEvent.RUN_INFO, "stats": {"text": 1, "models": 1, "all": 1, "total": 3}}
BEGIN = {"event": LogEvent.JOB_INFO, "jobid": 7, "rule_msg": "training"}
FAIL = {"event": LogEvent.JOB_ERROR, "jobid": 7, "rule_name": "models", "log": ["log"]}
RULE_EXCEPTION = {"event": LogEvent.ERROR, "exception": "RuleException"}


@pytest.mark.parametrize(
    ("records", "shown"),
    [
        ([(COUNT, "INFO")], "2 steps to do; log: "),
        ([(COUNT, "INFO"), (BEGIN, "INFO")], "1 of 2: training"),
        ([(BEGIN, "INFO"), ({"event": LogEvent.PROGRESS, "done": 1, "total": 3}, "INFO")], ": training"),
        ([({}, "INFO"), ({"event": LogEvent.JOB_INFO, "jobid": 0, "rule_msg": None}, "INFO")], ""),
        ([({}, "WARNING")], "text"),
        ([(RULE_EXCEPTION, "ERROR")], "text"),
        ([(BEGIN, "INFO"), (RULE_EXCEPTION, "ERROR")], ": training"),
        ([(BEGIN, "INFO"), (FAIL, "ERROR"), ({}, "ERROR")], "    line 20"),
    ],
)
def test_a_line_as_each_step_begins_and_errors_once(tmp_path, monkeypatch, capsys, records, shown):
    monkeypatch.chdir(tmp_path)
    Path("log").write_text("".join(f"line {i}\n" for i in range(21)))
    handler = progress.LogHandler(None, None)
    for fields, level in records:
        handler.handle(logging.makeLogRecord({"msg": "text", "levelno": logging.getLevelName(level), **fields}))
    lines = capsys.readouterr().err.splitlines()
    assert (lines[-1] if lines else "").endswith(shown)
    assert bool(lines) == bool(shown)
    if FAIL in [fields for fields, _ in records]:
        assert lines[1] == f"training failed: {tmp_path}/log"
        assert lines[2:] == [f"    line {i}" for i in range(1, 21)]


def test_a_failed_step_without_a_log_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    progress.LogHandler(None, None).emit(logging.makeLogRecord(FAIL))
    assert capsys.readouterr().err.splitlines() == [
        f"models failed: {tmp_path}/log",
        "    [Errno 2] No such file or directory: 'log'",
    ]
