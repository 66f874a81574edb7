"""Controls: parses that lack some or all of what syntax knows, to compare true ones with.

A model that does no better on true parses than on a control's has gained nothing from what the control destroys.

====================  ==========================================================================  =================
control               what stands in the place of a sentence's tree and heads                     file
====================  ==========================================================================  =================
``right-branching``   (a (b (c d))); every word hangs on the one before                           from_length.py
``left-branching``    (((a b) c) d); every word hangs on the one after                            from_length.py
``random``            each constituent cut in two at a random place; heads that fit this tree     from_length.py
``flat``              (a b c d); every word hangs on the first                                    from_length.py
``shuffled``          the tree and the heads of another sentence with as many words               others.py
``noise:P``           P percent of the brackets and of the heads are random wrong ones            noise.py
``no-parse``          nothing: a sentence without a parse                                         control.py
====================  ==========================================================================  =================

Words stay, and so do their parts of speech. A random draw depends on the sentence's text and on the number after an
``@`` at the end of the control (``random@2``): another number, other draws.
"""

from syntax_data.controls.control import KINDS, Control
from syntax_data.controls.from_length import FROM_LENGTH, control_heads, control_trees
from syntax_data.controls.others import Others

__all__ = ["FROM_LENGTH", "KINDS", "Control", "Others", "control_heads", "control_trees"]
