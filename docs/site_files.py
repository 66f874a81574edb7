"""A hook of mkdocs: the site has all pages of the repository, at their places in it, so that links lead to the same.

Files that a page links to are copied along.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = "*.md", "docs/*.md", "examples/*/README.md", "benchmarks/README.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by the repository's pages and the files that they link to; keep the theme's."""
    pages = {path for pattern in _PAGES for path in _ROOT.glob(pattern)}
    linked = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
        if "://" not in link
    }
    paths = [str(path.relative_to(_ROOT)) for path in sorted(pages | set(filter(Path.is_file, linked)))]
    own = [File(path, str(_ROOT), config.site_dir, config.use_directory_urls) for path in paths]
    return Files([*(file for file in files if file.src_dir != config.docs_dir), *own])
