"""Lines and their tokens, as fairseq has them."""

from __future__ import annotations

import sys

from fairseq.tokenizer import tokenize_line as tokenize_line_of_fairseq

from syntax_data.text.lines import tokenize_line


def test_tokens_are_fairseqs_for_every_character():
    for code in range(0x30000):  # in the planes above no character is white space
        line = f"a{chr(code)}b{chr(code)}"
        assert tokenize_line(line) == tokenize_line_of_fairseq(line), hex(code)


def test_white_space_at_the_ends_and_in_a_row_makes_no_token():
    spaces = "".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace())
    for line in (f"{spaces}a{spaces}{spaces}b{spaces}", spaces, ""):
        assert tokenize_line(line) == tokenize_line_of_fairseq(line) == line.split()
