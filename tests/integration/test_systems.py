"""Every system by fairseq's commands, from training to translations of new text."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from test_ways_to_train import assert_learns

import commands
from fairseq_syntax.commands.average_checkpoints import main as average
from fairseq_syntax.commands.dump import main as dump
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from places import ROOT
from syntax_data.errors import InputError
from systems import OF_POSITIONS, SUPERVISED, SYSTEMS
from tiers import others_nightly

LABELS = "tree_label_transformer"
#: But the gated one, which has tests of its own.
OTHERS = [*(system for system in SYSTEMS if system != "gated_syntax_transformer"), *OF_POSITIONS]
#: Systems that translate without a parse.
UNPARSED = ["lisa_transformer", "relative_position_transformer", "word_position_transformer"]

#: Syntax in the encoder, and in the decoder; the others run nightly, and in unit tests of every system.
ORDINARY = {LABELS, "tree_hmm_transformer"}

every_system = pytest.mark.parametrize("system", others_nightly(OTHERS, ORDINARY))


def architecture(system: str) -> list[str]:
    sizes = ["--encoder-embed-dim", "32", "--decoder-layers", "1"]
    shared = [] if system == "syntax_infused_transformer" else ["--share-decoder-input-output-embed"]
    more = ["--feature-embeddings=upos,deprel,category", "--tree-edge-dropout=0.1"] if system == LABELS else []
    return ["--arch", f"{system}_tiny", *sizes, *shared, *more]


def train(data: Path, folder: Path, system: str, *more: str, learns: bool = False, **kwargs) -> Path:
    """The last checkpoint."""
    criterion = ["--criterion=label_smoothed_cross_entropy_with_syntax"] if system in SUPERVISED else []
    trainer = commands.train(data, folder, *criterion, *more, model=architecture(system), **kwargs)
    if learns:
        assert_learns(trainer, folder)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def made(data_bin, tmp_path_factory):
    """The last checkpoint of a system after two epochs, made at the first use."""
    folder, found = tmp_path_factory.mktemp("systems"), {}

    def of(system: str) -> Path:
        if system not in found:
            found[system] = train(data_bin, folder / system, system, "--max-epoch=2", learns=True)
        return found[system]

    return of


@pytest.fixture(scope="module")
def stock(plain_data_bin, tmp_path_factory) -> Path:
    """A checkpoint of a stock Transformer, of the sizes of the systems."""
    folder = tmp_path_factory.mktemp("stock")
    sizes = [*architecture("gated_syntax_transformer")[2:], "--encoder-ffn-embed-dim=128", "--encoder-layers=2"]
    model = ["--arch=transformer", *sizes, "--encoder-attention-heads=4", "--decoder-attention-heads=4"]
    commands.train(plain_data_bin, folder, "--max-update=1", "--no-epoch-checkpoints", model=model)
    return folder / "checkpoint_last.pt"


@every_system
def test_it_translates_a_test_set_and_the_same_as_new_text(system, made, corpus, data_bin, tmp_path):
    path = made(system)
    expected = commands.generate_scored(data_bin, path)
    assert len(expected) == 24
    subwords = (corpus / "bpe/test.src").read_text().splitlines()
    side = () if system in UNPARSED else (f"--input-parses={corpus}/test.src",)
    new_text, _ = commands.interactive(subwords, data_bin, path, folder=tmp_path, more=("--remove-bpe", *side))
    commands.assert_same(new_text, expected)
    commands.validate(data_bin, path, "--valid-subset", "valid")
    bpe = {"bpe": "subword_nmt", "bpe_codes": str(corpus / "codes.src")}
    hub = SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data_bin), **bpe, parser="none")
    lines = (corpus / "test.src").read_text().splitlines()[:3]
    translated = hub.translate(lines, beam=2, max_len_b=20)
    assert len(translated) == 3
    if system in UNPARSED:
        assert translated == [expected[number][1] for number in range(3)]


@every_system
def test_checkpoints_average_and_translate_beside_stock_models(system, made, stock, data_bin, tmp_path):
    path = made(system)
    mean = tmp_path / "mean.pt"
    average(["--inputs", str(path.parent), "--num-epoch-checkpoints", "2", "--output", str(mean)])
    one, two = (commands.parameters(path.parent / f"checkpoint{epoch}.pt") for epoch in (1, 2))
    for name, weight in commands.parameters(mean).items():
        torch.testing.assert_close(weight, (one[name] + two[name]) / 2)
    reference = ("--score-reference",)
    scores = [commands.generate_scored(data_bin, path, more=reference) for path in (mean, stock)]
    together = commands.generate_scored(data_bin, mean, stock, more=reference)
    for number, (score, _) in together.items():  # a mean of probabilities lies between them
        assert min(of_one[number][0] for of_one in scores) - 1e-4 < score
        assert score != pytest.approx(scores[0][number][0], abs=1e-6)


@every_system
def test_a_training_goes_on_with_the_same_bits(system, made, data_bin, tmp_path):
    path = made(system)
    on = train(data_bin, tmp_path, system, "--max-epoch=2", f"--restore-file={path.parent}/checkpoint1.pt")
    whole, resumed = commands.parameters(path), commands.parameters(on)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


WAYS = {
    "fp16": ["--checkpoint-activations", "--truncate-source", "--max-source-positions=6"],
    "amp": ["--store-ema", "--ema-fp32"],
}


@every_system
def test_it_trains_in_half_precision(system, data_bin, tmp_path, half_precision):
    way = [*WAYS][OTHERS.index(system) % 2]
    path = train(data_bin, tmp_path, system, "--max-update=2", f"--{way}", *WAYS[way], cpu=not half_precision)
    assert all(weight.isfinite().all() for weight in commands.parameters(path).values())


@every_system
def test_what_it_attends_to_is_dumped(system, made, data_bin, tmp_path):
    options = ["--path", str(made(system)), "--cpu", "--output", str(tmp_path / "x.npz"), "--batch-size", "7"]
    dump([str(data_bin), *options])
    found = np.load(tmp_path / "x.npz")
    n = len(found["3/tokens"])
    both = {"sla_transformer", "syntax_infused_transformer", "seprem_transformer", *OF_POSITIONS}
    layers = [3] if system == "sg_net_transformer" else [1, 2] if system in both else [1]
    assert found["layers"].tolist() == layers
    attention = found["3/attention"]
    assert attention.shape == (len(layers), 4, n, n)
    np.testing.assert_allclose(attention.sum(axis=-1), 1, rtol=1e-4)
    with_masks = {"distance_transformer", "pascal_transformer", "sla_transformer", "sg_net_transformer"}
    assert ("3/masks" in found.files) == (system in with_masks)
    assert ("3/gates" in found.files) == (system == "sla_transformer")
    assert ("3/biases" in found.files) == (system in OF_POSITIONS)
    if system in OF_POSITIONS:
        of_trees = {
            "tree_bias_transformer": ["tree_height", "tree_path"],
            "word_position_transformer": ["word"],
            LABELS: ["tree_edge", "tree_height", "tree_path"],
        }
        assert found["biases"].tolist() == [*of_trees.get(system, []), "position_bias"]
        table = commands.parameters(made(system))["encoder.layers.1.self_attn.position_bias.weight"]
        of_position = found["3/biases"][1, -1]
        np.testing.assert_allclose(of_position[:, 2, 4], table[:, 24], rtol=1e-6)  # two to the right
        np.testing.assert_allclose(of_position[:, 4, 0], table[:, 18], rtol=1e-6)  # four to the left


def test_a_position_bias_alone_needs_no_features_and_no_parser(
    made, corpus, plain_data_bin, data_bin, tmp_path, monkeypatch
):
    train(plain_data_bin, tmp_path, "relative_position_transformer", "--max-update=1")
    path = made("relative_position_transformer")
    expected = commands.generate_scored(data_bin, path)
    commands.assert_same(commands.generate_scored(plain_data_bin, path), expected)
    subwords = (corpus / "bpe/test.src").read_text().splitlines()
    new_text, _ = commands.interactive(subwords, plain_data_bin, path, folder=tmp_path, more=("--remove-bpe",))
    commands.assert_same(new_text, expected)
    bpe = {"bpe": "subword_nmt", "bpe_codes": str(corpus / "codes.src")}
    hub = SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(plain_data_bin), **bpe)
    tokens = hub.read((corpus / "test.src").read_text().splitlines()[:2])
    for seen, ids in zip(hub.analyse(tokens), tokens, strict=True):
        assert {name: array.shape[-1] for name, array in seen.items()} == {"biases": len(ids), "attention": len(ids)}
    monkeypatch.syspath_prepend(ROOT / "examples/serve")
    import serve

    with pytest.raises(SystemExit, match="expected a model that reads parses or words"):
        serve.main([str(plain_data_bin), "--path", str(path), "--cpu"])


#: Systems that have all weights of a stock Transformer, and the names of those that are added.
ADDED = {
    "gated_syntax_transformer": r"\.self_attn\.gate\.",
    "relative_position_transformer": "position_bias",
    "tree_hmm_transformer": r"position_bias|decoder\.tree_hmm",
    **dict.fromkeys(["sg_net_transformer", "syntax_infused_transformer", "seprem_transformer"]),
}


@pytest.mark.parametrize(("system", "added"), others_nightly(ADDED.items(), [*ADDED.items()][:3]))
def test_a_stock_transformer_becomes_one(system, added, stock, data_bin, tmp_path, caplog):
    start = ["--max-update=1", f"--finetune-from-model={stock}"]
    if system == "syntax_infused_transformer":
        start += ["--feature-merge=sum", "--share-decoder-input-output-embed"]
    with caplog.at_level(logging.INFO):
        path = train(data_bin, tmp_path, system, "--lr=1e-12", *start)
    before, after = commands.parameters(stock), commands.parameters(path)
    assert before.keys() <= after.keys()
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=1e-6, rtol=0)
    if added:
        assert all(re.search(added, name) for name in after.keys() - before.keys())
        fresh = [message for message in caplog.messages if "start fresh" in message]
        assert fresh
        assert all(re.search(added, message) for message in fresh)


@pytest.mark.parametrize("system", SUPERVISED)
def test_under_the_stock_criterion_it_trains_unsupervised(system, plain_data_bin, data_bin, tmp_path, caplog):
    data = plain_data_bin if system == "lisa_transformer" else data_bin  # which needs no parses at all then
    commands.train(data, tmp_path, "--max-update=1", model=architecture(system))
    warnings = [record.message for record in caplog.records if "without supervision" in record.message]
    assert len(warnings) == 1


@pytest.mark.parametrize("system", SUPERVISED)
def test_auxiliary_losses_are_logged_and_do_not_choose_the_best_checkpoint(system, data_bin, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    train(data_bin, tmp_path, system, "--max-epoch=1", "--log-format=json")
    logs = [json.loads(r.message) for r in caplog.records if r.name == "valid" and r.message.startswith("{")]
    assert float(logs[-1]["valid_parent_loss"]) > 0
    assert 0 <= float(logs[-1]["valid_parent_accuracy"]) <= 100
    training = [json.loads(r.message) for r in caplog.records if r.name == "train" and r.message.startswith("{")]
    assert ("train_distance_loss" in training[-1]) == (system == "seprem_transformer")
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    assert state["extra_state"]["val_loss"] == pytest.approx(float(logs[-1]["valid_loss"]), abs=1e-3)


def test_heads_are_needed_where_they_are_taught_and_not_where_they_are_scored(corpus, plain_data_bin, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(FileNotFoundError, match=r"train\.src-tgt\.src\.head"):
        train(plain_data_bin, tmp_path / "none", "lisa_transformer", "--max-update=1")
    data = commands.copy(plain_data_bin, tmp_path / "data")
    commands.binarize_parses(f"--trainpref={corpus}/bpe/train", f"--trainparse={corpus}/train", f"--destdir={data}")
    train(data, tmp_path / "run", "lisa_transformer", "--max-update=1")
    assert "valid: predictions of parses are not scored" in caplog.text


@pytest.mark.parametrize(
    ("system", "feature", "column", "others"),
    [
        ("syntax_infused_transformer", "upos", 3, "case,position"),
        (LABELS, "deprel", 7, "word,head,distance,upos,category"),
    ],
)
def test_labels_of_another_data_bin_are_found_by_name_and_unknown_ones_are_counted(
    system, feature, column, others, made, corpus, data_bin, plain_data_bin, tmp_path, caplog
):
    path = made(system)
    expected = commands.generate_scored(data_bin, path)
    shutil.copy(corpus / "test.src.trees", tmp_path)
    # The first sentence has a label of its own, so that all others have other numbers.
    rows = (corpus / "test.src.conllu").read_text().split("\n")
    first = next(i for i, row in enumerate(rows) if row[:1].isdigit())
    fields = rows[first].split("\t")
    rows[first] = "\t".join([*fields[:column], "NEW", *fields[column + 1 :]])
    (tmp_path / "test.src.conllu").write_text("\n".join(rows))
    data = commands.copy(plain_data_bin, tmp_path / "data")
    test = f"--testpref={corpus}/bpe/test", f"--testparse={tmp_path}/test", f"--features={feature},{others}"
    commands.binarize_parses(*test, f"--destdir={data}")
    labels = [json.loads((d / "syntax.src-tgt.src.json").read_text())["labels"][feature] for d in (data_bin, data)]
    assert labels[0] != labels[1]
    found = commands.generate_scored(data, path)
    assert f"test: subwords with a label of {feature} that the model does not know: NEW (" in caplog.text
    differing = [number for number in expected if abs(found[number][0] - expected[number][0]) > 1e-4]
    assert differing in ([], [0])


def test_a_training_does_not_go_on_with_labels_of_edges_in_another_order(made, data_bin, tmp_path):
    path = made(LABELS)
    end, *labels = torch.load(path, weights_only=True)["cfg"]["model"].deprel_labels.split()
    other = f"--deprel-labels={' '.join([end, *reversed(labels)])}"
    with pytest.raises(InputError, match=rf"--deprel-labels: expected {end} {' '.join(labels)}, as this training"):
        train(data_bin, tmp_path, LABELS, "--max-epoch=3", f"--restore-file={path}", other)


def without_first_layer(path: Path, to: Path, syntax_layers: str | None) -> Path:
    """A checkpoint of three encoder layers less the first."""
    state = torch.load(path, weights_only=True)

    def moved(name: str) -> str:
        return re.sub(r"^(encoder\..*layers\.)(\d)", lambda match: match[1] + str(int(match[2]) - 1), name)

    first = re.compile(r"encoder\..*layers\.0\.")
    state["model"] = {moved(name): weight for name, weight in state["model"].items() if not first.match(name)}
    state["cfg"]["model"].encoder_layers = 2
    state["cfg"]["model"].syntax_layers = syntax_layers
    torch.save(state, to)
    return to


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("system", "layers", "left"),
    [
        ("seprem_transformer", [], None),
        ("sg_net_transformer", ["--syntax-layers=top"], "top"),
        ("gated_syntax_transformer", ["--syntax-layers=2"], "1"),
        ("gated_syntax_transformer", ["--syntax-layers=2", "--syntax-combination=pure"], "1"),
    ],
    ids=str,
)
def test_pruning_leaves_syntax_in_the_layers_that_were_trained_so(system, layers, left, data_bin, tmp_path, caplog):
    size = ["--encoder-layers=3", *layers]
    full = train(data_bin, tmp_path / "full", system, "--max-update=3", *size)
    expected = commands.generate_scored(data_bin, without_first_layer(full, tmp_path / "hand.pt", left))
    pruned = ("--model-overrides", "{'encoder_layers_to_keep': '1,2'}")
    assert commands.generate_scored(data_bin, full, more=pruned) == expected
    assert commands.generate_scored(data_bin, full) != expected
    if left != "1":
        return
    assert "start fresh" not in caplog.text
    prune = ["--encoder-layers-to-keep=1,2", f"--finetune-from-model={full}", "--max-update=1", "--lr=1e-12"]
    tuned = train(data_bin, tmp_path / "pruned", system, *size, *prune)
    assert "these weights were trained" not in caplog.text
    commands.assert_same(commands.generate_scored(data_bin, tuned), expected)
    smaller = ["--encoder-layers=2", "--syntax-layers=1", *layers[1:]]
    train(data_bin, tmp_path / "pruned", system, "--max-update=2", *smaller)  # goes on
    with pytest.raises(ValueError, match=r"--encoder-layers-to-keep: expected one of .*from 0, 1\), found 0,2"):
        commands.generate(data_bin, full, more=("--model-overrides", "{'encoder_layers_to_keep': '0,2'}"))
