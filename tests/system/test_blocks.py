"""The shell and Python blocks of README, docs and examples run as they stand there, most of them in one folder.

What differs is in ``shell.SMALL`` (models and trainings are small, pip installs nothing) and in ``SUBSTITUTES``: the
parser, for stanza's models would have to be downloaded; names of data; and "…", for options that another block has. A
block that does not run here is in ``ELSEWHERE``, with its reason.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pages import PAGES, Block, blocks
from places import EXAMPLES
from shell import SMALL, run
from syntax_experiments.recipe import read_recipe
from tiers import others_nightly

_SETS_UP = "sets up the environment in which this test runs"
_NETWORK = "the network; tests have a corpus of their own"
_HOURS = "hours; tests/system/test_experiments.py runs each recipe small"
_RAW_TEXT = "tests/system/test_docs.py runs this page in a folder of its own, and its German in Chinese and French too"
_QUICKSTART = "tests/system/test_quickstart.py runs it"
#: Why a block does not run here: by page and by how the block begins.
ELSEWHERE = {
    ("README.md", "bash run.sh"): _SETS_UP,
    ("README.md", "pip install"): _SETS_UP,
    ("docs/install.md", "export PIP"): _SETS_UP,
    ("docs/research.md", "pip install"): _SETS_UP,
    ("docs/tutorial.md", "bash run.sh"): _QUICKSTART,
    ("docs/tutorial.md", "cd experiments"): _QUICKSTART,
    ("docs/tutorial.md", "mkdir -p raw"): _NETWORK,
    ("docs/code.md", "from syntax_data"): "tests/system/test_docs.py runs it",
    ("docs/data.md", ""): _RAW_TEXT,
    ("examples/experiments/README.md", "pip install"): _HOURS,
    ("examples/experiments/README.md", "authors="): _NETWORK,
    ("examples/experiments/README.md", "python -m syntax_experiments.tables"): "unit tests of the tables",
    ("docs/translation.md", "pip install"): "tests/integration/test_serve.py runs the server and asks it",
    ("docs/understanding.md", ""): "tests/system/test_pretrained_bert.py runs it small, but for Python",
    ("benchmarks/README.md", ""): "minutes of an idle machine; tests/integration/test_benchmarks.py runs them small",
}
#: The pages whose blocks run: in each folder some, in an order in which each finds what it needs.
FOLDERS = {
    "main path": ["README.md"],
    "one after the other": [
        *("README.md", "docs/training.md", "docs/translation.md", "docs/research.md", "docs/code.md")
    ],
    "tutorial": ["docs/tutorial.md"],
}
ORDINARY = {"main path"}  # the others run nightly
COMMON = "--optimizer adam --lr 0.01 --criterion label_smoothed_cross_entropy --batch-size 20"
SUBSTITUTES = {
    "README.md": {"--lang en --input raw/$split.en --download": "--parser fake --input raw/$split.en"},
    "docs/tutorial.md": {
        "--lang en --input raw/$split.en --workers 2 --download": "--parser fake --input raw/$split.en"
    },
    "docs/translation.md": {"--num-epoch-checkpoints 10": "--num-epoch-checkpoints 1"},
    "docs/training.md": {"…": f"--user-dir fairseq_syntax --task syntax_translation {COMMON}"},
    "docs/code.md": {"…": COMMON},
}
#: What pages need, and README does not make.
BEFORE = {
    "docs/translation.md": f"""
for arch in gated_syntax_transformer:gated:slr transformer:stock:stock; do
    IFS=: read architecture folder name <<< "$arch"
    fairseq-train data-bin/en-de --user-dir fairseq_syntax --task syntax_translation --arch $architecture \\
        --save-dir checkpoints/$folder --log-file $name.1.log {COMMON}
    cp $name.1.log $name.2.log
done
head -n 2 tok/test.en > new.en
head -n 2 raw/test.en > pairs.en
head -n 2 raw/test.de > pairs.right
tail -n 2 raw/test.de > pairs.wrong
printf 'a\\nb\\n' > pairs.category
""",
    "docs/research.md": """
for name in stock.1 stock.2 slr.1 slr.2; do cp generate.log $name.gen; done
fairseq-syntax-dump data-bin/en-de --path checkpoints/gated/checkpoint_best.pt --gen-subset test --output slr.1.npz
""",
}


CODE = [block for page in PAGES for block in blocks(page, "bash|python")]


def elsewhere(block: Block) -> bool:
    """Return if a block is run elsewhere, or not at all."""
    return any(block.page == page and block.text.startswith(start) for page, start in ELSEWHERE)


def test_each_block_runs_or_has_a_reason():
    assert len(CODE) > 30
    run_here = [page for pages in FOLDERS.values() for page in pages]
    assert not [f"{b.page}:{b.line}" for b in CODE if not elsewhere(b) and b.page not in run_here]
    for page, start in ELSEWHERE:
        assert any(b.page == page and b.text.startswith(start) for b in CODE), (page, start)
    for page, words in SUBSTITUTES.items():
        assert all(any(word in b.text for b in CODE if b.page == page) for word in words), page


@pytest.fixture
def folder(tmp_path, corpus) -> Path:
    """What README starts from: English and German, raw, tokenised and cut into subwords."""
    for name in ("raw", "tok", "bpe"):
        (tmp_path / name).mkdir()
    for split in ("train", "valid", "test"):
        for lang, side in (("en", "src"), ("de", "tgt")):
            for name in ("raw", "tok"):
                shutil.copy(corpus / f"{split}.{side}", tmp_path / name / f"{split}.{lang}")
            shutil.copy(corpus / f"bpe/{split}.{side}", tmp_path / f"bpe/{split}.{lang}")
    shutil.copy(corpus / "codes.src", tmp_path / "codes")
    (tmp_path / "examples").symlink_to(EXAMPLES)
    return tmp_path


@pytest.mark.parametrize("name", others_nightly(FOLDERS, ORDINARY))
def test_blocks_run(folder, fake_parser, name):
    pages = FOLDERS[name]
    for page in pages:
        ours = [block for block in CODE if block.page == page and not elsewhere(block)]
        assert ours
        for block in [Block(page, 0, "bash", BEFORE.get(page, "")), *ours]:
            text = block.text
            for word, other in SUBSTITUTES.get(page, {}).items():
                text = text.replace(word, other)
            if block.language == "python":
                text = f"python - <<'END'\n{text}END"
            try:
                run(SMALL + text, folder)
            except AssertionError as error:
                raise AssertionError(f"{block.page}:{block.line}") from error
    assert "docs/research.md" not in pages or (folder / "pictures/index.html").is_file()


def test_the_recipe_in_the_readme_of_experiments_is_one(tmp_path):
    (recipe,) = blocks("examples/experiments/README.md", "yaml")
    (tmp_path / "recipe.yaml").write_text(recipe.text)
    found = read_recipe(str(tmp_path / "recipe.yaml"))
    assert list(found.systems) == ["transformer", "slr", "slr_random"]
    assert [table.baselines for table in found.of_tables.values()] == [["transformer"]]
