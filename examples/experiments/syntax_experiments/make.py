"""Makes one artefact: python -m syntax_experiments.make KIND/KEY, in the folder of all work.

It is made in a hidden folder beside, KIND/.KEY, which is moved into place when it is whole. What was left there by a
step that was stopped is gone on with, if the step can, or deleted. A lock keeps two processes from making the same.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syntax_data.errors import InputError
from syntax_experiments.locks import held


@dataclass(frozen=True)
class Step:
    """What a step is told; see :class:`syntax_experiments.plan.Artefact`.

    Attributes:
        folder: where to put what it makes.
    """

    settings: dict[str, Any]
    inputs: dict[str, Path]
    places: dict[str, Any]
    threads: int
    folder: Path


def spec_path(path: str) -> Path:
    """The file that says what the artefact at `path` is made of."""
    return Path("specs", f"{path}.json")


def make(path: str) -> None:
    """Makes the artefact `path`, unless it is made."""
    from syntax_experiments.steps import RESUMABLE, STEPS

    spec = json.loads(spec_path(path).read_text())
    final = Path(path)
    hidden = final.with_name(f".{final.name}")
    whole = hidden.with_name(f"{hidden.name}.json")  # a second made.json, of which the engine does not know
    final.parent.mkdir(exist_ok=True)
    busy = f"{hidden}: another process makes it; waiting for its end"
    with held(f"{hidden}.lock", busy=busy, wait=True):
        if (final / "made.json").exists():  # by whoever was there before
            return
        # The same, but the engine took its file away, in order to have it made.
        if whole.exists() and final.is_dir() and any(final.iterdir()):
            print(f"{final} is made already; to have it made anew, delete the folder")
            shutil.copy(whole, final / "made.json")
            return
        if spec["kind"] not in RESUMABLE:
            shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(exist_ok=True)
        inputs = {name: Path(of) for name, of in spec["inputs"].items()}
        STEPS[spec["kind"]](Step(spec["settings"], inputs, spec["places"], spec["threads"], hidden))
        # Last, since by this file one sees that it is made.
        made = json.dumps({k: v for k, v in spec.items() if k != "places"}, indent=1)
        (hidden / "made.json").write_text(made)
        whole.write_text(made)
        shutil.rmtree(final, ignore_errors=True)  # an empty folder, which the engine makes
        os.rename(hidden, final)


def main() -> None:
    """Runs the step that the command line names; broken input ends it with a message and exit status 1."""
    try:
        make(sys.argv[1])
    except (InputError, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")


if __name__ == "__main__":
    main()
