"""Controls: parses that lack some or all of the syntax of the parser's parses.

A model that does no better on the parser's parses than on a control's gains nothing from what the control destroys.

====================  ==========================================================================  =================
control               instead of a sentence's tree and heads                                      file
====================  ==========================================================================  =================
``right-branching``   (a (b (c d))); every word depends on the one before                         from_length.py
``left-branching``    (((a b) c) d); every word depends on the one after                          from_length.py
``random``            each constituent cut in two at a random place; heads that fit this tree     from_length.py
``flat``              (a b c d); every word depends on the first                                  from_length.py
``shuffled``          the tree and the heads of another sentence with as many words               shuffled.py
``noise:P``           P percent of the brackets and of the heads are random wrong ones            noise.py
``random-tags``       the same; the parts of speech of the line's words in random order           tags.py
``dummy-tags``        the same; random parts of speech, relations and categories of word forms     tags.py
``no-parse``          nothing: a sentence without a parse                                         control.py
====================  ==========================================================================  =================

Words stay, and so do their parts of speech, relations and categories, but for ``random-tags``, ``dummy-tags``, and
``shuffled``, whose relations and categories are the other sentence's. Categories that words share are those of the
control's trees; under ``dummy-tags`` each constituent has its first word's. A random draw depends on the sentence's
text, under ``dummy-tags`` on the word's form, and on the number after an ``@`` at the end of the control
(``random@2``): another number, other draws.
"""

from syntax_data.controls.control import KINDS, Control
from syntax_data.controls.from_length import FROM_LENGTH, control_heads, control_trees
from syntax_data.controls.shuffled import SentencePool

__all__ = ["FROM_LENGTH", "KINDS", "Control", "SentencePool", "control_heads", "control_trees"]
