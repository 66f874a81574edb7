"""Training epochs and validations out of logs of fairseq-train."""

from __future__ import annotations

import json

import pytest

from syntax_data.errors import InputError
from syntax_experiments.training_log import Validation, read_training, read_validations

SIMPLE = (
    "2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 251 loss=9.778, nll_loss=9.539, num_updates=100\n"
    "2026-01-01 10:00:41 | INFO | {subset} | epoch {epoch:03d} | valid on '{subset}' subset | loss {loss} "
    "| nll_loss 6.19 | gate_slr_l1 0.427 | gate_sdoi_l2 0.3 | ppl 72.99 | num_updates {updates} | best_loss 6.9\n"
    "2026-01-01 10:00:41 | INFO | train | epoch {epoch:03d} | loss 9.081 | num_updates {updates} | lr 0.1\n"
)
GATES = {("slr", 1, 0): 0.427, ("sdoi", 2, 0): 0.3}
HEADS = {("slr", 1, 1): 0.4, ("slr", 1, 2): 0.454, ("sdoi", 2, 1): 0.3}


def simple(epoch: int, updates: int, loss: float, subset: str = "valid") -> str:
    return SIMPLE.format(epoch=epoch, updates=updates, loss=loss, subset=subset)


def entry(kind: str, epoch: int, **numbers: float) -> str:
    values = {"epoch": epoch, **{f"{kind}_{name}": str(value) for name, value in numbers.items()}}
    return f"2026-01-01 10:00:00 | INFO | {kind} | {json.dumps(values)}\n"


def as_json(epoch: int, updates: int, loss: float, subset: str = "valid") -> str:
    inner = {"epoch": epoch, "update": 0.4, "loss": "9.8", "num_updates": "100"}
    gates = {"gate_slr_l1": 0.427, "gate_sdoi_l2": 0.3}
    return (
        f"2026-01-01 10:00:00 | INFO | train_inner | {json.dumps(inner)}\n"
        + entry(subset, epoch, loss=loss, nll_loss=6.19, **gates, num_updates=updates)
        + entry("train", epoch, loss=9.1, num_updates=updates)
    )


def heads(updates: int, gate: float = 0.3, subset: str = "valid") -> str:
    values = json.dumps({"gate_slr_l1": [0.4, 0.454], "gate_sdoi_l2": [gate]})
    return f"2026-01-01 10:00:00 | INFO | {subset} | gates on '{subset}' subset | num_updates {updates} | {values}\n"


@pytest.fixture
def log(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "train.log").write_bytes(text.encode())
        return str(tmp_path / "train.log")

    return write


BOTH = heads(251) + simple(1, 251, 6.925)
TWO = [Validation(1, 251, 6.925, GATES), Validation(2, 502, 5.7, GATES)]
WITH_HEADS = [Validation(1, 251, 6.925, {**GATES, **HEADS})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (simple(1, 251, 6.925) + simple(2, 502, 5.7), TWO),
        (as_json(1, 251, 6.925) + as_json(2, 502, 5.7), TWO),
        (BOTH, WITH_HEADS),
        (heads(251) + as_json(1, 251, 6.925), WITH_HEADS),
        ("".join(f"epoch 001: 100%|####| 9/9\r{line}\r\n" for line in BOTH.splitlines()), WITH_HEADS),
        (BOTH.replace("2026-01-01 10:00:41 | INFO | valid | ", "[2026-01-01 10:00:41][valid][INFO] - "), WITH_HEADS),
        # the validation after 250 updates did not end, that after 251 came again
        (heads(251, 0.9, "x") + heads(250, 0.8) + heads(251, 0.7) + simple(1, 251, 7.0) + BOTH, WITH_HEADS),
        (BOTH + heads(251, 0.9, "x") + simple(1, 251, 1.0, subset="x"), WITH_HEADS),
        # a killed process left half a line; the next one wrote on, with a new line or without
        (as_json(1, 251, 9.0)[:-190] + "\n" + heads(251) + as_json(1, 251, 6.925), WITH_HEADS),
        (heads(251) + "2026 | INFO | valid | {\"epoch\": 1, \"va" + as_json(1, 251, 6.925), WITH_HEADS),
        (heads(251)[:-9] + "\n" + heads(251) + as_json(1, 251, 6.925) + as_json(2, 502, 4.0)[:-190], WITH_HEADS),
    ],
    ids=["simple", "json", "heads", "json heads", "tqdm", "hydra", "again", "other", "cut", "joined", "cut heads"],
)  # fmt: skip
def test_validations_of_all_formats(log, text, expected):
    found = read_validations(log(text))
    assert found == expected
    assert {validation.nll_loss for validation in found} == {6.19}


@pytest.mark.parametrize("write", [simple, as_json])
def test_other_validation_sets_are_read_by_name(log, write):
    path = log(write(1, 9, 4.0) + write(1, 9, 4.0, subset="news_dev"))
    assert [validation.loss for validation in read_validations(path, subset="news_dev")] == [4.0]
    with pytest.raises(InputError, match="validations of 'x', found none but those of 'valid', 'news_dev'"):
        read_validations(path, subset="x")


DEEP = '{"epoch": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H-0\t-0.1\tein Mann\n", "found none$"),
        (simple(1, 9, 4.0).replace("loss 4.0 |", "loss 4,0 |"), r"train\.log:2: expected a number as loss"),
        (simple(1, 9, 4.0).replace("loss 4.0 |", f"loss {'x' * 70_000} |"), r"train\.log:2: expected a number as loss"),
        (simple(1, 9, 4.0).replace("num_updates 9", "updates 9"), r"train\.log:2: expected a number as num_updates"),
        (as_json(1, 10**30, 4.0), r"train\.log:2: expected an integer from 0 to 2\^53 as num_updates, found '1000"),
        (as_json(1, 9, 4.0) + f"x | valid | {DEEP}\n", r"train\.log:4: expected .*, found maximum recursion"),
        *(
            ("x\n" + heads(251).replace(old, new) + simple(1, 251, 6.925), r"train\.log:2: expected .*, found ")
            for old, new in (
                ("0.454]", "0.454"),
                ("num_updates 251", "num_updates x"),
                ("[0.3]", '["x"]'),
                ("[0.3]", f"[{10**400}]"),
            )
        ),
    ],
)  # fmt: skip
def test_a_broken_log_is_refused(log, text, message):
    with pytest.raises(InputError, match=message) as found:
        read_validations(log(text))
    assert len(str(found.value)) < 1000


def train(epoch: int, updates: int, wall: float, loss: float) -> str:
    return entry("train", epoch, loss=loss, wps=1, wpb=100, num_updates=updates, train_wall=wall, wall=wall + 5)


PARAMETERS = "2026-01-01 10:00:00 | INFO | x | num. shared model params: 1,234,567 (num. trained: 1)\n"
RESUMED = [
    "code: 11\n",
    PARAMETERS,
    heads(10),
    entry("valid", 1, loss=6.0, num_updates=10, gate_slr_l1=0.3),
    train(1, 10, 36, 7.0),
    entry("valid", 2, loss=5.5, num_updates=20, gate_slr_l1=0.65),
    "2026-01-01 10:00:00 | INFO | fairseq_cli.train | killed here, resumed\n",
    entry("valid", 2, parent_loss=9.0, loss=5.0, num_updates=20, nll_loss=4.5),
    train(2, 20, 36, 6.0),
    entry("valid", 3, loss=5.2, num_updates=25),
    "code: 22\n",
    "code: 11\n",
    train(3, 25, 9, 5.0),
    entry("valid", 4, loss=5.1, num_updates=30),  # of an epoch whose end was not logged
]


def test_a_training_that_was_resumed(log):
    """Hours are those of all processes; of an epoch that was resumed the second entry counts."""
    found = read_training(log("".join(RESUMED)))
    assert (found["parameters"], found["updates"], found["valid_loss"]) == (1234567, 25, 5.0)
    assert found["hours"] == pytest.approx(81 / 3600)
    assert found["words_per_second"] == pytest.approx(500 / 9), "of the fastest epoch"
    assert found["code"] == ["11", "22"]
    gates = {"gate_slr_l1": 0.3, "_gate_slr_l1_h1": 0.4, "_gate_slr_l1_h2": 0.454, "_gate_sdoi_l2_h1": 0.3}
    assert found["epochs"] == [
        {"epoch": 1, "updates": 10, "train_loss": 7.0, "valid_loss": 6.0, "gates": gates},
        {"epoch": 2, "updates": 20, "train_loss": 6.0, "valid_loss": 5.0, "valid_nll_loss": 4.5},
        {"epoch": 3, "updates": 25, "train_loss": 5.0, "valid_loss": 5.2},
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(PARAMETERS, ""), "with 'num. shared model params', found none$"),
        (lambda text: text.replace("train_train_wall", "train_gone", 1), r"train\.log:5: .* train_wall, found None"),
    ],
)
def test_what_a_record_lacks_is_refused(log, change, message):
    with pytest.raises(InputError, match=message):
        read_training(log(change("".join(RESUMED))))
