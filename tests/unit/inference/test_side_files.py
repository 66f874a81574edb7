"""Parses of new text from files."""

from __future__ import annotations

import pytest

from fairseq_syntax.inference.parse_sources import ParsesFromFiles, SourceLine
from syntax_data.errors import InputError
from syntax_data.text.alignment import plain_words
from syntax_data.trees.bad_parses import BadParses

TREES = "(S a)\n(())\n"
CONLLU = "1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\n# no_parse = x\n\n"
LINES = [SourceLine(n, text, [text], plain_words([text]), [text]) for n, text in enumerate("ab", start=1)]


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize(
    ("trees", "conllu", "expected"),
    [
        ("", "", None),
        ("\n \n\n", "# a\n\n\n# b\n", None),
        ("\n(S c)\n", "", r"x\.trees:4: expected .*found more"),
        ("\n\n(())\n", "", r"x\.trees:5: expected .*found more"),
        ("", "\n# a\n\n# no_parse = x\n", r"x\.conllu:8: expected .*found more"),
    ],
)
def test_what_follows_the_last_parse(tmp_path, trees, conllu, expected, pipe):
    (tmp_path / "x").write_text("a\nb\n")
    (tmp_path / "x.trees").write_text(TREES + trees)
    (tmp_path / "x.conllu").write_text(CONLLU + conllu)
    text = "-" if pipe else str(tmp_path / "x")

    def read() -> None:
        source = ParsesFromFiles(str(tmp_path / "x"), ["trees", "conllu"], BadParses("error"), text)
        source.parse(LINES)
        source.end()

    if expected is None:
        read()
    else:
        with pytest.raises(InputError, match=expected):
            read()


def test_skipped_parses_are_counted_by_reason(tmp_path, caplog):
    (tmp_path / "x.trees").write_text("(S a\n(S a\n")
    source = ParsesFromFiles(str(tmp_path / "x"), ["trees"], BadParses("skip"), "-")
    assert [parses["trees"].reason for parses in source.parse(LINES)] == ["unbalanced"] * 2
    source.end()
    assert "--input-parses: bad parses were skipped: 2 unbalanced" in caplog.messages
    assert sum("x.trees:" in message for message in caplog.messages) == 2
