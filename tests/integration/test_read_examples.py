"""New text for RoBERTa with syntax: a model reads it as the same lines in a data folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from fairseq.data.encoders import gpt2_bpe

import commands
import example_bins
from fairseq_syntax.inference.examples import encoder
from fairseq_syntax.inference.hub import SentenceTooLong
from fairseq_syntax.models.roberta import SyntaxRobertaModel
from syntax_data.commands import binarize, parse
from syntax_data.errors import InputError
from syntax_data.text.subwords.byte_level import LETTERS
from tiers import others_nightly

LINES = [
    ["A café fell. It rose!", "", "the cat sat", "Ça alla à la fin .", "one"],
    ["It is so", "a cat", "two words here", "no", ""],
    ["the end", "it fell and fell and fell", "a", "so it is", "yes"],
]
SIZES = ["--encoder-layers=1", "--encoder-embed-dim=16", "--encoder-ffn-embed-dim=16", "--encoder-attention-heads=2"]
TOKENS = ["--init-token=0", "--separator-token=2", "--max-positions=40"]
PREDICTION = ["--task=syntax_sentence_prediction", "--criterion=sentence_prediction", *TOKENS, "--num-classes=2"]
RANKING = ["--task=syntax_sentence_ranking", "--criterion=sentence_ranking", *TOKENS, "--num-classes=2"]
LM = ["--task=syntax_masked_lm", "--criterion=masked_lm", "--sample-break-mode=eos", "--tokens-per-sample=40"]
#: By name: number of texts, subwords, options of the model.
SYSTEMS = {
    "pairs": (2, "gpt2", [*PREDICTION, "--arch=seprem_roberta"]),
    "truncated pairs": (2, "gpt2", [*PREDICTION, "--arch=gated_syntax_roberta", "--truncate-to=14"]),
    "sentences": (1, "words", [*PREDICTION, "--arch=sg_net_roberta"]),
    "marked": (1, "gpt2", [*PREDICTION, "--arch=seprem_roberta", "--pooling=markers", "--markers=m0,m1"]),
    "no syntax": (2, "words", [*PREDICTION, "--arch=relative_position_roberta"]),
    "options": (3, "gpt2", [*RANKING, "--arch=pos_roberta", "--max-option-length=9"]),
    "options last": (3, "words", [*RANKING, "--arch=sla_roberta", "--context-first", "--max-option-length=3"]),
    "masked lm": (0, "words", [*LM, "--arch=sg_net_roberta"]),
}
ORDINARY = {"pairs", "marked", "options last"}  # the others run nightly
HEAD = "sentence_classification_head"


def gpt2(folder: Path) -> dict[str, str]:
    """Write GPT-2's subwords with a few merges; the options of fairseq."""
    letters = [*LETTERS, "Ġc", "Ġca", "it", "Ġf"]
    (folder / "encoder.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
    (folder / "vocab.bpe").write_text("#version: 0.2\nĠ c\nĠc a\ni t\nĠ f\n", encoding="utf-8")
    return {"gpt2_encoder_json": f"{folder}/encoder.json", "gpt2_vocab_bpe": f"{folder}/vocab.bpe"}


def make_text(folder: Path, lines: list[str], subwords: str, markers: list[str]) -> None:
    """Parse and binarize text as a user does; markers are not parsed."""
    raw = folder.parent / f"raw-{folder.name}"
    raw.mkdir(parents=True)
    text, pieces = raw / "text", raw / "text.bpe"
    unmarked = (" ".join(word for word in line.split() if word not in markers) for line in lines)
    text.write_text("".join(f"{line}\n" for line in unmarked), encoding="utf-8")
    parse.main(["--input", str(text), "--parser", "fake"])
    encode, more = str, ["--markers", ",".join(markers)] if markers else []
    if subwords == "gpt2":
        files = gpt2(raw)
        encode = encoder(gpt2_bpe.GPT2BPE(gpt2_bpe.GPT2BPEConfig(**files)), markers)
        more += ["--gpt2-encoder-json", files["gpt2_encoder_json"]]
    pieces.write_text("".join(f"{encode(line)}\n" for line in lines), encoding="utf-8")
    known = "".join(f"{symbol} 1\n" for symbol in (*range(260), "m0", "m1")) if subwords == "gpt2" else _words()
    (raw / "dict.txt").write_text(known, encoding="utf-8")
    prefixes = [f"--{split}pref={pieces}" for split in ("train", "valid")]
    commands.preprocess_texts(*prefixes, f"--srcdict={raw}/dict.txt", f"--destdir={folder}", "--workers=1")
    parses = [f"--{split}parse={text}" for split in ("train", "valid")]
    binarize.main(["--only-source", *prefixes, *parses, f"--destdir={folder}", "--subwords", subwords, *more])


def _words() -> str:
    words = dict.fromkeys(word for lines in LINES for line in lines for word in line.split())
    return "".join(f"{word} 1\n" for word in words)


@pytest.fixture(params=others_nightly(SYSTEMS, ORDINARY))
def trained(request, fake_parser, tmp_path):
    """The arguments of from_pretrained for a system, and the lines of its texts."""
    number, subwords, model = SYSTEMS[request.param]
    data = tmp_path / "data"
    markers = ["m0", "m1"] if request.param == "marked" else []
    texts = [
        [f"m0 {line or 'it'} m0 fell m1" for line in lines] if markers else lines for lines in LINES[: number or 1]
    ]
    for i, lines in enumerate(texts):
        make_text(data / f"input{i}" if number else data, lines, subwords, markers)
    for split in ("train", "valid") if number else ():
        example_bins.tokens(data / "label", split, ["no", "yes", "no", "no", "yes"], ["no", "yes"])
        (data / f"label/{split}.label").write_text("0\n1\n1\n0\n0\n")
    commands.train(data, tmp_path, *SIZES, *model, "--max-update=3", "--no-epoch-checkpoints", model=[])
    files = gpt2(tmp_path) if subwords == "gpt2" else {}
    return (str(tmp_path), "checkpoint_last.pt", str(data)), files, texts


def test_new_text_has_the_outputs_of_the_same_lines_in_the_data(trained):
    given, files, texts = trained
    model = SyntaxRobertaModel.from_pretrained(*given, **files).eval()
    model.task.load_dataset("valid")
    dataset = model.task.dataset("valid")
    samples = [dataset.collater([dataset[i]]) for i in range(5)]
    options = {f"net_input{k}": [texts[0], texts[k]] for k in (1, 2)} if len(texts) == 3 else {"net_input": texts}
    for name, of_option in options.items():
        examples = [model.read(*lines, truncate=True) for lines in zip(*of_option, strict=True)]
        inputs = [sample[name] for sample in samples]
        for example, of_input in zip(examples, inputs, strict=True):
            tokens, syntax = of_input["src_tokens"][0], of_input.get("src_syntax", {})
            masked = tokens != example.tokens
            assert not masked.any() or HEAD not in model.model.classification_heads
            for feature, values in syntax.items():
                assert torch.equal(values[0], example.features[feature]) or not len(example.features[feature])
        states = model.extract_features(examples)
        assert states.shape == (5, max(map(len, examples)), 16)
        if HEAD in model.model.classification_heads:
            with torch.no_grad():
                expected = torch.cat([model.model(**of, classification_head_name=HEAD)[0] for of in inputs])
                torch.testing.assert_close(model.predict(HEAD, examples, return_logits=True), expected)
                torch.testing.assert_close(model.predict(HEAD, examples[3], return_logits=True), expected[3:4])
                of_classes = expected if expected.shape[1] == 1 else expected.log_softmax(dim=1)
                torch.testing.assert_close(model.predict(HEAD, examples), of_classes)
    with pytest.raises(ValueError, match=r"expected a head of the model .*, found 'other'"):
        model.predict("other", examples)
    with pytest.raises(ValueError, match="expected examples, as read"):
        model.extract_features([])


@pytest.mark.parametrize("trained", ["pairs", "no syntax"], indirect=True)
def test_what_is_no_example_is_refused(trained):
    given, files, _ = trained
    model = SyntaxRobertaModel.from_pretrained(*given, **files).eval()
    with pytest.raises(ValueError, match="expected 2 sentences, as the model's examples have, found 1"):
        model.read("one")
    with pytest.raises(ValueError, match="sentence 2: expected one line of text, found a line break"):
        model.read("one", "two\nthree")
    with pytest.raises(SentenceTooLong, match=r"at most 40 tokens with <s> and </s>, found \d+ \(truncate=True cuts"):
        model.read("one", "it " * 40)
    assert len(model.read("one", "it " * 40, truncate=True)) == 40
    if model.model.syntax_features:
        with pytest.raises(ValueError, match="token ids have none: read"):
            model.encode("one", "two")
        assert model.read("FAIL", "it").without_parse == {"failed": 1}
        plain = SyntaxRobertaModel.from_pretrained(*given, **files, parser="none").read("the cat", "it fell")
        assert not len(plain.features["head"])
    folder, name, data = given
    for arguments, more, error, message in (
        (given, {"parser_modles": "x"}, TypeError, "parser_modles: "),
        (given, {"bpe": "gpt3"}, ValueError, "bpe: expected one of"),
        ((folder, "x.pt", data), {}, InputError, r"x\.pt: expected a checkpoint, found no file"),
        ((folder, f"{name}:{name}", data), {}, InputError, "expected one model of syntax_roberta, found several"),
    ):
        with pytest.raises(error, match=message):
            SyntaxRobertaModel.from_pretrained(*arguments, **files, **more)


def test_markers_stay_whole_between_subwords(tmp_path):
    bpe = gpt2_bpe.GPT2BPE(gpt2_bpe.GPT2BPEConfig(**gpt2(tmp_path)))
    encode = encoder(bpe, {"m0", "m1"})
    assert encode("m0 cat m0 fell m1 it m1") == " ".join(
        ["m0", bpe.encode(" cat"), "m0", bpe.encode(" fell"), "m1", bpe.encode(" it"), "m1"]
    )
    assert encoder(None, {"m0"})("m0 cat") == "m0 cat"
