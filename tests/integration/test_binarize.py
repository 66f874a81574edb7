"""fairseq-syntax-binarize: features, signature, report, and broken input."""

from __future__ import annotations

import os
from random import Random

import pytest

from binarizing import CONLLU, TEXT, TREES, contents, hidden_folders, labels, preprocess, rows, run, signature, write
from data_bins import FEATURES
from syntax_data.commands import binarize, parse
from syntax_data.data_bin import encoding
from syntax_data.data_bin.writing import staging_folder
from syntax_data.features import INFINITE

TAGGED = "<2de> the in@@ crease <num> ( rise )\n<2de>\na b [BT]\n"


def test_features_signature_and_report(tmp_path, capsys):
    run(write(tmp_path))
    assert rows(tmp_path, "word") == [[0, 1, 1, 2, 3, 4, 5], [0], [0, 1, 2]]
    assert rows(tmp_path, "distance") == [[1, 0, 2, 1, 1, INFINITE, INFINITE], [INFINITE], []]
    assert rows(tmp_path, "head") == [[2, 0, 0, 4, 2, 4, 0], [0], [2, 0, 0]]
    signed = signature(tmp_path)
    assert signed["labels"] == {
        "upos": ["</s>", "_"],
        "deprel": ["</s>", "_"],
        "category": ["</s>", "NP", "PRN"],
        "category_2": ["</s>", "S"],
        "category_3": ["</s>", "_"],
        "shared_category": ["</s>", "NP", "S", "PRN", "_"],
    }
    split = signed["splits"]["train"]
    assert split["features"] == FEATURES
    assert split["parser"]["conllu"]["name"] == "a parser 1.0"
    assert list(split["parser"]["trees"]) == ["sha256"]
    names = {f"train.en-de.en{name}.{end}" for name in ("", *(f".{f}" for f in FEATURES)) for end in ("bin", "idx")}
    assert set(split["files"]) == names
    found = {name for name in contents(tmp_path / "bin") if not name.startswith(("train.en-de.de.", "dict.de"))}
    assert found == {*names, "dict.en.txt", "syntax.en-de.en.json"}
    assert not hidden_folders(tmp_path / "bin")
    assert set(split["versions"]) == {"python", "numpy", "fairseq-fixed", "fairseq-syntax"}
    settings = {"subwords", "on_bad_parse", "binarize_trees", "control", "symbols", "markers", "vocabulary"}
    assert set(split["settings"]) == settings
    assert split["counts"] == {
        "sentences": 3, "words": 7, "subwords": 8, "symbols": 0, "words_without_subword": 0, "longest_distance": 2,
        "deepest_tree": 3,
        "no_parse": {"trees": {"not_stated": 1}, "conllu": {}},
    }  # fmt: skip
    assert "trees: 2 parsed (66.67%), without a parse: 1 not_stated" in capsys.readouterr().out


def test_words_without_any_parse_are_those_of_the_subwords(tmp_path):
    features = "--features=word,position"
    run(write(tmp_path, trees=None, conllu=None), features)
    assert rows(tmp_path, "word") == [[0, 1, 1, 2, 3, 4, 5], [0], [0, 1, 2]]
    split = signature(tmp_path)["splits"]["train"]
    assert (split["features"], split["parser"], split["counts"]["no_parse"]) == (["word", "position"], {}, {})
    binarize.main(["-s", "en", "-t", "de", "--destdir", f"{tmp_path}/bin", "--verify"])
    for more in ([f"--trainparse={tmp_path}/parses", features], ["--features=word,head"], []):
        with pytest.raises(SystemExit, match=r"expected parses in .*, found neither"):
            run(tmp_path, *more)


def test_the_name_of_a_parser_is_for_parses_without_a_record(tmp_path, capsys):
    path = f"{write(tmp_path, conllu=None)}/train.en"
    (tmp_path / "made").write_text(CONLLU)
    (tmp_path / "words").write_text(TEXT.replace("@@ ", ""))
    options = [f"--input={tmp_path}/words", f"--output-prefix={path}", f"--parse-file={tmp_path}/made", "--overwrite"]
    parse.main([*options, "--parser=conllu"])
    for more, trees, message in (
        (["--parser-name", "by hand"], "by hand", f"is not used for {path}.conllu: {path}.parse.json names the parser"),
        ([], None, "--parser-name NAME writes it into the signature"),
    ):
        run(tmp_path, *more)
        parsers = signature(tmp_path)["splits"]["train"]["parser"]
        assert (parsers["trees"].get("name"), parsers["conllu"]["name"]) == (trees, "a parser 1.0")
        assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "place", "expected"),
    [
        ({"trees": TREES.replace("(S (NP", "(S (NP (")}, "train.en.trees:1", "more '\\)'"),
        ({"conllu": CONLLU.replace("\t0\t_", "\t1\t_", 1)}, "train.en.conllu:2", "cycle"),
        ({"text": TEXT.replace("a b", "a c")}, "train.en.conllu:10", "train.en:3: .*text has 'c' .from word 2"),
        ({"text": TEXT.replace("a b", "a b c")}, "train.en.conllu:10", "text has 'c' .from word 3 on., the parse no"),
        ({"trees": "\n" + TREES}, "train.en.trees:1", "the text has 'the' .*, the parse nothing"),
        ({"trees": TREES + "\n\n(())\n"}, "train.en.trees:6", "expected 3 parses"),
        ({"conllu": CONLLU + "\n# a\n\n# no_parse = x\n"}, "train.en.conllu:15", "expected 3 parses"),
        ({"trees": TREES.replace("(())", "")}, "train.en.trees:3", r"the parse nothing; .*, write \(\(\)\)"),
        ({"trees": TREES.replace("rise)", "rise) (-NONE- *)")}, "train.en.trees:1", "--parser trees --drop-traces"),
        ({"text": "▁the ▁in crease ▁( ▁rise ▁)\n\n▁a ▁b\n"}, "train.en:1", "--subwords sentencepiece"),
        ({"trees": TREES[:-5]}, "train.en.trees", "found only 2"),
        ({"conllu": CONLLU[: CONLLU.index("1\ta")]}, "train.en.conllu", "found only 2"),
        ({"text": TEXT + "a@@\n", "trees": TREES + "\n", "conllu": CONLLU + "\n#\n"}, "train.en:4", "end a word"),
        ({"text": TEXT.replace("a b", "a <pad>")}, "train.en:3", "found <pad>"),
        ({"text": TEXT.replace("a b", "a\rb")}, "train.en:3", "carriage return"),
        ({"text": None}, "train.en", "subword text, found no file"),
        ({"trees": None, "conllu": None}, "train.en", "found neither"),
        ({"trees": "(S b)\n(S c\n(S d)\n", "conllu": None}, "train.en.trees:1", "the parse 'b'"),  # the first of many
        ({"text": TEXT.replace("a b", "a [BT] b")}, "train.en.conllu:10", "--symbols names words .*'\\[BT\\]'"),
    ],
)  # fmt: skip
def test_broken_input_is_refused_with_file_and_line_and_loses_nothing(tmp_path, changes, place, expected):
    run(write(tmp_path))
    for path in tmp_path.glob("train.*"):
        path.unlink()
    write(tmp_path, **changes)
    before = contents(tmp_path)
    with pytest.raises(SystemExit, match=expected) as error:
        run(tmp_path, "--workers", "2")
    assert f"{tmp_path}/{place}: " in str(error.value)
    assert contents(tmp_path) == before


LINES = [f"{word} b c d{word}\n" for word in "pqrstuvwxyz"]
ALL_LINES = r"train\.en: expected 11 lines, as .*/bin/train\.en-de\.en has sentences, found 10: run fairseq"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([*LINES[:7], "s b c dw\n", *LINES[8:]], r"train\.en:8: expected 'w b c dw', sentence 7 .*found another text"),
        (["b p c dp\n", *LINES[1:]], r"train\.en:1: expected 'p b c dp', sentence 0 "),
        ([*LINES[:10], LINES[10].replace("\n", " b\n")], r"train\.en:11: expected 'z b c dz', sentence 10 "),
        (LINES[:10], ALL_LINES),
    ],
)
def test_another_text_than_that_of_the_tokens_is_refused(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 2)
    trees = "".join(f"(S {line.strip()})\n" for line in text)
    write(tmp_path, text="".join(LINES), trees=trees, conllu=None)
    (tmp_path / "train.en").write_text("".join(text))
    with pytest.raises(SystemExit, match=expected):
        run(tmp_path, "--features=word,distance")
    assert not (tmp_path / "bin/syntax.en-de.en.json").exists()


@pytest.mark.parametrize(
    ("index", "expected"),
    [(None, "expected the tokens .*: run fairseq-preproc"), (bytes(48), "expected an index of fairseq's mmap format")],
)
def test_tokens_come_first(tmp_path, index, expected):
    path = write(tmp_path) / "bin/train.en-de.en.idx"
    path.unlink()
    if index:
        path.write_bytes(b"TNTIDX\x00\x00" + index)
    with pytest.raises(SystemExit, match=rf"train\.en-de\.en\.idx: {expected}"):
        run(tmp_path)


def test_unknown_words_are_those_of_the_dictionary(tmp_path):
    write(tmp_path)
    path = tmp_path / "bin/dict.en.txt"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("rise ")))
    preprocess(tmp_path / "bin", "train", TEXT, grow=False)
    run(tmp_path)
    assert rows(tmp_path, "word")[0] == [0, 1, 1, 2, 3, 4, 5]


def test_symbols_are_words_outside_of_the_trees(tmp_path, capsys):
    run(write(tmp_path, text=TAGGED), "--symbols", "<*>,[BT]")
    assert rows(tmp_path, "word") == [[0, 1, 2, 2, 3, 4, 5, 6, 7], [0, 1], [0, 1, 2, 3]]
    assert rows(tmp_path, "distance") == [[INFINITE, 1, 0, 2, 2, 1, 1, INFINITE, INFINITE], [INFINITE, INFINITE], []]
    assert rows(tmp_path, "head") == [[0, 3, 0, 0, 0, 6, 3, 6, 0], [0, 0], [2, 0, 0, 0]]
    split = signature(tmp_path)["splits"]["train"]
    assert split["settings"]["symbols"] == "<*>,[BT]"
    assert (split["counts"]["words"], split["counts"]["subwords"], split["counts"]["symbols"]) == (11, 12, 4)
    assert "train: 3 sentences; 11 words; 12 subwords (1.09 a word); 4 symbols; " in capsys.readouterr().out
    (tmp_path / "symbols").write_text("<*>\n\n[BT]\n")
    run(tmp_path, "--symbols", f"@{tmp_path}/symbols")
    assert signature(tmp_path)["splits"]["train"] == split
    (tmp_path / "symbols").write_text("<a>\n<b>,<c>\n")
    for value, found in (
        (f"@{tmp_path}/symbols", "symbols:2: expected a symbol without commas"),
        (f"@{tmp_path}/user", "user: .* found no file"),
        (f"{tmp_path}/symbols", r"symbols is a file; @.*symbols reads symbols from it"),
    ):
        with pytest.raises(SystemExit, match=found):
            run(tmp_path, "--symbols", value)
    run(write(tmp_path), "--symbols", "<*>")
    assert f"train: no --symbols in {tmp_path}/train.en" in capsys.readouterr().out


def test_symbols_before_the_marks_of_sentencepiece_do_not_hide_them(tmp_path):
    write(tmp_path, text="<BT> ▁A ▁do g\n▁A ▁do g\n", trees="(S A dog)\n" * 2, conllu=None)
    with pytest.raises(SystemExit, match="expected no marks of sentencepiece"):
        run(tmp_path, "--symbols", "<BT>")
    write(tmp_path, text="<num>dog\n", trees="(S dog)\n", conllu=None)
    with pytest.raises(SystemExit, match="the symbol '<num>' must have subwords of its own"):
        run(tmp_path, "--symbols", "<num>")


def test_a_line_that_ends_inside_a_word_can_be_skipped(tmp_path, capsys):
    run(write(tmp_path, text=TEXT.replace("a b", "a b @@")), "--on-bad-parse", "skip")
    assert rows(tmp_path, "word")[2] == [0, 1, 2, 3]
    assert rows(tmp_path, "head")[2] == []
    assert "conllu: 2 parsed (66.67%), without a parse: 1 mismatch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "at least one of --trainpref"),
        (["--trainparse", "x"], "--trainparse: expected --trainpref"),
        (["--trainpref", "a,b", "--trainparse", "a"], "--trainparse: expected 2 prefixes"),
        (["--trainpref", "a", "--workers", "0"], r"--workers: expected 1 to [0-9]+, found 0"),
        (["--trainpref", "a", "--workers", "1000000"], r"--workers: expected 1 to [0-9]+, found 1000000"),
        (["--trainpref", "a", "--control", "none"], r"--control: expected right-branching, .*, found 'none'"),
        (["--trainpref=a", "--parser-nam=x"], "2"),  # an option is written out
        (["--trainpref", "a", "--destdir", "none"], r"none/train\.en-de\.en\.idx: expected the tokens of this split"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, expected):
    with pytest.raises(SystemExit, match=expected):
        binarize.main(["-s", "en", "-t", "de", *arguments])


@pytest.mark.parametrize("how", [os.link, os.symlink])
def test_what_is_read_is_not_overwritten(tmp_path, how):
    text = write(tmp_path) / "train.en"
    for name in ("train.en-de.en.head.bin", "train.en-de.en.word.idx", "syntax.en-de.en.json"):
        how(text, tmp_path / "bin" / name)
        with pytest.raises(SystemExit, match=f"{name}: expected another file to write to .*, found {text}"):
            run(tmp_path)
        (tmp_path / "bin" / name).unlink()
    run(tmp_path)


@pytest.mark.parametrize(("version", "advice"), [(3, ".* delete this file, and run fairseq-syntax-bin"), (9, "$")])
def test_another_format_version_is_refused(tmp_path, version, advice):
    run(write(tmp_path))
    path = tmp_path / "bin/syntax.en-de.en.json"
    content = path.read_text()
    path.write_text(content.replace('"format_version": 4', f'"format_version": {version}'))
    for more in ([f"--trainpref={tmp_path}/train"], ["--verify"]):
        with pytest.raises(SystemExit, match=rf"en\.json: expected format version 4, found {version}{advice}"):
            binarize.main(["-s", "en", "-t", "de", f"--destdir={tmp_path}/bin", *more])
    path.unlink()
    run(tmp_path)
    assert path.read_text() == content


RICH = """# text = He don't
1\tHe\the\tPRON\t_\t_\t3\tnsubj\t_\t_
2\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_

1\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_labels_case_and_position(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 1)
    run(write(tmp_path, text="he do@@ n@@ 't\nGo\n", trees=None, conllu=RICH))
    upos = ["</s>", "PRON", "AUX", "PART", "VERB"]
    relations = ["</s>", "nsubj", "aux", "root"]
    assert signature(tmp_path)["labels"] == {
        "upos": upos,
        "deprel": relations,
        "category": ["</s>"],
        "category_2": ["</s>"],
        "category_3": ["</s>"],
        "shared_category": ["</s>"],
    }
    assert rows(tmp_path, "upos") == [[1, 2, 3, 3, 0], [4, 0]]
    assert rows(tmp_path, "deprel") == [[1, 2, 3, 3, 0], [3, 0]]
    assert rows(tmp_path, "case") == [[2, 1, 1, 1, 0], [1, 0]]  # as the parser saw the words
    assert rows(tmp_path, "position") == [[1, 1, 2, 4, 0], [1, 0]]


SPLITS = {  # text and labels, each with some that others have, in another order
    "train": ("a b c", "x y z"),
    "valid": ("c d", "z w"),
    "test": ("e a d", "v y w"),
}


@pytest.mark.parametrize("runs", [["train", "valid", "test"], ["test", "train", "valid", "train"]])
def test_splits_written_one_by_one_are_those_of_one_run(tmp_path, runs):
    """A run keeps the splits that it does not write, and the numbers of their labels."""
    for name in runs:
        text, relations = SPLITS[name]
        lines = enumerate(zip(text.split(), relations.split(), strict=True), 1)
        conllu = "".join(f"{i}\t{w}\t_\t{x.upper()}\t_\t_\t{i - 1}\t{x}\t_\t_\n" for i, (w, x) in lines)
        run(write(tmp_path, name, text=f"{text}\n", trees=None, conllu=f"{conllu}\n"), name=name)
    for name, (_, relations) in SPLITS.items():
        assert labels(tmp_path, "deprel", name) == [relations]
        assert labels(tmp_path, "upos", name) == [relations.upper()]
    if runs == [*SPLITS]:
        one_by_one = contents(tmp_path)
        prefixes = [f"--{name}pref={tmp_path}/{name}" for name in runs]
        binarize.main(["-s", "en", "-t", "de", f"--destdir={tmp_path}/bin", *prefixes])
        assert contents(tmp_path) == one_by_one


@pytest.mark.parametrize(
    ("options", "distance", "head"),
    [
        (("--binarize-trees", "left"), [1, 2, 3], [0, 1, 1, 1, 0]),
        (("--binarize-trees", "right"), [3, 2, 1], [0, 1, 1, 1, 0]),
        (("--control", "right-branching"), [3, 2, 1], [0, 1, 2, 3, 0]),
        (("--control", "no-parse"), [], []),
    ],
)
def test_trees_that_are_changed(tmp_path, options, distance, head):
    conllu = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{int(i > 1)}\t_\t_\t_\n" for i, w in enumerate("abcd", 1)) + "\n"
    run(write(tmp_path, text="a b c d\n", trees="(S a b c d)\n", conllu=conllu), *options)
    assert rows(tmp_path, "distance") == [[*distance, INFINITE, INFINITE] if distance else []]
    assert rows(tmp_path, "head") == [head]
    assert rows(tmp_path, "word") == [[0, 1, 2, 3, 4]]
    assert options[1] in signature(tmp_path)["splits"]["train"]["settings"].values()


@pytest.mark.parametrize("control", [None, "random", "noise:50", "shuffled@3"])
def test_neither_workers_nor_controls_change_other_features(tmp_path, monkeypatch, control):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 60)
    text, trees, conllu = map("".join, zip(*(random_line(Random(i)) for i in range(200)), strict=True))
    write(tmp_path, text=text, trees=trees, conllu=conllu)
    run(tmp_path)
    own = {
        feature: rows(tmp_path, feature) for feature in FEATURES if feature != "deprel" and "category" not in feature
    }
    options = ["--control", control] if control else []
    run(tmp_path, *options)
    before = contents(tmp_path)
    run(tmp_path, *options, "--workers", "3")
    assert contents(tmp_path) == before
    for feature, values in own.items():
        found = rows(tmp_path, feature)
        assert (found != values) == (control is not None and feature in ("distance", "head"))
        assert [*map(len, found)] == [*map(len, values)]
    assert signature(tmp_path)["splits"]["train"]["settings"]["control"] == control


def random_line(random: Random) -> tuple[str, str, str]:
    """A line of text and its parses, in both formats."""
    size = random.randint(3, 6)
    words = [f"w{random.randrange(10**6)}" for _ in range(size)]
    cut = random.randrange(1, size)
    tree = f"(S {' '.join(words[:cut])} (X {' '.join(words[cut:])}))\n"
    return f"{' '.join(words)}\n", tree, entry(words, [0, *(random.randint(1, i) for i in range(1, size))])


def entry(words: list[str], heads: list[int]) -> str:
    """CoNLL-U with parts of speech from the words, and relations from the heads."""
    pairs = enumerate(zip(words, heads, strict=True), start=1)
    return "".join(f"{i}\t{w}\t_\tU{w[0]}\t_\t_\t{h}\td{h}\t_\t_\n" for i, (w, h) in pairs) + "\n"


def test_shuffled_parses_are_another_lines(tmp_path, capsys):
    # Of three words there are two sentences, one of them twice; of two words one alone.
    trees = "(S (N a b) c)\n(S x (N y z))\n(S (N a b) c)\n(S p q)\n\n(())\n"
    parsed = [("abc", [2, 0, 2]), ("xyz", [0, 1, 2]), ("abc", [2, 0, 2]), ("pq", [0, 1])]
    conllu = "".join(entry([*words], heads) for words, heads in parsed) + "# text =\n\n# no_parse = failed\n"
    write(tmp_path, text="a b c\nx y z\na b c\np q\n\nu v w\n", trees=trees, conllu=conllu)
    run(tmp_path, "--control", "shuffled")
    ends = [INFINITE] * 2
    assert rows(tmp_path, "distance") == [[2, 1, *ends], [1, 2, *ends], [2, 1, *ends], [], [INFINITE], []]
    assert rows(tmp_path, "head") == [[0, 1, 2, 0], [2, 0, 2, 0], [0, 1, 2, 0], [], [0], []]
    assert labels(tmp_path, "upos")[:2] == ["Ua Ub Uc", "Ux Uy Uz"]
    assert labels(tmp_path, "deprel")[:2] == ["d0 d1 d2", "d2 d0 d2"]
    assert signature(tmp_path)["splits"]["train"]["counts"]["no_parse"] == {
        "trees": {"no other of this length": 1, "not_stated": 1},
        "conllu": {"no other of this length": 1, "failed": 1},
    }
    assert "trees: 4 parsed (66.67%), without a parse: " in capsys.readouterr().out
    # Another run in this process draws from its own text.
    (tmp_path / "train.en.conllu").unlink()
    run(write(tmp_path, text="a b\nc d\n", trees="(S a b)\n(S c d)\n", conllu=None), "--control", "shuffled")
    assert rows(tmp_path, "distance") == [[1, *ends]] * 2


def test_only_the_features_that_are_asked_for(tmp_path):
    run(write(tmp_path), "--features", "head,word")
    assert {p.name.split(".")[3] for p in (tmp_path / "bin").glob("*.*.*.*.idx")} == {"head", "word"}
    with pytest.raises(SystemExit, match=r"--features: expected some of word, .*, found 'x'"):
        run(tmp_path, "--features", "x")
    (tmp_path / "train.en.trees").unlink()
    with pytest.raises(SystemExit, match=r"train\.en\.trees: expected parses for distance, found none"):
        run(tmp_path, "--features", "word,distance")


def before_writing(monkeypatch, act):
    """Let `act` happen when everything is read and nothing written."""
    split = binarize.write_split
    monkeypatch.setattr(binarize, "write_split", lambda *args, **kwargs: (act(), split(*args, **kwargs))[1])


@pytest.mark.parametrize("name", ["train.en", "train.en.conllu", "bin/train.en-de.en.bin", "bin/dict.en.txt"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, name, monkeypatch):
    run(write(tmp_path))
    before, path = contents(tmp_path), tmp_path / name

    def change():
        (tmp_path / "new").write_bytes(path.read_bytes())  # nothing but another file
        os.replace(tmp_path / "new", path)

    before_writing(monkeypatch, change)
    with pytest.raises(SystemExit, match=rf"{path}: expected .* changed while it was read"):
        run(tmp_path)
    assert contents(tmp_path) == before


def test_a_second_run_on_a_data_bin_is_refused(tmp_path):
    for name in ("train", "valid"):
        write(tmp_path, name)
    with staging_folder(f"{tmp_path}/bin/syntax.en-de.en.json"):
        for name in ("train", "valid"):
            with pytest.raises(SystemExit, match=r"\.lock: expected no other fairseq-syntax-binarize on this data-bin"):
                run(tmp_path, name=name)
    run(tmp_path)


@pytest.mark.parametrize("linked", [True, False])
def test_only_files_of_this_run_are_moved_out_of_its_folder(tmp_path, linked, monkeypatch):
    """Nothing else of the folder, or of a link's target, gets into the data-bin."""
    path = write(tmp_path) / "bin/.syntax.en-de.en.tmp"
    others = tmp_path / "elsewhere" if linked else path
    others.mkdir()
    (others / "train.en-de.en.old.bin").touch()
    if linked:
        path.symlink_to(others)
    before_writing(monkeypatch, (path / ".nfs0007").touch)
    run(tmp_path)
    assert not os.path.lexists(path)
    assert (others / "train.en-de.en.old.bin").exists() == linked
    assert not {"train.en-de.en.old.bin", ".nfs0007"} & set(os.listdir(tmp_path / "bin"))
