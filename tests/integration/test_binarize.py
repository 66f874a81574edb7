"""fairseq-syntax-binarize: what it writes, and that broken input stops it with nothing written."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from random import Random

import pytest

from binarizing import CONLLU, TEXT, TREES, rows, run, write
from syntax_data.commands import binarize, parse
from syntax_data.data_bin import encoding
from syntax_data.features import INFINITE


def test_features_signature_and_report(tmp_path, capsys):
    run(write(tmp_path))
    assert rows(tmp_path, "word") == [[0, 1, 1, 2, 3, 4, 5], [0], [0, 1, 2]]
    assert rows(tmp_path, "distance") == [[1, 0, 2, 1, 1, INFINITE, INFINITE], [INFINITE], []]
    assert rows(tmp_path, "head") == [[2, 0, 0, 4, 2, 4, 0], [0], [2, 0, 0]]
    signature = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())
    assert signature["format_version"] == 3
    assert signature["labels"] == {"upos": ["</s>", "_"], "deprel": ["</s>", "_"]}
    split = signature["splits"]["train"]
    assert split["features"] == ["word", "distance", "head", "deprel", "upos", "case", "position"]
    assert split["parser"]["conllu"]["name"] == "a parser 1.0"
    assert list(split["parser"]["trees"]) == ["sha256"]
    names = {p.name for p in (tmp_path / "bin").iterdir() if p.suffix in (".bin", ".idx")}
    assert (
        set(split["files"])
        == names
        == {
            *(f"train.en-de.en.{feature}.{ending}" for feature in split["features"] for ending in ("bin", "idx")),
            "train.en-de.en.text_hashes.bin",
        }
    )
    assert set(split["versions"]) == {"python", "numpy", "fairseq-fixed", "fairseq-syntax"}
    assert split["counts"] == {
        "sentences": 3,
        "words": 7,
        "subwords": 8,
        "symbols": 0,
        "no_parse": {"trees": {"not_stated": 1}, "conllu": {}},
        "longest_distance": 2,
        "deepest_tree": 3,
    }
    assert "trees: 2 parsed (66.67%), without a parse: 1 not_stated" in capsys.readouterr().out
    hidden = [name for name in os.listdir(tmp_path / "bin") if name.startswith(".")]
    assert sorted(hidden) == [".syntax.en-de.en.lock", ".syntax.en-de.en.train.lock"]


def test_a_later_run_keeps_other_splits(tmp_path):
    run(write(tmp_path), "--parser-name", "first")
    run(write(tmp_path, "valid", trees=None), name="valid")
    signature = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())
    assert signature["splits"]["train"]["parser"]["trees"]["name"] == "first"
    assert signature["splits"]["valid"]["features"] == ["word", "head", "deprel", "upos", "case", "position"]


def recorded(folder: Path, name: str = "train", **kwargs) -> Path:
    """As :func:`write`, with a record of the CoNLL-U file."""
    write(folder, name, **kwargs)
    (folder / f"{name}.made").write_text(CONLLU)
    (folder / f"{name}.words").write_text(TEXT.replace("@@ ", ""))
    places = f"--input={folder}/{name}.words", f"--output-prefix={folder}/{name}.en"
    parse.main([*places, "--parser=conllu", f"--parse-file={folder}/{name}.made"])
    return folder


def parsers(folder: Path, split: str = "train") -> dict[str, str | None]:
    signature = json.loads((folder / "bin/syntax.en-de.en.json").read_text())
    return {kind: parser.get("name") for kind, parser in signature["splits"][split]["parser"].items()}


def test_the_name_of_a_parser_is_for_parses_without_a_record(tmp_path, capsys):
    run(recorded(tmp_path), "--parser-name", "by hand")
    assert parsers(tmp_path) == {"trees": "by hand", "conllu": "a parser 1.0"}
    told = f"--parser-name is not used for {tmp_path}/train.en.conllu: {tmp_path}/train.en.parse.json tells who made it"
    assert told in capsys.readouterr().out
    run(tmp_path)
    assert parsers(tmp_path) == {"trees": None, "conllu": "a parser 1.0"}
    assert "say --parser-name NAME to have it in the signature" in capsys.readouterr().out
    run(write(tmp_path, "valid"), "--parser-name", "by hand", name="valid")
    assert parsers(tmp_path, "valid") == {"trees": "by hand", "conllu": "by hand"}
    assert "--parser-name" not in capsys.readouterr().out


def test_a_parsers_name_that_names_nothing_is_refused(tmp_path):
    expected = (
        r"--parser-name: expected parses whose maker is not recorded, found that of all in .*train\.en\.parse\.json"
    )
    with pytest.raises(SystemExit, match=expected):
        run(recorded(tmp_path, trees=None), "--parser-name", "by hand")
    assert not (tmp_path / "bin").exists()
    recorded(tmp_path, "a", trees=None)
    write(tmp_path, "b")
    binarize.main(
        ["-s=en", "-t=de", f"--trainpref={tmp_path}/a,{tmp_path}/b", f"--destdir={tmp_path}/bin", "--parser-name=b"]
    )
    assert (parsers(tmp_path)["conllu"], parsers(tmp_path, "train1")["conllu"]) == ("a parser 1.0", "b")


@pytest.mark.parametrize("option", ["--parser=x", "--parser-nam=x", "--sub=words", "--verif"])
def test_options_are_written_out(tmp_path, option, capsys):
    with pytest.raises(SystemExit) as stop:
        run(write(tmp_path), option)
    assert stop.value.code == 2
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err


def test_several_prefixes_become_numbered_splits(tmp_path):
    write(tmp_path, "a")
    write(tmp_path, "b")
    prefixes = f"{tmp_path}/a,{tmp_path}/b"
    binarize.main(["-s", "en", "-t", "de", "--validpref", prefixes, "--destdir", f"{tmp_path}/bin"])
    assert rows(tmp_path, "head", "valid") == rows(tmp_path, "head", "valid1")


def test_output_does_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 2)
    contents = []
    for workers in ("1", "3"):
        folder = tmp_path / workers
        folder.mkdir()
        write(folder, text=TEXT * 30, trees=TREES * 30, conllu=(CONLLU + "\n") * 30)
        run(folder, "--workers", workers)
        contents.append({p.name: p.read_bytes() for p in (folder / "bin").iterdir()})
    assert len(contents[0]) == 16 + 2
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("changes", "place", "expected"),
    [
        ({"trees": TREES.replace("(S (NP", "(S (NP (")}, "train.en.trees:1", "more '\\)'"),
        ({"conllu": CONLLU.replace("\t4\t_", "\t9\t_", 1)}, "train.en.conllu:4", "out of range"),
        ({"conllu": CONLLU.replace("\t0\t_", "\t1\t_", 1)}, "train.en.conllu:2", "cycle"),
        ({"text": TEXT.replace("a b", "a c")}, "train.en.conllu:10", "train.en:3: .*text has 'c' .from word 2"),
        ({"text": TEXT.replace("a b", "a b c")}, "train.en.conllu:10", "text has 'c' .from word 3 on., the parse no"),
        ({"trees": "\n" + TREES}, "train.en.trees:1", "the text has 'the' .*, the parse nothing"),
        ({"trees": TREES + "(())\n"}, "train.en.trees:4", "expected 3 parses"),
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
    ],
)  # fmt: skip
@pytest.mark.parametrize("workers", ["1", "2"])
def test_broken_input_is_refused_with_file_and_line_and_loses_nothing(tmp_path, changes, place, expected, workers):
    run(write(tmp_path))
    before = {p.name: p.read_bytes() for p in (tmp_path / "bin").iterdir()}
    for name in os.listdir(tmp_path):
        if name != "bin":
            os.remove(tmp_path / name)
    write(tmp_path, **changes)
    with pytest.raises(SystemExit, match=expected) as error:
        run(tmp_path, "--workers", workers)
    assert f"{tmp_path}/{place}: " in str(error.value)
    assert {p.name: p.read_bytes() for p in (tmp_path / "bin").iterdir()} == before


def test_blank_lines_and_comments_after_the_last_parse_change_nothing(tmp_path, monkeypatch):
    run(write(tmp_path))
    before = {feature: rows(tmp_path, feature) for feature in ("word", "distance", "head")}
    for size in (1, 2, 1000):
        monkeypatch.setattr(encoding, "LINES_AT_ONCE", size)
        for control in ((), ("--control", "shuffled")):
            run(write(tmp_path, trees=f"{TREES}\n \n\n", conllu=f"{CONLLU}\n# a\n\n# b\n"), *control)
            assert control or {feature: rows(tmp_path, feature) for feature in before} == before


@pytest.mark.parametrize("space", ["\u00a0", "\u2028", "\u3000", "\x85", "\u2009"])
def test_white_space_in_a_leaf_changes_no_feature(tmp_path, space):
    features = []
    for inside in ("", space):
        trees = f"(S (V pay) (NP (QP{inside} (CD 10{inside}000)) (N men)))\n"
        run(write(tmp_path, text=f"pay 10{space}000 men\n", trees=trees, conllu=None), "--subwords", "words")
        features.append([rows(tmp_path, "word"), rows(tmp_path, "distance")])
    assert features == [[[[0, 1, 1, 2, 3]], [[2, 0, 1, INFINITE, INFINITE]]]] * 2


def test_a_line_may_begin_with_a_block_character(tmp_path):
    write(tmp_path, text="▁▂▃ a\nA dog\n", trees="(S ▁▂▃ a)\n(S A dog)\n", conllu=None)
    for options in ((), ("--subwords", "words")):
        run(tmp_path, *options)
        assert rows(tmp_path, "word") == [[0, 1, 2]] * 2


def test_text_that_was_normalised_after_parsing_is_refused_with_advice(tmp_path):
    write(tmp_path, text="He left .\n", trees="(S (N He) (V left.))\n", conllu=None)
    run(tmp_path)  # other words of the same text are no difference
    write(tmp_path, text="&quot; no , &quot;\n", trees='(S ("" ") (R no) ("" ") (, ,))\n', conllu=None)
    with pytest.raises(SystemExit, match=r"normalize-punctuation .* text that it wrote\) \(--on-bad-parse skip"):
        run(tmp_path)


def test_bad_parses_can_be_skipped_and_are_counted(tmp_path, capsys):
    run(write(tmp_path, text=TEXT.replace("a b", "a c")), "--on-bad-parse", "skip")
    assert rows(tmp_path, "head")[2] == []
    assert "conllu: 2 parsed (66.67%), without a parse: 1 mismatch" in capsys.readouterr().out


TAGGED = "<2de> the in@@ crease <num> ( rise )\n<2de>\na b [BT]\n"


def test_symbols_are_words_outside_of_the_trees(tmp_path, capsys):
    run(write(tmp_path, text=TAGGED), "--symbols", "<*>,[BT]")
    assert rows(tmp_path, "word") == [[0, 1, 2, 2, 3, 4, 5, 6, 7], [0, 1], [0, 1, 2, 3]]
    assert rows(tmp_path, "distance") == [[INFINITE, 1, 0, 2, 2, 1, 1, INFINITE, INFINITE], [INFINITE, INFINITE], []]
    assert rows(tmp_path, "head") == [[0, 3, 0, 0, 0, 6, 3, 6, 0], [0, 0], [2, 0, 0, 0]]
    split = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())["splits"]["train"]
    assert split["settings"]["symbols"] == "<*>,[BT]"
    assert (split["counts"]["words"], split["counts"]["subwords"], split["counts"]["symbols"]) == (11, 12, 4)
    assert "train: 3 sentences; 11 words; 12 subwords (1.09 a word); 4 symbols; " in capsys.readouterr().out
    (tmp_path / "symbols").write_text("<*>\n\n[BT]\n")
    run(write(tmp_path, text=TAGGED), "--symbols", f"@{tmp_path}/symbols")
    assert json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())["splits"]["train"] == split
    (tmp_path / "symbols").write_text("<a>\n<b>,<c>\n")
    (tmp_path / "any").write_text("<a>\n*\n")
    for name, found in (
        ("symbols", "symbols:2: expected a symbol without commas"),
        ("any", r"any:2: --symbols: expected words .* found '\*'"),
        ("user", "user: .* found no file"),
    ):
        with pytest.raises(SystemExit, match=found):
            run(tmp_path, "--symbols", f"@{tmp_path / name}")
    with pytest.raises(SystemExit, match=r"symbols is a file; @.*symbols reads symbols from it"):
        run(tmp_path, "--symbols", str(tmp_path / "symbols"))
    run(write(tmp_path), "--symbols", "<*>")
    assert f"train: no --symbols in {tmp_path}/train.en" in capsys.readouterr().out


@pytest.mark.parametrize("text", [TAGGED, TEXT.replace("a b", "a [BT] b"), TEXT.replace("( rise", "<num> ( rise")])
def test_a_line_with_what_looks_like_a_symbol_names_the_option(tmp_path, text):
    with pytest.raises(
        SystemExit, match=r"--symbols names words that the parser never saw, perhaps '(<2de>|\[BT\]|<num>)'"
    ):
        run(write(tmp_path, text=text))


def test_symbols_before_the_marks_of_sentencepiece_do_not_hide_them(tmp_path):
    write(tmp_path, text="<BT> ▁A ▁do g\n▁A ▁do g\n", trees="(S A dog)\n" * 2, conllu=None)
    with pytest.raises(SystemExit, match="expected no marks of sentencepiece"):
        run(tmp_path, "--symbols", "<BT>")
    write(tmp_path, text="<num>dog\n", trees="(S dog)\n", conllu=None)
    with pytest.raises(SystemExit, match="the symbol '<num>' must have subwords of its own"):
        run(tmp_path, "--symbols", "<num>")


def test_a_split_in_which_no_sentence_has_a_parse_can_be_read(tmp_path):
    write(tmp_path, text="a\nb\n", trees="(())\n(())\n", conllu=None)
    run(tmp_path)
    assert rows(tmp_path, "distance") == [[], []]


def test_a_line_that_ends_inside_a_word_can_be_skipped(tmp_path, capsys):
    run(write(tmp_path, text=TEXT.replace("a b", "a b @@")), "--on-bad-parse", "skip")
    assert rows(tmp_path, "word")[2] == [0, 1, 2, 3]
    assert rows(tmp_path, "head")[2] == []
    assert "conllu: 2 parsed (66.67%), without a parse: 1 mismatch" in capsys.readouterr().out


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_first_of_many_errors_is_the_one_reported(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 1)
    write(tmp_path, text="a\n" * 40, trees="(S b)\n(S a)\n(S c)\n" + "(S a)\n" * 35, conllu=None)
    with pytest.raises(SystemExit, match=r"train.en.trees:1: .*the parse 'b'"):
        run(tmp_path, "--workers", workers)


def test_a_data_bin_of_the_other_direction_keeps_its_names(tmp_path):
    write(tmp_path)
    (tmp_path / "bin").mkdir()
    for ending in ("bin", "idx"):
        (tmp_path / f"bin/train.de-en.en.{ending}").write_bytes(b"")
    run(tmp_path)
    assert (tmp_path / "bin/train.de-en.en.head.idx").exists()
    assert (tmp_path / "bin/syntax.de-en.en.json").exists()
    assert not list((tmp_path / "bin").glob("*en-de*"))


def test_an_interrupted_run_never_leaves_a_signature_of_mixed_files(tmp_path, monkeypatch):
    run(write(tmp_path))
    run(write(tmp_path, "valid"), name="valid")
    replace = os.replace

    def interrupted(source, target):
        if target.endswith("head.idx"):
            raise OSError("no more")
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(SystemExit, match="no more"):
        run(write(tmp_path))
    signature = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())
    assert list(signature["splits"]) == ["valid"]


def test_whitespace_is_split_as_fairseq_does(tmp_path):
    write(tmp_path, text="a\u00a0b\u2028c\x0bd\u0085e\n", trees="(S a b c d e)\n", conllu=None)
    run(tmp_path)
    assert rows(tmp_path, "word") == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "at least one of --trainpref"),
        (["--trainparse", "x"], "--trainparse: expected --trainpref"),
        (["--trainpref", "a,b", "--trainparse", "a"], "--trainparse: expected 2 prefixes"),
        (["--trainpref", "a", "--workers", "0"], r"--workers: expected 1 to [0-9]+, found 0"),
        (["--trainpref", "a", "--workers", "-3"], r"--workers: expected 1 to [0-9]+, found -3"),
        (["--trainpref", "a", "--workers", "1000000"], r"--workers: expected 1 to [0-9]+, found 1000000"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, expected):
    with pytest.raises(SystemExit, match=expected):
        binarize.main(["-s", "en", "-t", "de", *arguments])


def test_a_destination_that_cannot_be_written_to_is_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "bin").write_text("no folder")
    for name in ("bin", "bin/bin"):
        with pytest.raises(SystemExit, match=f"{tmp_path}/{name}: expected a folder to write to, found"):
            run(tmp_path, "--destdir", f"{tmp_path}/{name}")
    assert (tmp_path / "bin").read_text() == "no folder"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_destination_of_others_is_refused(tmp_path):
    write(tmp_path)
    (tmp_path / "bin").mkdir(mode=0o500)
    with pytest.raises(SystemExit, match=f"{tmp_path}/bin: expected a folder to write to, found that this is not allo"):
        run(tmp_path)


def test_names_in_the_data_bin_that_only_look_like_ours_do_no_harm(tmp_path):
    (write(tmp_path) / "bin").mkdir()
    names = [f".syntax-{platform.node()}-{rest}" for rest in ("abc", "", "999999999-x", "-1")]
    for name in names[:2]:
        (tmp_path / "bin" / name).write_text("x")
    for name in names[2:]:
        (tmp_path / "bin" / name).mkdir()
    run(tmp_path)
    assert set(names) < set(os.listdir(tmp_path / "bin"))


@pytest.mark.parametrize("how", [os.link, os.symlink])
def test_what_is_read_is_not_overwritten(tmp_path, how):
    text = write(tmp_path) / "train.en"
    (tmp_path / "bin").mkdir()
    for name in ("train.en-de.en.head.bin", "train.en-de.en.word.idx", "syntax.en-de.en.json"):
        how(text, tmp_path / "bin" / name)
        with pytest.raises(SystemExit, match=f"{name}: expected another file to write to .*, found {text}"):
            run(tmp_path)
        (tmp_path / "bin" / name).unlink()
    run(tmp_path)


def test_another_format_version_is_refused(tmp_path):
    run(write(tmp_path))
    path = tmp_path / "bin/syntax.en-de.en.json"
    path.write_text(path.read_text().replace('"format_version": 3', '"format_version": 9'))
    with pytest.raises(SystemExit, match=r"expected format version 3, found 9$"):
        run(tmp_path)


def test_an_earlier_format_version_is_made_anew(tmp_path, capsys):
    run(write(tmp_path))
    path = tmp_path / "bin/syntax.en-de.en.json"
    content = path.read_text()
    path.write_text(content.replace('"format_version": 3', '"format_version": 2'))
    with pytest.raises(SystemExit, match=r"expected format version 3, found 2, .*run fairseq-syntax-binarize again"):
        binarize.main(["-s", "en", "-t", "de", "--destdir", str(tmp_path / "bin"), "--verify"])
    run(tmp_path)
    assert "found 2, which an earlier fairseq-syntax wrote" in capsys.readouterr().out
    assert path.read_text() == content


RICH = """# text = He don't
1\tHe\the\tPRON\t_\t_\t3\tnsubj\t_\t_
2\tdo\tdo\tAUX\t_\t_\t3\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t0\troot\t_\t_

1\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_labels_case_and_position(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "LINES_AT_ONCE", 1)
    write(tmp_path, text="he do@@ n@@ 't\nGo\n", trees=None, conllu=RICH)
    run(tmp_path)
    labels = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())["labels"]
    assert labels == {
        "upos": ["</s>", "PRON", "AUX", "PART", "VERB"],
        "deprel": ["</s>", "nsubj", "aux", "root"],
    }
    assert rows(tmp_path, "upos") == [[1, 2, 3, 3, 0], [4, 0]]
    assert rows(tmp_path, "deprel") == [[1, 2, 3, 3, 0], [3, 0]]
    assert rows(tmp_path, "case") == [[2, 1, 1, 1, 0], [1, 0]]  # as the parser saw the words
    assert rows(tmp_path, "position") == [[1, 1, 2, 4, 0], [1, 0]]
    # A later split goes on with the same numbers.
    write(tmp_path, "valid", text="Go\n", trees=None, conllu=RICH[RICH.index("1\tgo") :].replace("VERB", "X"))
    run(tmp_path, name="valid")
    assert rows(tmp_path, "upos", "valid") == [[5, 0]]
    assert rows(tmp_path, "deprel", "valid") == [[3, 0]]


def test_too_many_labels_are_refused(tmp_path):
    conllu = "".join(f"1\tw\t_\t_\t_\t_\t0\tl{i}\t_\t_\n\n" for i in range(256))
    write(tmp_path, text="w\n" * 256, trees=None, conllu=conllu)
    said = (
        r"conllu:511: deprel: expected at most 255 different labels, found one more in this sentence: 'l255' "
        r"\(--features (\S+) leaves deprel out\)$"
    )
    for workers in ("1", "2"):
        with pytest.raises(SystemExit, match=said) as refused:
            run(tmp_path, "--workers", workers)
    run(tmp_path, "--features", re.search(said, str(refused.value))[1])
    assert rows(tmp_path, "head") == [[0, 0]] * 256


def test_text_that_is_tokenised_differently(tmp_path):
    # The text's "don't" is the parser's "do" and "n't"; the latter has no subword and is contracted.
    write(tmp_path, text="▁he ▁don't\n▁g o\n", trees="(S (N He) (V (V do) (R n't)))\n(S go)\n", conllu=RICH)
    run(tmp_path, "--subwords", "sentencepiece")
    assert rows(tmp_path, "word") == [[0, 1, 2], [0, 0, 1]]
    assert rows(tmp_path, "distance") == [[2, INFINITE, INFINITE], [0, INFINITE, INFINITE]]
    assert rows(tmp_path, "head") == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("options", "distance", "head"),
    [
        ((), [1, 1, 1], [0, 1, 1, 1, 0]),
        (("--binarize-trees", "left"), [1, 2, 3], [0, 1, 1, 1, 0]),
        (("--binarize-trees", "right"), [3, 2, 1], [0, 1, 1, 1, 0]),
        (("--control", "right-branching"), [3, 2, 1], [0, 1, 2, 3, 0]),
    ],
)
def test_trees_that_are_changed(tmp_path, options, distance, head):
    conllu = "".join(f"{i}\t{w}\t_\t_\t_\t_\t{int(i > 1)}\t_\t_\t_\n" for i, w in enumerate("abcd", 1)) + "\n"
    write(tmp_path, text="a b c d\n", trees="(S a b c d)\n", conllu=conllu)
    run(tmp_path, *options)
    assert rows(tmp_path, "distance") == [[*distance, INFINITE, INFINITE]]
    assert rows(tmp_path, "head") == [head]
    settings = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())["splits"]["train"]["settings"]
    assert set(settings) == {"subwords", "on_bad_parse", "binarize_trees", "control", "symbols"}
    assert not options or options[1] in settings.values()


@pytest.mark.parametrize("control", ["random", "noise:50", "shuffled@3"])
def test_controls_leave_all_but_the_parses_alone(tmp_path, control):
    text, trees, conllu = zip(*(random_line(Random(i)) for i in range(1200)), strict=True)  # two ranges
    found = []
    for name, options in (("a", ()), ("b", ("--control", control)), ("c", ("--control", control, "--workers", "2"))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, text="".join(text), trees="".join(trees), conllu="".join(conllu))
        run(tmp_path / name, *options)
        features = ("word", "upos", "case", "position", "distance", "head")
        found.append({feature: rows(tmp_path / name, feature) for feature in features})
    true, control_features, by_two_workers = found
    assert control_features == by_two_workers
    for feature, values in control_features.items():
        assert (true[feature] == values) == (feature not in ("distance", "head"))
        assert [len(row) for row in true[feature]] == [len(row) for row in values]
    settings = json.loads((tmp_path / "b/bin/syntax.en-de.en.json").read_text())["splits"]["train"]["settings"]
    assert settings["control"] == control


def random_line(random: Random) -> tuple[str, str, str]:
    """A line of text and its parses, in both formats."""
    size = random.randint(3, 6)
    words = [f"w{random.randrange(10**6)}" for _ in range(size)]
    cut = random.randrange(1, size)
    tree = f"(S {' '.join(words[:cut])} (X {' '.join(words[cut:])}))\n"
    return f"{' '.join(words)}\n", tree, unit(words, [0, *(random.randint(1, i) for i in range(1, size))])


def unit(words: list[str], heads: list[int]) -> str:
    """CoNLL-U in which the parts of speech follow from the words, and the relations from the heads."""
    pairs = enumerate(zip(words, heads, strict=True), start=1)
    return "".join(f"{i}\t{w}\t_\tU{w[0]}\t_\t_\t{h}\td{h}\t_\t_\n" for i, (w, h) in pairs) + "\n"


def test_shuffled_parses_are_another_lines(tmp_path, capsys):
    # Of three words there are two sentences, one of them twice; of two words one alone.
    trees = "(S (N a b) c)\n(S x (N y z))\n(S (N a b) c)\n(S p q)\n\n(())\n"
    parsed = [("abc", [2, 0, 2]), ("xyz", [0, 1, 2]), ("abc", [2, 0, 2]), ("pq", [0, 1])]
    conllu = "".join(unit([*words], heads) for words, heads in parsed) + "# text =\n\n# no_parse = failed\n"
    write(tmp_path, text="a b c\nx y z\na b c\np q\n\nu v w\n", trees=trees, conllu=conllu)
    run(tmp_path, "--control", "shuffled")
    ends = [INFINITE] * 2
    assert rows(tmp_path, "distance") == [[2, 1, *ends], [1, 2, *ends], [2, 1, *ends], [], [INFINITE], []]
    assert rows(tmp_path, "head") == [[0, 1, 2, 0], [2, 0, 2, 0], [0, 1, 2, 0], [], [0], []]
    signed = json.loads((tmp_path / "bin/syntax.en-de.en.json").read_text())
    assert labels(tmp_path, signed, "upos")[:2] == [["Ua", "Ub", "Uc"], ["Ux", "Uy", "Uz"]]
    assert labels(tmp_path, signed, "deprel")[:2] == [["d0", "d1", "d2"], ["d2", "d0", "d2"]]
    counted = signed["splits"]["train"]["counts"]["no_parse"]
    assert counted["trees"] == {"no other of this length": 1, "not_stated": 1}
    assert counted["conllu"] == {"no other of this length": 1, "failed": 1}
    assert "trees: 4 parsed (66.67%), without a parse: " in capsys.readouterr().out
    # Another run in this process draws from its own text.
    (tmp_path / "train.en.conllu").unlink()
    run(write(tmp_path, text="a b\nc d\n", trees="(S a b)\n(S c d)\n", conllu=None), "--control", "shuffled")
    assert rows(tmp_path, "distance") == [[1, *ends]] * 2


def labels(folder: Path, signed: dict, feature: str) -> list[list[str]]:
    return [[signed["labels"][feature][number] for number in row[:-1]] for row in rows(folder, feature)]


def test_no_parse_control(tmp_path, capsys):
    run(write(tmp_path), "--control", "no-parse")
    assert rows(tmp_path, "distance") == [[], [], []]
    assert rows(tmp_path, "head") == rows(tmp_path, "upos") == [[], [], []]
    assert rows(tmp_path, "word")[0] == [0, 1, 1, 2, 3, 4, 5]
    assert "trees: 0 parsed (0.00%), without a parse: 2 --control no-parse" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--control: expected right-branching, .*, found 'none'"):
        run(tmp_path, "--control", "none")


def test_only_the_features_that_are_asked_for(tmp_path):
    run(write(tmp_path), "--features", "head,word")
    assert sorted(p.name for p in (tmp_path / "bin").glob("*.idx")) == [
        f"train.en-de.en.{name}.idx" for name in ("head", "word")
    ]
    with pytest.raises(SystemExit, match=r"--features: expected some of word, .*, found 'x'"):
        run(tmp_path, "--features", "x")
    (tmp_path / "train.en.trees").unlink()
    with pytest.raises(SystemExit, match=r"train\.en\.trees: expected parses to make distance of"):
        run(tmp_path, "--features", "word,distance")


@pytest.mark.parametrize("ending", ["en", "en.trees", "en.conllu"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, ending, workers, monkeypatch):
    run(write(tmp_path))
    before = {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()}
    path = tmp_path / f"train.{ending}"
    split = binarize.write_split

    def changed_first(*args, **kwargs):
        (tmp_path / "new").write_bytes(path.read_bytes())  # nothing but another file
        os.replace(tmp_path / "new", path)
        return split(*args, **kwargs)

    monkeypatch.setattr(binarize, "write_split", changed_first)
    with pytest.raises(SystemExit, match=rf"train\.{ending}: expected .* changed while it was read"):
        run(tmp_path, "--workers", workers)
    assert {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()} == before


@pytest.mark.parametrize("what", ["link", "file", "folder"])
def test_what_is_in_the_place_of_the_temporary_folder(tmp_path, what):
    place = tmp_path / "bin/.syntax.en-de.en.train.tmp"
    elsewhere = tmp_path / "elsewhere"
    for folder in (tmp_path / "bin", elsewhere):
        folder.mkdir()
    (elsewhere / "mine").touch()
    if what == "link":
        place.symlink_to(elsewhere)
    elif what == "file":
        place.touch()
    else:
        place.mkdir()
        (place / "train.en-de.en.old.bin").touch()
    run(write(tmp_path))
    assert not os.path.lexists(place)
    assert (elsewhere / "mine").exists()
    assert not (tmp_path / "bin/train.en-de.en.old.bin").exists()


def test_only_what_a_run_wrote_is_moved(tmp_path, monkeypatch):
    split = binarize.write_split

    def and_somebody_elses(*args, **kwargs):
        report = split(*args, **kwargs)
        (tmp_path / "bin/.syntax.en-de.en.train.tmp/.nfs0007").touch()
        return report

    monkeypatch.setattr(binarize, "write_split", and_somebody_elses)
    run(write(tmp_path))
    assert not (tmp_path / "bin/.nfs0007").exists()
    assert ".nfs0007" not in (tmp_path / "bin/syntax.en-de.en.json").read_text()
