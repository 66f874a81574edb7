"""Safe loading knows what fairseq checkpoints hold, and nothing more; and what they hold is never run."""

from __future__ import annotations

import ast
import importlib
import os
import pickle
import re
import resource
import zipfile
from argparse import Namespace
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import fairseq
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, file_utils, utils
from fairseq.data.encoders import gpt2_bpe

import commands
import small
import syntax_data.commands.average_checkpoints
import syntax_data.commands.dump
from fairseq_syntax.checkpoints import literals, recorded_files, safe_loading
from fairseq_syntax.checkpoints.size_limit import SizeLimit
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.errors import InputError
from time_limit import within


def test_what_fairseq_checkpoints_hold_is_loaded(tmp_path):
    path = tmp_path / "x.pt"
    content = {
        "args": Namespace(arch="x", lr=[0.1]),
        "counts": [np.array([1, 2], dtype=kind) for kind in ("int64", "int32", "float64", "float32")],
    }
    torch.save(content, path)
    loaded = torch.load(path, weights_only=True)
    assert loaded["args"] == content["args"]
    assert [array.tolist() for array in loaded["counts"]] == [[1, 2]] * 4


@dataclass
class Reduced:
    """Pickled as a call of a function and, if there is one, a state."""

    reduced: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def dtype(name: str, *state: Any) -> Reduced:
    return Reduced((np.dtype, (name, False, True), *state))


PLAIN = (3, "<", None, None, None, -1, -1, 0)
#: Whose numbers numpy would take for addresses of objects.
OF_OBJECTS = (3, "<", None, ("a",), {"a": (dtype("O"), 0)}, 8, 8, 1)


def array(kind: Any, shape: Any = (1,), content: Any = b"A" * 8, start: Any = (np.ndarray, (0,), b"b")) -> Reduced:
    return Reduced((np.empty(0).__reduce__()[0], start, (1, shape, kind, False, content)))


@pytest.mark.parametrize(
    "value",
    [
        array(dtype("i8", OF_OBJECTS)),
        array(dtype("i8", (*PLAIN[:-1], 63))),
        array(dtype("O", PLAIN)),
        array(dtype("V8", PLAIN)),
        array(dtype("O", PLAIN), content=[1]),
        array(dtype("i8", PLAIN), shape=(2,)),
        array(dtype("i8", PLAIN), shape=(2**40,)),
        array(dtype("i8", PLAIN), shape=(1, 1)),
        array(dtype("i8", PLAIN), content=b"A" * 7),
        array(dtype("i8", PLAIN), content=[1]),
        array(None),
        array(dtype("i8", PLAIN), start=(np.dtype, (0,), b"b")),
        Reduced((np.ndarray, ((10**12,),))),
        Reduced((np.ndarray, ((1,), "O"))),
        Reduced((np.dtype, ("O",))),
        Reduced((np.dtype, ("U9",))),
        Reduced((type(np.dtype("i8")), ())),
        np.array(["text"]),
        np.array([None]),
        np.zeros((2, 2)),
        np.float64(1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("zipped", [True, False])
def test_arrays_are_plain_numbers(tmp_path, value, zipped):
    torch.save({"x": value}, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, found a file that torch cannot read"):
        safe_loading.read(str(tmp_path / "x.pt"))


def test_anything_else_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"half": Fraction(1, 2)}, path)
    with pytest.raises(pickle.UnpicklingError, match="Fraction"):
        torch.load(path, weights_only=True)


@pytest.fixture(scope="module")
def checkpoint(data_bin, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    commands.train(data_bin, folder, "--max-update=1")
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def scored(data_bin, tmp_path_factory) -> Path:
    """A checkpoint with n-gram counts of BLEU."""
    folder = tmp_path_factory.mktemp("scored")
    bleu = ["--eval-bleu", "--eval-bleu-detok=space", '--eval-bleu-args={"beam": 1, "max_len_b": 5}']
    commands.train(data_bin, folder, "--max-update=1", *bleu)
    return folder / "checkpoint_last.pt"


def counts(state: dict[str, Any]) -> list[list[float]]:
    """The n-gram counts in a checkpoint."""
    meters = [meter for found in state["extra_state"]["metrics"].values() for *_, meter in found]
    found = [meter.get(name) for meter in meters for name in ("val", "sum")]
    return [values.tolist() for values in found if isinstance(values, np.ndarray)]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "before torch 1.6"])
def test_counts_of_bleu_are_read_and_saved(data_bin, scored, tmp_path, zipped):
    state = torch.load(scored, weights_only=False)
    expected = counts(state)
    assert len(expected) == 4
    for name in ("x.pt", "y.pt"):  # the second from what was loaded
        path = tmp_path / name
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        state = safe_loading.read(str(path))
        assert counts(state) == expected
        assert counts(torch.load(path, weights_only=False)) == expected
        numpy_1 = path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        if not zipped:
            path.write_bytes(numpy_1)
            assert counts(safe_loading.read(str(path))) == expected
    commands.train(data_bin, tmp_path / "run", "--max-update=2", f"--restore-file={path}")
    assert commands.generate(data_bin, path) == commands.generate(data_bin, scored)


@pytest.mark.parametrize("place", ["x", "cfg", "model", "extra_state"])
def test_arrays_elsewhere_are_refused(checkpoint, tmp_path, place):
    state = torch.load(checkpoint, weights_only=True)
    part = state if place == "x" else state[place]
    (vars(part["model"]) if place == "cfg" else part)["x"] = np.arange(4)
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"x\.pt: (.*x: expected no array here|.*without a model's weights)"):
        safe_loading.read(str(tmp_path / "x.pt"))


def test_weights_without_all_their_numbers(checkpoint, tmp_path):
    for weight in (torch.ones(1).expand(10**9), torch.ones(2).to_sparse(), torch.empty(10**12, device="meta")):
        state = torch.load(checkpoint, weights_only=True)
        state["model"]["x"] = weight
        torch.save(state, tmp_path / "x.pt")
        with pytest.raises(InputError, match=r"x\.pt: model\.x: expected a plain tensor"):
            safe_loading.read(str(tmp_path / "x.pt"))


def test_a_damaged_weight_is_noticed(checkpoint, tmp_path):
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "x.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, .* damaged"):
        safe_loading.read(str(tmp_path / "x.pt"))


def test_compressed_parts_are_refused(checkpoint, tmp_path):
    with zipfile.ZipFile(checkpoint) as old, zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            new.writestr(part.filename, old.read(part))
    with pytest.raises(InputError, match=r"x\.pt: expected a fairseq checkpoint, .* compressed"):
        safe_loading.read(str(tmp_path / "x.pt"), mmap=True)


@pytest.mark.parametrize("kind", ["deep", "loop", "shared"])
def test_values_without_end(checkpoint, tmp_path, kind):
    value: Any = []
    if kind == "loop":
        value.append(value)
    for _ in range(100 if kind == "deep" else 25):
        value = [value, value] if kind == "shared" else [value]
    path = changed(checkpoint, tmp_path / "x.pt", "common", x=value)
    with pytest.raises(InputError, match=r"x\.pt: .* found (more than|one that is nested)"), within(20):
        safe_loading.read(str(path))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("exp_avg"),
        lambda state: state.update(exp_avg=torch.ones(3)),
        lambda state: state.update(step="x"),
    ],
)
def test_an_optimizers_state_that_does_not_fit(data_bin, checkpoint, tmp_path, change):
    state = torch.load(checkpoint, weights_only=True)
    change(state["last_optimizer_state"]["state"][1])
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(InputError, match=r"x\.pt: expected a checkpoint that this training can begin with, found: "):
        LOADS["restore"](data_bin, tmp_path / "x.pt")


def running(flag: Path) -> str:
    """A value of an option that makes a file, when it is run."""
    return f"__import__('pathlib').Path({str(flag)!r}).touch() or [10, 20]"


def changed(checkpoint: Path, path: Path, part: str, /, **options: object) -> Path:
    """The checkpoint with other options in a part of its configuration."""
    state = torch.load(checkpoint, weights_only=True)
    found = state["cfg"].setdefault(part, {})
    if found is None:
        found = state["cfg"][part] = {}
    (vars(found) if isinstance(found, Namespace) else found).update(options)
    torch.save(state, path)
    torch.load(path, weights_only=True)  # torch finds nothing wrong with it
    return path


LOADS = {
    "load": lambda data, path: checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)}),
    "generate": lambda data, path: commands.generate(data, path),
    "interactive": lambda data, path: commands.interactive(["a"], data, path, folder=path.parent),
    "validate": lambda data, path: commands.validate(data, path),
    "restore": lambda data, path: commands.train(data, path.parent / "r", "--max-update=2", f"--restore-file={path}"),
    "finetune": lambda data, path: commands.train(
        data, path.parent / "f", "--max-update=1", f"--finetune-from-model={path}"
    ),
    "python": lambda data, path: SyntaxTransformerModel.from_pretrained(str(path.parent), path.name, str(data)),
    "dump": lambda data, path: syntax_data.commands.dump.main(
        [str(data), "--path", str(path), "--cpu", "--output", str(path.parent / "dump.npz")]
    ),
    "average": lambda data, path: syntax_data.commands.average_checkpoints.main(
        ["--inputs", str(path), "--output", str(path.parent / "average.pt")]
    ),
}


@pytest.mark.parametrize("load", LOADS)
def test_a_checkpoint_does_not_run_what_its_configuration_says(data_bin, checkpoint, tmp_path, load):
    flag = tmp_path / "flag"
    path = changed(checkpoint, tmp_path / "x.pt", "model", adaptive_softmax_cutoff=running(flag))
    with pytest.raises((ValueError, SystemExit), match=r"x\.pt: adaptive_softmax_cutoff: expected a literal"):
        LOADS[load](data_bin, path)
    assert not flag.exists()
    assert {file.name for file in tmp_path.iterdir()} <= {"x.pt", "interactive.txt", "r", "f"}


@pytest.mark.parametrize(
    ("part", "option"),
    [("optimizer", "adam_betas"), ("criterion", "wer_args"), ("distributed_training", "pipeline_balance"),
     ("model", "decoder_xformers_att_config"), ("model", "encoder_layers"), ("task", "left_pad_source")],
)  # fmt: skip
def test_nor_in_another_part(checkpoint, tmp_path, part, option):
    flag = tmp_path / "flag"
    path = changed(checkpoint, tmp_path / "x.pt", part, **{option: running(flag)})
    for overrides in (None, {option: "[10, 20]"}):
        with pytest.raises(ValueError, match=rf"x\.pt: {option}: expected a literal"):
            checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides=overrides)
    assert not flag.exists()


@pytest.mark.parametrize("load", ["generate", "validate", "python", "dump"])
def test_a_checkpoint_does_not_import_its_user_dir(data_bin, checkpoint, tmp_path, load):
    (tmp_path / "users").mkdir()
    (tmp_path / "users/__init__.py").write_text(running(tmp_path / "flag"))
    LOADS[load](data_bin, changed(checkpoint, tmp_path / "x.pt", "common", user_dir=str(tmp_path / "users")))
    assert not (tmp_path / "flag").exists()


ODD = {
    "cfg": ["text", ["list"], Namespace(), {}],
    "cfg.model": [None, 5, "${other}"],
    "cfg.task": [None, 5],
    "args": ["text", {"arch": "transformer"}],
    "optimizer_history": [5, []],
    "extra_state": [5],
}


@pytest.mark.parametrize(
    ("load", "name"), [("dump", name) for name in ODD] + [("python", "cfg.model"), ("average", "cfg")]
)
def test_parts_of_other_types_are_named(data_bin, checkpoint, tmp_path, load, name):
    for value in ODD[name]:
        state = torch.load(checkpoint, weights_only=True)
        outer, _, inner = name.partition(".")
        if inner:
            state[outer][inner] = value
        else:
            state[outer] = value
        torch.save(state, tmp_path / "x.pt")
        with pytest.raises((ValueError, SystemExit), match=rf"x\.pt: {name}(\.model)?: expected a .*, found "):
            LOADS[load](data_bin, tmp_path / "x.pt")


@pytest.mark.parametrize("load", ["generate", "restore", "python", "dump", "average"])
def test_options_that_cannot_be_meant_are_those_of_the_checkpoint(data_bin, checkpoint, tmp_path, load):
    for option, value in (
        ("encoder_attention_heads", 0), ("decoder_attention_heads", "a"), ("syntax_masks", 5), ("slr", 1),
        ("_name", ["a"]), ("syntax_layers", "9"),
    ):  # fmt: skip
        path = changed(checkpoint, tmp_path / "x.pt", "model", **{option: value})
        with pytest.raises((ValueError, SystemExit), match=r"x\.pt: expected a model's configuration, found: "):
            LOADS[load](data_bin, path)


@pytest.mark.parametrize("load", ["generate", "validate", "python", "dump"])
def test_an_architecture_that_there_is_not(data_bin, checkpoint, tmp_path, load):
    path = changed(checkpoint, tmp_path / "x.pt", "model", _name="none", arch="none")
    with pytest.raises((ValueError, SystemExit), match=r"x\.pt: .*, found the architecture 'none'"):
        LOADS[load](data_bin, path)


@pytest.mark.parametrize("load", ["python", "dump"])
def test_a_model_that_cannot_be_built(data_bin, checkpoint, tmp_path, load):
    for option, value in (("encoder_ffn_embed_dim", "a"), ("encoder_attention_heads", 7), ("activation_fn", "none")):
        path = changed(checkpoint, tmp_path / "x.pt", "model", **{option: value})
        with pytest.raises((ValueError, SystemExit), match=r"x\.pt: expected weights that fit .*, found: "):
            LOADS[load](data_bin, path)


@pytest.mark.parametrize("load", ["generate", "python", "dump", "average"])
def test_files_that_a_checkpoint_names_are_not_opened(data_bin, checkpoint, tmp_path, load):
    os.mkfifo(tmp_path / "fifo")  # nobody writes to it: opening it never ends
    named = dict.fromkeys([*recorded_files.OPENED, *recorded_files.OF_COMMANDS], str(tmp_path / "fifo"))
    named["wer_args"] = repr(("x", str(tmp_path / "fifo"), 0, 0))
    changed(checkpoint, tmp_path / "x.pt", "model", **named)
    path = changed(tmp_path / "x.pt", tmp_path / "x.pt", "task", data="elsewhere", parser_models=str(tmp_path / "fifo"))
    with within(20):
        LOADS[load](data_bin, path)
    assert commands.generate(data_bin, path) == commands.generate(data_bin, checkpoint)


_UPOS = {"feature_embeddings": "upos", "feature_merge": "sum"}
HUGE = [
    {"encoder_layers": 10**9},
    {"decoder_layers": 10**9},
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
    {"max_target_positions": 10**8},
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


@pytest.mark.parametrize("load", ["load", "average"])
def test_a_side_that_is_a_dictionary_of_its_own_is_refused(data_bin, checkpoint, tmp_path, load):
    os.mkfifo(tmp_path / "fifo")
    for side in ({"embed_path": str(tmp_path / "fifo")}, {"layers": 10**9}):
        path = changed(checkpoint, tmp_path / "x.pt", "model", encoder=side)
        with pytest.raises((ValueError, SystemExit), match=r"x\.pt: encoder: expected an option"), within(20):
            LOADS[load](data_bin, path)


@pytest.mark.parametrize("load", ["load", "average"])
def test_layers_are_counted_whatever_numbers_weights_have(data_bin, checkpoint, tmp_path, load):
    path = changed(checkpoint, tmp_path / "x.pt", "model", encoder_layers=10**9)
    state = torch.load(path, weights_only=True)
    state["model"][f"encoder.layers.{10**9 - 1}.x"] = torch.ones(1)
    torch.save(state, path)
    with pytest.raises((ValueError, SystemExit), match=r"x\.pt: encoder_layers: expected at most 3, .*"), within(20):
        LOADS[load](data_bin, path)


@pytest.mark.parametrize(
    ("arch", "option"), [("transformer", "layers"), ("transformer_lm", "embed_dim"), ("lstm", "layers")]
)
def test_stock_models_have_the_limit_too(arch, option):
    with SizeLimit() as limit, within(20):
        limit.of("x.pt", {"model": {"x": torch.ones(1000)}})
        with pytest.raises(InputError, match=r"x\.pt: expected options of a model that is as large as its weights"):
            small.model(arch, **{f"{side}_{option}": 10**8 for side in ("encoder", "decoder")})


SECRET = "http://127.0.0.1:9/${oc.env:HOME}"


@pytest.mark.parametrize("load", ["generate", "interactive", "restore", "python", "dump", "average"])
def test_a_checkpoint_neither_learns_nor_asks_anything(data_bin, checkpoint, tmp_path, monkeypatch, load):
    asked = []
    monkeypatch.setattr(file_utils, "get_from_cache", lambda *args, **_: asked.append(args))
    for options, found in (
        ({"gpt2_encoder_json": SECRET}, "bpe.gpt2_encoder_json: expected a value"),
        ({"gpt2_encoder_json": "${common.log_file}"}, "bpe.gpt2_encoder_json: expected a value"),
        ({"gpt2_vocab_bpe": "http://127.0.0.1:9/"}, "bpe.gpt2_vocab_bpe: expected a file"),
    ):
        path = changed(checkpoint, tmp_path / "x.pt", "bpe", _name="gpt2", **options)
        with pytest.raises((ValueError, SystemExit), match=rf"x\.pt: {found}"):
            LOADS[load](data_bin, path)
    assert not asked


@pytest.mark.parametrize(
    ("part", "option", "value"),
    [
        ("common", "log_file", "${oc.env:HOME}"),
        ("common", "log_file", "a${common.seed}"),
        ("model", "dropout", "${oc.decode:${oc.env:HOME}}"),
        ("model", "bpe_codes", "https://127.0.0.1:9/"),
        ("tokenizer", "moses_source_lang", " s3://127.0.0.1:9/"),
        ("tokenizer", "moses_source_lang", "ht\ntp:127.0.0.1:9/"),
        ("task", "num_batch_buckets", 10**9),
        ("task", "required_seq_len_multiple", float("nan")),
    ],
)
def test_nor_by_another_option(checkpoint, tmp_path, part, option, value):
    path = changed(checkpoint, tmp_path / "x.pt", part, **{option: value})
    with pytest.raises(InputError, match=rf"x\.pt: {part}\.{option}: expected (a value|a file|at most 10000), found"):
        safe_loading.read(str(path))


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("checkpoint", {"save_dir": "s3://runs", "model_parallel_size": "${common.model_parallel_size}"}),
        ("distributed_training", {"distributed_init_method": "tcp://localhost:1", "tpu": "${common.tpu}"}),
        ("bpe", {"_name": "gpt2", "gpt2_encoder_json": gpt2_bpe.DEFAULT_ENCODER_JSON}),
    ],
)
def test_what_fairseq_itself_writes_is_read(checkpoint, tmp_path, part, options):
    assert safe_loading.read(str(changed(checkpoint, tmp_path / "x.pt", part, **options)))["cfg"][part]


def test_nor_does_an_option_from_elsewhere(tmp_path):
    flag = tmp_path / "flag"
    for options in ({"arch": "transformer"}, {"arch": "gated_syntax_transformer_tiny"}):
        with pytest.raises(ValueError, match="expected a literal"):
            small.model(**options, adaptive_softmax_cutoff=running(flag))
    with pytest.raises(ValueError, match="expected a literal"):
        small.model("fconv", encoder_layers=running(flag))
    for run in (utils.eval_str_list, utils.eval_str_dict, utils.eval_bool):
        with pytest.raises(ValueError, match="expected a literal"):
            run(running(flag))
    assert not flag.exists()


def test_all_that_fairseq_runs_is_known():
    root = Path(fairseq.__file__).parent
    options = set()
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        if module.startswith("fairseq.examples"):
            continue
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        called = {ast.unparse(call.func) for call in calls}
        assert not called & {"exec", "compile", "__import__"}, module
        if "eval" in called:
            with pytest.raises(ValueError, match="expected a literal"):
                vars(importlib.import_module(module))["eval"]("print()")
        runs = re.compile(r"eval|(.*\.)?eval_(bool|str_list|str_dict)")
        running_calls = [call for call in calls if runs.fullmatch(ast.unparse(call.func))]
        options |= {ast.unparse(call.args[0]).rpartition(".")[2] for call in running_calls}
    arguments = {"x", "uf", "strip()"}  # a command line's, and lines of data
    assert options - arguments <= literals.OPTIONS
    assert {f"{side}_xformers_att_config" for side in ("encoder", "decoder")} <= literals.OPTIONS


@pytest.mark.parametrize(
    "value",
    ["[(512, 3)] * 20", "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]", "(0.9, 0.999)", " 10,20",
     "1e-4", "-1", "True", "None", "'x'", "{'name': 'global', 'k': [1, 2]}", "[]"],
)  # fmt: skip
def test_literals_are_what_they_were(value):
    assert literals.literal(value) == eval(value.strip())


@pytest.mark.parametrize(
    "value",
    ["", "x", "f()", "(1).real", "[n for n in (1,)]", "lambda: 1", "2 ** 9", "[1] * 'x'", "1\0", "[" * 9999, "a b"],
)
def test_all_else_is_refused(value):
    with pytest.raises(ValueError, match="expected a literal"):
        literals.literal(value)


@pytest.mark.parametrize(
    "value",
    ["[0] * 10001", "20000 * 'a'", "[0] * 5000 * 2 + [1]", "*".join(["99999999"] * 400), "('a' * 9999 + 'a' * 9999)"],
)
def test_nor_is_what_is_huge(value):
    with pytest.raises(ValueError, match="expected a literal") as caught:
        literals.literal(value)
    assert len(str(caught.value)) < 250
    assert "at most" in str(caught.value.__cause__)


def test_messages_show_no_more_than_the_beginning_of_a_value(checkpoint, tmp_path):
    path = changed(checkpoint, tmp_path / "x.pt", "model", adaptive_softmax_cutoff="f()" * 100_000)
    with pytest.raises(InputError, match="expected a literal") as caught:
        safe_loading.read(str(path))
    assert len(caught.value.message) < 250


def test_adaptive_softmax_trains_and_translates(data_bin, tmp_path):
    adaptive = ["--criterion=adaptive_loss", "--adaptive-softmax-cutoff=10,20", "--adam-betas=(0.8, 0.9)"]
    adaptive.append("--ddp-backend=legacy_ddp")
    model = [option for option in commands.TINY if not option.startswith("--share")]
    trainer = commands.train(data_bin, tmp_path, "--max-update=2", *adaptive, model=model)
    assert trainer.get_model().decoder.adaptive_softmax.cutoff[:2] == [10, 20]
    assert trainer.optimizer.optimizer_config["betas"] == (0.8, 0.9)
    assert commands.generate(data_bin, tmp_path / "checkpoint_last.pt")
    commands.train(data_bin, tmp_path, "--max-update=3", *adaptive, model=model)


def test_python_names_a_checkpoint_that_it_cannot_use(data_bin, checkpoint, tmp_path):
    (tmp_path / "bad.pt").write_bytes(b"no checkpoint")
    state = torch.load(checkpoint, weights_only=True)
    state["model"]["more"] = torch.zeros(1)
    torch.save(state, tmp_path / "more.pt")
    for name, message in (("bad.pt", "expected a fairseq checkpoint"), ("more.pt", "expected weights that fit .*more")):
        with pytest.raises(InputError, match=rf"{name}: {message}"):
            SyntaxTransformerModel.from_pretrained(str(tmp_path), name, str(data_bin))


def test_args_are_the_options_that_the_model_was_built_with(data_bin, tmp_path):
    assert small.model(gate_hidden_dim=7).args.gate_hidden_dim == 7
    trainer = commands.train(data_bin, tmp_path, "--max-update=1", "--seed=5")
    reloaded, _ = commands.load(tmp_path / "checkpoint_last.pt")
    for model in (trainer.get_model(), reloaded):
        assert isinstance(model.args, Namespace)
        assert model.args.seed == 5
        assert model.args.arch == "gated_syntax_transformer_tiny"
