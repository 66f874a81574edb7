"""What pip installs is all that the packages have in a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from places import EXPERIMENTS, ROOT

PACKAGES = (ROOT / "fairseq_syntax", ROOT / "preprocess/syntax_data", EXPERIMENTS)


def files(folder: Path) -> set[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path for path in found if "__pycache__" not in path.parts}


def test_a_distribution_has_every_file_of_the_packages(tmp_path):
    build = ["-q", "egg_info", "--egg-base", tmp_path, "build_py", "--build-lib", tmp_path / "lib"]
    subprocess.run([sys.executable, "setup.py", *build], cwd=ROOT, check=True, capture_output=True)
    for package in PACKAGES:
        assert files(tmp_path / "lib" / package.name) == files(package)
    assert len(list(tmp_path.glob("lib/*"))) == len(PACKAGES)
