"""fairseq-syntax-dump: gates, masks and attention of a split, in a file."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import commands
from fairseq_syntax.commands.dump import main
from fairseq_syntax.modules.trace import SyntaxTrace
from small import encode


@pytest.fixture(scope="module", params=["auto", "sdpa"])
def checkpoint(request, data_bin, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    implementation = f"--syntax-attention-impl={request.param}"
    options = ["--syntax-masks=slr,sdoi", "--syntax-heads=3", "--dropout=0.3", implementation]
    commands.train(data_bin, folder, "--max-update=3", *options)
    return folder / "checkpoint_last.pt"


def test_every_sentence_is_there_without_padding(data_bin, checkpoint, tmp_path, capsys):
    output = tmp_path / "test.npz"
    arguments = [str(data_bin), "--path", str(checkpoint), "--cpu", "--batch-size", "7"]
    main([*arguments, "--output", str(output)])
    lines = (data_bin.parent / "bpe/test.src").read_text().splitlines()
    assert f"{len(lines)} sentences of test" in capsys.readouterr().out
    dump = np.load(output)
    assert dump["layers"].tolist() == [1, 2]
    assert dump["masks"].tolist() == ["slr", "sdoi"]
    model, task = commands.load(checkpoint)
    task.load_dataset("test")
    for i, line in enumerate(lines):
        n = len(line.split()) + 1
        assert dump[f"{i}/tokens"].tolist() == [*line.split(), "</s>"]
        trace = SyntaxTrace()
        with torch.no_grad():
            encode(model, {**task.dataset("test").collater([task.dataset("test")[i]])["net_input"], "trace": trace})
        gates = trace.stacked("gates")[0]
        assert gates.shape == (2, 2, 3)
        np.testing.assert_allclose(dump[f"{i}/gates"], gates.numpy(), atol=1e-5)
        assert dump[f"{i}/masks"].shape == (2, n, n)
        assert dump[f"{i}/attention"].shape == (2, 4, n, n)
        np.testing.assert_allclose(dump[f"{i}/attention"].sum(-1), 1, atol=1e-5)
        hidden = dump[f"{i}/masks"][1] == 0  # by sdoi
        alone = model.encoder.bias_builder({k: v[None] for k, v in task.dataset("test")[i]["syntax"].items()})
        assert hidden.any()
        np.testing.assert_array_equal(hidden, alone.masks[0, 1].eq(0).numpy())

    main([*arguments, "--output", str(output), "--contents", "gates", "--gen-subset", "valid"])
    assert {name.split("/")[-1] for name in np.load(output).files} == {"layers", "masks", "tokens", "gates"}
    assert [path.name for path in tmp_path.iterdir()] == ["test.npz"]


@pytest.mark.parametrize("name", ["bin/test.src-tgt.src.bin", "bin/syntax.src-tgt.src.json", "x.pt"])
def test_a_file_that_is_read_is_not_overwritten(data_bin, trained, tmp_path, name):
    commands.copy(data_bin, tmp_path / "bin")
    shutil.copy(trained.checkpoint, tmp_path / "x.pt")
    content = (tmp_path / name).read_bytes()
    os.link(tmp_path / name, tmp_path / "linked")
    run = [f"{tmp_path}/bin", f"--path={tmp_path}/x.pt", "--cpu", "--contents=gates"]
    for output in (tmp_path / name, tmp_path / "linked"):
        with pytest.raises(SystemExit, match=f"{output}: expected another file to write to .*, found .*{name}"):
            main([*run, f"--output={output}"])
        assert output.read_bytes() == content
    for _ in range(2):  # a dump is not an input, wherever it is
        main([*run, f"--output={tmp_path}/bin/x.npz"])


def refused(data: Path, path: Path, output: Path, *more: str) -> str:
    """The message of the command after its name."""
    with pytest.raises(SystemExit) as exit:
        main([str(data), "--path", str(path), "--output", str(output), "--cpu", *more])
    assert not output.exists()
    message = str(exit.value).removeprefix("fairseq-syntax-dump: error: ")
    assert len(message) < 1000
    assert "\n" not in message
    return message


def rename_gates(state: dict[str, Any]) -> None:
    state["model"] = {name.replace(".gate.fc2.", ".gate.out."): weight for name, weight in state["model"].items()}


UNREADABLE = "expected a fairseq checkpoint, found a file that torch cannot read"
NO_WEIGHTS = "expected a fairseq checkpoint, found one without a model's weights"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no checkpoint", UNREADABLE),
        (4000, UNREADABLE),  # its first bytes
        (lambda state: state.pop("model"), NO_WEIGHTS),
        (lambda state: state.update(model={"n": 1}), NO_WEIGHTS),
        (lambda state: state.pop("cfg"), "expected a checkpoint with its configuration, found none"),
        (
            lambda state: state.pop("extra_state"),
            "expected a checkpoint as fairseq writes it, found: KeyError: 'extra_state'",
        ),
        (rename_gates, r"expected weights that fit its configuration and the dictionaries of .*gate\.fc2\.weight"),
        (None, "No such file"),
    ],
)
def test_bad_checkpoints_are_named(trained, tmp_path, content: bytes | int | Callable[..., Any] | None, message):
    path = tmp_path / "x.pt"
    if callable(content):
        commands.edited(trained.checkpoint, path, content)
    elif content is not None:
        path.write_bytes(trained.checkpoint.read_bytes()[:content] if isinstance(content, int) else content)
    assert re.match(f"{path}: {message}", refused(trained.data, path, tmp_path / "x.npz"))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (None, None, "of the model's, found: Could not infer language pair"),  # an empty folder
        ("dict.src.txt", b"word\n", "of the model's, found: Incorrect dictionary format"),
        ("test.src-tgt.src.idx", None, "of the model's, found: Dataset not found: test"),
    ],
)
def test_bad_data_is_named(trained, tmp_path, file, content, message):
    data = commands.copy(trained.data, tmp_path / "data")
    for path in list(data.iterdir()) if file is None else [data / file]:
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    assert re.match(f"{data}: expected a data-bin {message}", refused(data, trained.checkpoint, tmp_path / "x.npz"))


def test_models_data_and_contents_that_do_not_fit(plain_data_bin, trained, tmp_path):
    output = tmp_path / "x.npz"
    commands.train(plain_data_bin, tmp_path, "--max-update=1", model=commands.STOCK)
    found = refused(plain_data_bin, tmp_path / "checkpoint_last.pt", output)
    assert "expected a model with a syntax encoder, found a TransformerModel" in found
    found = refused(trained.data, trained.checkpoint, output, "--contents", "gate")
    assert "--contents: expected some of gates,masks,biases,attention, found 'gate'" in found
    assert "fairseq-syntax-binarize" in refused(plain_data_bin, trained.checkpoint, output)  # it has no features
    data = commands.copy(trained.data, tmp_path / "data")
    with open(data / "dict.src.txt", "a") as file:
        file.write("another 1\n")
    fit = f"{trained.checkpoint}: expected weights that fit .* and the dictionaries of {data}, found: .*size mismatch"
    assert re.match(fit, refused(data, trained.checkpoint, output))
