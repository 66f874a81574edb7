"""How all pictures look: colours for colour-blind people too, text that stays text, the same bytes each time."""

from __future__ import annotations

import base64
import io
import itertools
import math
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

#: Text and axes; nothing else has this colour, so that a dark page can change it.
INK = "#1b1b1b"
_PAPER = "#ffffff"
_DARK_INK, _DARK_PAPER = "#e4e4e4", "#17191d"
#: Okabe and Ito's palette without its yellow, which white paper swallows. Ink is their black.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_MARKERS = "osD^vPX*"
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
#: Of matrices; equally bright steps for everybody.
MATRIX = matplotlib.colormaps["viridis"].resampled(64)
#: Of matrices with negative numbers, too.
SIGNED = matplotlib.colormaps["PuOr_r"].resampled(64)
#: Width of a picture in inches: its text is as large as a paper's where it fills the column, and readable on a phone.
WIDTH = 5.0
_LETTERS = 70  # that such a width has room for

#: How a system is drawn, as arguments of matplotlib's ``plot``.
Look = Mapping[str, Any]

# Fonts that have Chinese and Japanese, if the machine does.
_WIDE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Source Han Sans SC")


def looks(systems: Iterable[str]) -> dict[str, Look]:
    """For each system colour, marker and dashes, which it has in all pictures."""
    return {
        system: {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
            "linestyle": _DASHES[i % len(_DASHES)],
        }
        for i, system in enumerate(systems)
    }


def thin_looks(names: Iterable[Any]) -> dict[Any, Look]:
    """For each of many lines in a panel colour and dashes. None is of ink, which a thick line among them may have."""
    colours = _COLOURS[:-1]
    return {
        name: {
            "color": colours[i % len(colours)],
            "linestyle": _DASHES[i // len(colours) % len(_DASHES)],
            "linewidth": 0.9,
        }
        for i, name in enumerate(names)
    }


def readable_on(value: float) -> str:
    """Black or white, whichever is read on the matrix colour of a value from 0 to 1."""
    return "#000000" if value > 0.5 else "#ffffff"


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's settings while pictures are made and written."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    settings: Any = {
        "font.family": ["DejaVu Sans", *[name for name in _WIDE_FONTS if name in installed][:1]],
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.labelsize": 9,
        "legend.fontsize": 8.5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
        "axes.titlecolor": INK,
        "axes.facecolor": "none",
        "figure.facecolor": _PAPER,
        "savefig.facecolor": _PAPER,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "grid.color": "#999999",
        "grid.alpha": 0.3,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
        "text.parse_math": False,  # dollars are dollars
        "svg.fonttype": "none",
        "svg.hashsalt": "fairseq-syntax",
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own settings are
        matplotlib.rcParams.update(settings)
        yield


def panels(
    rows: int, columns: int, *, width: float = WIDTH, height: float, share_x: bool = False, share_y: bool = False
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of so many inches with a grid of axes, by row and column."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_gid("paper")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y)
    return figure, [list(row) for row in axes]


def tiles(titles: Sequence[str], *, columns: int, side: float) -> tuple[Figure, list[Axes]]:
    """A figure with axes of these titles, `side` inches high, row by row; the rest of the last row is empty."""
    count = len(titles)
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure, grid = panels(rows, columns, height=side * rows + 0.7)
    axes = [axes for row in grid for axes in row]
    for empty in axes[count:]:
        empty.set_visible(False)
    for each, title in zip(axes, titles, strict=False):
        each.set_title(textwrap.fill(title, _LETTERS // columns - 3))
    return figure, axes[:count]


def legend(figure: Figure, axes: Sequence[Axes], *, columns: int = 3) -> None:
    """The key to the lines under the axes, for which the figure grows; none to one line alone."""
    key: dict[str, Any] = {}
    for each in axes:
        handles, labels = each.get_legend_handles_labels()
        key |= dict(zip(labels, handles, strict=True))
    names = list(key)
    if len(names) > 1:
        rows = next(n for n in itertools.count(math.ceil(len(names) / columns)) if _fits(names, rows=n))
        figure.set_figheight(figure.get_figheight() + 0.18 * (rows - 1))
        columns = math.ceil(len(names) / rows)
        figure.legend(list(key.values()), names, loc="outside lower center", ncols=columns)


def _fits(names: Sequence[str], *, rows: int) -> bool:
    """Whether a key in columns of so many rows is no wider than a picture."""
    columns = [names[i : i + rows] for i in range(0, len(names), rows)]
    return rows >= len(names) or sum(6 + max(map(len, column)) for column in columns) <= _LETTERS


def colour_key(figure: Figure, image: Any, axes: Sequence[Axes], label: str) -> None:
    """The key to a matrix's colours, above the axes."""
    figure.colorbar(image, ax=list(axes), label=label, location="top", shrink=0.5, aspect=30, pad=0.02)


def save(figure: Figure, path: str) -> None:
    """Writes ``path.svg`` and ``path.png``."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        figure.savefig(f"{path}.png", dpi=200, metadata={"Software": None})
        figure.savefig(f"{path}.svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    if any("missing from" in str(warning.message) for warning in said):
        name = os.path.basename(path)
        print(f"{name}: no font of this machine has all its letters; the PNG shows boxes, the SVG not", file=sys.stderr)
    with open(f"{path}.svg", encoding="utf-8") as file:
        text = file.read()
    with open(f"{path}.svg", "w", encoding="utf-8") as file:
        file.write(_for_everyone(text))


def _for_everyone(svg: str) -> str:
    """The picture with fonts that every machine has, with colours for dark pages, and small."""
    svg = re.sub(r"base64,\s*([A-Za-z0-9+/=\s]+)", lambda match: f"base64,{_few_colours(match[1])}", svg)
    svg = re.sub(r"<[^>]*>", lambda match: match[0] if match[0].startswith("<image") else _short(match[0]), svg)
    svg = re.sub(r">\s+<", ">\n<", svg)
    ink = "".join(f'[style*="{kind}: {INK}"]{{{kind}:{_DARK_INK}!important}}' for kind in ("fill", "stroke"))
    style = f"<style>@media (prefers-color-scheme:dark){{#paper path{{fill:{_DARK_PAPER}!important}}{ink}}}</style>"
    fonts = "DejaVu Sans, Verdana, sans-serif"
    return re.sub(r"<svg ([^>]*>)", lambda match: f'<svg font-family="{fonts}" {match[1]}\n{style}', svg, count=1)


def _short(tag: str) -> str:
    """An element's tag without the fonts, which the whole picture names, and with two decimals."""
    tag = re.sub(r"""font-family: [^;"]*(; )?""", "", tag)
    tag = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", tag)
    tag = re.sub(r"\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), tag)
    return re.sub(r"\s+", " ", tag)


def _few_colours(base64_png: str) -> str:
    """A matrix as the same image with a palette, which is a third as large."""
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(base64_png))).convert("RGB"))
    colours, of_pixel = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    if len(colours) > 256:
        return base64_png
    image = Image.fromarray(of_pixel.reshape(pixels.shape[:2]).astype(np.uint8))
    image.putpalette(colours.tobytes())
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()
