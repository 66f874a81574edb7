"""Our reader of fairseq's dictionaries, beside fairseq's."""

from __future__ import annotations

import pytest
from fairseq.data import Dictionary
from hypothesis import given
from hypothesis import strategies as st

from syntax_data.data_bin.dictionary import EOS, UNKNOWN, read_dictionary
from syntax_data.errors import InputError

SYMBOLS = ["a", "b", "▁c", "d@@", "e f", "", "ä\u2028", "<unk>", "<s>", "#fairseq:overwrite", "\x85"]
COUNTS = [" 1", " -2", " 1_0", " ٣", " 1 #fairseq:overwrite", " x", "", " #fairseq:overwrite", "\t1", "  7"]


@given(st.lists(st.tuples(*map(st.sampled_from, (SYMBOLS, COUNTS, ["\n", "\r\n", " \n"]))), max_size=5))
def test_ids_are_fairseqs(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("dictionary") / "dict.en.txt"
    path.write_bytes("".join(map("".join, lines)).encode())
    try:
        expected = Dictionary.load(str(path))
    except (RuntimeError, ValueError):
        with pytest.raises(InputError, match=r"dict\.en\.txt:[1-9]: expected "):
            read_dictionary(str(path))
        return
    assert read_dictionary(str(path)) == expected.indices
    assert (expected.eos(), expected.unk()) == (EOS, UNKNOWN)


def test_what_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "dict").write_bytes(b"a 1\n\xff 1\n")
    with pytest.raises(InputError, match=r"dict:2: expected UTF-8"):
        read_dictionary(str(tmp_path / "dict"))
