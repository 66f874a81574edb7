"""fairseq's commands, run inside this process."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fairseq_cli.generate
import fairseq_cli.interactive
import fairseq_cli.preprocess
import fairseq_cli.train
import fairseq_cli.validate
import torch
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics
from fairseq.trainer import Trainer

import syntax_data.commands.binarize
from fairseq_syntax.models.transformer import SyntaxTransformerModel

USER_DIR = ["--user-dir", "fairseq_syntax", "--task", "syntax_translation"]
TINY = [
    "--arch", "gated_syntax_transformer_tiny", "--encoder-embed-dim", "32", "--decoder-layers", "1",
    "--share-decoder-input-output-embed",
]  # fmt: skip
STOCK = [
    "--arch", "transformer", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32", "--encoder-layers", "1",
    "--decoder-layers", "1", "--share-decoder-input-output-embed", "--encoder-attention-heads", "4",
    "--decoder-attention-heads", "4",
]  # fmt: skip


def copy(data: Path, to: Path) -> Path:
    shutil.copytree(data, to)
    return to


def preprocess_tokens(*arguments: str) -> None:
    """fairseq-preprocess from src to tgt."""
    parser = options.get_preprocessing_parser()
    fairseq_cli.preprocess.main(parser.parse_args(["-s", "src", "-t", "tgt", *arguments]))


def preprocess_texts(*arguments: str) -> None:
    """fairseq-preprocess of texts of one language."""
    parser = options.get_preprocessing_parser()
    fairseq_cli.preprocess.main(parser.parse_args(["--only-source", *arguments]))


def preprocess(corpus: Path, data: Path, *more: str, syntax: tuple[str, ...] = ()) -> Path:
    """fairseq-preprocess with `more` options and fairseq-syntax-binarize with options `syntax`; the data-bin."""
    prefixes = [f"--{n}pref={corpus}/bpe/{n}" for n in ("train", "valid", "test")]
    preprocess_tokens(*prefixes, "--destdir", str(data), *more)
    binarize(corpus, data, *syntax)
    return data


def binarize_parses(*arguments: str) -> None:
    """fairseq-syntax-binarize from src to tgt, unless the arguments say otherwise."""
    syntax_data.commands.binarize.main(["-s", "src", "-t", "tgt", *arguments])


def binarize(corpus: Path, data: Path, *more: str) -> None:
    prefixes = [f"--{n}pref={corpus}/bpe/{n}" for n in ("train", "valid", "test")]
    parses = [f"--{n}parse={corpus}/{n}" for n in ("train", "valid", "test")]
    binarize_parses(*prefixes, *parses, "--destdir", str(data), *more)


def binarize_source(text: Path, parses: Path, dictionaries: Path, data: Path) -> Path:
    """A data-bin of a test set without references, by the dictionaries of another data-bin."""
    options = ["--source-lang=src", "--target-lang=tgt", f"--testpref={text}", f"--destdir={data}"]
    known = [f"--{name}dict={dictionaries}/dict.{name}.txt" for name in ("src", "tgt")]
    preprocess_tokens(*options[2:], *known, "--only-source")
    shutil.copy(dictionaries / "dict.tgt.txt", data)
    syntax_data.commands.binarize.main([*options, f"--testparse={parses}"])
    return data


def forget() -> None:
    """Forgets what fairseq keeps of another training in this process."""
    metrics.reset()
    vars(checkpoint_utils.save_checkpoint).pop("best", None)


def train(data: Path | str, save_dir: Path, *more: str, model: list[str] = TINY, cpu: bool = True) -> Any:
    """fairseq-train in one process; returns the trainer as it was at the end."""
    arguments = [
        str(data), *USER_DIR, *model, "--save-dir", str(save_dir), "--optimizer", "adam", "--lr", "0.01",
        "--criterion", "label_smoothed_cross_entropy", "--batch-size", "20", "--num-workers", "0",
        "--log-format", "none", "--seed", "3", *["--cpu"] * cpu, *more,
    ]  # fmt: skip
    forget()
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
    with recorded_trainers() as trainers:
        fairseq_cli.train.main(cfg)
    return trainers[0]


@contextlib.contextmanager
def recorded_trainers() -> Iterator[list[Any]]:
    """The trainers that fairseq-train makes in this block."""
    trainers = []

    class Recorded(Trainer):
        def __init__(self, *args: Any, **kwargs: Any):
            super().__init__(*args, **kwargs)
            trainers.append(self)

    fairseq_cli.train.Trainer = Recorded
    try:
        yield trainers
    finally:
        fairseq_cli.train.Trainer = Trainer


def generate(data: Path, *paths: Path, more: tuple[str, ...] = ()) -> dict[int, str]:
    """fairseq-generate of the test set by one checkpoint or an ensemble; hypotheses by sentence number."""
    return {number: text for number, (_, text) in generate_scored(data, *paths, more=more).items()}


def generate_scored(data: Path, *paths: Path, more: tuple[str, ...] = ()) -> dict[int, tuple[float, str]]:
    """As :func:`generate`, with the hypotheses' scores."""
    return scored(generate_log(data, *paths, more=more), "H")


def scored(log: str, kind: str) -> dict[int, tuple[float, str]]:
    """Scores and texts of a log's lines H-0, H-1, … or D-0, D-1, …, by number; the last of each."""
    lines = (line[2:].split("\t") for line in log.splitlines() if line.startswith(f"{kind}-"))
    return {int(n): (float(score), text) for n, score, text in lines}


def assert_same(found: dict[int, tuple[float, str]], expected: dict[int, tuple[float, str]]) -> None:
    """The same hypotheses, and scores to 1e-4."""
    assert {n: text for n, (_, text) in found.items()} == {n: text for n, (_, text) in expected.items()}
    for n, (score, _) in found.items():
        assert abs(score - expected[n][0]) < 1e-4


def generate_log(data: Path, *paths: Path, more: tuple[str, ...] = ()) -> str:
    """What fairseq-generate prints for the test set."""
    arguments = [
        str(data), *USER_DIR, "--path", ":".join(map(str, paths)), "--cpu", "--num-workers", "0", "--beam", "2",
        "--max-len-b", "20", *more,
    ]  # fmt: skip
    if not any(option.startswith(("--replace-unk", "--post-process")) for option in more):
        arguments.append("--remove-bpe")
    out = io.StringIO()
    args = options.parse_args_and_arch(options.get_generation_parser(), arguments)
    with contextlib.redirect_stdout(out):
        fairseq_cli.generate.main(convert_namespace_to_omegaconf(args))
    logging.getLogger("fairseq_cli.generate").handlers.clear()  # its handler holds the stream that is gone
    return out.getvalue()


def interactive(
    lines: list[str], data: Path, *paths: Path, folder: Path, more: tuple[str, ...] = (), status: int = 0
) -> tuple[dict[int, tuple[float, str]], str]:
    """fairseq-interactive, `lines` read from a file; scores and hypotheses by line from 0, and what stdout and the log
    got. `status` is the exit status that is expected."""
    text = folder / "interactive.txt"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    arguments = [
        str(data), *USER_DIR, "--path", ":".join(map(str, paths)), "--cpu", "--beam", "2", "--max-len-b", "20",
        "--input", str(text), *more,
    ]  # fmt: skip
    args = options.parse_args_and_arch(options.get_interactive_generation_parser(), arguments)
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stdout(out):
            distributed_utils.call_main(convert_namespace_to_omegaconf(args), fairseq_cli.interactive.main)
        found = 0
    except SystemExit as end:
        found = end.code
    finally:
        logging.getLogger().removeHandler(handler)
    assert found == status, found
    return scored(out.getvalue(), "D"), out.getvalue()


def hub(trained: Any, **more: Any) -> Any:
    """What from_pretrained makes of the fixture `trained`."""
    folder, name = trained.checkpoint.parent, trained.checkpoint.name
    return SyntaxTransformerModel.from_pretrained(
        str(folder), name, str(trained.data), bpe="subword_nmt", bpe_codes=str(trained.codes), **more
    )


def validate(data: Path, path: Path, *more: str) -> None:
    """fairseq-validate."""
    arguments = [str(data), *USER_DIR, "--path", str(path), "--cpu", "--batch-size", "8", "--num-workers", "0", *more]
    args, given = (
        options.parse_args_and_arch(options.get_validation_parser(), arguments, suppress_defaults=suppressed)
        for suppressed in (False, True)
    )
    fairseq_cli.validate.main(convert_namespace_to_omegaconf(args), given)


def load(path: Path) -> tuple[Any, Any]:
    """A checkpoint's model, made ready for generation as fairseq-generate does, and its task."""
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    models[0].prepare_for_inference_(cfg)
    return models[0], task


def edited(checkpoint: Path, to: Path, edit: Callable[[dict[str, Any]], object], *, zipped: bool = True) -> Path:
    """A copy of a checkpoint with other content, in which torch finds nothing wrong."""
    state = torch.load(checkpoint, weights_only=True)
    edit(state)
    torch.save(state, to, _use_new_zipfile_serialization=zipped)
    return to


def parameters(path: Path) -> dict[str, torch.Tensor]:
    """The weights in a checkpoint, read by torch's safe loading."""
    return torch.load(path, weights_only=True)["model"]
