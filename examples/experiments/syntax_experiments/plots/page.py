"""The page: pictures, their captions and numbers, in one HTML file with the pictures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from pandas import DataFrame

from syntax_experiments.plots.folder import GENERATOR, PAGE
from syntax_experiments.plots.style import printable, svg

_MOST_ROWS = 400  # that the page shows; the CSV has all


@dataclass(frozen=True)
class Picture:
    """A drawing and its description.

    Attributes:
        name: of its files, without ending: letters, digits and hyphens.
        title: in a few words.
        caption: how to read it.
        data: its numbers.
        drawing: a figure, or an SVG file's content.
        notes: sentences about what was left out.
        signatures: of scores, as sacreBLEU writes them.
    """

    name: str
    title: str
    caption: str
    data: DataFrame
    drawing: Figure | str
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """The numbers as HTML, unless there are too many for a page."""
        if len(self.data) > _MOST_ROWS:
            return ""
        return self.data.to_html(index=False, border=0, na_rep="", float_format="{:.6g}".format)


def write_page(folder: str, *, title: str, sources: Sequence[str], pictures: Sequence[Picture]) -> None:
    """Write ``index.html``, and SVG and CSV of each picture, into a folder.

    Args:
        sources: what was read, a line each.
    """
    for picture in pictures:
        drawing = picture.drawing if isinstance(picture.drawing, str) else svg(picture.drawing)
        write(Path(folder, f"{picture.name}.svg"), drawing)
        write(Path(folder, f"{picture.name}.csv"), picture.data.to_csv(index=False, float_format="%.6g"))
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    values = {"generator": Markup(GENERATOR), "title": title, "sources": sources, "pictures": pictures}
    write(Path(folder, PAGE), environment.from_string(template).render(values))


def write(path: Path, text: str) -> None:
    """Write a text file without what neither XML nor UTF-8 can hold."""
    path.write_text(printable(text), encoding="utf-8", newline="\n")
