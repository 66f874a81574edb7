"""Wrong arguments of from_pretrained are errors that name them."""

from __future__ import annotations

import shutil

import pytest
from fairseq.tasks.translation import TranslationConfig

import commands
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.errors import InputError

load = SyntaxTransformerModel.from_pretrained


def test_folders_and_files_that_are_not_there(trained, tmp_path):
    folder, data, name = str(trained.checkpoint.parent), str(trained.data), trained.checkpoint.name
    checkpoint, codes, gone = str(trained.checkpoint), str(trained.codes), str(tmp_path / "gone")
    for given, path, expected in (
        ((gone, name, data), gone, "expected a folder of checkpoints, found nothing"),
        ((checkpoint, name, data), checkpoint, "expected a folder of checkpoints, found a file"),
        ((folder, f"{name}:best.pt", data), f"{folder}/best.pt", "expected a checkpoint, found no file"),
        ((folder, name, gone), gone, "expected a data-bin, found nothing"),
        ((folder, name, codes), codes, "expected a data-bin, found a file"),
        ((folder, name, "./gone"), f"{folder}/./gone", "expected a data-bin, found nothing"),
    ):
        with pytest.raises(InputError) as caught:
            load(*given)
        assert str(caught.value) == f"{path}: {expected}"
    with pytest.raises(FileNotFoundError, match=r"dict\.src\.txt"):
        load(folder, name, str(tmp_path), source_lang="src", target_lang="tgt")
    with pytest.raises(FileNotFoundError, match=r"dict\.src\.txt"):
        commands.generate_log(tmp_path, trained.checkpoint, more=("--source-lang=src", "--target-lang=tgt"))


def test_a_model_of_another_task(trained, tmp_path):
    def as_of_fairseqs_task(state):
        task = state["cfg"]["task"]
        stock = {name: task[name] for name in TranslationConfig.__dataclass_fields__ if name in task}
        state["cfg"]["task"] = {**stock, "_name": "translation"}

    commands.edited(trained.checkpoint, tmp_path / "x.pt", as_of_fairseqs_task)
    with pytest.raises(InputError, match=r"x\.pt: expected a model of --task syntax_translation, found one of Transl"):
        load(str(tmp_path), "x.pt", str(trained.data))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"parser_modles": "models"}, TypeError, "parser_modles: "),
        ({"bpe": "subword_nmt", "bpe_code": "codes"}, TypeError, "bpe_code: "),
        ({"bpe_codes": "codes"}, TypeError, "bpe_codes: "),  # of no bpe
        ({"data": "data-bin"}, TypeError, "data: "),
        ({"tokenizer": "mosses"}, ValueError, "tokenizer: expected one of .*, found 'mosses'"),
        ({"bpe": "mosses"}, ValueError, "bpe: expected one of .*, found 'mosses'"),
    ],
)
def test_options_that_nothing_has(trained, options, error, message):
    with pytest.raises(error, match=message):
        load(str(trained.checkpoint.parent), trained.checkpoint.name, str(trained.data), **options)


def test_options_of_all_kinds(trained, tmp_path):
    shutil.copy(trained.checkpoint, tmp_path)
    (tmp_path / "bpecodes").write_text("#version: 0.2\n")  # which fairseq prefers to those that are given
    model = load(
        str(tmp_path), trained.checkpoint.name, str(trained.data), bpe="subword_nmt", bpe_codes=str(trained.codes),
        bpe_separator="@@", tokenizer="moses", moses_no_escape=True, max_tokens=500, beam=3,
        syntax_attention_impl="reference", parser="none", parser_models="models", source_lang="src",
        generation_args={"beam": 7},
    )  # fmt: skip
    assert (model.cfg.dataset.max_tokens, model.cfg.generation.beam, model.task.cfg.parser) == (500, 7, "none")
    assert model.tokenizer.cfg.moses_no_escape
    assert [a.implementation for a in model.models[0].syntax_attentions.values()] == ["reference"] * 2
    assert model.apply_bpe(trained.lines[0]) == trained.subwords[0]
