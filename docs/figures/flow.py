"""Draw docs/pictures/flow.svg: from text to translations and labels, and where syntax enters the encoder."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from syntax_experiments.plots.style import INK

#: Colours of our programs, and of fairseq's.
OURS, FAIRSEQS = "#0072B2", "#666666"
#: Boxes by name: middle (x, y), width, text, colour of a program; ``None``: data.
BOXES: dict[str, tuple[float, float, float, str, str | None]] = {
    "text": (5.0, 10.2, 4.2, "text, a sentence or more a line", None),
    "parse": (2.3, 9.0, 4.4, "fairseq-syntax-parse\nstanza, spaCy, UDPipe, your files", OURS),
    "subwords": (7.7, 9.0, 4.4, "BPE or sentencepiece,\nfairseq-preprocess", FAIRSEQS),
    "parses": (2.3, 7.8, 4.4, "train.en.conllu, train.en.trees", None),
    "binarize": (2.3, 6.6, 4.4, "fairseq-syntax-binarize\nwords to subwords, trees to integers", OURS),
    "data": (5.0, 5.4, 9.8, "data-bin: tokens, features of the trees, a signature with hashes", None),
    "train": (5.0, 4.5, 9.8, "fairseq-train --task syntax_translation, syntax_sentence_prediction, …", FAIRSEQS),
    "encoder": (5.0, 3.0, 9.8, "", None),
    "embeddings": (1.05, 2.85, 1.7, "embed-\ndings", OURS),
    "mixing": (3.025, 2.85, 1.7, "what a\nlayer reads", OURS),
    "scores": (5.0, 2.85, 1.7, "scores:\nmasks, gates", OURS),
    "head": (6.975, 2.85, 1.7, "a head that\nparses", OURS),
    "top": (8.95, 2.85, 1.7, "a layer\non top", OURS),
    "decode": (5.0, 1.6, 9.8, "fairseq-generate, -interactive, fairseq-syntax-predict, -squad, Python", FAIRSEQS),
    "look": (5.0, 0.6, 9.8, "fairseq-syntax-score, -dump, -analyze, -probe", OURS),
}  # fmt: skip
ARROWS = (
    ("text", "parse"), ("text", "subwords"), ("parse", "parses"), ("parses", "binarize"), ("subwords", "data"),
    ("binarize", "data"), ("data", "train"), ("train", "encoder"), ("encoder", "decode"), ("decode", "look"),
    ("subwords", "binarize"),
)  # fmt: skip
_HEIGHTS = dict.fromkeys(BOXES, 0.66) | {"encoder": 1.3}


def draw() -> Figure:
    """Draw boxes and arrows."""
    figure = Figure(figsize=(6.4, 5.6), layout="constrained")
    axes = figure.subplots()
    for begin, end in ARROWS:
        _arrow(axes, begin, end)
    axes.text(
        5.0,
        3.42,
        "the encoder of a Transformer or a RoBERTa: where syntax may enter",
        ha="center",
        va="center",
        fontsize=7.5,
        color=INK,
    )
    for name, (x, y, width, text, colour) in BOXES.items():
        height = _HEIGHTS[name]
        place = (x - width / 2, y - height / 2)
        style = {"fc": colour or "none", "ec": colour or INK, "lw": 1, "zorder": 2}
        axes.add_patch(FancyBboxPatch(place, width, height, boxstyle="round,pad=0,rounding_size=0.12", **style))
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color="#ffffff" if colour else INK, zorder=3)
    axes.set_xlim(0, 10)
    axes.set_ylim(0.1, 10.6)
    axes.set_axis_off()
    return figure


def _arrow(axes: Axes, begin: str, end: str) -> None:
    """Draw an arrow from the lower edge of a box to the upper edge of another, else to its side."""
    x_begin, y_begin, width_begin, *_ = BOXES[begin]
    x_end, y_end, width_end, *_ = BOXES[end]
    tail = x_begin, y_begin - _HEIGHTS[begin] / 2
    if abs(x_begin - x_end) < width_end / 2:  # below
        head = x_begin, y_end + _HEIGHTS[end] / 2
    elif abs(x_begin - x_end) < (width_begin + width_end) / 2:
        head = x_end, y_end + _HEIGHTS[end] / 2
    else:
        head = x_end + width_end / 2, y_end
    style = {"arrowstyle": "-|>", "color": INK, "lw": 1, "shrinkA": 0, "shrinkB": 1}
    axes.annotate("", head, tail, arrowprops=style, zorder=1)
