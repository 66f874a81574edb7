"""Checkpoints are data: what fairseq writes is read, and nothing in a file is run, opened, asked or without limit."""

from __future__ import annotations

import os
import resource
import zipfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_utils, utils
from fairseq.data.encoders import gpt2_bpe

import commands
import small
from fairseq_syntax.checkpoints import literals, recorded_files, safe_loading
from fairseq_syntax.checkpoints.size_limit import SizeLimit
from fairseq_syntax.commands import average_checkpoints, dump
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.errors import InputError
from tiers import others_nightly
from time_limit import within

State = dict[str, Any]
LOADS: dict[str, Callable[[Path, Path], object]] = {
    "load": lambda data, path: checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)}),
    "generate": lambda data, path: commands.generate(data, path),
    "interactive": lambda data, path: commands.interactive(
        ["a"], data, path, folder=path.parent, more=("--parser=none",)
    ),
    "validate": lambda data, path: commands.validate(data, path),
    "restore": lambda data, path: commands.train(data, path.parent / "r", "--max-update=2", f"--restore-file={path}"),
    "finetune": lambda data, path: commands.train(
        data, path.parent / "f", "--max-update=1", f"--finetune-from-model={path}"
    ),
    "python": lambda data, path: SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data)),
    "dump": lambda data, path: dump.main([str(data), f"--path={path}", "--cpu", f"--output={path.parent}/dump.npz"]),
    "average": lambda _, path: average_checkpoints.main([f"--inputs={path}", f"--output={path.parent}/average.pt"]),
}
ORDINARY = {"load", "generate", "restore"}  # with the others it takes minutes: they run nightly


@pytest.fixture(scope="module")
def checkpoint(data_bin, tmp_path_factory) -> Path:
    """A checkpoint with n-gram counts of BLEU."""
    folder = tmp_path_factory.mktemp("run")
    bleu = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 1, "max_len_b": 5}']
    commands.train(data_bin, folder, "--max-update=1", *bleu)
    return folder / "checkpoint_last.pt"


def changed(checkpoint: Path, path: Path, part: str, /, **options: object) -> Path:
    """A copy of a checkpoint with other options in a part of its configuration."""

    def edit(state: State) -> None:
        found = state["cfg"].get(part) or {}
        (vars(found) if isinstance(found, Namespace) else found).update(options)
        state["cfg"][part] = found

    return commands.edited(checkpoint, path, edit)


def counts(state: State) -> list[list[float]]:
    """The n-gram counts in a checkpoint."""
    meters = [meter for found in state["extra_state"]["metrics"].values() for *_, meter in found]
    found = [meter.get(name) for meter in meters for name in ("val", "sum")]
    return [values.tolist() for values in found if isinstance(values, np.ndarray)]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before torch 1.6"])
def test_what_fairseq_writes_is_read_and_saved(data_bin, checkpoint, tmp_path, zipped):
    state = torch.load(checkpoint, weights_only=False)
    state["x"] = [np.array([1, 2], dtype=kind) for kind in ("int64", "int32", "float64", "float32")]
    torch.save({"args": Namespace(lr=[0.1]), "x": state.pop("x")}, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", weights_only=True)
    assert (loaded["args"], [array.tolist() for array in loaded["x"]]) == (Namespace(lr=[0.1]), [[1, 2]] * 4)
    expected = counts(state)
    assert len(expected) == 4
    for name in ("x.pt", "y.pt"):  # the second from what was loaded
        path = tmp_path / name
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        state = safe_loading.read(str(path))
        assert counts(state) == counts(torch.load(path, weights_only=False)) == expected
        if not zipped:
            numpy_1 = path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            path.write_bytes(numpy_1)
            assert counts(safe_loading.read(str(path))) == expected
    commands.train(data_bin, tmp_path / "run", "--max-update=2", f"--restore-file={path}")
    assert commands.generate(data_bin, path) == commands.generate(data_bin, checkpoint)
    for part, options in (
        ("checkpoint", {"save_dir": "s3://runs", "model_parallel_size": "${common.model_parallel_size}"}),
        ("distributed_training", {"distributed_init_method": "tcp://localhost:1", "tpu": "${common.tpu}"}),
        ("bpe", {"_name": "gpt2", "gpt2_encoder_json": gpt2_bpe.DEFAULT_ENCODER_JSON}),
    ):
        assert safe_loading.read(str(changed(checkpoint, tmp_path / "x.pt", part, **options)))["cfg"][part]


@dataclass
class Reduced:
    """Pickled as a call of a function and, if there is one, a state."""

    reduced: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def dtype(name: str, *state: Any) -> Reduced:
    return Reduced((np.dtype, (name, False, True), *state))


PLAIN = (3, "<", None, None, None, -1, -1, 0)
#: A state whose numbers numpy would take for addresses of objects.
OF_OBJECTS = (3, "<", None, ("a",), {"a": (dtype("O"), 0)}, 8, 8, 1)


def array(kind: Any, shape: Any = (1,), content: Any = b"A" * 8, start: Any = (np.ndarray, (0,), b"b")) -> Reduced:
    return Reduced((np.empty(0).__reduce__()[0], start, (1, shape, kind, False, content)))


@pytest.mark.parametrize(
    "value",
    [
        array(dtype("i8", OF_OBJECTS)),
        array(dtype("i8", (*PLAIN[:-1], 63))),
        array(dtype("O", PLAIN), content=[1]),
        array(dtype("V8", PLAIN)),
        array(dtype("i8", PLAIN), shape=(2**40,)),
        array(dtype("i8", PLAIN), shape=(1, 1)),
        array(dtype("i8", PLAIN), content=b"A" * 7),
        array(dtype("i8", PLAIN), content=[1]),
        array(None),
        array(dtype("i8", PLAIN), start=(np.dtype, (0,), b"b")),
        Reduced((np.ndarray, ((10**12,),))),
        Reduced((np.dtype, ("O",))),
        Reduced((type(np.dtype("i8")), ())),
        np.array(["text"]),
        np.zeros((2, 2)),
        np.float64(1.0),
        Fraction(1, 2),
    ],
    ids=lambda value: str(value)[:200],
)
def test_objects_other_than_rows_of_numbers_are_refused(tmp_path, value):
    for zipped in (True, False):
        torch.save({"x": value}, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
        with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, found a file that torch cannot"):
            safe_loading.read(str(tmp_path / "x.pt"))


def endless(kind: str) -> list[Any]:
    value: list[Any] = []
    if kind == "loop":
        value.append(value)
    for _ in range(100 if kind == "deep" else 25):
        value = [value, value] if kind == "shared" else [value]
    return value


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        *((lambda s, w=w: s["model"].update(x=w), r"model\.x: expected a plain tensor")
          for w in (torch.ones(1).expand(10**9), torch.ones(2).to_sparse(), torch.empty(10**12, device="meta"))),
        (lambda s: s.update(x=np.arange(4)), "x: expected no array here"),
        (lambda s: s["model"].update(x=np.arange(4)), "expected a fairseq checkpoint, found one without a model's"),
        (lambda s: vars(s["cfg"]["model"]).update(x=np.arange(4)), r"cfg\.model\.x: expected no array here"),
        (lambda s: s["cfg"]["common"].update(x=endless("deep")), "found one that is nested"),
        (lambda s: s["cfg"]["common"].update(x=endless("loop")), "found one that is nested"),
        (lambda s: s["cfg"]["common"].update(x=endless("shared")), "found more than"),
        *((lambda s, v=v: s["cfg"]["common"].update(log_file=v), r"cfg\.common\.log_file: expected a value")
          for v in ("${oc.env:HOME}", "a${common.seed}", "${oc.decode:${oc.env:HOME}}")),
        (lambda s: s["cfg"]["task"].update(num_batch_buckets=10**9), r"cfg\.task\.num_batch_buckets: expected at most"),
        (lambda s: s["cfg"]["task"].update(required_seq_len_multiple=float("nan")), "expected at most 10000"),
        *((lambda s, v=v: s.update(cfg=v), "cfg: expected dict or ") for v in ("text", ["list"], Namespace())),
        *((lambda s, v=v: s["cfg"].update(model=v), r"cfg\.model: expected dict or Namespace") for v in (None, 5)),
        (lambda s: s["cfg"].update(task=5), r"cfg\.task: expected dict or Namespace"),
        (lambda s: s.update(args="text"), "args: expected Namespace"),
        (lambda s: s.update(extra_state=5), "extra_state: expected dict"),
        (lambda s: s["extra_state"]["train_iterator"].update(epoch="x"), "epoch: expected int"),
    ],
)  # fmt: skip
def test_content_that_fairseq_never_writes_is_refused(checkpoint, tmp_path, edit, message):
    path = commands.edited(checkpoint, tmp_path / "x.pt", edit)
    with pytest.raises(InputError, match=rf"x\.pt: .*{message}") as caught, within(20):
        safe_loading.read(str(path))
    assert len(caught.value.message) < 250


def test_damaged_and_compressed_files_are_refused(checkpoint, tmp_path):
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, .* damaged"):
        safe_loading.read(str(tmp_path / "x.pt"))
    with zipfile.ZipFile(checkpoint) as old, zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            new.writestr(part.filename, old.read(part))
    with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, .* compressed"):
        safe_loading.read(str(tmp_path / "x.pt"))


@pytest.mark.parametrize(
    "edit", [lambda s: s.pop("exp_avg"), lambda s: s.update(exp_avg=torch.ones(3)), lambda s: s.update(step="x")]
)
def test_an_optimizers_state_that_does_not_fit(data_bin, checkpoint, tmp_path, edit):
    path = commands.edited(checkpoint, tmp_path / "x.pt", lambda state: edit(state["last_optimizer_state"]["state"][1]))
    with pytest.raises(InputError, match=r"x\.pt: expected a checkpoint that this training can begin with, found: "):
        LOADS["restore"](data_bin, path)


def running(flag: Path) -> str:
    """The value of an option that writes a file, when it is run."""
    return f"__import__('pathlib').Path({str(flag)!r}).touch() or [10, 20]"


@pytest.mark.parametrize("load", others_nightly(LOADS, ORDINARY))
def test_a_checkpoint_runs_opens_and_asks_nothing(data_bin, checkpoint, tmp_path, load, monkeypatch):
    asked: list[Any] = []
    monkeypatch.setattr(file_utils, "get_from_cache", lambda *args, **_: asked.append(args))
    code, flag, users = running(tmp_path / "flag"), tmp_path / "flag", tmp_path / "users"
    users.mkdir()
    (users / "__init__.py").write_text(code)
    os.mkfifo(tmp_path / "fifo")  # nobody writes to it: opening it never ends
    named = dict.fromkeys([*recorded_files.OPENED, *recorded_files.OF_COMMANDS], str(tmp_path / "fifo"))
    path = changed(checkpoint, tmp_path / "x.pt", "model", **named)
    for part, options in (
        ("task", {"data": "elsewhere", "input_parses": str(tmp_path / "fifo")}),
        ("common", {"user_dir": str(users)}),
        ("optimizer", {"adam_betas": code}),
    ):
        path = changed(path, tmp_path / "x.pt", part, **options)
    with within(20):
        LOADS[load](data_bin, path)
    if load == "generate":
        assert commands.generate(data_bin, path) == commands.generate(data_bin, checkpoint)
    changed(path, path, "model", adaptive_softmax_cutoff=code, decoder_xformers_att_config=code)
    changed(path, path, "task", left_pad_source=code)
    addresses = {"gpt2_vocab_bpe": "http://127.0.0.1:9/", "gpt2_encoder_json": "${common.log_file}"}
    changed(path, path, "bpe", _name="gpt2", **addresses)
    with suppress(ValueError, SystemExit), within(20):
        LOADS[load](data_bin, path)
    assert not flag.exists()
    assert {url for url, *_ in asked} <= {gpt2_bpe.DEFAULT_ENCODER_JSON, gpt2_bpe.DEFAULT_VOCAB_BPE}


def test_options_from_elsewhere_are_not_run_either(tmp_path):
    code = running(tmp_path / "flag")
    for options in ({"arch": "transformer"}, {"arch": "gated_syntax_transformer_tiny"}):
        with pytest.raises(ValueError, match="expected a literal"):
            small.model(**options, adaptive_softmax_cutoff=code)
    with pytest.raises(ValueError, match="expected a literal"):
        small.model("fconv", encoder_layers=code)
    for run in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="expected a literal"):
            run(code)
    assert not (tmp_path / "flag").exists()


INVALID = [
    *((options, "expected a model's configuration, found: ")
      for options in ({"encoder_attention_heads": 0}, {"decoder_attention_heads": "a"}, {"syntax_masks": 5},
                      {"slr": 1}, {"_name": ["a"]}, {"syntax_layers": "9"})),
    *((options, "expected weights that fit .*, found: ")
      for options in ({"encoder_ffn_embed_dim": "a"}, {"encoder_attention_heads": 7}, {"activation_fn": "none"},
                      {"adaptive_softmax_cutoff": "f()" * 100_000})),
    ({"_name": "none", "arch": "none"}, "expected a model that fairseq knows, found 'none'"),
    ({"encoder": {"layers": 10**9}}, "encoder: expected an option of a model, found a dictionary"),
]  # fmt: skip


@pytest.mark.parametrize("load", others_nightly(["load", "python", "dump", "average", "restore"], {"load"}))
def test_invalid_options_are_those_of_the_checkpoint(data_bin, checkpoint, tmp_path, load):
    for options, message in INVALID:
        if load in ("average", "restore") and ("fit" in message or "knows" in message):
            continue  # no model is built from it
        path = changed(checkpoint, tmp_path / "x.pt", "model", **options)
        with pytest.raises((ValueError, SystemExit), match=rf"x\.pt: {message}") as caught, within(20):
            LOADS[load](data_bin, path)
        assert len(str(caught.value)) < 1000


_UPOS = {"feature_embeddings": "upos", "feature_merge": "sum"}
HUGE: list[dict[str, Any]] = [
    {"encoder_layers": 10**9},
    {"encoder_embed_dim": 10**6},
    {"decoder_embed_dim": 10**9},
    {"encoder_ffn_embed_dim": 10**9},
    {"decoder_ffn_embed_dim": 2**62},
    {"encoder_attention_heads": 10**6},
    {"decoder_output_dim": 10**9},
    {"gate_hidden_dim": 10**8},
    {**_UPOS, "upos_labels": " ".join(map(str, range(10**6)))},
    {**_UPOS, "upos_labels": "x", "feature_embed_dim": 10**9},
    {"encoder_learned_pos": True, "max_source_positions": 10**7},
    {"max_source_positions": 10**9},
]


@pytest.mark.parametrize(
    ("load", "options"), [("load", HUGE), *((name, HUGE[-1:]) for name in ("generate", "python", "dump"))]
)
def test_a_model_that_is_far_larger_than_its_weights_is_not_built(data_bin, checkpoint, tmp_path, load, options):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for huge in options:
        path = changed(checkpoint, tmp_path / "x.pt", "model", **huge)
        with pytest.raises((ValueError, SystemExit), match=r"x\.pt: .*expected"), within(20):
            LOADS[load](data_bin, path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KB


def test_layers_are_counted_whatever_numbers_weights_have(data_bin, checkpoint, tmp_path):
    path = changed(checkpoint, tmp_path / "x.pt", "model", encoder_layers=10**9)
    commands.edited(path, path, lambda state: state["model"].update({f"encoder.layers.{10**9 - 1}.x": torch.ones(1)}))
    with pytest.raises(InputError, match=r"x\.pt: encoder_layers: expected at most 3, .*"), within(20):
        LOADS["load"](data_bin, path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("arch", "option"), [("transformer", "layers"), ("transformer_lm", "embed_dim"), ("lstm", "layers")]
)
def test_stock_models_have_the_limit_too(arch, option):
    with SizeLimit() as limit, within(20):
        limit.of("x.pt", {"model": {"x": torch.ones(1000)}})
        with pytest.raises(InputError, match=r"x\.pt: expected options of a model that is as large as its weights"):
            small.model(arch, **{f"{side}_{option}": 10**8 for side in ("encoder", "decoder")})


@pytest.mark.parametrize(
    "value",
    ["[(512, 3)] * 20", "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)]", " 10,20", "-1", "True", "{'k': [1, 2]}"],
)
def test_literals_have_the_values_of_python(value):
    assert literals.literal(value) == eval(value.strip())


@pytest.mark.parametrize(
    "value",
    ["", "x", "f()", "(1).real", "[n for n in (1,)]", "lambda: 1", "2 ** 9", "[1] * 'x'", "1\0", "[" * 9999,
     "[0] * 10001", "20000 * 'a'", "[0] * 5000 * 2 + [1]", "*".join(["99999999"] * 400), "('a' * 9999 + 'a' * 9999)"],
)  # fmt: skip
def test_other_strings_are_no_literals(value):
    with pytest.raises(ValueError, match="expected a literal") as caught:
        literals.literal(value)
    assert len(str(caught.value)) < 250


def test_args_are_the_options_that_the_model_was_built_with(data_bin, tmp_path):
    assert small.model(gate_hidden_dim=7).args.gate_hidden_dim == 7
    trainer = commands.train(data_bin, tmp_path, "--max-update=1", "--seed=5")
    reloaded, _ = commands.load(tmp_path / "checkpoint_last.pt")
    for model in (trainer.get_model(), reloaded):
        assert isinstance(model.args, Namespace)
        assert (model.args.seed, model.args.arch) == (5, "gated_syntax_transformer_tiny")
