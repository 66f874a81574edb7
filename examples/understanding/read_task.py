"""Public data sets of understanding tasks as text: one file for each segment, and one of labels.

    python examples/understanding/read_task.py rte RTE/train.tsv --output raw/rte/train

writes raw/rte/train.input0, .input1 and .label, a line an example. The files are as their authors publish them: GLUE's
and SICK's tables, HANS's and SNLI's with their trees (.input0.trees, .input1.trees), and SemEval-2010 task 8, whose
marked text is in train.input0.marked. Rows of SNLI and MNLI without a label that its annotators agree on are left out.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError, short_repr
from syntax_data.io.atomic_write import atomic_write

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


def numbered_lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, from 1, without their ends; a byte order mark is left out."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            yield number, line.rstrip("\r\n")


_PAIR = ("sentence1", "sentence2")
_PARSES = ("sentence1_parse", "sentence2_parse")
TASKS: dict[str, Table | Unnamed | SemEval] = {
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
}


def convert(args: argparse.Namespace) -> None:
    """Write the files of a data set's split; all of them, or none."""
    markers = args.markers.split(",")
    if len(markers) != 2 or not all(map(str.strip, markers)):
        raise ValueError(f"--markers: expected two, separated by a comma, found {args.markers!r}")
    os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
    written = skipped = 0
    with ExitStack() as stack:
        files = {}
        for number, row in TASKS[args.task].rows(args.file, tuple(markers)):
            if row["label"] == "-":
                skipped += 1
                continue
            if empty := [ending for ending, value in row.items() if not value or len(value.splitlines()) > 1]:
                message = f"expected one line of text as {empty[0]}, found {short_repr(row[empty[0]])}"
                raise InputError(args.file, number, message)
            for ending, value in row.items():
                if ending not in files:
                    temporary = stack.enter_context(atomic_write(f"{args.output}.{ending}"))
                    files[ending] = stack.enter_context(open(temporary, "w", encoding="utf-8"))
                files[ending].write(f"{value}\n")
            written += 1
        if not files:
            raise InputError(args.file, None, "expected examples, found none")
    print(f"{args.output}: {written} examples; without a label that annotators agree on, and left out: {skipped}")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("read_task.py", __doc__)
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=f"one of {', '.join(TASKS)}")
    parser.add_argument("file", metavar="FILE", help="a split, as it is published")
    parser.add_argument("--output", required=True, metavar="PREFIX", help="beginning of the names of what is written")
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
