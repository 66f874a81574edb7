"""A converted BERT is the same function of the same text."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from torch.nn import functional

import convert_bert
import fairseq_syntax  # noqa: F401  (safe loading)
from syntax_experiments.corpora.wordpiece import SPECIAL, encode, read_vocabulary

BERT = os.environ.get("FAIRSEQ_SYNTAX_BERT")
SYMBOLS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "run", "."]
SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "max_position_embeddings": 16,
}


def parameter_shapes(prefix="bert.", *, lm_head=True):
    """Shapes of BERT's tensors, named as in its file."""
    d, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    shapes = {
        f"embeddings.{name}_embeddings.weight": (rows, d)
        for name, rows in (("word", len(SYMBOLS)), ("position", 16), ("token_type", 2))
    }
    modules = {"embeddings.LayerNorm": (d,), "pooler.dense": (d, d)}
    for i in range(SIZES["num_hidden_layers"]):
        modules |= {f"encoder.layer.{i}.attention.self.{name}": (d, d) for name in ("query", "key", "value")}
        modules |= {f"encoder.layer.{i}.{name}.dense": (d, d) for name in ("attention.output",)}
        modules |= {f"encoder.layer.{i}.{name}.LayerNorm": (d,) for name in ("attention.output", "output")}
        modules |= {f"encoder.layer.{i}.intermediate.dense": (inner, d), f"encoder.layer.{i}.output.dense": (d, inner)}
    shapes = {f"{prefix}{name}": shape for name, shape in (shapes | with_bias(modules)).items()}
    if lm_head:
        shapes |= with_bias({f"cls.predictions.transform.{n}": s for n, s in (("dense", (d, d)), ("LayerNorm", (d,)))})
        shapes["cls.predictions.bias"] = (len(SYMBOLS),)
    return shapes


def with_bias(modules):
    return {f"{name}.{kind}": shape if kind == "weight" else shape[:1]
            for name, shape in modules.items() for kind in ("weight", "bias")}  # fmt: skip


def write_safetensors(path, tensors):
    header, content = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        data = tensor.numpy().tobytes()
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        content += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def make_bert(folder, *, config=(), symbols=SYMBOLS, **which):
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "bert", "layer_norm_eps": 1e-12, **SIZES, **dict(config)})
    )
    (folder / "vocab.txt").write_text("".join(f"{symbol}\n" for symbol in symbols))
    random = torch.Generator().manual_seed(1)
    shapes = parameter_shapes(**which)
    write_safetensors(folder / "model.safetensors", {n: torch.randn(s, generator=random) for n, s in shapes.items()})
    return folder


def bert(weights, config, tokens):
    """The states of BERT, and the logits of its masked-LM head if there is one, written from its paper."""
    weights = {name.removeprefix("bert."): tensor for name, tensor in weights.items()}
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]

    def linear(x, name):
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], eps)

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{layer}.attention.self.{name}").unflatten(1, (heads, -1)).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        attention = (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(-1) @ v
        x = norm(x + linear(attention.transpose(0, 1).flatten(1), f"{layer}.attention.output.dense"),
                 f"{layer}.attention.output.LayerNorm")  # fmt: skip
        inner = functional.gelu(linear(x, f"{layer}.intermediate.dense"))
        x = norm(x + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    if "cls.predictions.bias" not in weights:
        return x, None
    y = norm(functional.gelu(linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm")
    return x, functional.linear(y, weights["embeddings.word_embeddings.weight"], weights["cls.predictions.bias"])


def states_of_both(folder, output, subwords):
    """States and logits of a BERT and of its conversion; the logits in the order of fairseq's dictionary."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(output / "model.pt")], arg_overrides={"data": str(output)}
    )
    model.eval()
    dictionary, numbers = task.source_dictionary, read_vocabulary(str(folder / "vocab.txt"))
    inverse = {bert: fairseq for fairseq, bert in SPECIAL.items()}
    tokens = [dictionary.index(inverse.get(symbol, symbol)) for symbol in subwords]
    with torch.no_grad():
        found, _ = model(torch.tensor([tokens]), features_only=True)
        found_logits, _ = model(torch.tensor([tokens]))
        weights = convert_bert.read_safetensors(str(folder / "model.safetensors"))
        config = json.loads((folder / "config.json").read_text())
        expected, logits = bert(weights, config, torch.tensor([numbers[symbol] for symbol in subwords]))
    rows = [numbers[SPECIAL.get(symbol, symbol)] for symbol in dictionary.symbols]
    return found[0], expected, found_logits[0], None if logits is None else logits[:, rows]


@pytest.mark.parametrize("which", [{}, {"prefix": ""}, {"lm_head": False}], ids=["bert.", "no prefix", "no LM head"])
def test_states_and_logits_are_those_of_bert(tmp_path, capsys, which):
    folder = make_bert(tmp_path / "bert", **which)
    convert_bert.main([str(folder), "--output", str(tmp_path / "out")])
    subwords = ["[CLS]", "the", "dog", "##s", "[MASK]", "[UNK]", ".", "[SEP]"]
    found, expected, found_logits, logits = states_of_both(folder, tmp_path / "out", subwords)
    assert (found - expected).abs().max() < 1e-4
    if which.get("lm_head", True):
        assert (found_logits - logits).abs().max() < 1e-3  # of about 10
    report = capsys.readouterr().out
    assert "left out: pooler.dense.bias, pooler.dense.weight\n" in report
    assert ("new: nothing" in report) == which.get("lm_head", True)
    assert "--encoder-layers 2 --encoder-embed-dim 8" in report
    assert (tmp_path / "out/dict.txt").read_text() == "".join(f"{s} 1\n" for s in ["[unused0]", *SYMBOLS[6:]])


def test_names_and_types_of_other_files(tmp_path):
    """The first BERTs call a scale gamma; many files are of half precision."""
    tensors = {"bert.embeddings.LayerNorm.gamma": torch.tensor([1.5, -2.0])}
    write_safetensors(tmp_path / "one", tensors)
    weights = convert_bert.Weights(str(tmp_path / "one"))
    assert weights.rest() == ["embeddings.LayerNorm.weight"]
    half = {"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    text = json.dumps(half).encode()
    content = torch.tensor([1.5, -2.0], dtype=torch.bfloat16).view(torch.int16).numpy().tobytes()
    (tmp_path / "two").write_bytes(len(text).to_bytes(8, "little") + text + content)
    assert torch.equal(convert_bert.Weights(str(tmp_path / "two")).take("a"), tensors.popitem()[1])


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


BAD = {
    "another model": ({"config": {"model_type": "albert"}}, None, "config.json: expected model_type 'bert'"),
    "no size": ({"config": {"hidden_size": None}}, None, "config.json: expected an integer as hidden_size, found None"),
    "more layers": ({"config": {"num_hidden_layers": 3}}, None, "expected the tensor encoder.layer.2.attention"),
    "another size": ({"config": {"intermediate_size": 16}}, None, "expected the sizes of config.json, found"),
    "twice": ({"symbols": [*SYMBOLS, "dog"]}, None, "vocab.txt:12: expected a symbol of BERT, each once, found 'dog'"),
    "special": ({"symbols": [*SYMBOLS[:-1], "<s>"]}, None, "vocab.txt:11: expected a symbol of BERT"),
    "no mask": ({"symbols": [s for s in SYMBOLS if s != "[MASK]"]}, None, "vocab.txt: expected [MASK] in the"),
    "more words": ({"symbols": [*SYMBOLS, "cat"]}, None, "expected embeddings of the 12 lines of vocab.txt, found 11"),
    "cut off": ({}, cut, "model.safetensors: expected a whole safetensors file, found"),
}  # fmt: skip


@pytest.mark.parametrize(("which", "damage", "message"), BAD.values(), ids=BAD)
def test_refused(tmp_path, which, damage, message):
    folder = make_bert(tmp_path / "bert", **which)
    if damage:
        damage(folder / "model.safetensors")
    with pytest.raises(SystemExit) as end:
        convert_bert.main([str(folder), "--output", str(tmp_path / "out")])
    assert message in str(end.value)
    assert not (tmp_path / "out/model.pt").exists()


@pytest.mark.skipif(not BERT, reason="FAIRSEQ_SYNTAX_BERT is not set: no folder of a real BERT")
def test_a_real_bert(tmp_path):
    folder = Path(BERT or "")
    convert_bert.main([str(folder), "--output", str(tmp_path)])
    text = "Two dogs, which nobody had fed, were running through the old café on the mountain's side."
    subwords = ["[CLS]", *encode(text, read_vocabulary(str(folder / "vocab.txt")), cased=False).split(), "[SEP]"]
    found, expected, *_ = states_of_both(folder, tmp_path, subwords)
    assert (found - expected).abs().max() < 2e-3  # fairseq's layers have another ε
