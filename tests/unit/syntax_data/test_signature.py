"""A signature whose settings nothing could have written is refused with its place."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from syntax_data.data_bin.signature import Signature, SplitSignature
from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings


def written(path, control: str | None) -> str:
    settings = asdict(Settings(control=control))
    Signature({"train": SplitSignature([], {}, settings, {}, {}, {})}).write(str(path))
    return str(path)


@pytest.mark.parametrize("control", [None, "linear", "shuffled@4", "noise:100"])
def test_controls_of_this_and_earlier_versions_are_read(tmp_path, control):
    assert Signature.read(written(tmp_path / "x.json", control)).splits["train"].settings["control"] == control


@pytest.mark.parametrize("control", ["", "true", "noise:101"])
def test_other_controls_are_refused(tmp_path, control):
    with pytest.raises(InputError, match=rf"x\.json: .*{control!r} in the place of the control of train"):
        Signature.read(written(tmp_path / "x.json", control))
