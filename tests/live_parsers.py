"""Small models of parsers, trained in seconds."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from places import EXPERIMENTS, TESTS
from syntax_data.trees.formats import CONLLU
from syntax_data.trees.tree import DependencyTree


def quickstart_parses(folder: Path, lines: int) -> list[DependencyTree]:
    """Parses of sentences of the quickstart's grammar."""
    grammar = EXPERIMENTS / "corpora/grammar.py"
    options = ["--train", str(lines), "--held-out", "5", "--seed", "1", str(folder)]
    subprocess.run([sys.executable, grammar, *options], check=True, capture_output=True)
    return [tree for _, tree in CONLLU.read(str(folder / "true/train.src.conllu")) if isinstance(tree, DependencyTree)]


def train_spacy(trees: Sequence[DependencyTree], folder: Path) -> Path:
    """spaCy's parser and morphologizer, trained on some trees."""
    import spacy
    from spacy.training import Example

    spacy.util.fix_random_seed(1)
    pipeline = spacy.blank("en")
    sizes = {"width": 48, "depth": 2, "embed_size": 300, "window_size": 1, "maxout_pieces": 3}
    network = {"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "subword_features": True, **sizes}
    for name in ("parser", "morphologizer"):
        pipeline.add_pipe(name, config={"model": {"tok2vec": network}})
    examples = []
    for tree in trees:
        heads = [i if head == 0 else head - 1 for i, head in enumerate(tree.heads)]
        labels = ["ROOT" if head == 0 else label for head, label in zip(tree.heads, tree.deprel, strict=True)]
        gold = {"heads": heads, "deps": labels, "pos": tree.upos}
        examples.append(Example.from_dict(pipeline.make_doc(" ".join(tree.tokens)), gold))
    optimizer = pipeline.initialize(lambda: examples)
    for epoch in range(8):
        random.Random(epoch).shuffle(examples)
        for i in range(0, len(examples), 30):
            pipeline.update(examples[i : i + 30], sgd=optimizer)
    pipeline.to_disk(folder)
    return folder


def train_stanza_ner(models: Path, folder: Path) -> Path:
    """The English models of stanza in `models`, and its tagger of named entities, trained on two sentences."""
    from stanza.models import ner_tagger

    (folder / "en/ner").mkdir(parents=True)
    for model in (models / "en").iterdir():
        (folder / "en" / model.name).symlink_to(model)
    text = folder / "tagged.json"
    tagged = "Mary/B-PERSON Jones/I-PERSON met/O Bob/B-PERSON in/O Paris/B-GPE ./O", "two/O dogs/O run/O in/O a/O box/O"
    sentences = [[word.split("/") for word in one.split()] for one in tagged]
    as_json = [[{"id": i, "text": word, "ner": tag} for i, (word, tag) in enumerate(one, 1)] for one in sentences]
    text.write_text(json.dumps(as_json * 10))
    ner_tagger.main([
        "--mode=train", f"--train_file={text}", f"--eval_file={text}", "--shorthand=en_local", "--cpu",
        f"--wordvec_pretrain_file={models}/en/pretrain/local.pt", f"--save_dir={folder}/en/ner", "--save_name=local.pt",
        "--hidden_dim=32", "--char_hidden_dim=16", "--char_emb_dim=16", "--optim=adam", "--lr=0.01", "--max_steps=30",
        "--eval_interval=30",
    ])  # fmt: skip
    resources = json.loads((models / "resources.json").read_text())
    resources["en"]["ner"] = {"local": {"dependencies": [{"model": "pretrain", "package": "local"}]}}
    resources["en"]["packages"]["default"]["ner"] = "local"
    (folder / "resources.json").write_text(json.dumps(resources))
    return folder


def train_udpipe(path: Path, tokenizer: str = "dimension=16;epochs=2;batch_size=5;learning_rate=0.02") -> Path:
    """A model of UDPipe, trained on five German sentences, in which *im* and *am* are two words."""
    from ufal import udpipe

    reader = udpipe.InputFormat.newConlluInputFormat()
    reader.setText((TESTS / "data/german.conllu").read_text(encoding="utf-8") * 10)
    error, sentences = udpipe.ProcessingError(), udpipe.Sentences()
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        sentences.append(sentence)
    model = udpipe.Trainer.train(
        "morphodita_parsito", sentences, udpipe.Sentences(),
        tokenizer, "iterations=2;guesser_suffix_rules=3",
        "iterations=3;embedding_upostag=8;embedding_form=8;embedding_deprel=8;hidden_layer=16;batch_size=10;"
        "learning_rate=0.05;transition_system=projective;transition_oracle=dynamic;structured_interval=0", error,
    )  # fmt: skip
    assert not error.occurred(), error.message
    path.write_bytes(model)
    return path
