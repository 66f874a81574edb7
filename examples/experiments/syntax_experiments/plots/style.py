"""The look of all pictures, with colours that colour-blind people can tell apart."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK = "#1b1b1b"
#: Okabe and Ito's palette without its yellow, which white paper swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_DASHES: Any = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
_LOOKS = [{"color": c, "marker": m, "linestyle": d} for c, m, d in zip(COLOURS, "osD^vPX", _DASHES, strict=True)]
#: Colour maps of matrices, of equal steps in brightness; the second for values of both signs.
MATRIX, SIGNED = "viridis", "PuOr_r"
# A white ground is readable on dark pages too. Text is text, and $ no mathematics.
_SETTINGS: Any = {
    "font.size": 9, "axes.titlesize": 9, "figure.facecolor": "#ffffff", "axes.spines.top": False,
    "axes.spines.right": False, "grid.alpha": 0.4, "legend.frameon": False, "lines.markersize": 4.5,
    "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "fairseq-syntax",
}  # fmt: skip


def looks(systems: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return colour, marker and dashes of each system, for matplotlib's ``plot``."""
    return dict(zip(systems, itertools.cycle(_LOOKS), strict=False))


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write with these settings, without the user's own of matplotlib."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # browsers find other fonts
        yield


def panels(rows: int, columns: int, *, width: float = 5.0, height: float, **more: Any) -> tuple[Figure, Any]:
    """Return a figure of this size in inches and its axes, ``(rows, columns)``."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **more)


def legend(figure: Figure, axes: Sequence[Any]) -> None:
    """Add the key to the lines of the axes below them, unless there is one line alone."""
    key = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    if len(key) > 1:
        columns = max(1, min(len(key), 70 // (6 + max(map(len, key)))))
        figure.set_figheight(figure.get_figheight() + 0.2 * ((len(key) - 1) // columns))
        figure.legend([*key.values()], [*key], loc="outside lower center", ncols=columns)


def svg(figure: Figure) -> str:
    """Return a figure as SVG; the same figure gives the same text."""
    out = StringIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return printable(out.getvalue())


def printable(text: str) -> str:
    """Replace what XML or UTF-8 lacks: control characters by ``␀`` …, others by ``�``."""
    controls = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", lambda match: chr(0x2400 + ord(match[0])), text)
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "�", controls)
