"""Byte ranges of files that belong together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.errors import InputError
from syntax_data.text.lines import read_lines
from syntax_data.text.ranges import line_ranges
from syntax_data.trees.conllu import conllu_entries
from syntax_data.trees.parallel_files import parallel_ranges

LINES = st.lists(st.sampled_from(["", " ", "a", "ä b", "\u2028", "# x", "\x0b", "c\r"]), max_size=12)


@given(LINES, st.booleans(), st.integers(1, 4))
def test_ranges_together_are_the_file(tmp_path_factory, lines, closed, entries):
    path = tmp_path_factory.mktemp("ranges") / "x"
    path.write_bytes(("\n".join(lines) + "\n" * closed).encode())
    whole = list(read_lines(str(path)))
    ranges = list(line_ranges(str(path), entries))
    assert [line for r in ranges for line in r.lines()] == whole
    assert [r.count for r in ranges] == [entries] * (len(whole) // entries) + [len(whole) % entries] * bool(
        len(whole) % entries
    )
    blocks = list(conllu_entries(whole))
    ranges = list(line_ranges(str(path), entries, conllu=True))
    assert [entry for r in ranges for entry in conllu_entries(r.lines())] == blocks
    assert sum(r.count for r in ranges) == len(blocks)
    assert all(len(list(conllu_entries(r.lines()))) == r.count for r in ranges)


@given(LINES.filter(lambda lines: "c\r" not in lines), st.integers(1, 4), st.integers(0, 3))
def test_entries_after_a_blank_end_are_missed_by_nobody(tmp_path_factory, lines, entries, more):
    """A parse after blank lines is one too many, wherever the ranges end."""
    folder = tmp_path_factory.mktemp("ranges")
    text = write(folder / "x", "t\n" * len(lines))
    parses = {"trees": write(folder / "x.trees", "".join(f"{line}\n" for line in lines) + "\n" * more)}
    assert sum(row["text"].count for row in parallel_ranges(text, parses, entries)) == len(lines)
    with open(parses["trees"], "a") as file:
        file.write("(S t)\n")
    with pytest.raises(InputError, match=f"x.trees:{len(lines) + more + 1}: expected {len(lines)} parses"):
        list(parallel_ranges(text, parses, entries))


def write(path, content):
    path.write_text(content)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "trees", "blocks", "expected"),
    [
        (5, 5, 5, None),
        (5, 4, 5, "x.trees: expected a parse for every line of .*x, found only 4"),
        (5, 5, 3, "x.conllu: expected a parse for every line of .*x, found only 3"),
        (4, 5, 4, "x.trees:5: expected 4 parses, one for each line of .*x, found more"),
        (4, 4, 6, "x.conllu:13: expected 4 parses"),
    ],
)
@pytest.mark.parametrize("blank", [0, 5])
def test_parallel_files(tmp_path, lines, trees, blocks, expected, blank):
    text = write(tmp_path / "x", "t\n" * lines)
    # Blank entries after the last parse are no parses.
    parses = {
        "trees": write(tmp_path / "x.trees", "(S t)\n" * trees + " \n" * blank * (trees >= lines)),
        "conllu": write(tmp_path / "x.conllu", "#\nt\n\n" * blocks + "# a\n\n\n" * blank * (blocks >= lines)),
    }
    found = []
    if expected:
        with pytest.raises(InputError, match=expected):
            found.extend(parallel_ranges(text, parses, 2))
    else:
        found.extend(parallel_ranges(text, parses, 2))
        assert [row["text"].count for row in found] == [2, 2, 1][: (lines + 1) // 2]
    assert all(set(row) == {"text", "trees", "conllu"} for row in found)
    assert len(found) >= min(lines, trees, blocks) // 2
