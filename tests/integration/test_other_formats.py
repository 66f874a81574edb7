"""--parser conll09, conllup and corenlp: parses in other formats become CoNLL-U and trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from syntax_data.commands import parse


def run(text: Path, kind: str, parses: str, *more: str) -> dict[str, str]:
    """The files of parses that are written for some lines and a file with their parses."""
    file = text.with_name("p")
    file.write_text(parses, encoding="utf-8")
    parse.main([f"--input={text}", f"--parser={kind}", f"--parse-file={file}", "--overwrite", *more])
    return {ending: path.read_text() for ending in ("conllu", "trees") if (path := Path(f"{text}.{ending}")).exists()}


def conll09(*rows: str) -> str:
    """Rows of CoNLL-09: word, gold head, predicted head."""
    cells = (row.split() for row in rows)
    return "".join(
        f"{i}\t{w}\t{w.lower()}\tp{w}\tN\tPN\tx=1\tpx\t{gold}\t{predicted}\tdep{gold}\tpdep{predicted}\t_\t_\tA0\n"
        for i, (w, gold, predicted) in enumerate(cells, start=1)
    )


CONLL09 = f"{conll09('Dogs 2 0', 'bark 0 1')}\n{conll09('Loud 0 0')}\n{conll09('X 0 0')}"


def conllu(*rows: str) -> str:
    return "".join("\t".join(row.split()) + "\n" for row in rows)


GOLD = conllu("1 Dogs dogs _ N x=1 2 dep2 _ _", "2 bark bark _ N x=1 0 dep0 _ _", "3 Loud loud _ N x=1 0 dep0 _ _")
PREDICTED = conllu(
    "1 Dogs pDogs _ PN px 0 pdep0 _ _", "2 bark pbark _ PN px 1 pdep1 _ _", "3 Loud pLoud _ PN px 0 pdep0 _ _"
)
PLUS = """# global.columns = ID HEAD FORM UPOS MY:NER DEPREL
# generator = another parser
1\t2\tDogs\tNOUN\tB-X\tnsubj
2\t0\tbark\tVERB\tO\troot

1-2\t_\tLoud\t_\t_\t_
1\t2\tLo\tNOUN\tO\tdep
2\t0\tud\tNOUN\tO\troot

1\t0\tX\tX\tO\troot
"""
OF_PLUS = conllu(
    "1 Dogs _ NOUN _ _ 2 nsubj _ MY_NER=B-X",
    "2 bark _ VERB _ _ 0 root _ MY_NER=O",
    "3 Loud _ NOUN _ _ 0 root _ MY_NER=O",
)


def corenlp(words: str, heads: list[int], tree: str) -> dict[str, Any]:
    """A sentence as CoreNLP 4.5 writes it, with tokenize, ssplit, pos, lemma, ner, parse and depparse."""
    tokens = [
        {"index": i, "word": w, "originalText": w, "lemma": w.lower(), "characterOffsetBegin": 0,
         "characterOffsetEnd": 1, "pos": "NN", "ner": "O", "before": "", "after": " "}
        for i, w in enumerate(words.split(), start=1)
    ]  # fmt: skip
    arcs = [
        {"dep": "nsubj" if head else "ROOT", "governor": head, "governorGloss": "x", "dependent": i,
         "dependentGloss": "y"}
        for i, head in enumerate(heads, start=1)
    ]  # fmt: skip
    arcs.sort(key=lambda arc: int(arc["governor"]))  # the root first
    return {"index": 0, "parse": tree, "basicDependencies": arcs, "enhancedDependencies": arcs, "tokens": tokens}


def documents(*sentences: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"docId": "x", "sentences": each} for each in sentences]


SENTENCES = [
    corenlp("Dogs bark", [2, 0], "(ROOT (S (NP (NN Dogs)) (VP bark)))"),
    corenlp("-LRB-", [0], "(ROOT\n  (-LRB- -LRB-))"),
    corenlp("X", [0], "(ROOT (X X))"),
]
DOCUMENTS = documents(SENTENCES[:2], [], SENTENCES[2:])
OF_CORENLP = {
    "conllu": "# sentences = 2\n"
    + conllu(
        "1 Dogs dogs _ NN _ 2 nsubj _ NER=O", "2 bark bark _ NN _ 0 root _ NER=O", "3 ( -lrb- _ NN _ 0 root _ NER=O"
    )
    + f"\n# no_parse = empty\n\n{conllu('1 X x _ NN _ 0 root _ NER=O')}\n",
    "trees": "(ROOT (S (NP (NN Dogs)) (VP bark))) (ROOT (-LRB- -LRB-))\n(()) empty\n(ROOT (X X))\n",
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "x.en").write_text("Dogs bark Loud\n\nX\n")
    return tmp_path / "x.en"


@pytest.mark.parametrize(
    ("kind", "content", "options", "expected", "name"),
    [
        ("conll09", CONLL09, [], GOLD, "not stated (conll09 file)"),
        ("conll09", CONLL09, ["--predicted", "--parser-name=mate"], PREDICTED, "mate"),
        ("conllup", PLUS, [], OF_PLUS, "another parser"),
    ],
)
def test_columns_are_read_as_those_of_conllu(text, kind, content, options, expected, name):
    written = run(text, kind, content, *options)
    first, empty, _ = written.pop("conllu").split("\n\n", 2)
    assert (first + "\n", empty, written) == (f"# sentences = 2\n{expected}", "# no_parse = empty", {})
    described = json.loads(Path(f"{text}.parse.json").read_text())["parses"]["conllu"]["parser"]
    assert described.pop("name") == name
    assert set(described) == {"file", *(["predicted"] if "--predicted" in options else [])}


@pytest.mark.parametrize(
    "content",
    [
        "".join(f"{json.dumps(document)}\n" for document in DOCUMENTS),
        "\n\n".join(json.dumps(document, indent=2) for document in DOCUMENTS),
        json.dumps(DOCUMENTS, indent=1),
        "\n" + json.dumps(documents(SENTENCES)),
    ],
    ids=["a document a line", "one after the other", "an array", "one document"],
)
def test_corenlp_is_read_however_its_documents_are_written(text, content):
    text.write_text("Dogs bark (\n\nX\n")
    assert run(text, "corenlp", content) == OF_CORENLP
    assert json.loads(Path(f"{text}.parse.json").read_text())["parses"]["trees"]["parser"]["name"] == "CoreNLP"


@pytest.mark.parametrize("kind", ["conllu", "trees"])
def test_corenlp_without_one_of_its_annotators(text, kind):
    left_out = {"conllu": "parse", "trees": "basicDependencies"}[kind]
    sentences = [{key: value for key, value in sentence.items() if key != left_out} for sentence in SENTENCES]
    text.write_text("Dogs bark (\n\nX\n")
    assert run(text, "corenlp", json.dumps(documents(sentences))) == {kind: OF_CORENLP[kind]}


def change(path: str, value: Any) -> str:
    """Two documents, one a line, with another value at a path in the second one's first sentence."""
    *keys, last = path.split()
    changed = json.loads(json.dumps(corenlp("Loud", [0], "(ROOT (X Loud))")))
    place = changed
    for key in keys:
        place = place[int(key) if key.isdigit() else key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return "".join(f"{json.dumps(each)}\n" for each in documents(SENTENCES[:1], [changed], SENTENCES[2:]))


ONE = "sentence 1 of this document: expected "


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("conll09", CONLL09.replace("\tA0\n", "\n").replace("\t_\t_\n", "\n", 1), "1: expected at least 14 .*found 12"),
        ("conll09", CONLL09.replace("\t2\t0\t", "\t_\t0\t"), "1: .*head, found '_' in the column HEAD"),
        ("conll09", CONLL09.replace("\t0\t1\t", "\t1\t1\t"), "1: expected a tree, found a cycle"),
        ("conll09", CONLL09.replace("2\tbark", "3\tbark"), "2: expected word number 2, found '3'"),
        ("conllup", PLUS.partition("\n")[2], "1: expected '# global.columns = ID FORM …', found '# generator"),
        ("conllup", PLUS.replace(" HEAD", "").replace("DEPREL", "HEAD"), "1: expected a column DEPREL, found 'ID"),
        ("conllup", PLUS.replace("ID HEAD FORM", "FORM HEAD ID"), "1: .*the first of them ID"),
        ("conllup", PLUS.replace("UPOS", "HEAD"), "1: expected different columns"),
        ("conllup", PLUS.replace("\tO\troot", "", 1), "4: expected 6 tab-.*: CoNLL-U Plus has ID HEAD FORM"),
        ("conllup", PLUS.replace("B-X", "B|X"), "3: expected no | in the column MY:NER, which MISC is to have"),
        ("conllup", f"{PLUS}\n# global.columns = ID FORM\n", "12: .*'ID FORM': ID HEAD FORM UPOS MY:NER DEPREL are"),
        ("corenlp", change("tokens", None), f"2: {ONE}a list 'tokens', found None"),
        ("corenlp", change("tokens 0 word", 1), f"2: {ONE}objects with word in 'tokens'"),
        ("corenlp", change("basicDependencies", None), f"2: {ONE}a list 'basicDependencies'"),
        ("corenlp", change("basicDependencies 0 governor", "0"), f"2: {ONE}objects with dependent, governor, dep"),
        ("corenlp", change("basicDependencies 0 governor", 1), "2: sentence 1 of .* a cycle"),
        ("corenlp", change("basicDependencies 0 governor", 2), "2: sentence 1 of .*out of range"),
        ("corenlp", change("basicDependencies 0 governor", -1), f"2: {ONE}governors from 0 on, found -1"),
        ("corenlp", change("basicDependencies 0 dependent", 2), f"2: {ONE}one governor of each word, 1 to 1"),
        ("corenlp", change("parse", None), f"2: {ONE}a tree 'parse', as other sentences have, found None"),
        ("corenlp", change("parse", "(S Loud"), "2: sentence 1 of .*unbalanced"),
        ("corenlp", change("parse", "(S Quiet)"), rf"2: {ONE}a tree over \['Loud'\], found \['Quiet'\]"),
        ("corenlp", f"{change('index', 1)}{{", "4: expected JSON of CoreNLP, found none: .* in column 2"),
        ("corenlp", "\n[\n" + change("index", 1), "4: expected JSON of CoreNLP, found none: Expecting ',' delimiter"),
        ("corenlp", "[" * 100_000, "1: expected JSON of CoreNLP, found too many brackets"),
        ("corenlp", '{"sentences": []}\n{"tokens": []}\n', "2: expected a document of CoreNLP with 'sentences'"),
        ("corenlp", '{"sentences": [[]]}\n', "1: expected a document of CoreNLP with 'sentences'"),
        ("corenlp", '{"sentences": [{"tokens": []}]}', " expected sentences with 'basicDep.*', found neither"),
    ],
)
def test_broken_files_are_refused_with_file_and_line(text, kind, content, expected):
    with pytest.raises(SystemExit, match=f"p:{expected}"):
        run(text, kind, content)
    assert not Path(f"{text}.conllu").exists()


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("conll09", CONLL09.replace("2\tbark", "3\tbark")),
        ("conllup", PLUS.replace("\tO\troot", "", 1)),
        ("corenlp", change("parse", None)),
    ],
)
def test_bad_parses_cost_their_line_alone(text, kind, content):
    lines = run(text, kind, content, "--on-bad-parse=skip")["conllu"].split("\n\n")
    assert lines[0].startswith("# no_parse = ")
    assert lines[2].startswith("1\tX\t")
