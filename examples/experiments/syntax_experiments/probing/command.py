"""The work of fairseq-syntax-probe; its command line is in :mod:`syntax_data.commands`."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from fairseq import utils
from torch import nn

from fairseq_syntax.commands.trained import (
    build_trained,
    build_untrained,
    files_of_data_bin,
    load_split,
    read_checkpoint,
)
from fairseq_syntax.data.features import load_features
from syntax_data.data_bin.paths import TokenFiles
from syntax_data.data_bin.signature import Signature
from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite
from syntax_data.trees.formats import FORMATS
from syntax_experiments.probing.labels import NONE
from syntax_experiments.probing.sentences import Sentence, TokenizedSentence, exchanged, read_sentences
from syntax_experiments.probing.states import States, encoder_layers, states_of
from syntax_experiments.probing.table import markdown

try:
    import sklearn

    from syntax_experiments.probing.experiment import SOURCES, TASKS, WORD_TASKS, Corpus, ProbeSettings, probe
    from syntax_experiments.probing.resampling import CONFIDENCE, SAMPLES
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("scipy", "sklearn"):
        raise
    raise ValueError(
        "probes are made with scikit-learn, which is not installed: pip install 'fairseq-syntax[analysis]'"
    ) from error

logger = logging.getLogger(__name__)


def run_probes(args: argparse.Namespace) -> dict[str, Any]:
    """What the file is to hold: what was probed, how, and with which results."""
    _check_numbers(args)
    parses = _parse_files(args.parses)
    test_parses = _parse_files(args.test_parses) if args.test_subset else {}
    tasks = _tasks(args.tasks, [parses, test_parses] if args.test_subset else [parses])
    state, task = read_checkpoint(args.path, args.data, truncate_source=False)
    of_data = [path for path in files_of_data_bin(args.data) if not _is_result(path)]
    refuse_to_overwrite(args.output, [args.path, *parses.values(), *test_parses.values(), *of_data])
    models = [build_trained(args.path, state, task, cpu=args.cpu)]
    if args.random_encoder:
        models.append(build_untrained(args.path, args.data, state, task, seed=args.seed, cpu=args.cpu))
    layers = _layers(args.layers, models[0])
    parts = [_Part(args, task, models, args.gen_subset, parses, tasks=tasks, layers=layers)]
    if args.test_subset:
        parts.append(_Part(args, task, models, args.test_subset, test_parses, tasks=tasks, layers=layers))
    settings = ProbeSettings(c=args.inverse_l2, repeats=args.repeats, seed=args.seed, most_pairs=args.max_pairs)
    corpora = [_corpus([(part.sentences, *part.encoded[i]) for part in parts]) for i in range(len(models))]
    found = probe(corpora[0], tasks, layers, settings, random_encoder=corpora[1] if args.random_encoder else None)
    return {
        "checkpoint": args.path,
        "random_encoder": args.random_encoder,
        "model": type(models[0]).__name__,
        "data": args.data,
        "splits": {part.split: part.about for part in parts},
        "tested_on": args.test_subset or f"{settings.held_out:.0%} of the sentences of {args.gen_subset}",
        "settings": {
            **{name: getattr(args, name) for name in ("seed", "repeats", "max_sentences", "max_pairs", "inverse_l2")},
            "interval": {"of": CONFIDENCE, "bootstrap_samples": SAMPLES},
        },
        "versions": {"numpy": np.__version__, "scikit-learn": sklearn.__version__, "torch": torch.__version__},
        "tasks": {task: {"made_of": _source(task, parses), **of_task} for task, of_task in found.items()},
    }


def _is_result(path: str) -> bool:
    """Whether a file in a data-bin may be what an earlier run wrote there: of JSON, only signatures are read."""
    return path.endswith(".json") and not os.path.basename(path).startswith("syntax.")


def _check_numbers(args: argparse.Namespace) -> None:
    for name, least in (("repeats", 1), ("max_sentences", 3), ("max_pairs", 100), ("batch_size", 1), ("seed", 0)):
        if getattr(args, name) < least:
            raise ValueError(f"--{name.replace('_', '-')}: expected at least {least}, found {getattr(args, name)}")
    if not args.inverse_l2 > 0:
        raise ValueError(f"--inverse-l2: expected a number above 0, found {args.inverse_l2}")
    if bool(args.test_parses) > bool(args.test_subset):
        raise ValueError("--test-parses: expected --test-subset beside it")
    if args.test_subset == args.gen_subset:
        raise ValueError(f"--test-subset: expected another split than --gen-subset, found {args.test_subset} twice")


def _parse_files(prefix: str | None) -> dict[str, str]:
    """The parse files of a prefix that are there, by format."""
    if prefix is None:
        return {}
    paths = {kind: FORMATS[kind].path(prefix) for kind in FORMATS}
    found = {kind: path for kind, path in paths.items() if os.path.isfile(path)}
    if not found:
        raise InputError(prefix, None, f"expected {' or '.join(paths.values())}, found neither")
    return found


def _tasks(given: str | None, parses: Sequence[dict[str, str]]) -> list[str]:
    def missing(task: str) -> bool:
        sources = [_source(task, found) for found in parses]
        return bool(SOURCES[task]) and (None in sources or len(set(sources)) > 1)  # or it would be two questions

    if given is None:
        return [task for task in TASKS if not missing(task)]
    asked = list(dict.fromkeys(given.split(",")))
    for task in asked:
        if task not in TASKS:
            raise ValueError(f"--tasks: expected some of {','.join(TASKS)}, found {task!r}")
        if missing(task):
            files = " or ".join(f".{kind}" for kind in SOURCES[task])
            both = ", of the same format for both splits" * (len(parses) > 1)
            raise ValueError(f"--tasks: {task} needs parses in {files} (--parses, --test-parses){both}, found none")
    return asked


def _source(task: str, parses: dict[str, str]) -> str | None:
    """The format of the parses that a task's labels are made of."""
    return next((kind for kind in SOURCES[task] if kind in parses), None)


def _layers(given: str | None, model: nn.Module) -> list[int]:
    last = encoder_layers(model)
    if given is None:
        return sorted({0, last})
    found = []
    for part in given.split(","):
        if not part.isdecimal() or int(part) > last:
            raise ValueError(f"--layers: expected numbers from 0 to {last}, such as 0,{last}, found {part!r}")
        found.append(int(part))
    return sorted(set(found))


#: The states that an encoder gives sentences, and those for ``bigram-shift`` with its labels.
_Encoded = tuple[States, tuple[States, np.ndarray] | None]


class _Part:
    """The sentences of a split, and what each model encodes them as."""

    def __init__(
        self,
        args: argparse.Namespace,
        task: Any,
        models: Sequence[nn.Module],
        split: str,
        parses: dict[str, str],
        *,
        tasks: Sequence[str],
        layers: Sequence[int],
    ):
        self.split = split
        dataset = load_split(task, args.data, split)
        random = np.random.default_rng([args.seed, 3])
        drawn = np.sort(random.permutation(len(dataset))[: args.max_sentences]).tolist()
        tokenized, made = _tokenized(task, args.data, split, dataset, drawn)
        most_tokens = getattr(models[0].encoder, "max_positions", lambda: 1 << 30)()
        self.sentences, left_out = read_sentences(
            tokenized,
            parses,
            count=len(dataset),
            settings=replace(made, subwords=args.subwords) if args.subwords else made,
            on_bad_parse=args.on_bad_parse,
            most_tokens=most_tokens,
        )
        if not self.sentences:
            raise InputError(
                args.data, None, f"expected sentences of {split} that can be probed, found {_said(left_out)}"
            )
        self.about = {
            "sentences": len(self.sentences),
            "drawn": len(drawn),
            "of": len(dataset),
            "left_out": dict(left_out),
            "parses": dict(parses),
        }
        if left_out:
            logger.warning("%s: left out: %s", split, _said(left_out))
        options = {"layers": layers, "pad": task.source_dictionary.pad(), "batch_size": args.batch_size}
        words = bool(set(tasks) & set(WORD_TASKS))
        orders, labels = _orders(self.sentences, random) if "bigram-shift" in tasks else (None, None)
        self.encoded: list[_Encoded] = []
        for number, model in enumerate(models):
            name = f"{split}{', random encoder' * (number > 0)}"
            of_exchanged = None
            states = states_of(model, dataset, self.sentences, words=words, progress=name, **options)
            if labels is not None:
                name += ", words exchanged"
                of_exchanged = (
                    states_of(model, dataset, self.sentences, words=False, orders=orders, progress=name, **options),
                    labels,
                )
            self.encoded.append((states, of_exchanged))


def _orders(sentences: Sequence[Sentence], random: np.random.Generator) -> tuple[list[np.ndarray | None], np.ndarray]:
    """Of half of the sentences in which words can change places, the order after that; and which these are."""
    orders = [exchanged(sentence, random) for sentence in sentences]
    asked = random.permutation([i for i, order in enumerate(orders) if order is not None])
    labels = np.full(len(orders), NONE, dtype=np.int64)
    labels[asked] = np.arange(len(asked)) % 2
    return [order if label == 1 else None for order, label in zip(orders, labels, strict=True)], labels


def _tokenized(
    task: Any, data: str, split: str, dataset: Any, numbers: Sequence[int]
) -> tuple[dict[int, TokenizedSentence], Settings]:
    """Sentences of a split as text, by number; with which settings features of the data-bin were made."""
    dictionary, cfg = task.source_dictionary, task.cfg
    folder = utils.split_paths(data)[0]
    words: Any = None
    settings = Settings()
    files = TokenFiles.find(folder, split, cfg.source_lang, cfg.target_lang)
    if files is not None and os.path.exists(files.signature):
        made = Signature.read(files.signature).splits.get(split)
        if made is not None:
            settings = Settings(**made.settings)
            if "word" in made.features:
                words = load_features(cfg, split, ["word"]).rows["word"]
    found: dict[int, TokenizedSentence] = {}
    for number in numbers:
        ids = [i for i in dataset[number]["source"].tolist() if i not in (dictionary.eos(), dictionary.pad())]
        unknown = dictionary.unk() in ids
        word = words[number].tolist()[:-1] if unknown and words is not None else None
        found[number] = [dictionary[i] for i in ids], unknown, word
    return found, settings


def _corpus(parts: Sequence[tuple[Sequence[Sentence], States, tuple[States, np.ndarray] | None]]) -> Corpus:
    """Of the sentences of a split and their states; of a second one, they are for testing."""
    if len(parts) == 1:
        return Corpus(*parts[0])
    (first, states, exchanged), (second, test_states, test_exchanged) = parts
    both = None
    if exchanged is not None and test_exchanged is not None:
        both = exchanged[0].followed_by(test_exchanged[0]), np.concatenate([exchanged[1], test_exchanged[1]])
    train = np.arange(len(first) + len(second)) < len(first)
    return Corpus([*first, *second], states.followed_by(test_states), both, train)


def _said(left_out: Counter[str]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in left_out.most_common()) or "none"


def work(args: argparse.Namespace) -> None:
    """Does what the command line asks for, and says what was done."""
    utils.import_user_module(args)
    try:
        results = run_probes(args)
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    with atomic_write(args.output) as path, open(path, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1, allow_nan=False)
        file.write("\n")
    print(markdown(results["tasks"]))
    for split, about in results["splits"].items():
        print(
            f"{split}: {about['drawn']} of {about['of']} sentences drawn, {about['sentences']} probed; "
            f"left out: {_said(Counter(about['left_out']))}"
        )
    for task, found in results["tasks"].items():
        if unfinished := sum(of["not_converged"] for of in _rows(found)):
            print(f"{task}: the optimiser did not converge in {unfinished} probes; a smaller --inverse-l2 helps")
    print(f"{args.output}: {len(results['tasks'])} tasks")


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of all probes of a task."""
    return [found["surface"], *found["layers"].values(), *found.get("random_encoder", {}).values()]
