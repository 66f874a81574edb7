"""BERT's subwords: cases in which BERT's own tokenizer gives the same."""

from __future__ import annotations

import pytest

from syntax_experiments.corpora import wordpiece

SYMBOLS = """[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] the cafe café Café ##s run ##n ##ing un ##known . - ' 中 文 i d"""

CASES = [  # text, of an uncased BERT, of a cased one
    ("The running cafés.", "the run ##n ##ing cafe ##s .", "[UNK] run ##n ##ing café ##s ."),
    ("Cafe\u0301 the", "cafe the", "[UNK] the"),  # a letter and a combining accent
    ("unknown unseen the", "un ##known [UNK] the", "un ##known [UNK] the"),
    ("the-run, the", "the - run [UNK] the", "the - run [UNK] the"),
    ("中文the", "中 文 the", "中 文 the"),
    ("run\u00a0the\u3000\u200bru\u00adn\x00", "run the run", "run the run"),  # spaces; characters without a width
    ("I'd", "i ' d", "[UNK] ' d"),
    ("the " + "run" * 40, "the [UNK]", "the [UNK]"),
    ("[unused0] the [unused0]run", "[unused0] the [UNK] [UNK] [UNK] run", "[unused0] the [UNK] [UNK] [UNK] run"),
    (" ", "", ""),
]


@pytest.fixture
def vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{symbol}\n" for symbol in SYMBOLS.split()))
    return tmp_path / "vocab.txt"


@pytest.mark.parametrize("cased", [False, True])
@pytest.mark.parametrize(("text", "uncased_pieces", "cased_pieces"), CASES)
def test_subwords(vocabulary, text, uncased_pieces, cased_pieces, cased):
    numbers = wordpiece.read_vocabulary(str(vocabulary))
    found = wordpiece.encode(text, numbers, cased=cased, markers=frozenset({"[unused0]"}))
    assert found == (cased_pieces if cased else uncased_pieces)


def test_files_keep_their_lines(tmp_path, vocabulary):
    (tmp_path / "train.input0").write_text("[unused0] the [unused0] runs\n\nThe\n", encoding="utf-8")
    wordpiece.main([str(tmp_path / "train.input0"), "--vocab", str(vocabulary), "--markers", "[unused0]"])
    assert (tmp_path / "train.input0.bpe").read_text() == "[unused0] the [unused0] run ##s\n\nthe\n"
    with pytest.raises(SystemExit, match=r"--markers: expected symbols of .*vocab\.txt, found '@'"):
        wordpiece.main([str(tmp_path / "train.input0"), "--vocab", str(vocabulary), "--markers", "@"])
