"""Your own labels of words: files to MISC of CoNLL-U, to features, to embeddings, and for new text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import commands
from binarizing import CONLLU, labels, run, signature, write
from fake_parser import FakeParser
from syntax_data.commands import binarize, parse

MADE = CONLLU.replace("\t_\n", "\tNER=O|SpaceAfter=No\n").replace("NER=O", "NER=B X", 2).replace("NER=O|", "", 1)


def test_labels_in_misc_are_features_of_subwords(tmp_path):
    run(write(tmp_path, conllu=MADE), "--word-labels=NER,SpaceAfter", "--features=word,upos")
    assert labels(tmp_path, "NER") == ["B_X B_X B_X _ O O", "", "O O"]
    assert labels(tmp_path, "SpaceAfter")[2] == "No No"
    split = signature(tmp_path)["splits"]["train"]
    assert split["features"] == ["word", "upos", "NER", "SpaceAfter"]
    binarize.main(["-s", "en", "-t", "de", f"--destdir={tmp_path}/bin", "--verify"])
    run(write(tmp_path, conllu=MADE), "--word-labels=NER", "--control=random-tags")
    assert labels(tmp_path, "NER")[0] == "B_X B_X B_X _ O O"  # they stay with their words


@pytest.mark.parametrize(
    ("conllu", "names", "expected"),
    [
        (MADE, "upos", "--word-labels: expected names of letters, .* none of word, .*found 'upos'"),
        (MADE, "NER,NER", "--word-labels: expected names"),
        (MADE, "a-b", "--word-labels: expected names"),
        (MADE, "NER,Ner", r"train\.en\.conllu: expected Ner=… in MISC of some word .--word-labels., found none"),
        (None, "NER", r"train\.en\.conllu: expected parses with NER in MISC, found none"),
    ],
)
def test_names_that_no_word_has_a_label_of(tmp_path, conllu, names, expected):
    with pytest.raises(SystemExit, match=expected):
        run(write(tmp_path, conllu=conllu), f"--word-labels={names}")
    assert not (tmp_path / "bin/syntax.en-de.en.json").exists()


ROW = "{}\t{}\t_\t_\t_\t_\t{}\t_\t_\t{}\n"
PARSES = ROW.format(1, "a", 0, "ner=OLD|x=1") + ROW.format(2, "b", 1, "_") + "\n" + ROW.format(1, "c", 0, "_") + "\n"


def parse_with(folder: Path, files: dict[str, str], *more: str, size: int = 1) -> Path:
    """Parses in CoNLL-U of three lines, with files of labels."""
    (folder / "x.en").write_text("a b\n\nc\n")
    (folder / "given").write_text(PARSES)
    for name, content in files.items():
        (folder / name).write_text(content)
    given = [f"--word-labels={name}={folder / name}" for name in files]
    options = [f"--input={folder}/x.en", f"--parse-file={folder}/given", f"--batch-size={size}"]
    parse.main([*options, "--parser=conllu", *given, *more])
    return folder / "x.en.conllu"


@pytest.mark.parametrize("size", [1, 3])
def test_labels_of_files_are_written_into_misc(tmp_path, size):
    files = {"ner": "B-PER O\n\nO\n", "srl": "A0 V=1\n\n_\n"}
    found = parse_with(tmp_path, files, size=size).read_text()
    first = ROW.format(1, "a", 0, "srl=A0|ner=B-PER|x=1") + ROW.format(2, "b", 1, "srl=V=1|ner=O")
    assert found == f"{first}\n# no_parse = empty\n\n{ROW.format(1, 'c', 0, 'srl=_|ner=O')}\n"
    settings = json.loads((tmp_path / "x.en.parse.json").read_text())["parses"]["conllu"]["settings"]
    assert list(settings["word_labels"]) == ["ner", "srl"]
    with pytest.raises(SystemExit, match="--overwrite"):  # other labels are other work
        parse_with(tmp_path, {**files, "ner": "O O\n\nO\n"}, size=size)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"ner": "O\n\nO\n"}, "ner:1: expected 2 labels, one for each token of 'a b', found 1"),
        ({"ner": "O O\n\nO O\n"}, "ner:3: expected 1 labels, .*found 2"),
        ({"ner": "O O\nO\n"}, r"ner: expected 3 lines, as .*x\.en has, found 2"),
        ({"ner": "O O|B\n\nO\n"}, "ner:1: expected labels without |, found 'O|B'"),
        ({"n-r": "O O\n\nO\n"}, "--word-labels: expected NAME=FILE with different names"),
    ],
)
def test_files_of_labels_that_are_not_of_the_text(tmp_path, files, expected):
    with pytest.raises(SystemExit, match=expected):
        parse_with(tmp_path, files)
    assert not (tmp_path / "x.en.conllu").exists()


def test_labels_need_dependency_trees(tmp_path):
    (tmp_path / "x").write_text("a\n")
    options = [f"--input={tmp_path}/x", "--parser=trees", f"--parse-file={tmp_path}/t", f"--word-labels=l={tmp_path}/x"]
    (tmp_path / "t").write_text("(S a)\n")
    with pytest.raises(SystemExit, match="--word-labels: expected a parser that makes CoNLL-U"):
        parse.main(options)


def of_word(word: str) -> str:
    return f"kind={word[:1]}"


def test_a_model_embeds_them_and_new_text_needs_them(
    corpus, plain_data_bin, tmp_path, fake_parser, monkeypatch, caplog
):
    for name in ("train", "valid", "test"):
        rows = [row.split("\t") for row in (corpus / f"{name}.src.conllu").read_text().split("\n")]
        written = ["\t".join([*row[:9], of_word(row[1])] if len(row) == 10 else row) for row in rows]
        (tmp_path / f"{name}.src.conllu").write_text("\n".join(written))
    data = commands.copy(plain_data_bin, tmp_path / "data")
    prefixes = [f"--{n}{kind}={at}/{n}" for n in ("train", "valid", "test")
                for kind, at in (("pref", corpus / "bpe"), ("parse", tmp_path))]  # fmt: skip
    commands.binarize_parses(*prefixes, f"--destdir={data}", "--word-labels=kind", "--features=case")
    options = ("--syntax-masks=none", "--feature-embeddings=case,kind")
    commands.train(data, tmp_path / "run", "--max-update=20", *options)
    path = tmp_path / "run/checkpoint_last.pt"
    assert {"case", "kind"} == {key.split(".")[-1] for key in commands.parameters(path) if "embed_tokens.tables" in key}
    expected = commands.generate_scored(data, path)
    lines = (corpus / "test.src").read_text().splitlines()
    bpe = (corpus / "bpe/test.src").read_text().splitlines()
    read = commands.interactive(
        bpe, data, path, folder=tmp_path, more=("--remove-bpe", f"--input-parses={tmp_path}/test.src")
    )
    commands.assert_same(read[0], expected)
    with pytest.raises(ValueError, match=r"a parser that makes the word labels kind, which .* --input-parses reads"):
        commands.interactive(bpe, data, path, folder=tmp_path, more=("--parser=fake",))

    def labelled(line, found):
        found.dependencies.columns = [[*"_________", of_word(word)] for word in found.dependencies.tokens]
        return found

    monkeypatch.setattr(FakeParser, "hook", staticmethod(labelled))
    monkeypatch.setattr(FakeParser, "word_labels", ("kind",), raising=False)
    live = commands.interactive(lines, data, path, folder=tmp_path, more=(
        "--parser=fake", "--bpe=subword_nmt", f"--bpe-codes={corpus}/codes.src", "--remove-bpe"))  # fmt: skip
    commands.assert_same(live[0], expected)
