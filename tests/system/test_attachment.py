"""Whether a parse reaches the label: the made-up task that words alone answer half of."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from fairseq.logging import metrics

import commands
import example_bins
from syntax_data.commands import binarize
from syntax_experiments.corpora import attachment

SIZES = [
    "--encoder-layers=2", "--encoder-embed-dim=64", "--encoder-ffn-embed-dim=128", "--encoder-attention-heads=4",
    "--max-positions=32", "--dropout=0", "--attention-dropout=0",
]  # fmt: skip
TRAINING = [
    "--task=syntax_sentence_prediction", "--criterion=sentence_prediction", "--num-classes=2", "--init-token=0",
    "--separator-token=2", "--batch-size=64", "--lr=0.001", "--lr-scheduler=fixed", "--warmup-updates=40",
    "--max-update=400", "--validate-interval=1000", "--no-save",
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """The task's data with its own trees, and with other sentences'."""
    raw = tmp_path_factory.mktemp("attachment")
    questions = attachment.make_task(Random(1), segments=1, train=4000, held_out=100)
    for split, of_split in questions.items():
        attachment.write(raw, split, of_split)
    words = sorted({word for split in questions for word in (raw / f"{split}.input0").read_text().split()})
    found = {}
    for trees, control in (("own", []), ("shuffled", ["--control", "shuffled"])):
        data = found[trees] = raw / trees
        for split in ("train", "valid"):
            example_bins.tokens(data / "input0", split, (raw / f"{split}.input0").read_text().splitlines(), words)
            answers = (raw / f"{split}.label").read_text().splitlines()
            example_bins.tokens(data / "label", split, answers, ["no", "yes"])
        prefixes = [f"--{split}pref={raw}/{split}.input0" for split in ("train", "valid")]
        binarize.main(["--only-source", *prefixes, "--subwords=words", "--destdir", str(data / "input0"), *control])
    return found


SYSTEMS = {
    "seprem_roberta": [],
    "tree_bias_roberta": [],
    "sg_net_roberta": [],
    "gated_syntax_roberta": ["--syntax-masks=slr,sdoi", "--slr-temperature=1"],
}


@pytest.mark.nightly
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("trees", ["own", "shuffled"])
def test_the_label_follows_from_the_sentences_own_tree_alone(folders, tmp_path, system, trees):
    commands.train(folders[trees], tmp_path, f"--arch={system}", *SYSTEMS[system], *SIZES, *TRAINING, model=[])
    accuracy = metrics.get_smoothed_value("valid", "accuracy")
    assert accuracy >= 95 if trees == "own" else 40 < accuracy < 60
