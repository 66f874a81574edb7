"""Options of an encoder with syntax do not depend on the model that the encoder is part of."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import pytest

from fairseq_syntax.encoder.encoder_options import SyntaxEncoderOptions, encoder_options


def test_read_and_recorded_options_are_inverse():
    given = {"syntax_masks": "sdoi,slr", "syntax_layers": "2", "gate_warmup_epochs": 3, "slr": "hard", "fusion": "top"}
    read = SyntaxEncoderOptions.read(Namespace(**given), encoder_layers=2, encoder_heads=4)
    assert (read.mask_names, read.syntax_layers, read.gate.warmup_epochs) == (["slr", "sdoi"], {2}, 3)
    again = SyntaxEncoderOptions.read(Namespace(**read.recorded()), encoder_layers=2, encoder_heads=4)
    assert again == replace(read, masks="slr,sdoi")
    assert again.recorded() == read.recorded()
    unchosen = {o.key for o in encoder_options()} - read.recorded().keys()
    assert unchosen == {
        key for key in unchosen if key.startswith(("sla_", "parent_", "lisa_", "tree_edge_", "tree_category_"))
    }


def test_labels_of_a_biass_features_are_recorded_and_weights_depend_on_them():
    def read(**given):
        return SyntaxEncoderOptions.read(Namespace(**given), encoder_layers=2, encoder_heads=4)

    given = {"syntax_masks": "tree_edge", "tree_edge_values": True, "tree_edge_dropout": 0.1}
    unlabelled = read(**given)
    assert unlabelled.labelled == ("deprel",)
    assert unlabelled.labels == {}
    filled = unlabelled.with_labels({"deprel": ["</s>", "nsubj", "obj"]})
    (bias,) = filled.biases
    assert (bias.labels, bias.values, bias.dropout) == (("</s>", "nsubj", "obj"), True, 0.1)
    assert read(**filled.recorded()) == replace(filled, layers="1,2")
    assert filled.semantics("relu")["deprel_labels"] == "</s> nsubj obj"
    assert "deprel_labels" not in read(syntax_masks="tree_path", deprel_labels="</s> nsubj").semantics("relu")


@pytest.mark.parametrize("masks", ["none", "position", "word", "tree_path", "tree_height", "tree_edge", "slr"])
def test_weights_depend_on_the_scale_of_tables_where_there_are_some(masks):
    given = Namespace(syntax_masks=masks, position_bias=masks == "none", bias_table_scale=2.5)
    read = SyntaxEncoderOptions.read(given, encoder_layers=2, encoder_heads=4)
    assert read.recorded()["bias_table_scale"] == 2.5
    assert read.semantics("relu").get("bias_table_scale") == (None if masks == "slr" else 2.5)
