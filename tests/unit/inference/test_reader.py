"""New text is read with the labels that the training data had."""

from __future__ import annotations

import logging

import pytest
from fairseq.data import Dictionary

from fairseq_syntax.data.training_record import DataBins
from fairseq_syntax.inference.parse_sources import WithoutParses
from fairseq_syntax.inference.reader import NewTextOptions, SourceReader, source_reader
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from syntax_data.data_bin.signature import Signature
from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings


def config(folder, **options) -> SyntaxTranslationConfig:
    return SyntaxTranslationConfig(data=str(folder), source_lang="en", target_lang="de", **options)


@pytest.mark.parametrize("labels", [None, {}, {"deprel": ["</s>"]}, {"deprel": ["</s>", "_"]}])
def test_labels_that_the_signature_lacks_are_an_error(tmp_path, labels):
    path, signed = tmp_path / "syntax.en-de.en.json", labels is not None
    if signed:
        Signature(labels={"upos": ["</s>", "X"], **labels}).write(str(path))
    (tmp_path / "x.conllu").write_text("1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n")
    made = config(tmp_path, input_parses=f"{tmp_path}/x")
    with pytest.raises(
        ValueError, match=f"{path if signed else tmp_path}: expected a signature with the labels of dep"
    ):
        source_reader(made, ["word", "case", "deprel"])
    source_reader(made, ["word", "case", "upos"] if signed else ["word", "case"])
    source_reader(config(tmp_path, parser="none"), ["deprel"])  # without parses there is nothing to number


@pytest.mark.parametrize(
    ("given", "texts", "path"),
    [(config, [], "syntax.en-de.en.json"), (NewTextOptions, ["input0", "input1"], "input0/syntax.json")],
)
def test_a_folder_without_a_signature(tmp_path, caplog, given, texts, path):
    texts = [DataBins((f"{tmp_path}/{name}",)) for name in texts]
    message = f"{tmp_path}/{path}: expected the signature of the training data, which records its parser and its "
    with pytest.raises(InputError, match=f"^{message}subwords, found none: give the folder of the training data, or"):
        source_reader(given(str(tmp_path)), ["head"], texts)
    source_reader(given(str(tmp_path)), [], texts)
    source_reader(given(str(tmp_path), parser="none"), ["head"], texts)
    found = [record.getMessage() for record in caplog.records if "found none" in record.getMessage()]
    assert found == [f"{message}subwords, found none: subwords are taken for subword_nmt's"] * 2


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(["▁a ▁b"], 1), (["a", "▁a", "▁b ▁c"], None), (["", "▁a", "▁b"], 2), (["▁▂▃ a"], None), (["<BT> ▁a ▁b"], 1)],
)
def test_marks_of_sentencepiece_are_mentioned_where_there_should_be_none(caplog, lines, expected):
    reader = SourceReader(WithoutParses(), Settings("words", symbols="<BT>"), ["word"], {})
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        batch = reader.read(lines, lines, Dictionary())
    assert len(batch.tokens) == len(lines)
    said = [f"line {expected}: expected no marks of sentencepiece"] if expected else []
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == said
