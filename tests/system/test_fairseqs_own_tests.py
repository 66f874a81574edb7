"""fairseq's own tests: as they are written, and with our task and architecture instead of theirs.

They are read from the folder that FAIRSEQ_SYNTAX_DATA names. CONTRIBUTING.md has their numbers.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import os
import random
import re
import sys
import types
import unittest
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks import LegacyFairseqTask

import small
import syntax_data.commands.binarize
import syntax_data.commands.parse
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from places import ROOT

FOLDER = Path(os.environ.get("FAIRSEQ_SYNTAX_DATA") or "/") / "fairseq_tests"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not (FOLDER / "tests").is_dir(), reason="fairseq's own tests are not there"),
]

PAGE = " ".join((ROOT / "CONTRIBUTING.md").read_text().split())

#: The tests of a translation model whose task and architecture can be ours.
ADAPTED = [
    f"{case}.{test}"
    for case, tests in {
        "test_binaries.TestTranslation": """test_fconv test_raw test_update_freq test_max_positions test_generation
            test_eval_bleu test_transformer test_transformer_cross_self_attention test_alignment
            test_transformer_layerdrop""",
        "test_binaries.TestOptimizers": "test_optimizers",
        "test_binaries.TestActivationCheckpointing": """test_activation_checkpointing_does_not_change_metrics
            test_activation_offloading_does_not_change_metrics""",
        "test_checkpoint_utils.TestCheckpointUtils": "test_load_model_ensemble_and_task test_prune_state_dict",
        "test_reproducibility.TestReproducibility": "test_reproducibility test_mid_epoch_reproducibility",
        "gpu.test_binaries_gpu.TestTranslationGPU": """test_amp test_fp16_multigpu test_memory_efficient_fp16
            test_transformer_amp test_transformer_fp16""",
        "gpu.test_binaries_gpu.TestOptimizersGPU": "test_flat_grads",
        "test_transformer.TransformerTestCase": "test_forward_backward test_different_encoder_decoder_embed_dim",
        "test_inference_dropout.TestInferenceDropout": """test_sets_inference_dropout_to_true
            test_inference_dropout_false_by_default test_applies_training_mode test_retain_modules""",
        "test_export.TestExportModels": "test_export_transformer test_export_transformer_no_token_pos_emb",
        "test_sequence_generator.TestJitSequenceGenerator": """test_export_transformer
            test_ensemble_sequence_generator test_export_ensemble_model""",
    }.items()
    for test in tests.split()
]
#: Those of them that ours refuses.
TORCHSCRIPT = [test for test in ADAPTED if ".TestExportModels." in test or ".TestJitSequenceGenerator." in test]
#: That of ``--dataset-impl raw``, whose tokens are no binary files.
RAW = "test_binaries.TestTranslation.test_raw"
#: What our package does not touch, which must pass where it was imported.
UNTOUCHED = """test_activation_checkpointing.* test_checkpoint_utils.*.test_load_ema_from_checkpoint
    test_checkpoint_utils.*.test_torch_persistent_save_async test_constraints.* test_ema.*.test_ema
    test_ema.*_update test_ema.*.test_ema_fp32 test_export.*.test_export_multihead_attention
    test_export.*.test_incremental_state_multihead_attention test_export.*.test_positional_embedding
    test_label_smoothing.* test_memory_efficient_fp16.* test_sequence_generator.TestExportSearch.*
    test_sequence_generator.TestSequenceGenerator.* test_sequence_generator.TestRepeatNgramBlocking.*
    test_sequence_generator.TestDiverse* test_sequence_generator.TestTopPSamplingSearch.* test_sequence_scorer.*
    test_train.* test_valid_subset_checks.TestValidSubsetsErrors.* distributed.test_module_proxy_wrapper.*
    gpu.test_ema_gpu.*"""


class FakeTask(LegacyFairseqTask):
    """Stands in for that of fairseq's test of RoBERTa, which is not among the tests."""

    def __init__(self, args: Any):
        super().__init__(args)
        self.dictionary = small.dictionary()

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary


@pytest.fixture(scope="module")
def theirs() -> Iterator[dict[str, types.ModuleType]]:
    """The modules of fairseq's package ``tests``, by their names there."""
    stand_in = types.ModuleType("tests.test_roberta")
    stand_in.FakeTask = FakeTask
    files = [path.relative_to(FOLDER / "tests").with_suffix("") for path in sorted(FOLDER.rglob("test_*.py"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        patch.setitem(sys.modules, "tests.test_roberta", stand_in)
        names = ["utils", *(".".join(file.parts) for file in files)]
        yield {name: importlib.import_module(f"tests.{name}") for name in names}
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]


def cases(modules: dict[str, types.ModuleType]) -> dict[str, unittest.TestCase]:
    """All tests, by name."""
    found = {}
    for name, module in modules.items():
        for case in vars(module).values():
            if isinstance(case, type) and issubclass(case, unittest.TestCase) and case.__module__ == module.__name__:
                for test in unittest.defaultTestLoader.getTestCaseNames(case):
                    found[f"{name}.{case.__name__}.{test}"] = case(test)
    return found


def run(case: unittest.TestCase, *, without_gpu: bool = False) -> None:
    method = getattr(type(case), case.id().split(".")[-1])
    skipped = [item for item in (type(case), method) if getattr(item, "__unittest_skip__", False)]
    if skipped and not without_gpu:
        pytest.skip(skipped[0].__unittest_skip_why__)
    random.seed(1)
    torch.manual_seed(1)
    case.setUp()
    try:
        inspect.unwrap(method)(case)
    finally:
        case.tearDown()


def short(test: str) -> str:
    return re.sub("^(gpu.)?[^.]*.", "", test)


@pytest.mark.parametrize(
    "test", [pytest.param(t, marks=pytest.mark.gpu) if t.startswith("gpu.") else t for t in ADAPTED], ids=short
)
def test_as_written(theirs, test):
    run(cases(theirs)[test])


def test_what_we_do_not_touch(theirs):
    result, tests = unittest.TestResult(), cases(theirs)
    ours = [name for name in tests if any(fnmatch.fnmatchcase(name, pattern) for pattern in UNTOUCHED.split())]
    assert f"Of {len(ours)} tests of parts that we do not touch" in PAGE
    unittest.TestSuite(tests[name] for name in ours).run(result)
    assert not [trace for _, trace in result.errors + result.failures]
    assert result.testsRun - len(result.skipped) > 40


@pytest.mark.parametrize("test", ADAPTED, ids=short)
def test_with_ours(theirs, test, fake_parser, half_precision, monkeypatch):
    adapt(theirs, monkeypatch)
    refusal = pytest.raises(SystemExit, match="expected the tokens of this split") if test == RAW else nullcontext()
    if test in TORCHSCRIPT:
        refusal = pytest.raises(NotImplementedError, match="TorchScript")
    with refusal:
        run(cases(theirs)[test], without_gpu=True)


def adapt(theirs: dict[str, types.ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have their helpers use our task, our architecture and features."""
    utils = theirs["utils"]
    preprocess, train, generate = (
        getattr(utils, name) for name in ("preprocess_translation_data", "train_translation_model", "generate_main")
    )

    def preprocess_translation_data(data_dir, extra_flags=None):
        preprocess(data_dir, extra_flags)
        options = ["--source-lang", "in", "--target-lang", "out", "--destdir", data_dir]
        for split in ("train", "valid", "test"):
            syntax_data.commands.parse.main(["--input", f"{data_dir}/{split}.in", "--parser", "fake"])
            options += [f"--{split}pref", f"{data_dir}/{split}"]
        syntax_data.commands.binarize.main(options)

    def train_translation_model(data_dir, arch, extra_flags=None, task="translation", world_size=1, **kwargs):
        assert task == "translation"
        flags = without(extra_flags or [], "--encoder-hidden-size", "--alignment-layer")
        arch, world_size = "gated_syntax_transformer_tiny", max(1, world_size)
        train(data_dir, arch, flags, task="syntax_translation", world_size=world_size, **kwargs)

    def generate_main(data_dir, extra_flags=None, path=None):
        flags = ["--print-alignment"] if extra_flags is None else extra_flags
        generate(data_dir, ["--task", "syntax_translation", *flags], path)

    plain = theirs["test_transformer"].mk_sample

    def mk_sample():
        sample = plain()
        tokens = sample["net_input"]["src_tokens"]
        sample["net_input"]["src_syntax"] = {"distance": torch.arange(tokens.numel()).view(tokens.shape) % 4}
        return sample

    ours = {
        "preprocess_translation_data": preprocess_translation_data,
        "train_translation_model": train_translation_model,
        "generate_main": generate_main,
        "mk_sample": mk_sample,
        "TransformerModel": SyntaxTransformerModel,
    }
    for module in [*theirs.values(), theirs["test_transformer"].transformer]:
        for name in ours.keys() & vars(module).keys():
            monkeypatch.setattr(module, name, ours[name])


def without(flags: list[str], *unknown: str) -> list[str]:
    """`flags` less options, with a value each, that our architecture does not have."""
    kept, rest = [], iter(flags)
    for flag in rest:
        if flag in unknown:
            next(rest)
        else:
            kept.append(flag)
    return kept


def test_the_page_has_the_numbers():
    assert f"Of {len(ADAPTED)} that apply, {len(ADAPTED) - len(TORCHSCRIPT) - 1} pass with ours" in PAGE
    assert f"{len(TORCHSCRIPT)} need TorchScript" in PAGE
