"""The commands of docs/, run as they stand there, but for the parser's models, which would have to be downloaded, and
for processes beside one another, which take longer to start than texts this small."""

from __future__ import annotations

import ast
import gzip
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fairseq import options

import fairseq_syntax  # noqa: F401  (registers the task and the architectures)
from places import ROOT, TESTS
from syntax_preprocess.parsers import Line, Parse
from syntax_preprocess.trees import DependencyTree, NoParse

PAGE = (ROOT / "docs/raw-text-to-data-bin.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.S)
DATA = os.environ.get("FAIRSEQ_SYNTAX_DATA")


def run(commands: str, folder: Path) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not DATA, reason="FAIRSEQ_SYNTAX_DATA is not set: no real data to read")
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
    live = f"fairseq-syntax-parse --lang {lang} --input raw/$split.{lang} --download"
    commands = re.sub(r"\bde\b", lang, BLOCKS[0]).replace("sacremoses -l $lang -j 2", "sacremoses -l $lang")
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
    assert re.findall("^(.*?): 13 files as they were written", report, re.M) == ["test", "train", "valid"]


def test_parser_of_the_contributors_guide():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    space: dict[str, Any] = {}
    exec(re.search(r"```python\n(.*?)```", guide, re.S)[1], space)
    parser = space["LeftToRight"].from_arguments(None)
    found = parser.parse([Line(1, "a b c"), Line(2, "")])
    assert found == [Parse(dependencies=DependencyTree(["a", "b", "c"], [0, 1, 2])), NoParse("empty")]
    assert parser.describe()["name"] == "left_to_right"
    assert space["LeftToRight"].from_description(parser.describe(), kinds=["conllu"], models=None, device=None)


CHINESE = [
    "我 喜欢 你 。",
    "他们 在 北京 学习 中文 。",
    "今天 天气 很 好 ， 我们 去 公园 吧 ！",
    "这 本 书 是 谁 的 ？",
]


def test_chinese(tmp_path):
    (tmp_path / "raw").mkdir()
    for split in ("train", "valid", "test"):
        sentences = [line.split() for line in CHINESE * 5]
        (tmp_path / f"raw/{split}.zh").write_text("".join("".join(words) + "\n" for words in sentences))
        (tmp_path / f"gold.{split}").write_text("".join(f"(S {' '.join(words)})\n" for words in sentences))
    pieces = next(block for block in BLOCKS if "SentencePieceTrainer" in block)
    run(pieces.replace("vocab_size=16000", "vocab_size=320, hard_vocab_limit=False"), tmp_path)
    commands = next(block for block in BLOCKS if "--lang zh" in block)
    live = "fairseq-syntax-parse --lang zh --input raw/train.zh --download"
    assert live in commands
    gold = "fairseq-syntax-parse --parser trees --parse-file gold.train --input raw/train.zh"
    report = run(commands.replace(live, gold), tmp_path)
    assert "train: 20 sentences" in report
    assert "trees: 20 parsed (100.00%), without a parse: 0" in report


def files_with(test: str) -> int:
    """In how many files there is a test `path::function`, or `function` of any file."""
    path, _, function = test.rpartition("::")
    files = [ROOT / path] if path else [*TESTS.rglob("test_*.py")]
    trees = (ast.parse(file.read_text()) for file in files if file.is_file())
    return sum(any(isinstance(n, ast.FunctionDef) and n.name == function for n in tree.body) for tree in trees)


def test_options_and_tests_of_the_papers_table_exist():
    table = re.search(r"## The paper, claim by claim\n(.*?)\n## ", (ROOT / "README.md").read_text(), re.S)[1]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == 21
    commands = {command: "" for command in ("fairseq-syntax-average-checkpoints", "fairseq-syntax-dump")}
    for command in commands:
        commands[command] = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    for _, asked, test in rows:
        assert files_with(test.strip(" |`")) == 1, test
        for arguments in re.findall("`(.*?)`", asked):
            command, *rest = arguments.split()
            if command in commands:
                assert all(word in commands[command] for word in rest if word.startswith("--"))
            else:
                architecture = [] if "--arch" in arguments else ["--arch", "gated_syntax_transformer"]
                task = ["data", "--task", "syntax_translation"]
                options.parse_args_and_arch(options.get_training_parser(), [*task, *architecture, *arguments.split()])
