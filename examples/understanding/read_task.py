"""Public data sets of understanding tasks as text: one file for each segment, and one of labels.

    python examples/understanding/read_task.py rte RTE/train.tsv --output raw/rte/train

writes raw/rte/train.input0, .input1 and .label, a line an example. The files are as their authors publish them: GLUE's
and SICK's tables, HANS's and SNLI's with their trees (.input0.trees, .input1.trees), SemEval-2010 task 8, whose
marked text is in train.input0.marked, and BLiMP's JSON lines, which become pairs of lines without labels. Rows of SNLI
and MNLI without a label that its annotators agree on are left out.

    python examples/understanding/read_task.py sst2 dev.tsv --trees stanfordSentimentTreebank --output raw/sst/valid

also writes raw/sst/valid.input0.trees: the treebank's trees of the sentences, or of the phrases in GLUE's training set.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import atomic_write
from syntax_data.trees.brackets import format_brackets
from syntax_data.trees.tree import NoParse, Tree

#: An example: the lines of its files, by their endings.
Row = dict[str, str]


@dataclass(frozen=True)
class Table:
    """Tab-separated lines, the first of which has names.

    Attributes:
        inputs: columns with the segments.
        trees: columns with their trees, if there are some.
    """

    inputs: tuple[str, ...]
    label: str
    trees: tuple[str, ...] = ()

    def rows(self, path: str, markers: tuple[str, str]) -> Iterator[tuple[int, Row]]:
        lines = numbered_lines(path)
        first, names = next(((number, line.split("\t")) for number, line in lines), (1, []))
        columns = {f"input{i}": column for i, column in enumerate(self.inputs)}
        columns |= {f"input{i}.trees": column for i, column in enumerate(self.trees)} | {"label": self.label}
        if missing := [column for column in columns.values() if column not in names]:
            raise InputError(path, first, f"expected a column {missing[0]!r}, found {short_repr(names)}")
        for number, fields in _fields(path, lines, (len(names),)):
            yield number, {ending: fields[names.index(column)] for ending, column in columns.items()}


@dataclass(frozen=True)
class Unnamed:
    """Tab-separated lines; columns are numbers from 0, `widths` how many a line may have."""

    inputs: tuple[int, ...]
    label: int
    widths: tuple[int, ...]

    def rows(self, path: str, markers: tuple[str, str]) -> Iterator[tuple[int, Row]]:
        for number, fields in _fields(path, numbered_lines(path), self.widths):
            segments = {f"input{i}": fields[column] for i, column in enumerate(self.inputs)}
            yield number, segments | {"label": fields[self.label]}


def _fields(path: str, lines: Iterator[tuple[int, str]], widths: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    for number, line in lines:
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) not in widths:
            message = f"expected {' or '.join(map(str, widths))} columns, found {len(fields)}"
            raise InputError(path, number, message)
        yield number, fields


class SemEval:
    """SemEval-2010 task 8: a sentence with two marked entities, their relation, a comment, an empty line."""

    SENTENCE = re.compile(r'\d+\t"(.*<e1>.+</e1>.*<e2>.+</e2>.*)"')

    def rows(self, path: str, markers: tuple[str, str]) -> Iterator[tuple[int, Row]]:
        lines = numbered_lines(path)
        for number, line in lines:
            if not line:
                continue
            if (match := self.SENTENCE.fullmatch(line)) is None:
                raise InputError(
                    path, number, f'expected NUMBER, a tab, and "… <e1>…</e1> … <e2>…</e2> …", found {line!r}'
                )
            number, label = next(lines, (number + 1, ""))
            marked = match[1]
            for name, marker in zip("12", markers, strict=True):
                marked = re.sub(f"</?e{name}>", f" {marker} ", marked)
            yield (
                number,
                {
                    "input0": re.sub("</?e[12]>", "", match[1]).strip(),
                    "input0.marked": " ".join(marked.split()),
                    "label": label.strip(),
                },
            )
            next(lines, None)  # the comment


class MinimalPairs:
    """BLiMP's JSON lines: an acceptable sentence, and after it one that is not, as two lines."""

    def rows(self, path: str, markers: tuple[str, str]) -> Iterator[tuple[int, Row]]:
        for number, line in numbered_lines(path):
            try:
                pair = json.loads(line)
                sentences = [pair["sentence_good"], pair["sentence_bad"]]
                if not all(isinstance(sentence, str) for sentence in sentences):
                    raise TypeError
            except (ValueError, KeyError, TypeError, RecursionError):
                expected = "expected a JSON object with sentence_good and sentence_bad"
                raise InputError(path, number, f"{expected}, found {short_repr(line)}") from None
            yield from ((number, {"input0": sentence}) for sentence in sentences)


class SentimentTrees:
    """Binary trees of the Stanford Sentiment Treebank, and those of all phrases in them, in lower case as in GLUE.

    Args:
        folder: with SOStr.txt, the words of each sentence, and STree.txt, the parents of words and constituents.

    Raises:
        InputError: the parents are not those of a tree over the words.
    """

    def __init__(self, folder: str):
        self._trees: dict[str, Tree] = {}
        path = os.path.join(folder, "STree.txt")
        sentences = numbered_lines(os.path.join(folder, "SOStr.txt"))
        for (number, words), (_, parents) in zip(sentences, numbered_lines(path), strict=True):
            try:
                tree = _tree(
                    words.lower().replace("\\/", "/").split("|"), [int(parent) for parent in parents.split("|")]
                )
            except (ValueError, IndexError):
                message = f"expected the parents of a tree over {short_repr(words)}, found {short_repr(parents)}"
                raise InputError(path, number, message) from None
            for node, step in tree.walk():
                if step > 0 and isinstance(node, Tree):
                    self._trees.setdefault(" ".join(node.leaves()), node)

    def of(self, phrase: str) -> str:
        """Return the tree of a phrase in brackets; ``(()) not_in_the_treebank`` without one."""
        tree = self._trees.get(" ".join(phrase.split()))
        return format_brackets(NoParse("not_in_the_treebank") if tree is None else [tree]).rstrip("\n")


def _tree(words: list[str], parents: list[int]) -> Tree:
    """Build a tree from the parents of words, and then of constituents, from 1; the root's is 0."""
    nodes = [Tree("X", [word]) for word in words] + [Tree("X", []) for _ in parents[len(words) :]]
    children = set()
    for node in range(len(words)):  # parents get their children from left to right
        while node not in children and parents[node]:
            children.add(node)
            nodes[parents[node] - 1].children.append(nodes[node])
            node = parents[node] - 1
    root = nodes[parents.index(0)]
    if root.leaves() != words:
        raise ValueError("expected a root above all words, in their order")
    return root


def numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, from 1, without their ends; a byte order mark is left out."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip("\r\n")


_PAIR = ("sentence1", "sentence2")
_PARSES = ("sentence1_parse", "sentence2_parse")
TASKS: dict[str, Table | Unnamed | SemEval | MinimalPairs] = {
    "cola": Unnamed((3,), 1, widths=(4,)),
    "sst2": Table(("sentence",), "label"),
    "rte": Table(_PAIR, "label"),
    "wnli": Table(_PAIR, "label"),
    "qnli": Table(("question", "sentence"), "label"),
    "qqp": Table(("question1", "question2"), "is_duplicate"),
    "mrpc": Table(("#1 String", "#2 String"), "Quality"),
    "stsb": Table(_PAIR, "score"),
    "stsbenchmark": Unnamed((5, 6), 4, widths=(7, 9)),
    "sick": Table(("sentence_A", "sentence_B"), "entailment_judgment"),
    "mnli": Table(_PAIR, "gold_label", _PARSES),
    "snli": Table(_PAIR, "gold_label", _PARSES),
    "hans": Table(_PAIR, "gold_label", _PARSES),
    "semeval": SemEval(),
    "blimp": MinimalPairs(),
}


def convert(args: argparse.Namespace) -> None:
    """Write the files of a data set's split; all of them, or none."""
    markers = args.markers.split(",")
    if len(markers) != 2 or not all(map(str.strip, markers)):
        raise ValueError(f"--markers: expected two, separated by a comma, found {args.markers!r}")
    if args.trees is not None and args.task != "sst2":
        raise ValueError(f"--trees: expected the task sst2, whose trees they are, found {args.task}")
    trees = None if args.trees is None else SentimentTrees(args.trees)
    os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
    written = skipped = without_tree = 0
    with ExitStack() as stack:
        files = {}
        for number, row in TASKS[args.task].rows(args.file, tuple(markers)):
            if row.get("label") == "-":
                skipped += 1
                continue
            if empty := [ending for ending, value in row.items() if not value or len(value.splitlines()) > 1]:
                message = f"expected one line of text as {empty[0]}, found {short_repr(row[empty[0]])}"
                raise InputError(args.file, number, message)
            if trees is not None:
                row["input0.trees"] = trees.of(row["input0"])
                without_tree += row["input0.trees"].startswith("(())")
            for ending, value in row.items():
                if ending not in files:
                    temporary = stack.enter_context(atomic_write(f"{args.output}.{ending}"))
                    files[ending] = stack.enter_context(open(temporary, "w", encoding="utf-8"))
                files[ending].write(f"{value}\n")
            written += 1
        if not files:
            raise InputError(args.file, None, "expected examples, found none")
    print(f"{args.output}: {written} examples; without a label that annotators agree on, and left out: {skipped}")
    if trees is not None:
        print(f"{args.output}.input0.trees: without a tree: {without_tree}")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("read_task.py", __doc__)
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=f"one of {', '.join(TASKS)}")
    parser.add_argument("file", metavar="FILE", help="a split, as it is published")
    parser.add_argument("--output", required=True, metavar="PREFIX", help="beginning of the names of what is written")
    parser.add_argument("--trees", metavar="DIR", help="for sst2: the folder with SOStr.txt and STree.txt")
    parser.add_argument(
        "--markers",
        default="[unused0],[unused1]",
        metavar="A,B",
        help="for semeval: symbols to put before and after the two entities (default: %(default)s, BERT's)",
    )
    return parser


def main(argv: list[str] | None = None) -> None:
    """Read a data set; broken input ends the command with a message and exit status 1."""
    run("read_task.py", get_parser, convert, argv)


if __name__ == "__main__":
    main()
