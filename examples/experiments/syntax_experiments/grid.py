"""A grid of texts under headings, as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu "
    "nu xi pi rho sigma tau upsilon phi chi psi omega"
)
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}\allowbreak{}",
        "\n": " ",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "†": r"$\dagger$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "→": r"$\rightarrow$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "Δ": r"$\Delta$",
        "…": r"\dots{}",
        **{char: f"$\\{name}$" for char, name in zip("αβγδεζηθικλμνξπρστυφχψω", _GREEK.split(), strict=True)},
    }
)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Rows of cells under headings; the first column is text, the others are numbers.

    Args:
        headings: of the columns.
        rows: as many cells as headings; a text alone is a heading over the rows that follow.
        title: what is in it.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str] | str]
    title: str

    def markdown(self) -> str:
        """Columns are aligned, as text and on a page. Cells may have Markdown in them."""
        empty = [""] * (len(self.headings) - 1)
        lines = [
            [_markdown(cell) for cell in ([f"**{row}**", *empty] if isinstance(row, str) else row)]
            for row in [self.headings, *self.rows]
        ]
        widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(self.headings))]
        rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
        lines.insert(1, rule)
        padded = (
            " | ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        )
        return "".join(f"| {line} |\n" for line in padded)

    def latex(self) -> str:
        """A ``tabular`` of the package booktabs; ``code`` of Markdown is set in ``\\texttt``."""
        lines = [f"\\begin{{tabular}}{{l{'r' * (len(self.headings) - 1)}}}", r"\toprule"]
        lines += [_latex_row(self.headings), r"\midrule"]
        for number, row in enumerate(self.rows):
            if isinstance(row, str):
                lines += [r"\midrule"] if number else []
                lines.append(f"\\multicolumn{{{len(self.headings)}}}{{l}}{{\\textbf{{{latex(row)}}}}} \\\\")
            else:
                lines.append(_latex_row(row))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _markdown(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", cell.replace("\n", " "))


def latex(text: str) -> str:
    """Markdown's text for LaTeX: all that means something to LaTeX is escaped."""
    pieces = re.split("`([^`]+)`", text)
    return "".join(
        f"\\texttt{{{piece.translate(_LATEX)}}}" if number % 2 else piece.translate(_LATEX)
        for number, piece in enumerate(pieces)
    )


def _latex_row(cells: Sequence[str]) -> str:
    row = " & ".join(map(latex, cells))
    # After the \\ of the row before, [ would begin a distance.
    return f"{{[}}{row[1:]} \\\\" if row.startswith("[") else rf"{row} \\"
