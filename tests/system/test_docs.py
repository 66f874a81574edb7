"""README and docs/ are true: files, links, options, numbers, examples; and short.

The commands of docs/data.md and the tutorial run as they are, but for the languages, the parser's models, which would
have to be downloaded, and for processes beside one another, which take longer to start than texts this small.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from fairseq_syntax.commands import average_checkpoints
from fairseq_syntax.encoder.encoder_options import encoder_options
from fairseq_syntax.inference import recorded_parser
from fairseq_syntax.tasks.syntax_translation import SyntaxTranslationTask
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig
from pages import PAGES, blocks
from places import ROOT
from shell import run
from syntax_data import __version__
from syntax_data.parsers import Line, Parse
from syntax_data.trees.tree import DependencyTree, NoParse

BLOCKS = [block.text for block in blocks("docs/data.md", "bash")]
DATA = os.environ.get("FAIRSEQ_SYNTAX_DATA")


@pytest.mark.skipif(not DATA, reason="FAIRSEQ_SYNTAX_DATA is not set: no real data to read")
@pytest.mark.nightly
@pytest.mark.parametrize("lang", ["de", "fr"])
def test_german_and_french(tmp_path, lang):
    for name in ("raw", "gold"):
        (tmp_path / name).mkdir()
    with gzip.open(Path(DATA or "") / f"ud/{lang}_gsd-ud-test.conllu.gz", "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")
    for split, part in (("train", blocks[:300]), ("valid", blocks[300:330]), ("test", blocks[330:360])):
        (tmp_path / f"gold/{split}.conllu").write_text("\n\n".join(part) + "\n\n")
        texts = [re.search("^# text = (.*)$", block, re.M)[1] for block in part]
        for side in (lang, "en"):
            (tmp_path / f"raw/{split}.{side}").write_text("".join(f"{text}\n" for text in texts))
    live = f"fairseq-syntax-parse --lang {lang} --input raw/$split.{lang} --workers 2 --download"
    steps = (ROOT / "docs/tutorial.md").read_text().partition("### 2. ")[2].partition("A copy of the data-bin")[0]
    commands = "".join(re.findall("^```bash\n(.*?)^```$", steps, re.S | re.M))
    commands = re.sub(r"\b(en|de)\b", lambda word: {"en": lang, "de": "en"}[word[0]], commands)
    commands = commands.replace("sacremoses -l $lang -j 2", "sacremoses -l $lang")
    assert live in commands
    gold = f"fairseq-syntax-parse --parser conllu --parse-file gold/$split.conllu --input raw/$split.{lang}"
    report = run(commands.replace(live, gold), tmp_path)
    for split, lines in (("train", 300), ("valid", 30), ("test", 30)):
        assert re.search(
            rf"{split}: {lines} sentences; .*conllu: {lines} parsed \(100.00%\), without a parse: 0", report
        )
    assert (tmp_path / f"data-bin/{lang}-en/train.{lang}-en.{lang}.head.bin").exists()
    verify = next(block for block in BLOCKS if "--verify" in block)
    report = run(re.sub(r"\bde\b", lang, verify), tmp_path)
    assert re.findall(r"^(.*?): \d+ files as in the signature", report, re.M) == ["test", "train", "valid"]


def test_parser_of_the_page_on_the_code(monkeypatch):
    (expert,) = blocks("docs/code.md", "python")
    space: dict[str, Any] = {}
    exec(expert.text, space)
    parser = space["LeftToRight"].from_arguments(None)
    found = parser.parse([Line(1, "a b c"), Line(2, "")])
    assert found == [Parse(dependencies=DependencyTree(["a", "b", "c"], [0, 1, 2])), NoParse("empty")]
    assert parser.describe()["name"] == "left_to_right"
    monkeypatch.setattr(recorded_parser, "parser_names", lambda: ["left_to_right"])
    monkeypatch.setattr(recorded_parser, "parser_class", {"left_to_right": space["LeftToRight"]}.__getitem__)
    record = {"conllu": parser.describe()}
    (running,) = recorded_parser.start_parsers(record, ["head"], name=None, lang="en", models=None, device=None)
    assert isinstance(running.parser, space["LeftToRight"])


CHINESE = ["我 喜欢 你 。", "他们 在 北京 学习 中文 。", "今天 天气 很 好 ， 我们 去 公园 吧 ！", "书 是 谁 的 ？"]


@pytest.mark.nightly
def test_chinese(tmp_path):
    (tmp_path / "raw").mkdir()
    for split in ("train", "valid", "test"):
        sentences = [line.split() for line in CHINESE * 5]
        (tmp_path / f"raw/{split}.zh").write_text("".join("".join(words) + "\n" for words in sentences))
        (tmp_path / f"gold.{split}").write_text("".join(f"(S {' '.join(words)})\n" for words in sentences))
    pieces = next(block for block in BLOCKS if "SentencePieceTrainer" in block)
    run(pieces.replace("vocab_size=16000", "vocab_size=320, hard_vocab_limit=False"), tmp_path)
    tokens = "fairseq-preprocess --only-source --source-lang zh --target-lang en --trainpref spm/train"
    run(f"{tokens} --destdir data-bin/zh-en", tmp_path)
    commands = next(block for block in BLOCKS if "--lang zh" in block)
    live = "fairseq-syntax-parse --lang zh --input raw/train.zh --download"
    assert live in commands
    gold = "fairseq-syntax-parse --parser trees --parse-file gold.train --input raw/train.zh"
    report = run(commands.replace(live, gold), tmp_path)
    assert "train: 20 sentences" in report
    assert "trees: 20 parsed (100.00%), without a parse: 0" in report


def rows_of(page: str, first: str) -> list[list[str]]:
    """The cells of a page's one table whose head begins with the cell `first`."""
    (table,) = re.findall(rf"^\| {re.escape(first)} \|.*\n\|-.*\n((?:\|.*\n)+)", (ROOT / page).read_text(), re.M)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]


def list_below(line: str) -> list[list[str]]:
    """Return the items of the list below a line (or its end) of docs/systems.md, split at the first colon."""
    _, _, below = (ROOT / "docs/systems.md").read_text(encoding="utf-8").partition(f"{line}\n\n")
    return [item.removeprefix("- ").split(": ", 1) for item in below.partition("\n\n")[0].splitlines()]


def test_options_of_the_papers_list_exist(capsys):
    rows = list_below("## Hou 2024, number by number")
    assert len(rows) == 15
    with pytest.raises(SystemExit):
        average_checkpoints.main(["--help"])
    commands = {"fairseq-syntax-average-checkpoints": capsys.readouterr().out}
    for _, asked in rows:
        for arguments in re.findall("`(.*?)`", asked):
            command, *rest = arguments.split()
            if command in commands:
                assert all(word in commands[command] for word in rest if word.startswith("--"))
            else:
                architecture = [] if "--arch" in arguments else ["--arch", "gated_syntax_transformer"]
                task = ["data", "--task", "syntax_translation"]
                options.parse_args_and_arch(options.get_training_parser(), [*task, *architecture, *arguments.split()])


def parameters(architecture: str, dictionary: int) -> int:
    """The number of parameters of a model with one dictionary of that size; built without memory."""
    arguments = f"data --task syntax_translation --arch {architecture} --share-all-embeddings"
    args = options.parse_args_and_arch(options.get_training_parser(), arguments.split())
    cfg = convert_namespace_to_omegaconf(args)
    symbols = Dictionary()
    for i in range(len(symbols), dictionary):
        symbols.add_symbol(str(i))
    with torch.device("meta"):
        model = SyntaxTranslationTask(cfg.task, symbols, symbols).build_model(cfg.model)
    return sum(p.numel() for p in model.parameters())


@pytest.mark.nightly
def test_parameters_of_table_8():
    items = list_below("(ignore rate, locking epochs; dictionary; parameters, the paper's and ours):")
    rows = [(architecture, *numbers.split("; ")) for architecture, numbers in items]
    assert [int(row[-1].replace(",", "")) for row in rows] == [36933680, 36931632, 40060976, 40060976, 39991344]
    for architecture, _, dictionary, count in rows:
        for suffix in ("", "_paper"):
            made = parameters(
                f"gated_syntax_transformer_{architecture.strip('`')}{suffix}", int(dictionary.replace(",", ""))
            )
            assert f"{made:,}" == count, architecture


def options_page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import make_options

    return make_options


def test_the_page_of_options_is_that_of_the_code(monkeypatch):
    page = options_page(monkeypatch)
    assert page.PAGE.read_text() == page.options_page(), "python docs/make_options.py writes it"
    rows = re.findall(r"^- `(--[a-z0-9-]+)[^:]*?(?: \[(.*?)\])?: (.*)$", page.PAGE.read_text(), re.M)
    defaults = {flag: default for flag, default, _ in rows}
    declared = {field.name for field in dataclasses.fields(SyntaxTranslationConfig) if "help" in field.metadata}
    of_task = declared - {field.name for field in dataclasses.fields(TranslationConfig)}
    assert {option.flag for option in encoder_options()} | {f"--{name.replace('_', '-')}" for name in of_task} < set(
        defaults
    )
    assert len(defaults) == len(rows)
    assert all(meaning for *_, meaning in rows)
    assert (defaults["--slr-temperature"], defaults["--position-bias"], defaults["--syntax-heads"]) == (
        "`10`",
        "off",
        "all",
    )


def test_architectures_and_parameters_of_all_systems():
    rows = rows_of("docs/systems.md", "system")
    assert len(rows) == 8
    page = (ROOT / "docs/systems.md").read_text()
    stock = parameters("transformer", 1000)
    for *_, architecture, _, added in rows:
        name = architecture.strip("`")
        assert all(arch in ARCH_MODEL_REGISTRY for arch in (name, f"{name}_tiny"))
        if "V" in added:
            continue  # it has embeddings of its own
        assert parameters(name, 1000) - stock == int(added.partition(" ")[0].replace(",", ""))
    for prefix, names in re.findall(r"`([a-z_]+_)\{([a-z0-9_,]+)\}`", page):
        assert all(prefix + name in ARCH_MODEL_REGISTRY for name in names.split(","))
    named = {name for name in ARCH_MODEL_REGISTRY if name.startswith(("pascal_", "lisa_"))}
    (listed,) = re.findall(r"with `\{([a-z0-9_,]+)\}` \(the", page)
    sets = {f"{system}_transformer_{name}" for system in ("pascal", "lisa") for name in listed.split(",")}
    assert {name for name in named if not name.endswith(("transformer", "_tiny"))} == sets


def test_the_picture_of_the_flow_is_that_of_the_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs/figures")
    import flow

    drawn = re.findall(r"<text[^>]*>([^<]+)</text>", (ROOT / "docs/pictures/flow.svg").read_text())
    told = [line for *_, text, _ in flow.BOXES.values() for line in text.split("\n") if line]
    assert sorted(drawn) == sorted([*told, "the encoder of a Transformer or a RoBERTa: where syntax may enter"])


def test_what_is_cited_is_this_version():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_lead_somewhere(page):
    page = ROOT / page
    text = page.read_text()
    links = [link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    for link, _, anchor in links:
        target = page.parent / link if link else page
        assert target.exists(), link
        headings = re.findall("^#+ (.*)$", target.read_text(), re.M) if anchor else []
        assert not anchor or anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, anchor
    folders = "fairseq_syntax|preprocess|tests|benchmarks|docs|examples"
    for path in re.findall(rf"`((?:{folders})/[\w/.-]*(?:/|\.\w+))`", text):
        assert (ROOT / path).exists(), path


def test_the_documentation_is_small():
    assert len(PAGES) <= 18
    assert sum(len((ROOT / page).read_text().split()) for page in PAGES) <= 20_000
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
