"""Text of one language through the commands: parses, tokens, features, their checks, and new text."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.encoders import gpt2_bpe

import commands
from binarizing import contents
from fairseq_syntax.inference.parse_sources import WithoutParses
from fairseq_syntax.inference.reader import SourceReader, source_reader
from syntax_data.commands import binarize, parse
from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.signature import Signature
from syntax_data.features import INFINITE
from syntax_data.features.aligned import Settings
from syntax_data.text.subwords.byte_level import LETTERS

RAW = "A café.\n\nIt fell. Ça alla!\n"
CONLLU = """1\tA\t_\t_\t_\t_\t2\tdet\t_\t_
2\tcafé\t_\t_\t_\t_\t0\troot\t_\t_
3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_

1\tIt\t_\t_\t_\t_\t2\tnsubj\t_\t_
2\tfell\t_\t_\t_\t_\t0\troot\t_\t_
3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_

1\tÇa\t_\t_\t_\t_\t2\tnsubj\t_\t_
2\talla\t_\t_\t_\t_\t0\troot\t_\t_
3\t!\t_\t_\t_\t_\t2\tpunct\t_\t_

"""
TREES = "(S (NP (D A) (N café)) (. .))\n\n(S (NP It) (VP fell) (. .))\n(S (NP Ça) (VP alla) (. !))\n"
BYTE_BPE = "A Ġca fÃ © .\n\nIt Ġfe ll . Ġ Ã ĩ a Ġ alla !\n"
NUMBERS = {letters: number for number, letters in enumerate([*LETTERS, *dict.fromkeys(BYTE_BPE.split())])}
#: By kind of subwords, the same text, and the word of each subword.
TEXTS = {
    "words": ("A café .\n\nIt fell . Ça alla !\n", [[0, 1, 2], [], [0, 1, 2, 3, 4, 5]]),
    "subword_nmt": ("A ca@@ fé .\n\nIt fell . Ç@@ a alla !\n", [[0, 1, 1, 2], [], [0, 1, 2, 3, 3, 4, 5]]),
    "subword_nmt:~": ("A ca~ fé .\n\nIt fell . Ç~ a alla !\n", [[0, 1, 1, 2], [], [0, 1, 2, 3, 3, 4, 5]]),
    "opennmt": ("A ca ￭fé ￭.\n\nIt fell ￭. Ç￭ a alla ￭!\n", [[0, 1, 1, 2], [], [0, 1, 2, 3, 3, 4, 5]]),
    "opennmt:~": ("A ca ~ fé .\n\nIt fell ~. Ç ~ a alla !\n", [[0, 1, 1, 1, 2], [], [0, 1, 2, 3, 3, 3, 4, 5]]),
    "sentencepiece": (
        "▁A ▁ca f <0xC3> <0xA9> .\n\n▁It ▁fell . ▁Ça ▁ alla !\n", [[0, 1, 1, 1, 1, 2], [], [0, 1, 2, 3, 4, 4, 5]]
    ),
    "byte_bpe": (BYTE_BPE, [[0, 1, 1, 1, 2], [], [0, 1, 1, 2, 3, 3, 3, 3, 4, 4, 5]]),
    "gpt2": (
        "".join(" ".join(str(NUMBERS[token]) for token in line.split()) + "\n" for line in BYTE_BPE.splitlines()),
        [[0, 1, 1, 1, 2], [], [0, 1, 1, 2, 3, 3, 3, 3, 4, 4, 5]],
    ),
    "wordpiece": ("a ca ##fe .\n\nit [UNK] . ca all ##a !\n", [[0, 1, 1, 2], [], [0, 1, 2, 3, 4, 4, 5]]),
}  # fmt: skip


@pytest.fixture(scope="module")
def raw(tmp_path_factory) -> Path:
    """Text with a parse for each line, by fairseq-syntax-parse, and an encoder.json."""
    folder = tmp_path_factory.mktemp("raw")
    text = folder / "train.input0"
    text.write_text(RAW, encoding="utf-8")
    for kind, content in (("conllu", CONLLU), ("trees", TREES)):
        (folder / f"made.{kind}").write_text(content, encoding="utf-8")
        parse.main(["--input", str(text), "--parser", kind, "--parse-file", f"{folder}/made.{kind}"])
    names = {"train.input0", *(f"train.input0.{ending}" for ending in ("conllu", "trees", "parse.json"))}
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} >= names
    (folder / "encoder.json").write_text(json.dumps(NUMBERS), encoding="utf-8")
    return folder


def preprocess(folder: Path, text: str, *more: str) -> Path:
    """Write text, and its tokens in the folder bin by fairseq-preprocess."""
    path = folder / "train.input0.bpe"
    path.write_text(text, encoding="utf-8")
    commands.preprocess_texts("--trainpref", str(path), "--destdir", f"{folder}/bin", "--workers", "1", *more)
    return path


def run(raw: Path, folder: Path, kind: str, *more: str) -> None:
    text, parses = f"{folder}/train.input0.bpe", f"{raw}/train.input0"
    names = ["--trainpref", text, "--trainparse", parses, "--destdir", f"{folder}/bin"]
    vocabulary = ["--gpt2-encoder-json", f"{raw}/encoder.json"] if kind == "gpt2" else []
    binarize.main(["--only-source", *names, "--subwords", kind, *vocabulary, *more])


def rows(folder: Path, feature: str, split: str = "train") -> list[list[int]]:
    dataset = indexed_dataset.make_dataset(f"{folder}/bin/{split}.{feature}", "mmap")
    return [dataset[i].tolist() for i in range(len(dataset))]


@pytest.mark.parametrize("kind", TEXTS)
def test_features_of_each_kind_of_subwords(raw, tmp_path, kind, capsys):
    text, word_of = TEXTS[kind]
    preprocess(tmp_path, text)
    run(raw, tmp_path, kind)
    assert rows(tmp_path, "word") == [[*words, max(words, default=-1) + 1] for words in word_of]
    heads = [[2, 0, 2], [], [2, 0, 2, 5, 0, 5]]
    expected = [[*(of[w] for w in ws), 0] for of, ws in zip(heads, word_of, strict=True)]
    assert rows(tmp_path, "head") == [expected[0], [], expected[2]]  # the empty line has no parse
    ends = [INFINITE, INFINITE]
    first = [1, *[0] * (len(word_of[0]) - 3), 2, *ends]
    assert rows(tmp_path, "distance")[0] == first
    # The names are fairseq's, and all files are checked.
    files = TokenFiles.find(f"{tmp_path}/bin", "train")
    assert files is not None
    assert (files.prefix, files.dictionary) == (f"{tmp_path}/bin/train", f"{tmp_path}/bin/dict.txt")
    split = Signature.read(f"{tmp_path}/bin/syntax.json").splits["train"]
    assert split.settings["subwords"] == kind
    features = split.features
    names = {"dict.txt", "syntax.json", "preprocess.log", "train.bin", "train.idx"}
    names |= {f"train.{feature}.{ending}" for feature in features for ending in ("bin", "idx")}
    before = contents(tmp_path / "bin")
    assert {*before} == names
    capsys.readouterr()
    binarize.main(["--only-source", "--verify", "--destdir", f"{tmp_path}/bin"])
    assert (
        f"train: {len(names) - 3} files as in the signature; 3 sentences with valid word, " in capsys.readouterr().out
    )
    run(raw, tmp_path, kind, "--workers", "2")
    assert contents(tmp_path / "bin") == before
    run(raw, tmp_path, kind, "--control", "flat")
    assert rows(tmp_path, "distance")[0] == [*[1 if d else 0 for d in first[:-2]], *ends]
    assert rows(tmp_path, "word") == [[*words, max(words, default=-1) + 1] for words in word_of]


def test_several_texts_and_bad_parses(raw, tmp_path, capsys):
    text = TEXTS["words"][0]
    other = tmp_path / "other"
    other.write_text(text.replace("fell", "rose"), encoding="utf-8")
    preprocess(tmp_path, text, "--validpref", f"{tmp_path}/train.input0.bpe,{other}")
    more = [
        "--validpref",
        f"{tmp_path}/train.input0.bpe,{other}",
        "--validparse",
        ",".join([f"{raw}/train.input0"] * 2),
    ]
    with pytest.raises(SystemExit, match=r"train\.input0\.trees:3: .*other:3: .*the text has 'rose'"):
        run(raw, tmp_path, "words", *more)
    run(raw, tmp_path, "words", *more, "--on-bad-parse", "skip")
    assert [len(rows(tmp_path, "head", split)[2]) for split in ("train", "valid", "valid1")] == [7, 7, 0]
    assert "valid1: 3 sentences; 9 words; 9 subwords (1.00 a word); trees: 1 parsed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["-s", "en", "-t", "de"],
            "--only-source: expected no languages beside it, found --source-lang and --target-l",
        ),
        (["-t", "de", "--verify"], "--only-source: expected no languages beside it, found --target-lang"),
        (["--destdir", "none"], "none/train.idx: expected the tokens of this split, found none"),
        (["--subwords", "gpt2"], "--subwords gpt2: expected --gpt2-encoder-json FILE beside it, found none"),
        (
            ["--gpt2-encoder-json", "x"],
            "--gpt2-encoder-json: expected --subwords gpt2 beside it, found --subwords words",
        ),
        (["--subwords", "gpt2", "--gpt2-encoder-json", "none.json"], "none.json: No such file"),
        (["--subwords", "byte_bpe"], "bpe:3: expected GPT-2's letters for bytes, found '你' in '你'"),
        (["--markers", "m0,A"], r"bin/dict\.txt: expected the symbols of --markers, found no 'm0'"),
        (["--markers", "m0,m0"], "--markers: expected different symbols between commas, found 'm0,m0'"),
    ],
)
def test_broken_input_is_refused_and_writes_nothing(raw, tmp_path, arguments, expected):
    preprocess(tmp_path, "A cafÃ© .\n\nIt fell . 你 !\n" if "byte_bpe" in arguments else TEXTS["words"][0])
    before = contents(tmp_path)
    with pytest.raises(SystemExit, match=expected):
        run(raw, tmp_path, "words", *arguments)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("languages", "found"), [([], "none of them"), (["-s", "en"], "--source-lang")])
def test_names_without_languages_are_asked_for(languages, found):
    with pytest.raises(SystemExit, match=f"expected --source-lang and --target-lang, or --only-source, found {found}"):
        binarize.main(["--trainpref", "x", *languages])


def test_a_number_that_the_vocabulary_has_not(raw, tmp_path):
    preprocess(tmp_path, TEXTS["gpt2"][0].replace("\n\n", "\n9999\n"))
    for more in ([], ["--on-bad-parse", "skip", "--workers", "2"]):
        with pytest.raises(SystemExit, match=rf"bpe:2: expected numbers of {raw}/encoder\.json, found '9999'"):
            run(raw, tmp_path, "gpt2", *more)


def test_numbers_that_the_dictionary_has_not_are_known_text(raw, tmp_path):
    dictionary = tmp_path / "known"
    dictionary.write_text(f"{NUMBERS['A']} 1\n")
    preprocess(tmp_path, TEXTS["gpt2"][0], "--srcdict", str(dictionary))
    run(raw, tmp_path, "gpt2")
    assert rows(tmp_path, "word")[0] == [*TEXTS["gpt2"][1][0], 3]


def test_unknown_wordpieces_that_are_no_token_can_be_skipped(raw, tmp_path, capsys):
    preprocess(tmp_path, TEXTS["wordpiece"][0].replace("[UNK] .", "[UNK]"))
    with pytest.raises(
        SystemExit, match=r"trees:3: .*bpe:3: .*the text has 'ca' .*; \[UNK\] is exactly one token of the parse"
    ):
        run(raw, tmp_path, "wordpiece")
    run(raw, tmp_path, "wordpiece", "--on-bad-parse", "skip")
    assert [*map(len, rows(tmp_path, "head"))] == [5, 0, 0]
    assert "1 mismatch" in capsys.readouterr().out


def test_markers_of_entities(raw, tmp_path, capsys):
    preprocess(tmp_path, "m0 A m0 café m1 .\n\nIt fell m1 . Ça alla ! m1\n")
    run(raw, tmp_path, "words", "--markers", "m0,m1")
    assert rows(tmp_path, "word") == [[0, 0, 1, 1, 2, 2, 3], [0], [0, 1, 2, 2, 3, 4, 5, 5, 6]]
    assert rows(tmp_path, "head")[0] == [2, 2, 0, 0, 2, 2, 0]
    assert "14 subwords (1.56 a word); 5 markers; trees: " in capsys.readouterr().out
    binarize.main(["--only-source", "--verify", "--destdir", f"{tmp_path}/bin"])
    assert Signature.read(f"{tmp_path}/bin/syntax.json").splits["train"].settings["markers"] == "m0,m1"
    (tmp_path / "bin/dict.txt").rename(tmp_path / "known")
    preprocess(tmp_path, TEXTS["words"][0], "--srcdict", f"{tmp_path}/known")
    run(raw, tmp_path, "words", "--markers", "m0,m1")
    assert f"train: no --markers in {tmp_path}/train.input0.bpe" in capsys.readouterr().out


def test_new_text_is_read_by_the_same_vocabulary(raw, tmp_path):
    preprocess(tmp_path, TEXTS["gpt2"][0])
    run(raw, tmp_path, "gpt2")
    path = f"{raw}/encoder.json"
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**NUMBERS, "more": 9999}))
    given = {"data": f"{tmp_path}/bin", "source_lang": None, "target_lang": None, "parser": "none"}

    def reader(**more):
        empty = dict.fromkeys(("input_parses", "parser_models", "parser_device", "on_bad_parse"))
        return source_reader(SimpleNamespace(**given, **empty, **more), ["word"])

    line = TEXTS["gpt2"][0].split("\n")[2]
    batch = reader(gpt2_encoder_json=path).read(
        ["It fell. Ça alla!"], [line], Dictionary.load(f"{tmp_path}/bin/dict.txt")
    )
    assert batch.features["word"][0].tolist() == [0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4]  # by white space alone
    with pytest.raises(ValueError, match="expected --gpt2-encoder-json FILE, as the training data was binarized"):
        reader()
    with pytest.raises(ValueError, match="found no file https://"):  # fairseq's default
        reader(gpt2_encoder_json=gpt2_bpe.DEFAULT_ENCODER_JSON)
    with pytest.raises(ValueError, match=rf"{other}: expected the file by which the training data .* found another"):
        reader(gpt2_encoder_json=str(other))


def test_the_parser_of_new_text_sees_no_markers():
    seen = []

    class Source(WithoutParses):
        def parse(self, lines):
            seen.extend((line.text, line.words) for line in lines)
            return super().parse(lines)

    reader = SourceReader(Source(), Settings("words", markers="m0"), ["word"], {})
    (row,) = reader.read(["m0 A café m0"], ["m0 A caf é m0"], Dictionary()).features["word"]
    assert seen == [("A café", ["A", "caf", "é"])]
    assert row.tolist() == [0, 0, 1, 2, 2, 3]
