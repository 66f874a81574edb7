"""What from_pretrained is given wrongly, it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig

import commands
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.errors import InputError

load = SyntaxTransformerModel.from_pretrained


@pytest.fixture
def folder(trained) -> str:
    return str(trained.checkpoint.parent)


def test_folders_and_files_that_are_not_there(trained, folder, tmp_path):
    data, name = str(trained.data), trained.checkpoint.name
    gone = str(tmp_path / "gone")
    for given, path, expected in (
        ((gone, name, data), gone, "expected a folder of checkpoints, found nothing"),
        (
            (str(trained.checkpoint), name, data),
            str(trained.checkpoint),
            "expected a folder of checkpoints, found a file",
        ),
        ((folder, "best.pt", data), f"{folder}/best.pt", "expected a checkpoint, found no file"),
        ((folder, f"{name}:best.pt", data), f"{folder}/best.pt", "expected a checkpoint, found no file"),
        ((folder, name, gone), gone, "expected a data-bin, found nothing"),
        ((folder, name, str(trained.codes)), str(trained.codes), "expected a data-bin, found a file"),
        ((folder, name, str(tmp_path)), str(tmp_path), "expected a data-bin (or --source-lang and --target-lang)"),
        ((folder, name), folder, "expected a data-bin (or --source-lang and --target-lang), found no binary files"),
        ((folder, name, "./gone"), f"{folder}/gone", "expected a data-bin, found nothing"),
    ):
        with pytest.raises(InputError) as caught:
            load(*given)
        assert str(caught.value).startswith(f"{path}: {expected}"), given


def test_a_data_bin_without_the_dictionaries(trained, folder, tmp_path):
    languages = {"source_lang": "src", "target_lang": "tgt"}
    with pytest.raises(InputError, match=r"dict.src.txt: expected the dictionary of src, found no file$"):
        load(folder, trained.checkpoint.name, str(tmp_path), **languages)
    for language in ("de", "tgt"):
        shutil.copy(trained.data / "dict.tgt.txt", tmp_path / f"dict.{language}.txt")
    expected = r"dict.src.txt: expected the dictionary of src, found no file, but dict.de.txt, dict.tgt.txt"
    with pytest.raises(InputError, match=expected):
        load(folder, trained.checkpoint.name, str(tmp_path), **languages)
    with pytest.raises(InputError, match=expected):
        commands.generate_log(tmp_path, trained.checkpoint, more=("--source-lang=src", "--target-lang=tgt"))


def test_a_model_of_another_task(trained, tmp_path):
    state = torch.load(trained.checkpoint, weights_only=True)
    task = state["cfg"]["task"]
    stock = {name: task[name] for name in TranslationConfig.__dataclass_fields__ if name in task}
    state["cfg"]["task"] = {**stock, "_name": "translation"}
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"x\.pt: expected a model of --task syntax_translation, found one of Transl"):
        load(str(tmp_path), "x.pt", str(trained.data))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parser_modles": "models"}, "parser_modles: "),
        ({"bpe": "subword_nmt", "bpe_code": "codes"}, "bpe_code: "),
        ({"bpe_codes": "codes"}, "bpe_codes: "),  # of no bpe
        ({"bpe": "subword_nmt", "bpe_codes": "codes", "sentencepiece_model": "m"}, "sentencepiece_model: "),
        ({"data": "data-bin"}, "data: .*data_name_or_path"),
    ],
)
def test_options_that_nothing_has(trained, folder, options, message):
    with pytest.raises(TypeError, match=message):
        load(folder, trained.checkpoint.name, str(trained.data), **options)


def test_options_of_all_kinds(trained, folder):
    model = load(
        folder, trained.checkpoint.name, str(trained.data), bpe="subword_nmt", bpe_codes=str(trained.codes),
        bpe_separator="@@", tokenizer="moses", moses_no_escape=True, max_tokens=500, beam=3,
        syntax_attention_impl="reference", parser="none", parser_models="models", source_lang="src",
        generation_args={"beam": 7},
    )  # fmt: skip
    assert (model.cfg.dataset.max_tokens, model.cfg.generation.beam, model.task.cfg.parser) == (500, 7, "none")
    assert model.tokenizer.cfg.moses_no_escape
    assert [a.implementation for a in model.models[0].syntax_attentions.values()] == ["reference"] * 2


def test_a_tokenizer_that_there_is_not(trained, folder):
    for option in ("tokenizer", "bpe"):
        with pytest.raises(ValueError, match=f"{option}: expected one of .*, found 'mosses'"):
            load(folder, trained.checkpoint.name, str(trained.data), **{option: "mosses"})


def test_bpe_codes_are_those_that_are_given(trained, tmp_path):
    shutil.copy(trained.checkpoint, tmp_path)
    Path(tmp_path / "bpecodes").write_text("#version: 0.2\n")  # which fairseq prefers
    model = load(
        str(tmp_path), trained.checkpoint.name, str(trained.data), bpe="subword_nmt", bpe_codes=str(trained.codes)
    )
    assert model.apply_bpe(trained.lines[0]) == trained.subwords[0]
