"""``noise``: a share of the heads and brackets is wrong (SG-Net §7.6).

Each head, and each bracket but a sentence's own, is drawn again with the probability `share`; the others stay. What is
drawn again at one share is so at every greater one. At 0 all are the parser's; at 1 no bracket is, and no head but
a few that have no other choice. Labels stay with their words and brackets; a new bracket's is ``X``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from syntax_data.trees.tree import Span, Tree, roots


def noisy_heads(heads: Sequence[int], share: float, seed: str) -> list[int]:
    """Heads of which a `share` is wrong; each sentence stays one tree.

    A new head is any word of the sentence, with equal chance, but the parser's head and the words that depend on the
    word itself; if there is no such word, the head stays. If a root is drawn again, another word whose head is drawn
    again becomes the root; if there is none, it stays. Heads may cross.

    `heads` are ``(m,)``, of a line: 0 above a root, else i for the i-th word; `share` is 0 to 1.
    """
    marks, draws = Random(f"{seed} marks"), Random(f"{seed} heads")
    sentences: dict[int, list[int]] = {}
    for word, root in enumerate(roots(heads)):
        sentences.setdefault(root, []).append(word)
    marked = {word for word in range(len(heads)) if marks.random() < share}
    found = list(heads)
    for root, words in sentences.items():
        _draw_heads(root, words, [word for word in words if word in marked], found, draws)
    return found


def _draw_heads(root: int, words: list[int], marked: list[int], heads: list[int], draws: Random) -> None:
    """Draw new heads of those words of a sentence that are `marked`."""
    loose = set(marked)
    # Without the marked heads the tree falls into parts. Each depends on some word of another part, until one is left.
    above = {word: word if word in loose or word == root else heads[word] - 1 for word in words}

    def top(word: int) -> int:  # of the part that it is in
        while above[word] != word:
            above[word] = word = above[above[word]]
        return word

    size = Counter(map(top, words))
    new_root = draws.choice([word for word in marked if word != root] or [root]) if root in loose else root
    draws.shuffle(marked)
    for word in marked:
        if word == new_root:
            continue
        true = heads[word] - 1  # -1 above the old root
        if len(words) - size[word] == 1 and true >= 0 and top(true) != word:
            new = true  # there is no other
        else:
            while True:
                new = draws.choice(words)
                if new != true and top(new) != word:
                    break
        heads[word] = new + 1
        above[word] = top(new)
        size[above[word]] += size[word]
    heads[new_root] = 0


def noisy_tree(tree: Tree, share: float, marks: Random, draws: Random) -> Tree:
    """A tree of as many brackets, of which a `share` is wrong: none of the tree's own.

    A bracket that is drawn again is removed, and its parts go to the nearest one around it that stays. That one gets as
    many new ones as it has lost, one after the other: any consecutive parts of it, with equal chance, but not all and
    no bracket of the tree. Unary chains count as one, and are one in the noisy tree.

    `share` is 0 to 1; `marks` draws the brackets that are replaced, `draws` the new ones.
    """
    true = tree.brackets()
    whole = next(iter(true))
    marked = {span for span in true if span != whole and marks.random() < share}
    if not marked:
        return tree
    labels = {span: label for span, label in true.items() if span not in marked}
    for bounds, lost in _parts(true, marked):
        labels |= dict.fromkeys(_draw_brackets(bounds, lost, true, draws), "X")
    return Tree.from_brackets(tree.leaves(), labels)


def _parts(true: dict[Span, str], marked: set[Span]) -> list[tuple[list[int], int]]:
    """For each bracket that lost some: the bounds of its parts, and how many it lost."""
    inner: dict[Span, list[Span]] = {span: [] for span in true if span not in marked}
    lost: Counter[Span] = Counter()
    around: list[Span] = []
    for span in true:
        while around and around[-1][1] <= span[0]:
            around.pop()
        if span in marked:
            lost[around[-1]] += 1
        else:
            if around:
                inner[around[-1]].append(span)
            around.append(span)
    found = []
    for (first, end), count in lost.items():
        ends = dict(inner[first, end])
        bounds = [first]
        while bounds[-1] < end:
            bounds.append(ends.get(bounds[-1], bounds[-1] + 1))
        found.append((bounds, count))
    return found


def _draw_brackets(bounds: list[int], count: int, true: dict[Span, str], draws: Random) -> list[Span]:
    """New brackets, `count` of them, inside one whose parts have these bounds."""
    found = []
    stack = [(bounds, count)]
    while stack:
        bounds, count = stack.pop()
        if not count:
            continue
        parts = len(bounds) - 1
        # There is always one: of the first two of three parts and the last two, which cross, one is not in the tree.
        while True:
            first, end = sorted(draws.sample(range(parts + 1), 2))
            if 1 < end - first < parts and (bounds[first], bounds[end]) not in true:
                break
        found.append((bounds[first], bounds[end]))
        inside, outside = bounds[first : end + 1], bounds[: first + 1] + bounds[end:]
        room = len(inside) - 3, len(outside) - 3  # for how many more there is
        into = sum(place < room[0] for place in draws.sample(range(sum(room)), count - 1))
        stack += [(inside, into), (outside, count - 1 - into)]
    return found
