"""fairseq-interactive gets a last word, and no other command does."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import fairseq_cli.generate
import fairseq_cli.interactive
import pytest
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

import fairseq_syntax  # noqa: F401  (tells the end)
from fairseq_syntax.compat.interactive_end import add_exit_hook


def run(command: Any, body: Callable[[], None]) -> None:
    """A command of fairseq whose ``main`` does something else, as its ``cli_main`` runs it."""

    def main(cfg: Any) -> None:
        body()

    main = FunctionType(main.__code__, vars(command), closure=main.__closure__)
    distributed_utils.call_main(OmegaConf.structured(FairseqConfig), main)


def test_what_is_to_be_called_is_called_after_the_command_and_once():
    said: list[str] = []

    def body() -> None:
        assert add_exit_hook(lambda: said.append("the end"))
        said.append("last line")

    run(fairseq_cli.interactive, body)
    assert said == ["last line", "the end"]
    run(fairseq_cli.interactive, lambda: said.append("another run"))
    assert said == ["last line", "the end", "another run"]


def test_it_has_an_end_also_where_its_file_is_run_by_path():
    said: list[str] = []
    by_path = ModuleType("__main__")
    vars(by_path).update({**vars(fairseq_cli.interactive), "__name__": "__main__", "__spec__": None})
    run(by_path, lambda: said.append(f"{add_exit_hook(lambda: said.append('the end'))}"))
    assert said == ["True", "the end"]


def test_other_commands_have_no_end():
    said: list[str] = []
    run(fairseq_cli.generate, lambda: said.append(f"generate: {add_exit_hook(sys.exit)}"))
    said.append(f"no command: {add_exit_hook(sys.exit)}")
    assert said == ["generate: False", "no command: False"]


def test_it_may_set_the_status_but_not_hide_an_error():
    def ask() -> None:
        add_exit_hook(lambda: sys.exit(3))

    def fail() -> None:
        ask()
        raise KeyError("lost")

    with pytest.raises(SystemExit) as end:
        run(fairseq_cli.interactive, ask)
    assert end.value.code == 3
    with pytest.raises(KeyError, match="lost"):
        run(fairseq_cli.interactive, fail)
    assert not add_exit_hook(sys.exit)


def test_fairseq_has_no_end_of_its_own():
    """Fails as soon as fairseq calls the task, or returns something, after the last line: then this is not needed."""
    main = inspect.getsource(fairseq_cli.interactive.main)
    loop, _, after = main.partition("# update running id_ counter")
    assert loop
    assert "task" not in after
    assert "return" not in after
    assert "call_main(convert_namespace_to_omegaconf(args), main)" in inspect.getsource(
        fairseq_cli.interactive.cli_main
    )
