"""The page: pictures, their captions and numbers, in one HTML file that needs nothing but the pictures beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure
from tqdm import tqdm

from syntax_experiments.plots.figures import style
from syntax_experiments.plots.table import Table

_MOST_ROWS = 400  # that the page shows; the CSV has all
_PIXELS, _PIXELS_OF_WIDE = 144, 92  # of the page for an inch of a picture


@dataclass(frozen=True)
class Picture:
    """A figure and what belongs to it.

    Attributes:
        name: of its files, without ending.
        title: what it shows, in a few words.
        caption: how to read it.
        table: its numbers.
        figure: the drawing.
        signatures: how scores were computed.
    """

    name: str
    title: str
    caption: str
    table: Table
    figure: Figure
    signatures: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Width on a large screen, in pixels."""
        return round(self.figure.get_figwidth() * (_PIXELS_OF_WIDE if self.wide else _PIXELS))

    @property
    def wide(self) -> bool:
        """Whether narrow screens scroll it, as its text would be too small."""
        return self.figure.get_figwidth() > 1.1 * style.WIDTH

    @property
    def shown(self) -> bool:
        """Whether the page has its numbers, too."""
        return len(self.table.rows) <= _MOST_ROWS


def write_page(folder: str, *, title: str, sources: Sequence[str], pictures: Sequence[Picture]) -> None:
    """Writes ``index.html``, and SVG, PNG and CSV of each picture, into a folder.

    Args:
        sources: what was read, a line each.
    """
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    for picture in tqdm(pictures, unit=" pictures", disable=None):
        style.save(picture.figure, f"{folder}/{picture.name}")
        picture.table.write_csv(f"{folder}/{picture.name}.csv")
    page = environment.from_string(template).render(title=title, sources=sources, pictures=pictures)
    Path(folder, "index.html").write_text(page, encoding="utf-8")
