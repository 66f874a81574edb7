"""Validations out of logs and run records."""

from __future__ import annotations

import json
import math

import pytest

from syntax_data.errors import InputError
from syntax_experiments.plots.history import Validation, read_log, read_run

VALID = (
    "epoch {epoch:03d} | valid on '{subset}' subset | loss {loss} | nll_loss 6.19 | gate_slr_l1 0.427 "
    "| gate_sdoi_l2 0.3 | ppl 72.99 | wps 0 | num_updates {updates} | best_loss 6.9"
)
SIMPLE = (
    "2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 251 loss=9.778, nll_loss=9.539, num_updates=100\n"
    f"2026-01-01 10:00:41 | INFO | valid | {VALID}\n"
    "2026-01-01 10:00:41 | INFO | train | epoch {epoch:03d} | loss 9.081 | num_updates {updates} | lr 0.1\n"
)
GATES = {("slr", 1, 0): 0.427, ("sdoi", 2, 0): 0.3}


def of_heads(updates: int, gate: float = 0.3, subset: str = "valid") -> str:
    told = json.dumps({"gate_slr_l1": [0.4, 0.454], "gate_sdoi_l2": [gate]})
    return f"2026-01-01 10:00:00 | INFO | {subset} | gates on '{subset}' subset | num_updates {updates} | {told}\n"


def simple(*rows: tuple[int, int, float], subset: str = "valid") -> str:
    return "".join(SIMPLE.format(epoch=e, updates=u, loss=loss, subset=subset) for e, u, loss in rows)


def as_json(epoch: int, updates: int, loss: float, subset: str = "valid") -> str:
    values = {"loss": loss, "nll_loss": 6.19, "gate_slr_l1": 0.427, "gate_sdoi_l2": 0.3, "num_updates": updates}
    valid = {"epoch": epoch, **{f"{subset}_{name}": str(value) for name, value in values.items()}}
    train = {"epoch": epoch, "train_loss": "9.1", "train_num_updates": str(updates)}
    inner = {"epoch": epoch, "update": 0.4, "loss": "9.8", "num_updates": "100"}
    return "".join(
        f"2026-01-01 10:00:00 | INFO | {tag} | {json.dumps(line)}\n"
        for tag, line in (("train_inner", inner), (subset, valid), ("train", train))
    )


@pytest.fixture
def log(tmp_path):
    def write(text: str) -> str:
        (tmp_path / "train.log").write_bytes(text.encode())
        return str(tmp_path / "train.log")

    return write


def test_both_formats_say_the_same(log):
    expected = [Validation(1, 251, 6.925, GATES), Validation(2, 502, 5.7, GATES)]
    assert read_log(log(simple((1, 251, 6.925), (2, 502, 5.7)))) == expected
    assert read_log(log(as_json(1, 251, 6.925) + as_json(2, 502, 5.7))) == expected


def test_what_hydra_and_progress_bars_put_before_a_validation_does_no_harm(log):
    line = simple((1, 251, 6.925)).splitlines()[1].partition("valid | ")[2]
    expected = [Validation(1, 251, 6.925, GATES)]
    assert read_log(log(f"[2026-01-01 10:00:41,123][valid][INFO] - {line}\n")) == expected
    assert read_log(log(f"epoch 001: 100%|####| 251/251\r2026 | INFO | valid | {line}\r\n")) == expected


BOTH = of_heads(251) + simple((1, 251, 6.925))


@pytest.mark.parametrize(
    "text",
    [
        BOTH,
        of_heads(251) + as_json(1, 251, 6.925),
        "".join(f"epoch 001: 100%|####| 9/9\r{line}\r\n" for line in BOTH.splitlines()),
        BOTH.replace("2026-01-01 10:00:00 | INFO | valid | ", "[2026-01-01 10:00:41,123][valid][INFO] - "),
        # the validation after 250 updates did not end, that after 251 came again
        of_heads(251, 0.9, "x") + of_heads(250, 0.8) + of_heads(251, 0.7) + simple((1, 251, 7.0)) + BOTH,
        BOTH + of_heads(251, 0.9, "x") + simple((1, 251, 1.0), subset="x"),
    ],
    ids=["simple", "json", "tqdm", "hydra", "restarted", "another subset"],
)
def test_single_heads_have_a_line_of_their_own(log, text):
    heads = {("slr", 1, 1): 0.4, ("slr", 1, 2): 0.454, ("sdoi", 2, 1): 0.3}
    assert read_log(log(text)) == [Validation(1, 251, 6.925, {**GATES, **heads})]


@pytest.mark.parametrize(
    ("whole", "broken"),
    [
        ("0.454]", "0.454"),
        (', "gate_sdoi_l2": [0.3]}', ""),
        ("num_updates 251", "num_updates x"),
        ("num_updates 251 | ", ""),
        ("[0.3]", "0.3"),
        ("[0.3]", '["x"]'),
        ("[0.3]", "[[0.3]]"),
        ("[0.3]", "[" * 100_000),
        ("[0.3]", f"[{10**400}]"),
        ("gate_sdoi_l2", "gate_sdoi"),
        ("gate_sdoi_l2", "gate_sdoi_l2_h1"),
        ('{"gate_slr_l1": [0.4, 0.454], "gate_sdoi_l2": [0.3]}', "[0.4]"),
    ],
)
def test_a_line_of_heads_that_is_cut_off_or_broken_is_refused(log, whole, broken):
    line = of_heads(251)
    assert whole in line
    with pytest.raises(InputError, match=r"train\.log:2: expected a whole line of gates, .*, found .") as found:
        read_log(log("x\n" + line.replace(whole, broken) + simple((1, 251, 6.925))))
    assert len(str(found.value)) < 1000


def test_after_a_restart_the_later_validation_counts(log):
    found = read_log(log(simple((1, 10, 7.0), (2, 20, 6.0)) + as_json(2, 20, 5.5) + simple((3, 30, 5.0))))
    assert [(v.updates, v.loss) for v in found] == [(10, 7.0), (20, 5.5), (30, 5.0)]


@pytest.mark.parametrize("write", [lambda s: simple((1, 9, 4.0), subset=s), lambda s: as_json(1, 9, 4.0, subset=s)])
def test_other_validation_sets_are_asked_for_by_name(log, write):
    path = log(write("valid") + write("news_dev"))
    assert [v.loss for v in read_log(path, subset="news_dev")] == [4.0]
    with pytest.raises(InputError, match="validations of 'x', found none but those of 'valid', 'news_dev'"):
        read_log(path, subset="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("H-0\t-0.1\tein Mann\n", "found none$"),
        (simple((1, 9, 4.0)).replace("loss 4.0 |", "loss 4,0 |"), r"train\.log:2: expected a validation with loss"),
        (simple((1, 9, 4.0)).replace("num_updates 9", "updates 9"), r"train\.log:2: expected a validation with loss"),
        (as_json(1, 9, 4.0).replace('"9"', "1e999"), r"train\.log:\d+: expected a validation with loss"),
    ],
)
def test_what_is_no_log_is_refused(log, text, message):
    with pytest.raises(InputError, match=message):
        read_log(log(text))


def test_a_message_shows_the_beginning_of_what_is_long(log):
    with pytest.raises(InputError, match=r"could not convert string to float: 'x{150}") as found:
        read_log(log(simple((1, 9, 4.0)).replace("loss 4.0 |", f"loss {'x' * 70_000} |")))
    assert len(str(found.value)) < 1000


RUN = {
    "system": "slr_flat",
    "seed": 1,
    "parameters": 1,
    "valid_loss": 4.0,
    "epochs": [
        {"epoch": 2, "updates": 20, "train_loss": 1.0, "valid_loss": 4.0, "gates": {"gate_slr_l1": 0.5}},
        {"epoch": 1, "updates": 10, "valid_loss": 5.0, "gates": {"gate_slr_l1": 0.3, "_gate_slr_l1_h2": 0.4}},
    ],
    "tests": ["test"],
}


def test_a_run_record_is_read(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    record = read_run(str(tmp_path))
    assert (record.system, record.seed, record.tests) == ("slr_flat", 1, ("test",))
    assert record.history == [
        Validation(1, 10, 5.0, {("slr", 1, 0): 0.3, ("slr", 1, 2): 0.4}),
        Validation(2, 20, 4.0, {("slr", 1, 0): 0.5}),
    ]
    assert record.translations("test") == str(tmp_path / "test.txt")


@pytest.mark.parametrize(
    ("key", "value"),
    [("system", ""), ("seed", None), ("seed", math.inf), ("epochs", [{"epoch": 1}]), ("epochs", 3), ("tests", [1])],
)
def test_another_run_record_is_refused(tmp_path, key, value):
    (tmp_path / "run.json").write_text(json.dumps({**RUN, key: value}))
    with pytest.raises(InputError, match=r"run\.json: expected a run record, found "):
        read_run(str(tmp_path))
