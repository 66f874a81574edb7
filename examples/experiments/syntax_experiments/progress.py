"""Progress on the terminal, a plug-in of Snakemake's logger: a line as each step begins, and a failed step's log."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snakemake.logging import logger
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

#: Lines of a failed step's log that are shown.
_LINES = 20


class LogHandler(LogHandlerBase):
    """Print the number of steps, a line as each begins, warnings and errors; Snakemake's log file has the rest."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        self.steps = 0
        self.labels: dict[int, str] = {}  # of the steps that have begun, by number of the job
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Print what a record means to a user, if anything."""
        event = getattr(record, "event", None)
        has = vars(record)
        if event == LogEvent.RUN_INFO:
            self.steps = has["stats"]["total"] - has["stats"].get("all", 0)
            _print([f"{self.steps} steps to do; log: {', '.join(map(_shown, _log_files()))}"])
        elif event == LogEvent.JOB_INFO and has["rule_msg"]:  # the rule all has none
            self.labels[has["jobid"]] = has["rule_msg"]
            _print([f"{time.strftime('%H:%M:%S')} {len(self.labels)} of {self.steps}: {has['rule_msg']}"])
        elif event == LogEvent.JOB_ERROR:
            label = self.labels.get(has["jobid"], has["rule_name"])
            _print(line for path in has["log"] for line in (f"{label} failed: {_shown(path)}", *_end_of(path)))
            self.failed = True
        elif record.levelno >= logging.WARNING and not self._repeats(has):
            _print([record.getMessage()])

    def _repeats(self, has: Mapping[str, Any]) -> bool:
        """Return whether a record says once more that a step failed; its JOB_ERROR may be yet to come."""
        return self.failed or (bool(self.labels) and has.get("exception") == "RuleException")


def register(name: str) -> None:
    """Let Snakemake's ``--logger NAME`` mean this plug-in, in this process."""
    LoggerPluginRegistry().register_plugin(f"snakemake_logger_plugin_{name}", sys.modules[__name__])


def _print(lines: Iterable[str]) -> None:
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def _shown(path: str) -> str:
    return os.path.abspath(path)


def _log_files() -> list[str]:
    return [handler.baseFilename for handler in logger.handlers if isinstance(handler, logging.FileHandler)]


def _end_of(path: str) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        lines = [str(error)]
    return [f"    {line}" for line in lines[-_LINES:]]
