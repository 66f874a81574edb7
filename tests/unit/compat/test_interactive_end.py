"""Exit hooks of fairseq-interactive, which no other command has."""

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

import fairseq_syntax  # noqa: F401  (installs the hooks)
from fairseq_syntax.compat.interactive_end import add_exit_hook


def run(command: Any, body: Callable[[], None]) -> None:
    """A command of fairseq whose ``main`` does something else, as its ``cli_main`` runs it."""

    def main(cfg: Any) -> None:
        body()

    main = FunctionType(main.__code__, vars(command), closure=main.__closure__)
    distributed_utils.call_main(OmegaConf.structured(FairseqConfig), main)


@pytest.mark.parametrize("by_path", [False, True], ids=["module", "run by path"])
def test_hooks_are_called_after_the_command_and_once(by_path):
    lines: list[str] = []
    command: Any = fairseq_cli.interactive
    if by_path:
        command = ModuleType("__main__")
        vars(command).update({**vars(fairseq_cli.interactive), "__name__": "__main__", "__spec__": None})

    def body() -> None:
        assert add_exit_hook(lambda: lines.append("the end"))
        lines.append("last line")

    run(command, body)
    assert lines == ["last line", "the end"]
    run(command, lambda: lines.append("another run"))
    assert lines == ["last line", "the end", "another run"]


def test_other_commands_have_no_hooks():
    found: list[bool] = []
    run(fairseq_cli.generate, lambda: found.append(add_exit_hook(sys.exit)))
    assert [*found, add_exit_hook(sys.exit)] == [False, False]


def test_a_hook_may_set_the_status_but_not_hide_an_error():
    def fail() -> None:
        add_exit_hook(lambda: sys.exit(3))
        raise KeyError("lost")

    with pytest.raises(SystemExit) as end:
        run(fairseq_cli.interactive, lambda: add_exit_hook(lambda: sys.exit(3)))
    assert end.value.code == 3
    with pytest.raises(KeyError, match="lost"):
        run(fairseq_cli.interactive, fail)


def test_fairseq_has_no_hooks_of_its_own():
    """Fails once fairseq calls the task, or returns something, after the last line: delete interactive_end.py."""
    main = inspect.getsource(fairseq_cli.interactive.main)
    loop, _, after = main.partition("# update running id_ counter")
    assert loop
    assert not {"task", "return"} & set(after.split())
    assert "call_main(convert_namespace_to_omegaconf(args), main)" in inspect.getsource(
        fairseq_cli.interactive.cli_main
    )
