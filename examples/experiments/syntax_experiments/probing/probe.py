"""fairseq-syntax-probe: the syntax that linear classifiers read from encoder states.

    fairseq-syntax-probe data-bin/en-de --path checkpoints/checkpoint_best.pt --gen-subset train \\
        --parses raw/train.en --output probes.json

The model is one of ours or a stock Transformer of fairseq. Its encoder encodes the sentences of a split, whose parses
give the labels:

    depth               of a sentence, the height of its constituency tree, in five classes
    top-constituents    of a sentence, the constituents below the topmost node: the 19 most frequent sequences, or other
    distance            of a word and the next, their syntactic distance, in eight classes
    head                of a word, its head among the words of its sentence

Each is asked with labels that are random by word type, or by a sentence's last word, too (control tasks), and of
lengths and positions alone. A fifth of the sentences is held out for testing, another one for each seed. A table of
means over seeds (± standard deviation) is printed in percent, ρ as it is; the JSON file has the scores of each seed.
Needs scikit-learn and pandas: pip install 'fairseq-syntax[analysis]'.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from fairseq import utils

from fairseq_syntax.commands import trained
from syntax_data.commands.main import UsageError, command_line, run
from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.trees import bad_parses
from syntax_data.trees.formats import FORMATS
from syntax_experiments.probing.sentences import Sentence, read_sentences
from syntax_experiments.probing.states import encoder_layers, states_of

try:
    import sklearn
    from pandas import DataFrame

    from syntax_experiments.probing.probes import ProbeSettings
    from syntax_experiments.probing.tasks import TASKS, probe
except ModuleNotFoundError as error:
    if error.name != "pandas":
        raise
    sys.exit("fairseq-syntax-probe: error: pandas is not installed: pip install 'fairseq-syntax[analysis]'")

#: Numbers: type, least, default, help.
_NUMBERS: dict[str, tuple[Any, float, float, str]] = {
    "seed": (int, 0, 1, "the first seed"),
    "repeats": (int, 1, 5, "the number of seeds"),
    "max-sentences": (int, 3, 5000, "drawn at random if the split has more"),
    "max-pairs": (int, 100, 30000, "pairs of words that a probe of distance or head learns"),
    "inverse-l2": (float, 1e-9, 0.1, "scikit-learn's C: the smaller, the stronger the probes' L2 penalty"),
    "batch-size": (int, 1, 32, "sentences in a batch"),
}
_SCORES = ("accuracy", "control", "selectivity", "balanced_accuracy", "spearman")


def get_parser() -> argparse.ArgumentParser:
    """Return the command line, with fairseq's names where fairseq has the option."""
    parser = command_line("fairseq-syntax-probe", __doc__)
    add = parser.add_argument
    add("data", help="the data-bin")
    add("--path", required=True, metavar="FILE", help="the model's checkpoint")
    add("--output", required=True, metavar="FILE", help="where to write (.json)")
    add("--gen-subset", default="test", metavar="SPLIT", help="which split (default: test)")
    add("--parses", required=True, metavar="PREFIX", help="its word-level parses, PREFIX.trees and/or PREFIX.conllu")
    add("--tasks", metavar="LIST", help="some of depth,top-constituents,distance,head (default: all with parses)")
    add("--layers", metavar="LIST", help="such as 0,2,6; 0: the embeddings (default: 0 and the last)")
    add("--random-encoder", action="store_true", help="probe the model with random weights, as before training, too")
    for name, (kind, _, default, about) in _NUMBERS.items():
        add(f"--{name}", type=kind, default=default, metavar="N", help=f"{about} (default: %(default)s)")
    marks = "how the text marks subwords (default: %(default)s)"
    add("--subwords", metavar="KIND[:MARK]", default="subword_nmt", help=marks)
    add("--symbols", default="", metavar="LIST", help="words that parses do not have, as fairseq-syntax-binarize's")
    bad_parses.add_option(parser)
    add("--cpu", action="store_true", help="use no GPU")
    add("--user-dir", metavar="DIR", help="Python code that registers biases, models and tasks, as in training")
    return parser


def probe_model(args: argparse.Namespace) -> dict[str, Any]:
    """Return the content of the file: options, model, sentences, and records of scores.

    Raises :class:`ValueError` for an option that does not fit the parses or the model, and :class:`InputError` for
    a checkpoint, data-bin or parses that cannot be used.
    """
    for name, (_, least, *_) in _NUMBERS.items():
        if not least <= (value := getattr(args, name.replace("-", "_"))) < math.inf:
            raise UsageError(f"--{name}: expected a finite number of {least} or more, found {value}")
    parses, names = _parses_and_tasks(args)
    state, task = trained.read_checkpoint(args.path, args.data, truncate_source=False)
    # Other JSON than signatures in a data-bin may be what an earlier run wrote there.
    in_data = [
        path for path in trained.files_of_data_bin(args.data) if not re.search(r"(^|/)(?!syntax\.)[^/]*\.json$", path)
    ]
    refuse_to_overwrite(args.output, [args.path, *parses.values(), *in_data])
    models = {"": trained.build_trained(args.path, state, task, cpu=args.cpu)}
    if args.random_encoder:
        models[", random encoder"] = trained.build_untrained(
            args.path, args.data, state, task, seed=args.seed, cpu=args.cpu
        )
    last = encoder_layers(models[""])
    layers = f"0,{last}" if args.layers is None else args.layers
    for part in layers.split(","):
        if part not in map(str, range(last + 1)):
            raise ValueError(f"--layers: expected numbers from 0 to {last}, such as 0,{last}, found {part!r}")
    dataset, pad = trained.load_split(task, args.data, args.gen_subset), task.source_dictionary.pad()
    sentences, about = _sentences(args, models[""], dataset, task.source_dictionary, parses)
    chosen = sorted({int(part) for part in layers.split(",")})
    states = {
        name: states_of(model, dataset, sentences, layers=chosen, pad=pad, batch_size=args.batch_size)
        for name, model in models.items()
    }
    settings = ProbeSettings(c=args.inverse_l2, repeats=args.repeats, seed=args.seed, most_pairs=args.max_pairs)
    return {
        "options": {name: value for name, value in vars(args).items() if name not in ("output", "cpu", "user_dir")},
        "model": type(models[""]).__name__,
        "versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__},
        "sentences": about,
        "records": probe(sentences, states, names, settings),
    }


def _parses_and_tasks(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Return the files of parses that there are, by format, and the tasks."""
    paths = {name: kind.path(args.parses) for name, kind in FORMATS.items()}
    parses = {kind: path for kind, path in paths.items() if os.path.isfile(path)}
    if not parses:
        raise InputError(args.parses, None, f"expected {' or '.join(paths.values())}, found neither")
    names = [name for name, kind in TASKS.items() if kind in parses] if args.tasks is None else args.tasks.split(",")
    for name in names:
        if name not in TASKS:
            raise ValueError(f"--tasks: expected some of {','.join(TASKS)}, found {name!r}")
        if TASKS[name] not in parses:
            raise ValueError(f"--tasks: expected {paths[TASKS[name]]} for {name}, found no file")
    return parses, names


def _sentences(
    args: argparse.Namespace, model: Any, dataset: Any, dictionary: Any, parses: Mapping[str, str]
) -> tuple[list[Sentence], dict[str, Any]]:
    """Return a sample of the sentences that can be probed, and its numbers."""
    drawn = np.random.default_rng([args.seed, 3]).permutation(len(dataset))[: args.max_sentences]
    most_tokens = getattr(model.encoder, "max_positions", lambda: 1 << 30)()
    tokens: dict[int, list[str]] = {}
    for number in np.sort(drawn).tolist():
        ids = [i for i in dataset[number]["source"].tolist() if i not in (dictionary.eos(), dictionary.pad())]
        if ids and dictionary.unk() not in ids and len(ids) < most_tokens:
            tokens[number] = [dictionary[i] for i in ids]
    settings = Settings(args.subwords, symbols=args.symbols)
    sentences, left_out = read_sentences(
        tokens, parses, count=len(dataset), settings=settings, on_bad_parse=args.on_bad_parse
    )
    left_out["empty, with unknown subwords, or longer than the encoder takes"] = len(drawn) - len(tokens)
    reasons = dict(+left_out)  # without those that are 0
    if not sentences:
        expected = f"expected sentences of {args.gen_subset} that can be probed"
        raise InputError(args.data, None, f"{expected}, found none; left out: {reasons}")
    return sentences, {"of": len(dataset), "drawn": len(drawn), "probed": len(sentences), "left_out": reasons}


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of means over seeds, and ± their standard deviations, in percent; ρ as it is."""
    frame = DataFrame(records).reindex(columns=["task", "states", *_SCORES])

    def cell(values: Any) -> str:
        scale, digits = (1, 3) if values.name == "spearman" else (100, 1)
        if values.isna().all():
            return ""
        deviation = f" ± {scale * values.std():.{digits}f}" if len(values) > 1 else ""
        return f"{scale * values.mean():.{digits}f}{deviation}"

    table = frame.groupby(["task", "states"], sort=False).agg(cell).reset_index()
    heads = ["task", "states", "accuracy", "control", "selectivity", "balanced accuracy", "ρ"]
    align = ("left", "left", *["right"] * len(_SCORES))
    return str(table.to_markdown(index=False, headers=heads, disable_numparse=True, colalign=align))


def main(argv: list[str] | None = None) -> None:
    """Run the command; broken input ends it with a message and exit code 1."""
    run("fairseq-syntax-probe", get_parser, _work, argv)


def _work(args: argparse.Namespace) -> None:
    utils.import_user_module(args)
    with trained.memory_errors():
        results = probe_model(args)
    with atomic_write(args.output) as path, open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1, allow_nan=False)
        file.write("\n")
    print(markdown(results["records"]))
    about = results["sentences"]
    reasons = ", ".join(f"{count} {reason}" for reason, count in about["left_out"].items()) or "none"
    print(f"{about['drawn']} of {about['of']} sentences drawn, {about['probed']} probed; left out: {reasons}")
    print(f"{args.output}: {len(results['records'])} records")


if __name__ == "__main__":
    main()
