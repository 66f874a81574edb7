"""Our reader of fairseq's dictionaries, beside fairseq's."""

from __future__ import annotations

import pytest
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.data_bin.dictionary import Symbols
from syntax_data.errors import InputError

LINES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "▁c", "d@@", "e f", "", "ä\u2028", "<unk>", "<s>", "#fairseq:overwrite", "\x85"]),
        st.sampled_from(
            [" 1", " -2", " 1_0", " ٣", " 1 #fairseq:overwrite", " x", "", " #fairseq:overwrite", "\t1", "  7"]
        ),
        st.sampled_from(["\n", "\r\n", " \n", "\r"]),
    ),
    max_size=5,
)


@given(LINES)
def test_symbols_are_fairseqs(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("dictionary") / "dict.en.txt"
    path.write_bytes("".join(map("".join, lines)).encode())
    try:
        expected = Dictionary.load(str(path))
    except (RuntimeError, ValueError):
        with pytest.raises(InputError, match=r"dict\.en\.txt:[1-9]: expected "):
            Symbols.read(str(path))
        return
    found = Symbols.read(str(path))
    assert found.symbols == expected.symbols
    assert found.numbers == expected.indices
    assert (found.eos, found.unk, len(found)) == (expected.eos(), expected.unk(), len(expected))
    assert [found.number(word) for word in ("a", "zz", "<s>")] == [expected.index(word) for word in ("a", "zz", "<s>")]


def test_what_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "dict").write_bytes(b"a 1\n\xff 1\n")
    with pytest.raises(InputError, match="expected UTF-8"):
        Symbols.read(str(tmp_path / "dict"))
