"""The task through fairseq's training, validation and generation."""

from __future__ import annotations

import logging
import multiprocessing
import shutil

import pytest
import torch

import commands
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationConfig, SyntaxTranslationTask

GATE = ".self_attn.gate."


def test_trains_validates_and_generates_and_a_checkpoint_is_the_live_model(data_bin, tmp_path):
    bleu = ["--eval-bleu", "--eval-bleu-remove-bpe", '--eval-bleu-args={"beam": 1, "max_len_b": 5}']
    trainer = commands.train(data_bin, tmp_path, "--max-update=5", "--syntax-masks=slr,sdoi", *bleu)
    assert trainer.task.syntax_features == {"word", "head", "distance"}
    checkpoint = tmp_path / "checkpoint_best.pt"  # holds the numpy counts of --eval-bleu
    commands.validate(data_bin, checkpoint, "--num-workers=1")
    assert sorted(commands.generate(data_bin, checkpoint)) == list(range(24))
    reloaded, task = commands.load(checkpoint)
    task.load_dataset("test")
    dataset = task.dataset("test")
    batch = dataset.collater([dataset[i] for i in range(10)])["net_input"]
    inputs = {k: v for k, v in batch.items() if k != "prev_output_tokens"}
    with torch.no_grad():
        expected = trainer.get_model().eval().encoder(**inputs)["encoder_out"][0]
        actual = reloaded.encoder.forward_torchscript(batch)["encoder_out"][0]
        neutral = {k: torch.full_like(v, -1) for k, v in inputs["src_syntax"].items()}
        without = reloaded.encoder(**{**inputs, "src_syntax": neutral})["encoder_out"][0]
    assert torch.equal(actual, expected)
    assert not torch.allclose(without, expected, atol=1e-3)


def test_only_the_features_of_the_model_are_needed_and_missing_ones_named(data_bin, tmp_path):
    data = commands.copy(data_bin, tmp_path / "data")
    for path in [*data.glob("*.head.*"), *data.glob("*.word.*")]:
        path.unlink()
    commands.train(data, tmp_path / "run", "--max-update=1", "--syntax-masks=slr")
    with pytest.raises(FileNotFoundError) as error:
        commands.train(data, tmp_path, "--max-update=1", "--syntax-masks=slr,sdoi")
    for named in (
        "valid.src-tgt.src.head.{bin,idx}",
        "valid.src-tgt.src.word.{bin,idx}",
        "fairseq-syntax-binarize --source-lang src --target-lang tgt --validpref",
    ):
        assert named in str(error.value)
    assert str(error.value).endswith("these features are from PARSES.conllu")
    assert "distance" not in str(error.value)
    (data / "syntax.src-tgt.src.json").unlink()
    with pytest.raises(FileNotFoundError, match="does not list"):
        commands.train(data, tmp_path / "run", "--max-update=1")


def test_the_log_counts_the_parses_of_a_split(corpus, data_bin, tmp_path, caplog):
    data = commands.copy(data_bin, tmp_path / "data")
    test = f"--testpref={corpus}/bpe/test", f"--testparse={corpus}/test", "--control=random"
    commands.binarize_parses(*test, f"--destdir={data}")
    lines = (corpus / "valid.src").read_text().splitlines()
    (tmp_path / "valid.src.trees").write_text("(())\n" * len(lines))
    commands.binarize_parses(f"--validpref={corpus}/bpe/valid", f"--validparse={tmp_path}/valid", f"--destdir={data}")
    task = SyntaxTranslationTask.setup_task(SyntaxTranslationConfig(data=str(data), dataset_impl=None))
    task.syntax_features = {"distance"}
    with caplog.at_level(logging.INFO):
        for split in ("train", "valid", "test"):
            task.load_dataset(split)
    told = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "fairseq_syntax.data.features"]
    assert told == [
        ("INFO", "train: 120 of 120 sentences have a parse (trees)"),
        ("WARNING", f"valid: 0 of {len(lines)} sentences have a parse (trees)"),
        ("INFO", "test: 24 of 24 sentences have a parse (trees)"),
        ("WARNING", "test has features of --control random, train of none"),
    ]


def test_a_data_bin_of_the_other_direction(corpus, plain_data_bin, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for path in plain_data_bin.iterdir():
        shutil.copy(path, data / path.name.replace("src-tgt", "tgt-src"))
    with pytest.raises(FileNotFoundError, match=r"valid\.tgt-src\.src\.distance") as error:
        commands.train(data, tmp_path / "run", "--max-update=1", "-s=src", "-t=tgt")
    assert "--source-lang src --target-lang tgt" in str(error.value)
    commands.binarize(corpus, data)
    commands.train(data, tmp_path / "run", "--max-update=1", "-s=src", "-t=tgt")


def test_a_later_shard_is_checked_before_training_starts(data_bin, plain_data_bin, tmp_path):
    other = commands.copy(data_bin, tmp_path / "other")
    commands.train(f"{data_bin}:{other}", tmp_path / "run", "--max-epoch=2")
    (other / "train.src-tgt.src.distance.idx").unlink()
    with pytest.raises(FileNotFoundError, match=r"other/train\.src-tgt\.src\.distance"):
        commands.train(f"{data_bin}:{other}", tmp_path / "again", "--max-update=1")


@pytest.fixture(scope="module")
def in_parts(corpus, tmp_path_factory):
    """A data-bin with train, train1, train2, valid, … and the lines of each."""
    data = tmp_path_factory.mktemp("parts") / "data"
    parts = {"train": ["train", "valid", "test"], "valid": ["valid", "test", "valid"], "test": ["test", "valid"]}
    prefixes = {kind: ",".join(f"{corpus}/bpe/{part}" for part in of_kind) for kind, of_kind in parts.items()}
    one = {**prefixes, "train": f"{corpus}/bpe/train"}  # fairseq-preprocess takes no more; the others are copied
    commands.preprocess_tokens(*(f"--{kind}pref={given}" for kind, given in one.items()), f"--destdir={data}")
    for kind, name in (("valid", "train1"), ("test", "train2")):
        for path in data.glob(f"{kind}.src-tgt.*"):
            shutil.copy(path, data / path.name.replace(kind, name, 1))
    given = [f"--{kind}pref={prefix}" for kind, prefix in prefixes.items()]
    given += [f"--{kind}parse={prefix.replace('/bpe/', '/')}" for kind, prefix in prefixes.items()]
    commands.binarize_parses(*given, f"--destdir={data}")
    return data, {name: len((corpus / f"{name}.src").read_text().splitlines()) for name in ("train", "valid", "test")}


def test_truncated_bucketed_and_concatenated_sources(in_parts, tmp_path):
    data, lines = in_parts
    options = ["--max-source-positions=9", "--truncate-source", "--num-batch-buckets=2", "--max-tokens=400"]
    more = ["--upsample-primary=2", "--skip-invalid-size-inputs-valid-test", "--syntax-masks=slr,sdoi"]
    task = commands.train(data, tmp_path, "--max-update=4", *options, *more).task
    dataset, whole = task.dataset("train"), task.dataset("valid")
    assert len(dataset) == 2 * 120 + lines["valid"] + lines["test"]
    for i in (0, 5, lines["valid"] - 1):  # train1 is the valid set
        ours, theirs = dataset[240 + i]["syntax"], whole[i]["syntax"]
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    for i in (0, 130):  # the upsampled part repeats
        assert torch.equal(dataset[i]["syntax"]["word"], dataset[i % 120]["syntax"]["word"])
        assert len(dataset[i]["syntax"]["word"]) <= 9


@pytest.mark.parametrize(
    ("options", "times", "validated", "left_out"),
    [
        ([], 1, ["valid"], ["valid1, valid2"]),
        (["--valid-subset=valid,valid2", "--upsample-primary=2"], 2, ["valid", "valid2"], ["valid1"]),
        (["--combine-val", "--upsample-primary=3"], 3, ["valid"], []),
    ],
)
def test_sets_in_parts_train_and_are_validated_on(in_parts, tmp_path, caplog, options, times, validated, left_out):
    data, lines = in_parts
    with caplog.at_level("INFO"):
        task = commands.train(data, tmp_path, "--max-update=1", *options).task
    assert len(task.dataset("train")) == times * lines["train"] + lines["valid"] + lines["test"]
    sizes = {"valid": lines["valid"], "valid1": lines["test"], "valid2": lines["valid"]}
    for name in validated:
        assert len(task.dataset(name)) == (sum(sizes.values()) if "--combine-val" in options else sizes[name])
    messages = [record.getMessage() for record in caplog.records]
    begun = [message for message in messages if "begin validation on" in message]
    assert begun == [f'begin validation on "{name}" subset' for name in validated]
    assert [message.partition(":")[0] for message in messages if "not validated on" in message] == left_out
    found = commands.generate(data, tmp_path / "checkpoint_last.pt", more=("--gen-subset=test1",))
    assert sorted(found) == list(range(lines["valid"]))


def test_options_about_parts_that_mean_nothing_are_refused(in_parts, tmp_path):
    for options, message in (
        (["--combine-val", "--valid-subset=valid,valid1"], "expected no --valid-subset beside it, found valid,valid1"),
        (["--upsample-primary=0"], "--upsample-primary: expected a number from 1, found 0"),
    ):
        with pytest.raises(ValueError, match=message):
            commands.train(in_parts[0], tmp_path, "--max-update=1", *options)


def test_epochs_share_batches_and_worker_processes(data_bin, tmp_path, monkeypatch):
    # With a data loader of its own for each epoch and validation, their processes would pile up.
    alive = []
    begin_epoch = SyntaxTranslationTask.begin_epoch

    def counted(self, epoch, model):
        begin_epoch(self, epoch, model)
        alive.append(len(multiprocessing.active_children()))

    monkeypatch.setattr(SyntaxTranslationTask, "begin_epoch", counted)
    before = len(multiprocessing.active_children())
    commands.train(data_bin, tmp_path, "--max-epoch=3", "--num-workers=1", "--no-save")
    assert len(alive) == 3
    assert max(alive) - before <= 2  # one for training, one for validation


class Killed(BaseException):
    pass


@pytest.mark.parametrize("precision", [[], pytest.param(["--fp16"], marks=pytest.mark.nightly)], ids=["fp32", "fp16"])
def test_pre_warmup_keeps_gates_still_and_a_killed_run_ends_as_an_unbroken_one(
    data_bin, tmp_path, precision, half_precision, monkeypatch
):
    options = [
        "--gate-warmup-epochs=2", "--weight-decay=0.1", "--max-epoch=3", "--dropout=0.2", "--syntax-dropout=0.1",
        "--clip-norm=0.1", "--save-interval-updates=2", "--disable-validation", *precision,
    ]  # fmt: skip
    cpu = not (precision and half_precision)
    commands.train(data_bin, tmp_path / "whole", *options, cpu=cpu)
    states = {
        name: commands.parameters(tmp_path / f"whole/checkpoint{name}.pt")
        for name in ("_1_2", "_1_4", "1", "_2_10", "2", "3")
    }
    gates = [name for name in states["1"] if GATE in name]
    moving = [name for name in gates if "running" in name]
    still = sorted(set(gates) - set(moving))
    assert len(still) == 2 * 8
    for name in ("_1_4", "1", "_2_10", "2"):
        for parameter in still:
            assert torch.equal(states[name][parameter], states["_1_2"][parameter]), (name, parameter)
        for statistic in moving:
            assert not torch.equal(states[name][statistic], states["_1_2"][statistic])
    assert any(not torch.equal(states["3"][p], states["2"][p]) for p in still)

    # Killed in the middle of the second epoch, one update after the last checkpoint, and resumed.
    train_step = SyntaxTranslationTask.train_step

    def killed(self, sample, model, criterion, optimizer, update_num, **kwargs):
        if update_num == 11:
            raise Killed
        return train_step(self, sample, model, criterion, optimizer, update_num, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(SyntaxTranslationTask, "train_step", killed)
        with pytest.raises(Killed):
            commands.train(data_bin, tmp_path / "broken", *options, cpu=cpu)
    assert not (tmp_path / "broken/checkpoint2.pt").exists()
    commands.train(data_bin, tmp_path / "broken", *options, cpu=cpu)
    resumed = commands.parameters(tmp_path / "broken/checkpoint_last.pt")
    unbroken = commands.parameters(tmp_path / "whole/checkpoint_last.pt")
    if "--fp16" in precision:  # its checkpoints, of stock models too, hold weights rounded to float16
        apart = torch.cat([(resumed[name] - weight).abs().flatten() for name, weight in unbroken.items()])
        assert apart.mean() < 1e-3
        return
    for name, weight in unbroken.items():
        assert torch.equal(resumed[name], weight), name
