"""The defects that compat repairs are still there in the fairseq and torch that are installed.

Where a test fails, a repair is no longer needed: delete the file that it names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pkgutil
import re
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from unittest.mock import Mock

import fairseq
import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.criterions import label_smoothed_cross_entropy_with_rdrop as rdrop
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.data import (
    ConcatDataset,
    LanguagePairDataset,
    TokenBlockDataset,
    data_utils,
    language_pair_dataset,
    token_block_dataset,
)
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.nan_detector import NanDetector
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from torch.serialization import add_safe_globals, clear_safe_globals, get_safe_globals

import small
from fairseq_syntax import checkpoints, compat
from fairseq_syntax.checkpoints import literals
from fairseq_syntax.compat import scores_of_processes
from fairseq_syntax.tasks.syntax_sentence_prediction import SyntaxSentencePredictionTask
from fairseq_syntax.testing import random_features


def mended(file):
    return f"upstream is mended: delete fairseq_syntax/compat/{file}.py"


@contextmanager
def still_raises(*errors, file):
    try:
        yield
    except errors:
        return
    pytest.fail(mended(file))


def pairs(lengths, **kwargs):
    rows = small.Rows([[5] * (n - 1) + [2] for n in lengths])
    symbols = small.dictionary()
    return LanguagePairDataset(rows, rows.sizes, symbols, rows, rows.sizes, symbols, **kwargs)


def stock():
    net_input = small.batch([random_features(Random(3), 4, 6)])
    return small.model("transformer").eval(), net_input


@pytest.mark.skipif(hasattr(np, "compat"), reason="numpy 1")
@pytest.mark.parametrize(
    "make",
    [
        lambda: pairs([3, 9], num_buckets=2),
        lambda: TokenBlockDataset(
            small.Rows([[5, 2], [5, 6, 2]]), [2, 3], block_size=9, pad=1, eos=2, break_mode="eos"
        ),
    ],
    ids=["buckets", "lines"],
)
def test_numpy2(make, monkeypatch):
    assert len(make()) == 2
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        monkeypatch.setattr(module, "np", np)
    with still_raises(AttributeError, TypeError, file="numpy2"):
        make()


def test_missing_checkpoint(tmp_path):
    cfg = CheckpointConfig(save_dir=str(tmp_path), restore_file=str(tmp_path / "model.pt"))
    trainer = Mock(checkpoint_suffix="")
    trainer.load_checkpoint.return_value = None
    with pytest.raises(FileNotFoundError, match=r"--restore-file: expected a checkpoint, found no file .*model\.pt"):
        checkpoint_utils.load_checkpoint(cfg, trainer)
    checkpoint_utils.load_checkpoint.__wrapped__(cfg, trainer)  # which leaves it to the trainer
    found = inspect.getsource(Trainer.load_checkpoint.__wrapped__)
    assert 'logger.info("No existing checkpoint found {}".format(filename))' in found, mended("missing_checkpoint")
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(tmp_path)), trainer)


def test_scores_of_processes(process_group):
    task = SimpleNamespace(label_dictionary=small.dictionary())
    for reports in (False, True):
        criterion = SentencePredictionCriterion(SentencePredictionConfig(report_mcc=reports), Mock(**vars(task)))
        assert scores_of_processes.can_be_summed(criterion) == (not reports)
        assert criterion.logging_outputs_can_be_summed(), mended("scores_of_processes")
        assert SyntaxSentencePredictionTask.logging_outputs_can_be_summed(criterion) == (not reports)
    assert distributed_utils.all_gather_list([1], torch.distributed.group.WORLD) == [[1]]
    with still_raises(TypeError, AttributeError, RuntimeError, file="scores_of_processes"):
        distributed_utils.all_gather_list.__wrapped__([1], torch.distributed.group.WORLD)


def test_help(capsys):
    arguments = ["data", "--arch", "transformer", "--help"]
    for parse, has_them in ((options.parse_args_and_arch, True), (options.parse_args_and_arch.__wrapped__, False)):
        with pytest.raises(SystemExit):
            parse(options.get_training_parser(), arguments)
        assert ("--encoder-ffn-embed-dim" in capsys.readouterr().out) == has_them, mended("help")


def test_literals():
    root = Path(fairseq.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        if not module.startswith("examples.") and re.search(r"\b(eval|exec|compile|__import__)\(", path.read_text()):
            calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            called = {ast.unparse(func) for func in calls}
            assert not called & {"exec", "compile", "__import__"}, module
            found |= {module} if "eval" in called else set()
    assert found == set(literals._MODULES), mended("literals")
    for name in found:
        with pytest.raises(ValueError, match="expected a literal"):
            vars(importlib.import_module(f"fairseq.{name}"))["eval"]("print()")


def test_rdrop():
    _, net_input = stock()
    net_input["src_syntax"] = {"word": torch.zeros(1, 6)}
    sample = {"net_input": dict(net_input)}
    repeated = rdrop.duplicate_input.__wrapped__(sample)["net_input"]
    assert len(repeated["src_tokens"]) == 2
    assert len(repeated["src_syntax"]["word"]) == 1 or len(sample["net_input"]["src_tokens"]) == 2, mended("rdrop")


@pytest.mark.parametrize("value", [Namespace(arch="transformer"), np.arange(3)], ids=["options", "counts"])
def test_safe_loading(tmp_path, value):
    torch.save({"value": value}, tmp_path / "checkpoint.pt")
    assert torch.load(tmp_path / "checkpoint.pt")
    allowed = get_safe_globals()
    clear_safe_globals()
    try:
        with still_raises(pickle.UnpicklingError, file="safe_loading"):
            torch.load(tmp_path / "checkpoint.pt")
    finally:
        add_safe_globals(allowed)


def test_loading(tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    cfg = {"model": Namespace(_name="gated_syntax_transformer", syntax_masks="slr"), "task": Namespace(data="x")}
    history = [{"criterion_name": "x", "optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}}
    weights = {f"{side}.layers.{i}.x": torch.zeros(1) for side in ("encoder", "decoder") for i in range(6)}
    torch.save({"args": None, "cfg": cfg, "model": weights, "optimizer_history": history, "extra_state": extra}, path)
    overrides = {"syntax_masks": "sdoi"}
    with pytest.raises(ValueError, match="--syntax-masks: expected slr, whose gates these are, found sdoi"):
        checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
    state = checkpoint_utils.load_checkpoint_to_cpu.__wrapped__(path, overrides)
    assert state["cfg"].model.syntax_masks == "sdoi", mended("loading")
    resume = inspect.getsource(Trainer.load_checkpoint.__wrapped__)
    assert "self.model.load_state_dict(" in resume
    assert not [name for name in ('"cfg"', "self.task") if name in resume], mended("loading")


def amp_step(gradient, *, fp16_init_scale=4, **options):
    """A parameter's change by SGD with a learning rate of 1 under fairseq's --amp, and the optimizer's scaler."""
    common = {"amp_init_scale": 128, "amp_scale_window": None, "fp16_init_scale": fp16_init_scale} | options
    cfg = Namespace(
        optimizer=Namespace(optimizer="sgd", lr=[1.0], momentum=0.0, weight_decay=0.0),
        common=Namespace(min_loss_scale=1e-4, **common),
    )
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = AMPOptimizer.build_optimizer(cfg, [parameter])
    optimizer.backward((gradient * parameter).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    return parameter.item(), optimizer.scaler


def test_amp_unscaling(half_precision, monkeypatch):
    change, scaler = amp_step(0.5, amp_scale_window=1)
    assert (change, scaler.get_scale(), scaler.get_growth_interval()) == (-0.5, 256, 1)
    assert amp_step(float("inf"))[0] == 0
    assert amp_step(0.5, amp_init_scale=2.0**20)[1].get_growth_interval() == 2000
    monkeypatch.setattr(AMPOptimizer, "step", AMPOptimizer.step.__wrapped__)
    monkeypatch.setattr(AMPOptimizer, "__init__", AMPOptimizer.__init__.__wrapped__)
    change, scaler = amp_step(0.5)
    assert (change, scaler.get_scale()) == (-0.5 / 4, 4), mended("amp_unscaling")
    assert amp_step(0.5, amp_scale_window=1)[1].get_growth_interval() == 128, mended("amp_unscaling")


@pytest.mark.parametrize("arch", ["transformer", "gated_syntax_transformer"])
def test_nan_detector(arch, caplog, monkeypatch):
    model, net_input = small.model(arch), small.batch([random_features(Random(3), 4, 6)])
    if arch == "transformer":
        del net_input["src_syntax"]

    def look():
        caplog.clear()
        with NanDetector(model):
            (model(**net_input)[0].sum() / 0).backward()
        return caplog.messages

    (found,) = [message for message in look() if " detected in " in message]
    assert found.startswith("Inf detected in output of decoder.output_projection, ")
    assert found.endswith("backward")
    with torch.no_grad():
        model.encoder.layers[0].fc1.weight[0, 0] = torch.nan
    assert any(re.match(r"NaN detected in output of encoder\.layers\.0\.fc1, .*forward", line) for line in look())
    monkeypatch.setattr(NanDetector, "add_hooks", NanDetector.add_hooks.__wrapped__)
    with still_raises(StopIteration, file="nan_detector"):
        look()


def test_valid_subsets(monkeypatch, tmp_path):
    for name in ("valid", "valid1", "valid2"):
        (tmp_path / f"{name}.en-de.en.idx").touch()
    dataset = {"combine_valid_subsets": None, "ignore_unused_valid_subsets": False, "disable_validation": False}
    named = Namespace(valid_subset="valid,valid1,valid2", **dataset)
    check = data_utils.raise_if_valid_subsets_unintentionally_ignored.__wrapped__
    check(Namespace(dataset=named, task=Namespace(data=str(tmp_path))))
    monkeypatch.setattr(data_utils, "_find_extra_valid_paths", data_utils._find_extra_valid_paths.__wrapped__)
    with still_raises(ValueError, file="valid_subsets"):
        check(Namespace(dataset=named, task=Namespace(data=str(tmp_path))))


def test_validation_on_train():
    symbols = small.dictionary()

    class Model:
        max_positions = staticmethod(lambda: (9, 9))

    def trained_epochs(get_valid_iterator):
        """After validation inside of each epoch: the training's epoch and place in it, and the set's epoch."""
        task = TranslationTask(TranslationConfig(), symbols, symbols)
        task.datasets = {"train": pairs([4] * 24), "valid": pairs([4] * 24)}
        of_set = []
        task.datasets["train"].set_epoch = of_set.append
        arguments = ["data", "--arch=transformer", "--batch-size=2", "--num-workers=0"]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
        processes = {"data_parallel_world_size": 1, "data_parallel_rank": 0}
        trainer = SimpleNamespace(task=task, cfg=cfg, model=Model, reset_dummy_batch=Mock(), **processes)
        training = Trainer.get_train_iterator(trainer, epoch=1, load_dataset=False)
        found = []
        for _ in range(2):
            batches = training.next_epoch_itr(shuffle=False)
            next(batches)
            for subset in ("train", "valid"):
                validation = get_valid_iterator(trainer, subset).next_epoch_itr(shuffle=False, set_dataset_epoch=False)
                list(validation)
            found.append((training.epoch, training.iterations_in_epoch, of_set[-1]))
            list(batches)
        return found

    expected = [(1, 1, 1), (2, 1, 2)]
    assert trained_epochs(Trainer.get_valid_iterator) == expected
    assert trained_epochs(Trainer.get_valid_iterator.__wrapped__) != expected, mended("validation_on_train")


def test_upsampling():
    assert TranslationConfig().upsample_primary == -1, mended("upsampling")
    rows = small.Rows([[5, 2]])
    with still_raises(ValueError, file="upsampling"):
        _ = ConcatDataset([rows, rows], [-1, 1]).sizes


def test_recorded_files(tmp_path):
    with still_raises(FileNotFoundError, file="recorded_files"):
        small.model("transformer", encoder_embed_path=str(tmp_path / "none"))


def test_size_limit():
    class Built(Exception):
        pass

    def build_model(*_):
        raise Built

    state = {"model": {}, "cfg": OmegaConf.create({"model": {"encoder_layers": 10**9}})}
    with still_raises(Built, file="size_limit"):
        checkpoint_utils.load_model_ensemble_and_task.__wrapped__(
            [str(__file__)], task=SimpleNamespace(build_model=build_model), state=state
        )


def test_last_batch():
    data = pairs([4] * 11)
    batches = data.batch_by_size(data.ordered_indices(), max_sentences=8, required_batch_size_multiple=8)
    assert sum(map(len, batches)) == 8, mended("last_batch")
    with still_raises(IndexError, file="last_batch"):
        data.batch_by_size(data.ordered_indices()[:0], max_sentences=8, required_batch_size_multiple=8)


def test_resumption():
    symbols = small.dictionary()
    task = TranslationTask(TranslationConfig(), symbols, symbols)
    data = pairs([4] * 50)

    def batches(epoch):
        task.dataset_to_epoch_iter.clear()  # a process starts
        iterator = task.get_batch_iterator(data, max_sentences=5, seed=3, epoch=epoch)
        assert task.get_batch_iterator(data, max_sentences=5, seed=3, epoch=epoch + 1) is iterator
        return [list(batch) for batch in iterator.frozen_batches]

    assert batches(1) != batches(2), mended("resumption")


@pytest.mark.parametrize("option", ["--bf16", "--memory-efficient-bf16"])
def test_bfloat16(option):
    arguments = ["data", "--arch", "transformer", "--task", "translation", option]
    assert options.parse_args_and_arch(options.get_training_parser(), arguments).tpu, mended("bfloat16")


def test_stock_models():
    model, net_input = stock()
    assert "src_syntax" in net_input
    with still_raises(TypeError, file="stock_models"):
        model(**net_input)
    with still_raises(TypeError, file="stock_models"):
        EnsembleModel([model]).forward_encoder(net_input)


def test_unknown_words():
    model, net_input = stock()
    del net_input["src_syntax"]
    generator = SequenceGenerator([model], small.dictionary(), beam_size=2, max_len_b=5)
    (hypotheses,) = generator.generate([model], {"net_input": net_input})
    assert hypotheses[0]["attention"].numel()
    assert not hypotheses[0]["alignment"].numel(), mended("unknown_words")


@pytest.mark.parametrize("package", [compat, checkpoints])
def test_every_repair_is_here_and_in_the_overview(package):
    repairs = {module.name for module in pkgutil.iter_modules(package.__path__)} - {"recorded_options", "saving"}
    listed = [line.split()[1] for line in package.__doc__.splitlines() if line.startswith("| ")]
    assert sorted(listed[2:]) == sorted(repairs)
    for name in repairs:
        words = importlib.import_module(f"{package.__name__}.{name}").__doc__
        assert all(part in words for part in ("What is wrong: ", "https://github.com/", "The repair: ")), name
    # In files of their own.
    elsewhere = {"cudnn_attention", "foreach_adam", "frozen_parameters", "gradient_norm", "interactive_end"}
    assert {f"test_{name}" for name in repairs - elsewhere - {"remarks"}} <= globals().keys()
