"""Features of words, which texts in any subwords share."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import sentencepiece
import torch

import binarizing
import commands
from fairseq_syntax.data.features import load_features
from fairseq_syntax.data.training_record import DataBins
from syntax_data.data_bin.signature import Signature
from syntax_data.errors import InputError
from syntax_data.features import FEATURES
from tiers import others_nightly

SPLITS = "train", "valid", "test"


@pytest.fixture(scope="module")
def of_words(corpus, tmp_path_factory) -> Path:
    """A data-bin of the corpus in words, with features."""
    data = tmp_path_factory.mktemp("words") / "data-bin"
    prefixes = [f"--{name}pref={corpus}/{name}" for name in SPLITS]
    commands.preprocess_tokens(*prefixes, "--destdir", str(data))
    commands.binarize_parses(*prefixes, "--destdir", str(data), "--subwords=words")
    return data


@pytest.fixture(scope="module", params=["subword_nmt", "sentencepiece"])
def pair(request, corpus, of_words, data_bin, tmp_path_factory) -> tuple[Path, Path]:
    """A data-bin with features of its own, and one with those of the words."""
    folder = tmp_path_factory.mktemp(request.param)
    text, own = corpus / "bpe", data_bin
    if request.param == "sentencepiece":
        text, own = folder / "text", folder / "own"
        text.mkdir()
        for side in ("src", "tgt"):
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus / f"train.{side}"), model_prefix=str(folder / "m"), vocab_size=60,
                hard_vocab_limit=False, minloglevel=2,
            )  # fmt: skip
            model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "m.model"))
            for name in SPLITS:
                lines = (corpus / f"{name}.{side}").read_text().splitlines()
                cut = "".join(f"{' '.join(model.encode(line, out_type=str))}\n" for line in lines)
                (text / f"{name}.{side}").write_text(cut)
    prefixes = [f"--{name}pref={text}/{name}" for name in SPLITS]
    if own != data_bin:
        commands.preprocess_tokens(*prefixes, "--destdir", str(own))
        parses = [f"--{name}parse={corpus}/{name}" for name in SPLITS]
        commands.binarize_parses(*prefixes, *parses, "--destdir", str(own), "--subwords=sentencepiece")
    spread = commands.copy(own, folder / "spread")
    for path in spread.glob("*.src.*.[bi]??"):  # the features alone
        path.unlink()
    (spread / "syntax.src-tgt.src.json").unlink()
    more = f"--word-features={of_words}", f"--subwords={request.param}"
    commands.binarize_parses(*prefixes, "--destdir", str(spread), *more)
    return own, spread


def test_they_are_those_of_the_subwords(pair, corpus, capsys):
    _, spread = pair
    for split in SPLITS:
        expected, found = (load_features(DataBins((str(d),), ("src", "tgt")), split, [*FEATURES]) for d in pair)
        for name in FEATURES:
            assert len(expected[name]) == len(found[name]) > 10
            assert all(torch.equal(expected[name][i], found[name][i]) for i in range(len(found[name]))), name
    assert [path.name for path in sorted(spread.glob("train.src-tgt.src.*.bin"))] == ["train.src-tgt.src.word.bin"]
    theirs, ours = (Signature.read(str(data / "syntax.src-tgt.src.json")) for data in pair)
    assert ours.labels == theirs.labels
    assert ours.splits["train"].parser == theirs.splits["train"].parser
    assert ours.splits["train"].settings == theirs.splits["train"].settings
    commands.binarize_parses("--destdir", str(spread), "--verify")
    report = capsys.readouterr().out
    lines = len((corpus / "train.src").read_text().splitlines())
    words = f"{lines} sentences with valid word; {', '.join(FEATURES)} of words are in "
    assert f"train: 26 files as in the signature; {words}" in report


@pytest.mark.parametrize(
    "more",
    others_nightly([[], ["--source-subword-sampling=0.3"], ["--truncate-source", "--max-source-positions=6"]], [[]]),
    ids=str,
)
def test_a_model_trains_and_translates_the_same(more, corpus, of_words, data_bin, tmp_path):
    data = commands.copy(data_bin, tmp_path / "spread")
    prefixes = [f"--{name}pref={corpus}/bpe/{name}" for name in SPLITS]
    commands.binarize_parses(*prefixes, "--destdir", str(data), f"--word-features={of_words}")
    options = ["--max-update=4", "--syntax-masks=slr,sdoi", f"--subword-model={corpus}/codes.src", *more]
    for name, folder in (("own", data_bin), ("spread", data)):
        commands.train(folder, tmp_path / name, *options)
    own, spread = (tmp_path / name / "checkpoint_last.pt" for name in ("own", "spread"))
    weights = commands.parameters(own)
    assert all(torch.equal(weight, weights[name]) for name, weight in commands.parameters(spread).items())
    if not more:
        assert commands.generate_scored(data, spread) == commands.generate_scored(data_bin, own)


class TestBadInput:
    @pytest.fixture
    def data(self, tmp_path) -> Path:
        """The three lines of binarizing.py, in subwords; their words are in ``words/bin``."""
        (tmp_path / "words").mkdir()
        binarizing.write(tmp_path / "words", text=binarizing.TEXT.replace("@@ ", ""))
        binarizing.run(tmp_path / "words", "--subwords=words")
        return binarizing.write(tmp_path, trees=None, conllu=None)

    def refused(self, data: Path, message: str, *more: str) -> None:
        with pytest.raises(SystemExit, match=message):
            binarizing.run(data, *(more or [f"--word-features={data}/words/bin"]))

    def test_of_other_words(self, data):
        (data / "train.en").write_text(binarizing.TEXT.replace("the in@@", "thein@@"))
        binarizing.preprocess(data / "bin", "train", (data / "train.en").read_text())
        self.refused(
            data, r"train.en:1: expected 'the increase \( rise \)', sentence 0 .* of .*words/bin/train.en-de.en"
        )
        (data / "train.en").write_text(binarizing.TEXT * 2)
        binarizing.preprocess(data / "bin", "train", binarizing.TEXT * 2)
        self.refused(data, "train.en: expected 3 lines, as .*words/bin/train.en-de.en has sentences, found 6")

    def test_of_no_words(self, data):
        self.refused(data, "none: expected a data-bin with the words of train.en-de.en, found", "--word-features=none")
        binarizing.run(data / "words", "--subwords=words", "--features=head")
        self.refused(data, "expected train of --subwords words with the feature word, found another")
        binarizing.run(data / "words")
        self.refused(data, "expected train of --subwords words with the feature word, found another")
        (data / "words/bin/syntax.en-de.en.json").unlink()
        self.refused(data, "syntax.en-de.en.json: expected features of train, found none")

    def test_features_that_depend_on_the_subwords(self, data):
        binarizing.run(data / "words", "--subwords=words", "--control=random")
        self.refused(data, "syntax.en-de.en.json: expected train without --control, found --control random")
        binarizing.run(data / "words", "--subwords=words", "--markers=(", "--on-bad-parse=skip")
        self.refused(data, "expected train without --markers, found --markers")

    def test_words_that_are_not_those_of_their_features(self, data):
        path = data / "words/bin/train.en-de.en.head.bin"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"9")
        self.refused(data, "head.bin: expected the file of the signature")
        path.write_bytes(content)
        binarizing.preprocess(data / "words/bin", "train", binarizing.TEXT.replace("@@ ", "").replace("rise", "fall"))
        self.refused(data, "train.en-de.en.bin: expected the file of the signature")

    def test_words_in_the_other_direction(self, data):
        for path in (data / "words/bin").glob("train.en-de.*"):
            path.rename(path.with_name(path.name.replace("en-de", "de-en")))
        self.refused(data, "words/bin: expected a data-bin with the words of train.en-de.en, found .*train.de-en.en")

    def test_a_parse_of_shorter_words(self, data):
        rows = [f"{i}\t{word}\t_\t_\t_\t_\t{i - 1}\t_\t_\t_\n" for i, word in enumerate(["the", "in", "crease"], 1)]
        binarizing.write(data / "words", text="the increase\n", trees=None, conllu="".join(rows) + "\n")
        (data / "words/train.en.trees").unlink()
        binarizing.run(data / "words", "--subwords=words")
        self.refused(data, "train: expected no word of a parse inside another word of the text, found 1: make this")
        trees, conllu = "(S (X the) (X in) (X crease))\n", rows[0] + rows[1].replace("in", "increase")
        binarizing.write(data / "words", text="the increase\n", trees=trees, conllu=conllu + "\n")
        binarizing.run(data / "words", "--subwords=words")
        self.refused(data, "train: expected no word of a parse inside another word of the text, found 1: make this")

    def test_options_of_parses(self, data):
        words = f"--word-features={data}/words/bin"
        found = r"expected the parses and settings of .*words/bin, found --features, --control"
        self.refused(data, found, words, "--features=word", "--control=flat")
        self.refused(data, "found --trainparse", words, f"--trainparse={data}/train")

    def test_labels_of_other_splits(self, data):
        binarizing.write(data, "valid", conllu=binarizing.CONLLU.replace("\t_\t_\t2\t_", "\tX\t_\t2\tx"))
        binarizing.run(data, name="valid")
        self.refused(data, "words/bin/syntax.en-de.en.json: expected the labels of .* numbered as in .*bin/syntax")

    def test_words_that_changed(self, data):
        binarizing.run(data, f"--word-features={data}/words/bin")
        text = DataBins((str(data / "bin"),), ("en", "de"))
        assert load_features(text, "train", ["head"])["head"][0].tolist() == [2, 0, 0, 4, 2, 4, 0]
        assert load_features(text, "train", ["distance"])["distance"][2].tolist() == []
        binarizing.run(data / "words", "--subwords=words", "--control=flat")
        with pytest.raises(InputError, match=r"words/bin/train.en-de.en.head.bin: expected .* of the signature"):
            load_features(text, "train", ["head"])
        shutil.rmtree(data / "words")
        with pytest.raises(FileNotFoundError, match=r"features of words, .*words/bin/train.en-de.en.head.\{bin,idx\}"):
            load_features(text, "train", ["head"])

    def test_a_folder_that_is_none(self, data):
        binarizing.run(data, f"--word-features={data}/words/bin")
        path = data / "bin/syntax.en-de.en.json"
        signed = json.loads(path.read_text())
        signed["splits"]["train"]["words"] = 3
        path.write_text(json.dumps(signed))
        with pytest.raises(InputError, match="'words': 3 in train"):
            Signature.read(str(path))
