"""The page: pictures, captions and numbers in a folder, written whole or not at all."""

from __future__ import annotations

import html
import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from pandas import DataFrame

from syntax_data.errors import InputError
from syntax_experiments.plots.style import printable, svg

PAGE = "index.html"
# A line of the page, by which this command knows its own.
_GENERATOR = '<meta name="generator" content="fairseq-syntax-analyze">'
_MOST_ROWS = 400  # that the page shows; the CSV has all


@dataclass(frozen=True)
class Picture:
    """A drawing and its description."""

    name: str  # of its files, without ending: letters, digits and hyphens
    title: str
    caption: str  # how to read it
    data: DataFrame  # its numbers
    drawing: Figure | str  # a string: an SVG file's content
    notes: tuple[str, ...] = ()  # sentences about what was left out
    signatures: tuple[str, ...] = ()  # of scores, as sacreBLEU writes them

    @property
    def table(self) -> str:
        """The numbers as HTML, unless there are too many for a page."""
        if len(self.data) > _MOST_ROWS:
            return ""
        return self.data.to_html(index=False, border=0, na_rep="", float_format="{:.6g}".format)


def write_page(folder: str, *, title: str, sources: Sequence[str], pictures: Sequence[Picture]) -> None:
    """Write ``index.html``, and SVG and CSV of each picture, into a folder; `sources`: what was read."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    values = {"generator": Markup(_GENERATOR), "title": title, "sources": sources, "pictures": pictures}
    files = {PAGE: environment.from_string(template).render(values)}
    for picture in pictures:
        files[f"{picture.name}.svg"] = picture.drawing if isinstance(picture.drawing, str) else svg(picture.drawing)
        files[f"{picture.name}.csv"] = picture.data.to_csv(index=False, float_format="%.6g")
    for name, text in files.items():
        Path(folder, name).write_text(printable(text), encoding="utf-8", newline="\n")


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Yield the name of a new folder, which at the end replaces an earlier page at `path`, and nothing else."""
    path = os.path.normpath(path)
    _check_folder(path)
    temporary = f"{path}.{platform.node()}.{os.getpid()}.tmp"
    before = f"{temporary}.before"
    try:
        os.makedirs(temporary)
        yield temporary
        _check_folder(path)
        if os.path.isdir(path):
            os.rename(path, before)
        os.rename(temporary, path)
        shutil.rmtree(before, ignore_errors=True)
    finally:
        if os.path.isdir(before) and not os.path.lexists(path):
            os.rename(before, path)
        shutil.rmtree(temporary, ignore_errors=True)


def _check_folder(path: str) -> None:
    """Raise :class:`InputError` unless `path` is new, empty, or a page and no more."""
    if not os.path.lexists(path):
        return
    if os.path.islink(path) or not os.path.isdir(path):
        raise InputError(path, None, "expected a folder to write to, found a file or a link of this name")
    page, own = Path(path, PAGE), set()
    text = page.read_text(encoding="utf-8", errors="replace") if page.is_file() else ""
    if _GENERATOR in text:
        own = {PAGE, *(unquote(html.unescape(name)) for name in re.findall(r'(?:src|href)="([^"#]+)"', text))}
    if others := sorted({*os.listdir(path)} - own):
        expected = "expected a new folder, or one that this command wrote"
        raise InputError(path, None, f"{expected}, found {others[0]}; --output names another folder")
