"""Two packages of two places are noticed."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest

from fairseq_syntax import _installed


@pytest.fixture
def checkout(tmp_path):
    """Two folders of packages, as a checkout has them."""
    for name in ("checkout/fairseq_syntax", "checkout/preprocess/syntax_data", "site/syntax_data"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_a_checkout_with_an_installed_copy_is_a_mixture(checkout, caplog):
    ours, other = str(checkout / "checkout/fairseq_syntax"), str(checkout / "site/syntax_data")
    with caplog.at_level(logging.WARNING):
        _installed.warn_of_mixture(ours, other)
    (said,) = caplog.records
    assert f"fairseq_syntax comes from {ours}, and syntax_data from {other}" in said.getMessage()


def test_editable_and_linked_and_installed_copies_are_none(checkout, caplog):
    (checkout / "site/fairseq_syntax").symlink_to(checkout / "checkout/fairseq_syntax")
    (checkout / "site/linked").symlink_to(checkout / "checkout/preprocess/syntax_data")
    editable = checkout / "checkout/fairseq_syntax", checkout / "checkout/preprocess/syntax_data"
    linked = checkout / "site/fairseq_syntax", checkout / "site/linked"
    (checkout / "copy/fairseq_syntax").mkdir(parents=True)
    installed = checkout / "copy/fairseq_syntax", checkout / "site/syntax_data"
    with caplog.at_level(logging.WARNING):
        for ours, other in (editable, linked, installed):
            _installed.warn_of_mixture(str(ours), str(other))
    assert not caplog.records


def test_without_the_other_package_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "syntax_data", None)  # as if it were not there
    with pytest.raises(ImportError, match=r"^fairseq_syntax needs syntax_data, .*: pip install \.$"):
        importlib.reload(_installed)
