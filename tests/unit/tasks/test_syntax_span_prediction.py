"""The task of spans: its batches, its models' heads, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import data_bins
import example_bins
from fairseq_syntax.data.composition import compose
from fairseq_syntax.tasks.syntax_span_prediction import LABELS, SyntaxSpanPredictionConfig, SyntaxSpanPredictionTask
from syntax_data.errors import InputError

SPANS = {"criterion_name": "span_prediction", "classification_head_name": "spans"}
VERIFIER = {"criterion_name": "sentence_prediction", "classification_head_name": "verifier"}
EXAMPLES = [
    {"id": "a", "passage": 0, "question": 1, "impossible": False, "answers": [[3, 4], [0, 0]]},
    {"id": "b", "passage": 2, "question": 1, "impossible": True, "answers": []},
]


def write_examples(data: Path, *examples: dict, split: str = "valid") -> None:
    (data / f"{split}.examples.jsonl").write_text("".join(f"{json.dumps(example)}\n" for example in examples))


@pytest.fixture(scope="module")
def bins(tmp_path_factory) -> Path:
    """Three passages of 9 words, and two questions of 4, whose labels of parts of speech are numbered differently."""
    data = tmp_path_factory.mktemp("spans")
    for name, number, words in (("passage", 3, 9), ("question", 2, 4)):
        example_bins.text(data / name, {"valid": data_bins.sentences(number, words=words, seed=words)})
    write_examples(data, *EXAMPLES)
    return data


@pytest.fixture
def data(bins, tmp_path) -> Path:
    return Path(shutil.copytree(bins, tmp_path / "data"))


def task_of(data: Path, *, features: tuple[str, ...] = ("word", "head", "upos"), **options) -> SyntaxSpanPredictionTask:
    given = {
        "window": 16,
        "stride": 4,
        "max_question": 5,
        "valid_subset": "valid",
        "train_subset": "train",
        "tpu": False,
    }
    task = SyntaxSpanPredictionTask.setup_task(
        SyntaxSpanPredictionConfig(data=str(data), **{**given, **SPANS, **options})
    )
    task.syntax_features = set(features)
    return task


def batch_of(task: SyntaxSpanPredictionTask) -> dict:
    task.load_dataset("valid")
    data = task.dataset("valid")
    return data.collater([data[i] for i in range(len(data))])


@pytest.mark.parametrize("passage_first", [False, True])
def test_batches_have_the_texts_tokens_and_composed_features(bins, passage_first):
    task = task_of(bins, window=18, passage_first=passage_first)
    batch = batch_of(task)
    assert task.dataset("valid").windows == [(0, range(9)), (1, range(9))]
    first = 1 if passage_first else 7
    assert batch["passage"].tolist() == [[first, first + 9]] * 2
    assert batch["target"].tolist() == [[first + 3, first + 4], [0, 0]]
    lines = dict(zip(task.folders, task.load_lines("valid"), strict=True))
    for row, example in enumerate(EXAMPLES):
        segments = {name: lines[name].segment(example[name], before=1) for name in task.folders}
        expected = compose([segments[name] for name in task.folders])
        assert expected["upos"].unique().numel() > 5
        for name, values in expected.items():
            assert batch["net_input"]["src_syntax"][name][row].tolist() == values.tolist(), name
    stock = batch_of(task_of(bins, window=18, passage_first=passage_first, features=()))
    assert "src_syntax" not in stock["net_input"]
    torch.testing.assert_close(stock["net_input"]["src_tokens"], batch["net_input"]["src_tokens"])


def test_a_verifiers_windows_have_labels(bins):
    task = task_of(bins, **VERIFIER)
    batch = batch_of(task)
    windows = task.dataset("valid").windows
    assert windows == [(0, range(8)), (0, range(4, 9)), (1, range(8)), (1, range(4, 9))]
    names = [task.label_dictionary[task.label_dictionary.nspecial + label] for label in batch["target"].tolist()]
    assert names == ["answerable", "impossible", "impossible", "impossible"]
    assert {*names} == {*LABELS}


def test_windows_longer_than_the_positions_are_refused(bins):
    with pytest.raises(ValueError, match="--window: expected at most --max-positions 15, found 16"):
        task_of(bins, max_positions=15)


@pytest.mark.parametrize(
    ("criterion", "found"), [([], "cross_entropy"), (["masked_lm"], "masked_lm"), (["sentence_ranking"], "another")]
)
def test_another_criterion_is_refused_on_the_command_line(bins, criterion, found):
    """Also one that names no head, or has no configuration."""
    given = [
        str(bins),
        "--task=syntax_span_prediction",
        "--arch=sg_net_roberta",
        *map("--criterion={}".format, criterion),
    ]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), given))
    with pytest.raises(ValueError, match=f"--criterion: expected span_prediction, or sentence_.*, found {found}$"):
        tasks.setup_task(cfg.task)


def test_data_that_does_not_fit_is_refused(data):
    example = {**EXAMPLES[1], "question": 2}
    write_examples(data, EXAMPLES[0], example)
    with pytest.raises(InputError, match=r"valid\.examples\.jsonl: question b: expected the question in line 2"):
        task_of(data).load_dataset("valid")
    write_examples(data, *EXAMPLES)
    (data / "question/valid1.idx").touch()
    task_of(data).load_dataset("valid")
    with pytest.raises(InputError, match=r"question/valid1\.idx: expected all examples in valid, found another part"):
        task_of(data).load_dataset("valid", combine=True)
    (data / "question/dict.txt").write_text("b 1\na 1\n")
    with pytest.raises(
        InputError, match=r"passage/dict\.txt: expected the symbols of .*question/dict\.txt, found others"
    ):
        task_of(data).load_dataset("valid")
    (data / "valid.examples.jsonl").unlink()
    shutil.copy(data / "passage/dict.txt", data / "question/dict.txt")
    with pytest.raises(FileNotFoundError, match=r"valid\.examples\.jsonl"):
        task_of(data).load_dataset("valid")


def test_models_get_the_head_that_the_criterion_needs(bins, monkeypatch):
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.args = SimpleNamespace(encoder_embed_dim=4)
            self.classification_heads = torch.nn.ModuleDict()
            self.registered: list[tuple[str, int]] = []

        def register_classification_head(self, name: str, num_classes: int) -> None:
            self.registered.append((name, num_classes))

    monkeypatch.setattr("fairseq.models.build_model", lambda *_: Model())
    monkeypatch.setattr("fairseq.quantization_utils.quantize_model_scalar", lambda model, _: model)
    of_spans, of_verifier = SimpleNamespace(), SimpleNamespace()
    model = task_of(bins).build_model(of_spans)
    assert [*model.span_heads] == [*model.classification_heads] == ["spans"]
    assert of_spans == SimpleNamespace(max_positions=512)
    model = task_of(bins, **VERIFIER).build_model(of_verifier)
    assert model.registered == [("verifier", 2)]
    assert of_verifier == SimpleNamespace(max_positions=512, label_names="answerable impossible")
