"""fairseq-syntax-predict: what each task's models predict, by name, and comparisons."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

import pytest
import torch
from fairseq import checkpoint_utils

import commands
import data_bins
import example_bins
from fairseq_syntax.commands import dump
from fairseq_syntax.commands.predict import main
from syntax_data.scoring.classification import accuracy
from syntax_data.scoring.predictions import Predictions
from tiers import others_nightly

TOKENS = ["--init-token=0", "--separator-token=2", "--max-positions=32"]
SIZES = ["--encoder-layers=1", "--encoder-embed-dim=16", "--encoder-ffn-embed-dim=16", "--encoder-attention-heads=2"]
PREDICTION = ["--task=syntax_sentence_prediction", "--criterion=sentence_prediction", *TOKENS]
#: By kind of predictions: number of texts, and options of task, criterion and model.
KINDS = {
    "label": (2, [*PREDICTION, "--num-classes=2", "--arch=seprem_roberta"]),
    "marked": (1, [*PREDICTION, "--num-classes=2", "--arch=seprem_roberta", "--pooling=markers", "--markers=s,t"]),
    "label set": (1, [*PREDICTION, "--num-classes=2", "--arch=roberta", "--criterion=multi_label_prediction"]),
    "number": (2, [*PREDICTION, "--num-classes=1", "--regression-target", "--arch=pos_roberta"]),
    "option": (
        3, ["--task=syntax_sentence_ranking", "--criterion=sentence_ranking", *TOKENS, "--num-classes=2",
            "--arch=sg_net_roberta"],
    ),
}  # fmt: skip
NUMBER = 12


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The data folder and a checkpoint of each kind."""
    made: dict[str, tuple[Path, Path]] = {}

    def of(kind: str) -> tuple[Path, Path]:
        if kind not in made:
            folder = tmp_path_factory.mktemp("predict")
            inputs, options = KINDS[kind]
            data = example_bins.examples(folder / "data", inputs, number=NUMBER)
            if kind == "number":
                for split in ("train", "valid"):
                    numbers = "".join(f"{Random(i).random()}\n" for i in range(NUMBER))
                    (data / f"label/{split}.label").write_text(numbers)
            if kind == "marked":
                lines = [f"s {line} t a" for line in data_bins.sentences(NUMBER, words=4)]
                example_bins.text(data / "input0", {"train": lines, "valid": lines})
            if kind == "label set":
                sets = [["no"], ["yes"], ["yes", "no"], []] * (NUMBER // 4)
                for split in ("train", "valid"):
                    example_bins.tokens(data / "label", split, list(map(" ".join, sets)), ["no", "yes"])
            commands.train(data, folder, *SIZES, *options, "--max-epoch=3", "--no-epoch-checkpoints", model=[])
            made[kind] = data, folder / "checkpoint_last.pt"
        return made[kind]

    return of


def predict(data: Path, checkpoint: Path, output: Path, *more: str) -> Predictions:
    main([str(data), f"--path={checkpoint}", f"--output={output}", "--gen-subset=valid", "--cpu", *more])
    return Predictions.read(str(output), "label")


def gold(data: Path, kind: str) -> list[str]:
    """The right predictions, as a file has them."""
    if kind in ("number", "option"):
        lines = (data / "label/valid.label").read_text().split()
        return [f"{torch.tensor(float(line)).item():.7g}" for line in lines] if kind == "number" else lines
    random = Random(2)
    return [random.choice(["no", "yes"]) for _ in range(NUMBER)] if kind != "label set" else []


@pytest.mark.parametrize("kind", others_nightly(KINDS, {"label", "number", "option"}))
def test_predictions_are_those_of_each_example_alone(kind, trained, tmp_path, capsys):
    data, checkpoint = trained(kind)
    found = predict(data, checkpoint, tmp_path / "x.tsv", "--batch-size=5")
    printed = capsys.readouterr().out
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    task.build_criterion(cfg.criterion)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    rows = [line.split("\t") for line in (tmp_path / "x.tsv").read_text().splitlines()]
    logits = [name for name in rows[0] if name.startswith("logit ")]
    assert rows[0] == ["id", "prediction", "gold", *logits]
    names = [name.removeprefix("logit ") for name in logits]
    assert names == {"option": ["0", "1"], "number": []}.get(kind, ["no", "yes"])
    head = "sentence_classification_head"
    for i, (number, prediction, _, *written) in enumerate(rows[1:]):
        batch = dataset.collater([dataset[i]])
        inputs = [part for name, part in batch.items() if name.startswith("net_input")]
        with torch.no_grad():
            alone = [model.eval()(**of, features_only=True, classification_head_name=head)[0][0] for of in inputs]
        expected = torch.cat(alone).tolist()
        assert int(number) == i
        found_logits = map(float, written or prediction.split())
        assert list(found_logits) == pytest.approx(expected, abs=1e-5)
        if kind == "label set":
            assert prediction.split() == [name for name, x in zip(names, expected, strict=True) if x > 0]
        elif kind != "number":
            assert prediction == names[max(range(2), key=expected.__getitem__)]
    assert len(rows) == NUMBER + 1
    if right := gold(data, kind):
        assert list(found.gold.values()) == right
    else:
        assert list(found.gold.values()) == ["no", "yes", "no yes", ""] * (NUMBER // 4)
    assert f"{NUMBER} predictions of valid" in printed
    if kind != "number":
        share = accuracy(list(found.predicted.values()), list(found.gold.values()))
        assert f"{100 * share:.2f}" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["x.tsv"]


def test_labels_of_another_folder_are_found_by_name(trained, tmp_path):
    data, checkpoint = trained("label")
    expected = predict(data, checkpoint, tmp_path / "x.tsv")
    other = commands.copy(data, tmp_path / "other")
    example_bins.tokens(other / "label", "valid", gold(data, "label"), ["yes", "no"])
    assert predict(other, checkpoint, tmp_path / "y.tsv") == expected
    assert (tmp_path / "x.tsv").read_text() == (tmp_path / "y.tsv").read_text()
    (other / "label/dict.txt").unlink()
    assert re.search(
        r"label/valid: expected the names of its labels, found no .*label/dict\.txt",
        refused(other, f"--path={checkpoint}", f"--output={tmp_path}/y.tsv", "--gen-subset=valid"),
    )
    shutil.rmtree(other / "label")
    found = predict(other, checkpoint, tmp_path / "unlabelled.tsv")
    assert (found.predicted, found.gold) == (expected.predicted, None)
    with pytest.raises(FileNotFoundError, match=r"label/dict\.txt: expected the names of the labels, found none"):
        commands.train(other, tmp_path, *SIZES, *KINDS["label"][1], model=[])


def test_two_systems_are_compared(trained, tmp_path, capsys):
    data, checkpoint = trained("label")
    found = predict(data, checkpoint, tmp_path / "x.tsv")
    predicted = {i: of if i % 3 else found.gold[i] for i, of in found.predicted.items()}
    Predictions(predicted, found.gold).write(str(tmp_path / "other.tsv"), [])
    capsys.readouterr()
    predict(data, checkpoint, tmp_path / "x.tsv", f"--compare={tmp_path}/other.tsv", "--ignored-label=no")
    better = sum(predicted[i] != found.predicted[i] for i in predicted)
    _, names, ours, other, test = capsys.readouterr().out.splitlines()
    assert names.split() == ["accuracy", "MCC", "precision", "recall", "F1"]
    shares = [accuracy(list(of.values()), list(found.gold.values())) for of in (found.predicted, predicted)]
    assert [float(row.split()[1]) for row in (ours, other)] == pytest.approx([100 * s for s in shares], abs=0.01)
    p = min(1, 2 * 0.5**better)
    assert re.search(rf": 0 are right in .*x\.tsv alone, {better} in .*other\.tsv alone, p = {p:.3g}$", test)
    assert better > 0


def refused(*arguments: object) -> str:
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), "--cpu"])
    return str(caught.value)


@pytest.mark.parametrize("command", [main, dump.main])
@pytest.mark.parametrize("size", ["0", "-1", "x"])
def test_batches_have_an_example(command, size, capsys):
    with pytest.raises(SystemExit) as refused:
        command(["data", "--path=model.pt", "--output=x", f"--batch-size={size}"])
    assert refused.value.code == 2
    assert f"--batch-size: expected a number from 1, found '{size}'" in capsys.readouterr().err


def test_what_does_not_fit_is_refused(trained, tmp_path):
    data, checkpoint = trained("label")
    output = tmp_path / "x.tsv"
    given = [f"--path={checkpoint}", f"--output={output}", "--gen-subset=valid"]
    other = commands.copy(data, tmp_path / "other")
    example_bins.tokens(other / "label", "valid", ["no"] * NUMBER, ["yes", "no", "maybe"])
    assert "expected labels of the checkpoint (no yes), found maybe" in refused(other, *given)
    example_bins.tokens(other / "label", "valid", ["no", "maybe", *["no"] * (NUMBER - 2)], ["yes", "no"])
    assert re.search(r"label/valid:2: expected a label of .*label/dict\.txt, found another one", refused(other, *given))
    long = [" ".join(line.split() * 4) for line in data_bins.sentences(NUMBER, words=10)]
    long_data = tmp_path / "long"
    shutil.copytree(data, long_data)
    example_bins.text(long_data / "input0", {"valid": long})
    assert "expected examples of at most 32 tokens in valid, found 51 in line 1; 12 are longer" in refused(
        long_data, *given
    )
    assert len(predict(long_data, checkpoint, output, "--truncate-to=32").predicted) == NUMBER
    for more, message in (
        (["--ignored-label=maybe"], "--ignored-label: expected one of no yes, found maybe"),
        (["--compare=/gone.tsv"], "/gone.tsv: No such file"),
        ([f"--compare={output}"], "expected another file to write to"),
        (["--gen-subset=dev"], "dev"),
        ([f"--output={data}/label/valid.bin"], "expected another file to write to"),
    ):
        assert message in refused(data, *given, *more)
    news = tmp_path / "news"
    example_bins.text(news, {"train": data_bins.sentences(80, words=5), "valid": long[:8]})
    options = ["--criterion=masked_lm", "--arch=roberta", "--tokens-per-sample=20", "--sample-break-mode=complete"]
    for task, more, message in (
        ("masked_lm", [], "expected a model of --task syntax_sentence_prediction, syntax_sentence_ranking or"),
        ("syntax_masked_lm", ["--truncate-to=9"], "--truncate-to: expected none for a masked LM, found 9"),
        ("syntax_masked_lm", [f"--compare={output}"], "--compare: expected none for a masked LM, found"),
        ("syntax_masked_lm", [], "expected examples of at most 20 tokens in valid, found 42 in line 1; 8 are longer"),
    ):
        folder = tmp_path / task
        shortened = ["--max-positions=20", "--shorten-method=truncate", "--disable-validation"]
        commands.train(news, folder, *SIZES, *options, *shortened, f"--task={task}", "--max-update=1", model=[])
        said = refused(news, f"--path={folder}/checkpoint_last.pt", *given[1:], *more)
        assert message in said
    assert said.endswith("8 are longer"), "without advice that would be refused"


@pytest.mark.parametrize(
    "arch", others_nightly(["roberta", "tree_bias_roberta", "seprem_roberta"], {"tree_bias_roberta"})
)
def test_a_masked_lm_has_the_pseudo_log_likelihood_of_each_line(arch, tmp_path):
    lines = [" ".join(sorted(line.split())) for line in data_bins.sentences(40, words=8)]
    shuffled = [" ".join(Random(1).sample(line.split(), len(line.split()))) for line in lines]
    example_bins.text(tmp_path / "news", {"train": lines, "valid": [*lines, *shuffled, ""]})
    criterion = "masked_lm_with_syntax" if arch == "seprem_roberta" else "masked_lm"
    options = ["--task=syntax_masked_lm", f"--criterion={criterion}", f"--arch={arch}", "--tokens-per-sample=64"]
    more = ["--sample-break-mode=complete", "--max-epoch=30", "--lr=0.01", "--no-epoch-checkpoints", "--dropout=0"]
    commands.train(tmp_path / "news", tmp_path, *SIZES, *options, *more, model=[])
    path = tmp_path / "checkpoint_last.pt"
    found = predict(tmp_path / "news", path, tmp_path / "news.tsv", "--batch-size=7")
    assert found.gold is None
    scores = [float(found.predicted[line]) for line in range(81)]
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(tmp_path / "news"), "skip_masking": True, "sample_break_mode": "eos"}
    )
    task.load_dataset("valid")
    dataset, model = task.dataset("valid"), model.eval()
    for line in (0, 3, 50):
        net_input = dataset.collater([dataset[line]])["net_input"]
        (tokens,) = net_input["src_tokens"]
        expected = 0.0
        for place in range(1, len(tokens) - 1):  # between <s> and </s>
            masked = tokens.clone()
            masked[place] = task.mask_idx
            logits = model(**{**net_input, "src_tokens": masked[None]})[0][0, place]
            expected += logits.log_softmax(dim=0)[tokens[place]].item()
        assert scores[line] == pytest.approx(expected, rel=1e-4)
    assert sum(scores[:40]) > sum(scores[40:]) + 10
    assert scores[80] == 0, "of no subword"
