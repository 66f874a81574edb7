"""Kinds of subwords: what their tokens say of the text, and how they align with the words of a parse."""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import unicodedata

import pytest
import sentencepiece as spm
from fairseq.data.encoders.gpt2_bpe_utils import Encoder, bytes_to_unicode
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from syntax_data.features.aligned import Settings
from syntax_data.text.alignment import AlignmentError, align, plain_words
from syntax_data.text.folding import fold, without_accents
from syntax_data.text.subwords import SUBWORDS, first_marked_line, subword_reader
from syntax_data.text.subwords.byte_level import LETTERS

subword_nmt, sentencepiece, byte_bpe, wordpiece = map(
    subword_reader, ("subword_nmt", "sentencepiece", "byte_bpe", "wordpiece")
)

words_and_cuts = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=("Z", "C"), exclude_characters="@"), min_size=1, max_size=8),
        st.sets(st.integers(1, 7)),
    ),
    max_size=8,
)


@given(words_and_cuts)
def test_any_segmentation_is_put_together_again(items):
    subwords, expected = [], []
    for number, (word, cuts) in enumerate(items):
        edges = [0, *sorted(c for c in cuts if c < len(word)), len(word)]
        pieces = [word[a:b] for a, b in itertools.pairwise(edges)]
        subwords += [p + "@@" for p in pieces[:-1]] + pieces[-1:]
        expected += [number] * len(pieces)
    found = subword_nmt(subwords)
    assert found.words == [word for word, _ in items]
    assert found.word_of == expected
    assert "".join(found.pieces) == "".join(found.words)


def test_words_of_at_signs():
    found = subword_nmt(["@", "a@b", "@-@", "@@@", "@"])
    assert found.words == ["@", "a@b", "@-@", "@@"]
    assert found.word_of == [0, 1, 2, 3, 3]
    with pytest.raises(AlignmentError, match="end a word"):
        subword_nmt(["b", "a@@", "c@@"])


# Lines of OpenNMT's tokenizer 1.37, mode aggressive, with joiner_annotate and with joiner_new.
OPENNMT = [
    ("Hello, world! don't", "Hello ￭, world ￭! don ￭'￭ t", [0, 0, 1, 1, 2, 2, 2]),
    ("Hello, world! don't", "Hello ￭ , world ￭ ! don ￭ ' ￭ t", [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]),
    ("(a) ￭ b■ 5%～ ￨x", "(￭ a ￭) ■ b ￭■ 5 ￭% ￭～ │￭ x", [0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4]),
    ("- x -", "- x -", [0, 1, 2]),
    ("...a", ". ￭. ￭.￭ a", [0, 0, 0, 0]),
    ("", "", []),
]


@pytest.mark.parametrize("mark", ["￭", "<>"])
@pytest.mark.parametrize(("text", "line", "word_of"), OPENNMT)
def test_joiners_are_where_the_text_has_no_space(text, line, word_of, mark):
    read = subword_reader("opennmt" if mark == "￭" else f"opennmt:{mark}")
    found = read(line.replace("￭", mark).split())
    assert found.word_of == word_of
    assert [fold(word)[0] for word in found.words] == [fold(word)[0] for word in text.split()]
    tokens = re.findall(r"\w+|[^\w\s]", text)  # a parser's, to which all pieces but joiners belong
    of_tokens = align(found, tokens)
    assert [of_tokens[i] for i, piece in enumerate(found.pieces) if piece] == [*range(len(tokens))]


def test_marks_of_ones_own():
    assert subword_reader("subword_nmt:~")(["a~", "b@@", "c~", "d"]).words == ["ab@@", "cd"]
    for kind in ("opennmt", "subword_nmt:￭"):
        with pytest.raises(AlignmentError, match="last subword to end a word, found 'b￭'"):
            subword_reader(kind)(["a", "b￭"])
    assert subword_reader("opennmt")(["￭a", "b"]).words == ["a", "b"]  # nothing is before it


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("nonsense", "expected one of broken, byte_bpe, double, .*words, found 'nonsense'"),
        ("words:x", "expected words without a mark, found 'words:x'"),
        ("subword_nmt:", "expected a mark without spaces after subword_nmt:, found ''"),
        ("opennmt:a b", "a mark without spaces after opennmt:, found 'a b'"),
        ("double:", "expected double without a mark"),
        ("broken", r"the subwords broken .broken_kind:Kind. cannot be loaded: ImportError\('no"),
    ],
)
def test_kinds_that_cannot_be(written, expected, own_kinds):
    for call in (subword_reader, Settings):
        with pytest.raises(ValueError, match=expected):
            call(written)


@pytest.fixture
def own_kinds(tmp_path, monkeypatch):
    """Another package's kinds of subwords, one of which cannot be imported."""
    info = tmp_path / "own_kinds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-kinds\nVersion: 1.0\n")
    kinds = "[fairseq_syntax.subwords]\ndouble = double_kind:Double\nbroken = broken_kind:Kind\n"
    (info / "entry_points.txt").write_text(kinds)
    (tmp_path / "broken_kind.py").write_text("raise ImportError('no')\n")
    (tmp_path / "double_kind.py").write_text(DOUBLE)
    monkeypatch.syspath_prepend(str(tmp_path))


DOUBLE = """
from syntax_data.text.subwords import MarkedSubwords

class Double(MarkedSubwords):
    marks = "a word's last is in capitals"

    def split(self, token):
        return False, token.lower(), token.islower()
"""


def test_kinds_of_other_packages(own_kinds):
    found = subword_reader("double", markers="<m>")(["the", "<m>", "DOG", "bar", "KS"])
    assert (found.words, found.word_of) == (["thedog", "barks"], [0, 0, 0, 1, 1])
    with pytest.raises(AlignmentError, match="found 'dog'"):
        subword_reader("double")(["dog"])


def test_sentencepiece_words_and_bytes():
    found = sentencepiece(
        ["▁a", "b", "▁", "<0xE2>", "<0x82>", "<0xAC>", "c", "▁<0x41>", "<0x41>", "<0xE2>", "d", "<0xF0>"]
    )
    assert found.pieces == ["▁a", "b", "▁", "€", "", "", "c", "▁<0x41>", "A", "\ufffd", "d", "\ufffd"]
    assert found.words == ["ab", "€c", "<0x41>A\ufffdd\ufffd"]
    assert found.word_of == [0, 0, *[1] * 5, *[2] * 5]
    assert found.inside == {4, 5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("▁a ▁b", 1),
        ("\n▁a b ▁c\n▁d", 2),
        ("▁a\n" * 9 + "d", 1),
        ("▁▂▃ a chart", None),  # a character of the text
        ("▁▂▃ a chart\nA dog", None),
        ("a ▁▂▃", None),
        ("a\n" * 1000 + "▁a\n" * 10000, None),
        ("", None),
    ],
)
def test_sentencepiece_is_told_by_many_lines(text, expected):
    lines = [*enumerate(map(str.split, text.split("\n")), start=1)]
    for subwords in SUBWORDS:
        assert first_marked_line(lines, subwords) == (None if subwords == "sentencepiece" else expected)


def test_letters_are_those_of_gpt2():
    assert [*LETTERS.items()] == [(letter, byte) for byte, letter in bytes_to_unicode().items()]


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory):
    """The path of an encoder.json of GPT-2's letters, ``Ġc`` and ``Ġca``, and fairseq's encoder with it."""
    numbers = {letter: number for number, letter in enumerate([*LETTERS, "Ġc", "Ġca"])}
    path = tmp_path_factory.mktemp("gpt2") / "encoder.json"
    path.write_text(json.dumps(numbers), encoding="utf-8")
    return str(path), Encoder(numbers, [("Ġ", "c"), ("Ġc", "a")])


@pytest.mark.parametrize(
    ("text", "numbers", "tokens", "word_of", "inside"),
    [
        ("a café.", "64 257 69 127 102 13", "a café .", [0, 1, 1, 1, 1, 2], {4}),
        ("é 🙂x", "127 102 220 172 253 247 224 87", "é 🙂x", [0, 0, 1, 1, 1, 1, 1, 1], {1, 4, 5, 6}),
        (" a  b ", "220 64 220 220 65 220", "a b", [0, 0, 1, 1, 1, 1], set()),
        ("don't", "67 78 77 6 83", "do n't", [0, 0, 1, 1, 1], set()),
        ("", "", "", [], set()),
    ],
)
def test_gpt2_numbers(gpt2, text, numbers, tokens, word_of, inside):
    path, encoder = gpt2
    assert [*map(int, numbers.split())] == encoder.encode(text)
    found = subword_reader("gpt2", path)(numbers.split())
    assert "".join(found.pieces) == text
    assert found.words == (text.split() or [""])
    assert found.inside == inside
    assert align(found, tokens.split()) == word_of
    letters = [encoder.decoder[number] for number in encoder.encode(text)]
    assert byte_bpe(letters) == found


@pytest.mark.parametrize(
    ("letters", "pieces", "inside"),
    [
        ("âĤ ¬a b", ["€", "a", "b"], {1}),  # a subword with the end of a character, and another one
        ("Ĥ a", ["", "a"], set()),
        ("âĤ a", ["\ufffd", "a"], set()),
        ("a ÿ ¬", ["a", "\ufffd", ""], {2}),
        ("í ł Ģ", ["\ufffd", "", ""], {1, 2}),  # a surrogate
        ("aĠb Ġc", ["a b", " c"], set()),
    ],
)
def test_bytes_that_are_shared_or_wrong(letters, pieces, inside):
    found = byte_bpe(letters.split())
    assert (found.pieces, found.inside) == (pieces, inside)
    assert found.word_of == sorted(found.word_of)
    assert set(found.word_of) <= set(range(len(found.words)))


@pytest.mark.parametrize(
    ("pieces", "tokens", "expected"),
    [
        ("un ##able to", "un able to", [0, 1, 2]),
        ("cafe ! ist ##anbul", "Café ! İstanbul", [0, 1, 2, 2]),
        ("cafe \u0301 ##\u0301 x", "café x", [0, 1, 1, 1]),  # a mark that continues a word is not the next word's
        ("[UNK] a ##b [UNK]", "日本 ab ???", [0, 1, 1, 2]),
        ("a [UNK] [UNK] b", "a \u0301 x\u200b yy b", [0, 2, 3, 4]),
        ("a \u0384 [UNK] b", "a ' x b", [0, 1, 2, 3]),  # as without an unknown word
        ("[UNK] - [UNK]", "x -- y", [0, 1, 2]),
        ("- [UNK] a", "- - a", [0, 1, 2]),
        ("[UNK] &amp ; b", "[UNK] & b", [0, 1, 1, 2]),
        ("## # a", "## # a", [0, 1, 2]),
        ("ᾳ", "ᾳ", [0]),
    ],
)
def test_wordpieces_to_tokens(pieces, tokens, expected):
    assert align(wordpiece(pieces.split(" ")), tokens.split(" ")) == expected


@pytest.mark.parametrize(
    ("pieces", "tokens", "expected"),
    [
        (
            "[UNK] ' t",
            "don't",
            "the text has \"'\" 't' .from word 2 on., the parse nothing; .UNK. is exactly one token of the parse",
        ),
        ("a [UNK] b", "a x y b", r"the text has 'b' \(from word 3 on\), the parse 'y' 'b'"),
        ("a [UNK]", "a", r"the text has '\[UNK\]' \(from word 2 on\), the parse nothing"),
        ("b [UNK]", "ax y", "the text has 'b' "),
        ("a [UNK] b", "a x", "the text has 'b' .*the parse nothing"),
    ],
)
def test_unknown_wordpieces_that_are_not_one_token(pieces, tokens, expected):
    with pytest.raises(AlignmentError, match=expected):
        align(wordpiece(pieces.split()), tokens.split())


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("words", "m0 Bill m0 founded m1 Acme m1", [0, 0, 1, 1, 2, 2, 2]),  # the paper's example
        ("words", "m0 m1", [0, 0]),
        ("subword_nmt", "m1 un@@ m0 able m0", [0, 0, 0, 0, 0]),
        ("wordpiece", "a m0 ##b m1 [UNK] m0", [0, 0, 0, 1, 1, 1]),
        ("byte_bpe", "a m0 Ġ m1 Ãm Ġ m0", None),
        ("byte_bpe", "a m0 Ġ m1 Ã m0 © m0 Ġ m0 b", [0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]),
    ],
)
def test_markers_belong_to_the_word_that_follows(kind, text, expected):
    read = subword_reader(kind, markers="m0,m1")
    if expected is None:
        with pytest.raises(ValueError, match="expected GPT-2's letters for bytes"):
            read(text.replace("Ãm", "你").split())
        return
    found = read(text.split())
    assert found.word_of == expected
    assert [i for i, token in enumerate(text.split()) if token in ("m0", "m1") and found.pieces[i]] == []
    if found.words != [""]:
        assert align(found, ["x" if word == "[UNK]" else word.upper() for word in found.words]) == expected


def test_files_and_tokens_that_are_of_no_vocabulary(gpt2, tmp_path):
    path, _ = gpt2
    for token in ("258", "-1", "064", "a", "<unk>", "madeupword0000"):
        with pytest.raises(ValueError, match=f"expected numbers of {path}, found '{token}'"):
            subword_reader("gpt2", path)(["64", token])
    for content, expected in (
        ("[", "found no JSON"),
        ("[" * 100_000, "found no JSON"),
        ("[]", r"found \[\]"),
        ("{}", "found {}"),
        ('{"a": "1"}', "found '1' for 'a'"),
        ('{"a": 1, "b": 1}', "found a number twice"),
    ):
        (tmp_path / "encoder.json").write_text(content)
        with pytest.raises(ValueError, match=f"{tmp_path}/encoder.json: .*{expected}"):
            subword_reader("gpt2", str(tmp_path / "encoder.json"))
    with pytest.raises(ValueError, match="--subwords gpt2: expected --gpt2-encoder-json FILE beside it"):
        subword_reader("gpt2")
    with pytest.raises(ValueError, match="--subwords words: expected no file"):
        subword_reader("words", path)
    for markers in ("a,", "a,a", "a b"):
        with pytest.raises(ValueError, match="--markers: expected different symbols between commas"):
            Settings(markers=markers)


# Random Unicode, cut by real models of all kinds, against tokens that are cut at random.

ALPHABET = st.characters(exclude_categories=("Cs", "Cn", "Co"), exclude_characters="@▁\x00&\\")  # marks and escapes
COMMON = st.sampled_from("aeinst EINß-.,'\"éüñ我你们日本語ｱﾞ½ﬁİ\u0301\u0384\u200d😀")
SENTENCES = st.text(st.one_of(COMMON, COMMON, ALPHABET), max_size=40).filter(lambda text: fold(text)[0])
TRAINING = ["das ist ein test in zwei sätzen", "we test these sentences in a test", "我们 在 这里", "日本語 の 文"] * 20


def random_tokens(text: str, seed: int) -> list[str]:
    """The words of a text, some cut, some joined, in another case."""
    source = random.Random(seed)
    joined = "".join(text.split())
    cuts = sorted({0, len(joined), *(source.randrange(len(joined) + 1) for _ in range(source.randrange(6)))})
    tokens = [joined[a:b] for a, b in itertools.pairwise(cuts)]
    return [token.upper() if source.random() < 0.2 and token.upper().lower() == token else token for token in tokens]


def check(subwords, tokens):
    """Each subword has a word, order is kept, and both directions say the same."""
    word_of = align(subwords, tokens)
    assert len(word_of) == len(subwords.pieces)
    assert word_of == sorted(word_of)
    assert all(0 <= word < len(tokens) for word in word_of)
    assert all(word_of[i] == word_of[i - 1] for i in subwords.inside)
    # The other way round the tokens are what is cut; only what can be seen has a place of its own.
    seen = [i for i, piece in enumerate(subwords.pieces) if fold(piece)[0]]
    bare = tokens if subwords.accents else [*map(without_accents, tokens)]
    visible_tokens = [k for k, token in enumerate(bare) if fold(token)[0]]
    there = align(plain_words([bare[k] for k in visible_tokens]), [subwords.pieces[i] for i in seen])
    piece_of = {k: seen[p] for k, p in zip(visible_tokens, there, strict=True)}
    for token, piece in piece_of.items():
        assert word_of[piece] <= token  # the piece starts where the token does, or before
    for piece in seen:
        if piece not in subwords.inside:
            assert piece_of[word_of[piece]] <= piece


@pytest.fixture(scope="module")
def bpe():
    codes = io.StringIO()
    learn_bpe(TRAINING, codes, 60)
    return BPE(io.StringIO(codes.getvalue()), glossaries=["test", "EIN"])


@pytest.fixture(scope="module", params=[False, True], ids=["pieces", "bytes"])
def pieces(request):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINING),
        model_writer=model,
        vocab_size=400 if request.param else 60,
        hard_vocab_limit=False,
        byte_fallback=request.param,
        model_type="bpe",
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


@settings(max_examples=150, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000), dropout=st.sampled_from([0, 0.5]))
def test_round_trip_of_subword_nmt(bpe, text, seed, dropout):
    subwords = bpe.process_line(" ".join(text.split()), dropout).split()
    check(subword_nmt(subwords), random_tokens(text, seed))


@settings(max_examples=150, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000), sampled=st.booleans())
def test_round_trip_of_sentencepiece(pieces, text, seed, sampled):
    subwords = pieces.encode(text, out_type=str, enable_sampling=sampled, alpha=0.1, nbest_size=-1)
    check(sentencepiece(subwords), random_tokens(text, seed))


@settings(max_examples=2000, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000))
def test_round_trip_of_bytes(text, seed):
    """Subwords of any bytes, in the letters of GPT-2, also of parts of two characters; a space begins one, as there."""
    text = re.sub(r"\s", " ", text)
    letters = {byte: letter for letter, byte in LETTERS.items()}
    source = random.Random(seed)
    line = "".join(letters[byte] for byte in text.encode())
    edges = [0, *(i for i in range(1, len(line)) if line[i] == "Ġ" or source.random() < 0.4), len(line)]
    tokens = [line[a:b] for a, b in itertools.pairwise(edges)]
    found = byte_bpe(tokens)
    assert "".join(found.pieces) == text
    assert found.words == text.split()
    assert found.word_of == sorted(found.word_of)
    check(found, random_tokens(text, seed))


def cut_like_bert(text: str, source: random.Random) -> list[str]:
    """Wordpieces of an uncased model whose vocabulary has any of a word's parts by chance."""
    kept = "".join(c for c in text if c != "\ufffd" and (c in "\t\n\r" or unicodedata.category(c) not in ("Cc", "Cf")))
    plain = without_accents(kept.lower())
    tokens = []
    for word in re.findall(r"[^\W\u3400-\u9fff]+|[^\s]", plain):
        cuts = sorted({0, len(word), *(source.randrange(len(word) + 1) for _ in range(source.randrange(3)))})
        parts = [word[a:b] for a, b in itertools.pairwise(cuts)]
        tokens += [parts[0], *(f"##{part}" for part in parts[1:])]
    return tokens


@settings(max_examples=150, deadline=None)
@given(text=SENTENCES, seed=st.integers(0, 1000))
def test_round_trip_of_wordpieces(text, seed):
    tokens = random_tokens(text, seed)
    subwords = cut_like_bert(text, random.Random(seed))
    if any(fold(token)[0] for token in subwords):
        check(wordpiece(subwords), tokens)
    # Some words of the parse are unknown.
    source = random.Random(seed)
    parts = [(token, cut_like_bert(token, source)) for token in tokens]
    seen = [(token, ["[UNK]"] if source.random() < 0.3 else cut) for token, cut in parts if fold("".join(cut))[0]]
    line = [piece for _, cut in seen for piece in cut]
    assert align(wordpiece(line), [token for token, _ in seen]) == [k for k, (_, cut) in enumerate(seen) for _ in cut]
