"""Gates, masks and attention of a split, in a file."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import torch

import commands
from fairseq_syntax.dump import main
from fairseq_syntax.modules.calls import outputs_of
from small import encode


@pytest.fixture(scope="module", params=["auto", "fused"])
def checkpoint(request, data_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    options = ["--syntax-masks=slr,sdoi", "--syntax-heads=3", "--dropout=0.3", f"--syntax-attention={request.param}"]
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
        with torch.no_grad(), outputs_of(model.gates.values()) as outputs:
            encode(model, task.dataset("test").collater([task.dataset("test")[i]])["net_input"])
        gates = torch.stack([outputs[gate][0][0] for gate in model.gates.values()])
        assert gates.shape == (2, 2, 3)
        np.testing.assert_allclose(dump[f"{i}/gates"], gates.numpy(), atol=1e-5)
        assert dump[f"{i}/masks"].shape == (2, n, n)
        assert dump[f"{i}/attention"].shape == (2, 4, n, n)
        np.testing.assert_allclose(dump[f"{i}/attention"].sum(-1), 1, atol=1e-5)
        hidden = dump[f"{i}/masks"][1] == 0  # by sdoi
        alone = model.encoder.masks({k: v[None] for k, v in task.dataset("test")[i]["syntax"].items()})
        assert hidden.any()
        np.testing.assert_array_equal(hidden, alone.log_masks[0, 1].eq(-torch.inf).numpy())

    main([*arguments, "--output", str(output), "--contents", "gates", "--gen-subset", "valid"])
    assert {name.split("/")[-1] for name in np.load(output).files} == {"layers", "masks", "tokens", "gates"}
    assert [path.name for path in tmp_path.iterdir()] == ["test.npz"]


def test_what_cannot_be_dumped_is_refused(plain_data_bin, checkpoint, tmp_path):
    commands.train(plain_data_bin, tmp_path, "--max-update=1", model=commands.STOCK)
    output = tmp_path / "x.npz"
    for path, more, message in (
        (tmp_path / "checkpoint_last.pt", [], "expected a gated_syntax_transformer, found a TransformerModel"),
        (tmp_path / "none.pt", [], "expected a checkpoint, found none"),
        (checkpoint, ["--contents", "gate"], "--contents: expected some of gates,masks,attention, found 'gate'"),
        (checkpoint, [], "fairseq-syntax-binarize"),  # the data-bin has no features
    ):
        with pytest.raises(SystemExit, match=message):
            main([str(plain_data_bin), "--path", str(path), "--output", str(output), "--cpu", *more])
    assert not output.exists()


@pytest.mark.parametrize(
    "name", ["bin/test.src-tgt.src.bin", "bin/dict.src.txt", "bin/syntax.src-tgt.src.json", "x.pt"]
)
def test_what_is_read_is_not_overwritten(data_bin, checkpoint, tmp_path, name):
    commands.copy(data_bin, tmp_path / "bin")
    shutil.copy(checkpoint, tmp_path / "x.pt")
    content = (tmp_path / name).read_bytes()
    os.link(tmp_path / name, tmp_path / "linked")
    for output in (tmp_path / name, tmp_path / "linked"):
        with pytest.raises(SystemExit, match=f"{output}: expected another file to write to .*, found .*{name}"):
            main([f"{tmp_path}/bin", f"--path={tmp_path}/x.pt", f"--output={output}", "--cpu", "--contents=gates"])
        assert output.read_bytes() == content
    for _ in range(2):  # a dump is not an input, wherever it is
        main([f"{tmp_path}/bin", f"--path={checkpoint}", f"--output={tmp_path}/bin/x.npz", "--cpu", "--contents=gates"])
