"""Attention biases against their definitions, drawn by hand or written independently; their registry."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
import torch
from test_dependency import visible

import small
from fairseq_syntax.modules.biases import (
    UNKNOWN,
    AttentionBias,
    BatchBiases,
    BiasBuilder,
    BiasTable,
    Buckets,
    PairValues,
    ParentScaling,
    RelativePosition,
    SyntacticDependencyOfInterest,
    SyntacticLocalRange,
    SyntaxAwareLocalAttention,
    SyntaxBias,
    TreeCategory,
    TreeEdge,
    TreeHeight,
    TreePath,
    WordBoundary,
    bias_names,
    columns_of_sums,
    register_syntax_bias,
    sum_of_tables,
)
from fairseq_syntax.options import option
from fairseq_syntax.testing import LABELS, random_features, random_labels, random_tree
from syntax_data.features import INFINITE
from syntax_data.features.distance import distance_feature, syntactic_distances
from syntax_data.trees.tree import Tree

# The increase reflects lower credit losses; `reflects` is two subwords here.
WORD_OF = [0, 1, 2, 2, 3, 4, 5]
TREE = Tree("S", [
    Tree("NP", ["The", "increase"]),
    Tree("VP", ["reflects", Tree("NP", ["lower", "credit", "losses"])]),
])  # fmt: skip


def slr(distance: torch.Tensor, form: str = "hard") -> torch.Tensor:
    """Who sees whom, (n, n)."""
    return visible(SyntacticLocalRange(form=form).log_mask(distance))[0]


def soft_slr(distance: torch.Tensor, temperature: float = 10.0) -> torch.Tensor:
    """The mask, (n, n)."""
    return SyntacticLocalRange(temperature=temperature).log_mask(distance)[0].exp()


def drawn(*rows: str) -> torch.Tensor:
    """A matrix drawn with 1 and . for what is visible and hidden."""
    return torch.tensor([[c == "1" for c in row] for row in rows])


def distances_of(*trees: Tree) -> torch.Tensor:
    """The distance feature of one-subword words and </s>, (1, n)."""
    words = sum(len(tree.leaves()) for tree in trees)
    return torch.tensor([distance_feature(range(words), syntactic_distances(list(trees)))])


def spans(tree: Tree, first: int = 0) -> list[tuple[int, int]]:
    """First leaf, and that after the last, of a tree and its constituents."""
    found, end = [], first
    for child in tree.children:
        below = [(end, end + 1)] if isinstance(child, str) else spans(child, end)
        found += below
        end = below[0][1]
    return [(first, end), *found]


def slr_by_the_tree(tree: Tree) -> torch.Tensor:
    """Who sees whom by Hou 2024 §3.2, on the tree itself: a word's range ends where that of an ancestor does of which
    it is not the last word, and likewise on the left."""
    constituents = spans(tree)
    n = constituents[0][1]
    seen = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        left = max((first for first, end in constituents if first < i < end), default=i)
        right = min((end for first, end in constituents if first <= i < end - 1), default=i + 1)
        seen[i, left:right] = True
    return seen


def test_slr_equals_the_tree_definition_on_random_trees_and_the_soft_one_tends_to_it():
    random = Random(1)
    strict_differs = 0
    for _ in range(400):
        tree = random_tree(random, random.randint(1, 14))
        expected = slr_by_the_tree(tree)
        n = len(expected)
        distance = distances_of(tree)
        hard, strict, soft = slr(distance), slr(distance, form="strict"), soft_slr(distance, temperature=1e-3)
        assert torch.equal(hard[:n, :n], expected), tree
        assert torch.equal(soft > 0, hard)
        assert torch.equal(soft == 1, strict)
        assert (soft[hard & ~strict] <= 0.5).all()  # a tie gives 1/2, k of them 1/2^k
        strict_differs += not torch.equal(strict, hard)
    assert strict_differs > 200  # ties are the rule in n-ary trees, so the reading matters


def test_hard_slr_golden_matrices_with_subwords_two_sentences_and_their_ends():
    distance = torch.tensor([distance_feature(WORD_OF, syntactic_distances([TREE]))])
    assert distance.tolist() == [[1, 3, 0, 2, 1, 1, INFINITE, INFINITE]]
    golden = drawn(
        "11......",  # The: its sibling
        "1111111.",  # increase: last of its phrase, so all that follows the phrase
        "1111....",  # re@@: back over the sentence; forward its own word
        "..11111.",  # flects: its own word, and all of its sibling
        "..11111.",  # lower: first of its phrase, so back over the verb phrase
        "....111.",  # credit: its siblings
        "....1111",  # losses: its siblings, and the end
        "11111111",  # </s>
    )
    assert torch.equal(slr(distance), golden)
    two = drawn(
        "11...",
        "11111",  # b: ∞ ties with the ∞ before </s>
        "1111.",  # c: looks back over everything
        "..111",
        "11111",
    )
    assert torch.equal(slr(distances_of(Tree("S", ["a", "b"]), Tree("S", ["c", "d"]))), two)


def test_soft_slr_of_the_distance_transformer_by_hand():
    """τ = 10; trees as they are, and binarised to the right, where ties are none."""
    whole = soft_slr(torch.tensor([[1, 3, 2, 1, 1, INFINITE, INFINITE]]))
    golden = [
        [1, 1, 0.4013, 0.1807, 0.0903, 0.0452, 0],  # The
        [1, 1, 1, 0.5498, 0.3292, 0.1971, 0],  # increase
        [0.5987, 1, 1, 1, 0.5498, 0.3023, 0],  # reflects
        [0.2475, 0.4502, 1, 1, 1, 0.5, 0],  # lower
        [0.0903, 0.1807, 0.4502, 1, 1, 1, 0],  # credit
        [0.0452, 0.0903, 0.2251, 0.5, 1, 1, 1],  # losses
        [1] * 7,  # </s>
    ]
    torch.testing.assert_close(whole, torch.tensor(golden), atol=5e-5, rtol=0)
    binary = soft_slr(torch.tensor([[1, 4, 3, 2, 1, INFINITE, INFINITE]]))
    first, last = [1, 1, 0.3543, 0.1422, 0.0640, 0.0320, 0], [0.0320, 0.0640, 0.1807, 0.4502, 1, 1, 1]
    torch.testing.assert_close(binary[[0, 5]], torch.tensor([first, last]), atol=5e-5, rtol=0)


@pytest.mark.parametrize("sentences", [1, 2])
def test_soft_slr_equals_the_product_of_its_definition(sentences):
    random = Random(2)
    for _ in range(30):
        distance = distances_of(*(random_tree(random, random.randint(1, 8)) for _ in range(sentences)))
        d = [math.inf if v == INFINITE else v for v in distance[0].tolist()]
        n = len(d)
        expected = torch.ones(n, n)
        for i, j in itertools.product(range(n), repeat=2):
            r, between = (i, range(i + 1, j)) if j > i else (i - 1, range(j, i - 1))
            for t in between:
                difference = 0.0 if d[r] == d[t] else d[r] - d[t]
                expected[i, j] *= (math.tanh(difference / 3) + 1) / 2
        torch.testing.assert_close(soft_slr(distance, temperature=3.0), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-3, 10, 1e6])
def test_infinite_distances_hide_and_are_crossed_at_any_temperature(temperature):
    soft = soft_slr(torch.tensor([[65534, INFINITE, 65534, INFINITE]]), temperature=temperature)
    assert soft[0, 2] == soft[0, 3] == 0
    assert soft[2, 0] == 1  # from the first after an infinite one back over the largest finite one
    assert soft[1, 3] == 1  # from the last before an infinite one


def test_golden_rows_of_relative_position():
    found = RelativePosition().bias(torch.arange(300)[None]).numbers
    assert found.shape == (1, 300, 300)
    near = list(range(22, 39))  # itself, and 1 to 16 to the right
    wide = [39] * 6 + [40] * 9 + [41] * 14 + [42] * 18 + [43] * 27  # 17-22, 23-31, 32-45, 46-63, 64-90
    assert found[0, 0].tolist() == near + wide + [44] * 209  # 91 and more
    assert found[0, 299].tolist() == [0] * 209 + [44 - b for b in wide[::-1]] + [44 - b for b in near[::-1]]


def test_golden_buckets_of_word_boundaries_are_what_flat_trees_tell():
    """The in@@ crease fell </s>, and every pair that flat trees tell apart."""
    golden = [
        [8, 5, 5, 5, 7],
        [1, 8, 4, 6, 7],
        [1, 0, 8, 6, 7],
        [1, 2, 2, 8, 7],
        [3, 3, 3, 3, 8],
    ]
    word, flat = torch.tensor([[0, 1, 1, 2, 3]]), Tree("S", ["The", "increase", "fell"])
    found = WordBoundary().bias(word).numbers[0]
    assert found.tolist() == golden
    paths = TreePath().bias(word, torch.tensor([[0, 1, 1, 1, 0]])).numbers[0]
    heights = TreeHeight().bias(torch.tensor([distance_feature([0, 1, 1, 2], syntactic_distances([flat]))])).numbers[0]
    assert {*zip(*(numbers.flatten().tolist() for numbers in (found, paths, heights)), strict=True)} == {
        (8, 50, 12), (5, 26, 14), (7, 51, 24), (1, 5, 10), (4, 25, 13), (6, 31, 14), (0, 0, 11), (2, 6, 10), (3, 51, 0),
    }  # fmt: skip


def test_tree_heights_are_the_greatest_distances_between():
    random = Random(6)
    for _ in range(30):
        distances = [random.choice([0, 1, 2, 5, 9, 10, 11, 40, INFINITE]) for _ in range(random.randint(1, 12))]
        found = TreeHeight().bias(torch.tensor([distances])).numbers[0]
        assert (found.diagonal() == 12).all()
        for i, j in itertools.combinations(range(len(distances)), 2):
            greatest = max(distances[i:j])
            height = 11 if greatest == INFINITE else min(greatest, 10)
            assert (found[i, j], found[j, i]) == (13 + height, 11 - height)


def test_a_table_gives_each_head_its_number_in_float32():
    table = BiasTable(heads=2, buckets=3)
    assert table.weight.eq(0).all()  # attention begins as without
    assert table.scaled(table.weight) is table.weight  # no factor 1 is multiplied
    with torch.no_grad():
        table.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    bias = table(Buckets(torch.tensor([[[0, 2], [UNKNOWN, 1]]]))).bias
    assert bias.tolist() == [[[[1, 3], [0, 2]], [[4, 6], [0, 5]]]]
    bias.sum().backward()
    assert table.weight.grad.eq(1).all()
    assert table.half()(Buckets(torch.zeros(1, 2, 2, dtype=torch.long))).bias.dtype == torch.float32


def test_a_gpu_sums_gradients_of_a_table_in_parts(monkeypatch):
    monkeypatch.setattr("fairseq_syntax.modules.biases.bias_tables._SelectColumns.PAIRS", 4 * 9 * 9)
    numbers = torch.randint(-1, 3, (4, 9, 9), generator=torch.Generator().manual_seed(1))
    gradients = []
    for gpu in (False, True):
        monkeypatch.setattr("fairseq_syntax.modules.numerics.is_asynchronous", lambda device, gpu=gpu: gpu)
        table = BiasTable(heads=2, buckets=3)
        table.weight.data = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        bias = table(Buckets(numbers)).bias
        assert torch.equal(bias[:, 1], torch.tensor([0.0, 4.0, 5.0, 6.0])[numbers + 1])
        (bias * torch.arange(2 * 9 * 9).view(2, 9, 9)).sum().backward()
        gradients.append(table.weight.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("count", [2, 3])
def test_one_lookup_finds_the_sum_of_tables(count):
    """The same numbers and gradients as a lookup in each; one of them has the same buckets for all sentences."""
    torch.manual_seed(1)
    sizes = [(3, 2), (5, 1), (4, 2)][:count]
    tables = [BiasTable(heads=2, buckets=buckets) for buckets, _ in sizes]
    for table in tables:
        torch.nn.init.normal_(table.weight)
    buckets = [Buckets(torch.randint(UNKNOWN, most, (batch, 6, 6))) for most, batch in sizes]
    joined = sum_of_tables(tables, columns_of_sums(tables, buckets)).bias
    apart = sum(table(of_table).bias for table, of_table in zip(tables, buckets, strict=True))
    assert torch.equal(joined, apart)
    weights = [table.weight for table in tables]
    found, expected = (torch.autograd.grad(bias.square().sum(), weights) for bias in (joined, apart))
    torch.testing.assert_close(found, expected)


RELATIONS = ("</s>", "det", "nsubj", "root", "amod", "compound", "obj")
#: The increase re@@ flects lower credit losses </s>
EDGES = {
    "word": torch.tensor([[0, 1, 2, 2, 3, 4, 5, 6]]),
    "head": torch.tensor([[2, 3, 0, 0, 6, 6, 3, 0]]),
    "deprel": torch.tensor([[1, 2, 3, 3, 4, 5, 6, 0]]),
}


def edges_drawn(rows: list[str], labels: int) -> torch.Tensor:
    """Buckets of edges, (n, n), drawn as first letters of what j is to i and of a label of RELATIONS."""
    kinds, initials = "hdsGC", [name[0] for name in RELATIONS]

    def bucket(cell: str) -> int:
        return UNKNOWN if cell == "." else kinds.index(cell[0]) * (labels + 1) + min(initials.index(cell[1]), labels)

    return torch.tensor([[bucket(cell) for cell in row.split()] for row in rows])


@pytest.mark.parametrize("labels", [len(RELATIONS), 2, 0])
def test_golden_edges_of_a_tree_with_subwords_and_labels_that_the_model_does_not_know(labels):
    """h, d, s: head, dependent, sibling; G, C: grandparent, grandchild."""
    golden = [
        ".  hd Gd Gd .  .  .  .",  # The: its head, and that one's
        "dd .  hn hn .  .  so .",  # increase: losses has the same head
        "Cd dn .  .  Ca Cc do .",  # re@@: no edge within its word
        "Cd dn .  .  Ca Cc do .",  # flects: the root
        ".  .  Ga Ga .  sc ha .",  # lower
        ".  .  Gc Gc sa .  hc .",  # credit
        ".  sn ho ho da dc .  .",  # losses
        ".  .  .  .  .  .  .  .",  # </s>: a root, but no sibling
    ]
    found = TreeEdge(labels=RELATIONS[:labels]).bias(*EDGES.values()).numbers
    assert torch.equal(found[0], edges_drawn(golden, labels))


def test_golden_edges_of_neighbours_in_a_constituent():
    """(S (NP The re@@ flects) <symbol> (VP runs)), then a tree of its own, then </s>; the model knows NP alone."""
    word, category = torch.tensor([[0, 1, 1, 2, 3, 4, 5]]), torch.tensor([[1, 2, 2, 0, 3, 3, 0]])
    golden = [
        [UNKNOWN, 1, 1, *[UNKNOWN] * 4],
        [4, *[UNKNOWN] * 6],
        [4, *[UNKNOWN] * 6],
        [UNKNOWN] * 7,
        [*[UNKNOWN] * 5, 2, UNKNOWN],
        [*[UNKNOWN] * 4, 5, *[UNKNOWN] * 2],
        [UNKNOWN] * 7,
    ]
    assert TreeCategory(labels=("</s>", "NP")).bias(word, category, word).numbers[0].tolist() == golden


def test_kinds_of_edges_are_paths_of_one_or_two_steps():
    """On random trees: steps up and down, as the buckets of tree_path number them on either side."""
    random = Random(5)
    of_paths = {(1, 0): 0, (0, 1): 1, (1, 1): 2, (2, 0): 3, (0, 2): 4}
    seen = set()
    for _ in range(30):
        words = random.randint(1, 9)
        features = {name: torch.tensor([row]) for name, row in random_features(random, words, words + 2).items()}
        paths = TreePath().bias(features["word"], features["head"]).numbers[0]
        steps = [[divmod(number % 25, 5) if number < 50 else None for number in row] for row in paths.tolist()]
        found = TreeEdge().bias(features["word"], features["head"], torch.ones_like(features["word"])).numbers[0]
        assert found.tolist() == [[of_paths.get(path, UNKNOWN) for path in row] for row in steps]
        seen |= {*found.flatten().tolist()}
    assert seen == {UNKNOWN, *range(5)}


def edge_table(**options) -> torch.nn.Module:
    """Of two heads and three labels, with numbers that are all different."""
    edge = TreeEdge(labels=("</s>", "A"), values=True, **options)
    table = edge.build_layer_module(heads=2, head_dim=4, embed_dim=8)
    assert all(not parameter.any() for parameter in table.parameters())  # attention begins as without
    with torch.no_grad():
        table.weight.copy_(torch.arange(2.0 * table.weight.shape[1]).view_as(table.weight))
        table.vectors.copy_(table.weight[:1] + torch.tensor([[0.0], [100.0], [200.0], [300.0]]))
    return table


def columns_found(table: torch.nn.Module) -> list[float]:
    """Of each bucket the number in the first row of T, which is in all rows of E, too."""
    bias = table(Buckets(torch.arange(15).view(1, 1, 15)))
    (values,) = bias.values
    of_buckets = bias.bias[0, 0, 0]
    torch.testing.assert_close(values.vectors, of_buckets[:, None] + torch.tensor([0.0, 100.0, 200.0, 300.0]))
    return of_buckets.tolist()


def test_a_bias_and_a_vector_of_an_edge_are_of_its_kind_and_label_or_sums_of_both():
    assert columns_found(edge_table()) == [*range(15)]
    table = edge_table(factored=True)
    with torch.no_grad():  # the rows of E are T's first, with another constant: here in labels alone
        table.vectors.copy_(table.weight[:1])
        table.vectors[:, 5:] += torch.tensor([[0.0], [100.0], [200.0], [300.0]])
    assert columns_found(table) == [kind + 5 + label for kind in range(5) for label in range(3)]


def test_dropout_of_labels_takes_them_as_unknown_ones_of_their_kind_in_training_alone():
    unknown = [3 * kind + 2 for kind in range(5) for _ in range(3)]
    table = edge_table(dropout=0.5)
    torch.manual_seed(1)
    draws = torch.tensor([columns_found(table.train()) for _ in range(400)])
    dropped = draws == torch.tensor(unknown)
    assert torch.equal(torch.where(dropped, -1, draws), torch.where(dropped, -1, torch.arange(15)))
    known = torch.arange(15) % 3 != 2
    assert dropped[:, ~known].all()
    assert ((dropped[:, known].float().mean(dim=0) - 0.5).abs() < 0.1).all()
    assert columns_found(table.eval()) == [*range(15)]
    assert columns_found(edge_table(dropout=1.0)) == unknown


def test_values_of_pairs_are_masked_and_replaced_with_their_bias():
    vectors = torch.randn(3, 4, requires_grad=True)
    values = PairValues(Buckets(torch.tensor([[[0, 1], [2, UNKNOWN]]])), vectors)
    bias = AttentionBias(bias=torch.zeros(1, 1, 2, 2), values=[values])
    attention = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    found = values.sum(attention)[0, 0]
    torch.testing.assert_close(found, torch.stack([0.25 * vectors[0] + 0.75 * vectors[1], 0.5 * vectors[2]]))
    (masked,) = bias.where(torch.tensor([[[[True, False], [True, True]]]])).values
    torch.testing.assert_close(masked.sum(attention)[0, 0, 0], 0.25 * vectors[0])
    batch = BatchBiases([bias], torch.ones(1, 1, dtype=torch.bool))
    (differentiable,) = batch.differentiable  # what activation checkpointing gives to layers
    assert differentiable is vectors
    (other,) = batch.with_differentiable([vectors.detach() + 1]).biases
    torch.testing.assert_close(other.values[0].vectors, vectors + 1)


#: Each kind, in each of its forms.
ALL = [
    *(SyntacticLocalRange(form=form) for form in ("soft", "hard", "strict")),
    *(SyntacticDependencyOfInterest(subwords=subwords) for subwords in ("share", "first")),
    *(SyntaxAwareLocalAttention(distance=1), ParentScaling(), RelativePosition(), WordBoundary()),
    *(TreePath(), TreeHeight(), TreeEdge(labels=LABELS), TreeCategory(labels=LABELS)),
]


def matrix(bias: AttentionBias | Buckets) -> tuple[torch.Tensor, float]:
    """Numbers of a bias, (batch or 1, n, n), and the neutral one."""
    if isinstance(bias, Buckets):
        return bias.numbers, UNKNOWN
    return (bias.factor[:, 0], 1.0) if bias.bias is None else (bias.bias[:, 0], 0.0)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("kind", ALL, ids=str)
def test_biases_do_not_depend_on_padding_and_are_neutral_there_and_without_a_parse(kind, left):
    random = Random(4)
    lines = [{**random_features(random, w, w + 2), **random_labels(random, w + 2)} for w in (1, 4, 7)]
    features = small.batch([*lines, 6], left_pad=left)["src_syntax"]  # the last one has no parse
    width = features["word"].shape[1]
    built = BiasBuilder([kind])(features)
    assert built.has_parse.tolist() == [[True]] * 3 + [[not kind.features]]
    found, neutral = matrix(built.biases[0])
    found = found.expand(4, -1, -1).clone()
    for row, line in enumerate(lines):
        n = len(line["word"])
        real = slice(width - n, width) if left else slice(0, n)
        (bias,) = BiasBuilder([kind])({name: torch.tensor([values]) for name, values in line.items()}).biases
        torch.testing.assert_close(found[row][real, real], matrix(bias)[0][0])
        found[row][real, real] = neutral
    assert found.eq(neutral).all() == bool(kind.features)


def test_a_kind_with_features_whose_bias_does_not_know_where_they_are_missing_is_refused():
    class Plain(SyntaxBias):
        name = "plain"
        features = ("word",)

        def bias(self, word):
            return word

    with pytest.raises(TypeError, match="plain: expected an AttentionBias or Buckets, found Tensor"):
        BiasBuilder([Plain()])({"word": torch.zeros(1, 3)})


@pytest.mark.parametrize(
    ("name", "features", "wrong"),
    [
        ("slr", ("word",), "expected a new name for a syntax mask"),
        ("my-mask", ("word",), "expected a new name for a syntax mask"),
        ("none", ("word",), "expected a new name for a syntax mask"),
        ("mine", ("tree",), "mine: expected features among word, distance"),
        ("mine", ("word",), "mine: --slr-temperature is the option of another syntax mask"),
    ],
)
def test_a_kind_that_cannot_be_registered_is_refused(name, features, wrong):
    attributes = {
        "features": features,
        "temperature": option(1.0, help="…", name="slr_temperature"),
        "__annotations__": {"temperature": float},
    }
    before = bias_names()
    with pytest.raises(ValueError, match=wrong):
        register_syntax_bias(name)(type("Mine", (SyntaxBias,), attributes))
    assert bias_names() == before


def test_a_mask_is_the_exponential_of_its_logarithm_and_a_normal_one_0_where_that_is_tiny():
    log_mask = torch.tensor([0.0, -1.0, -50.0, -59.0, -61.0, -90.0, -1000.0, -torch.inf])
    expert = AttentionBias(bias=log_mask.view(1, 1, 1, -1))
    assert torch.equal(expert.matrix.flatten(), log_mask.exp())
    torch.testing.assert_close(expert.normal_mask.flatten()[:4], log_mask[:4].exp(), atol=0, rtol=1e-6)
    assert not expert.normal_mask.flatten()[4:].any()
