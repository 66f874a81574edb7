"""The work of fairseq-syntax-dump; its command line is in :mod:`syntax_data.commands`."""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from fairseq import utils
from tqdm import tqdm

from fairseq_syntax.commands.trained import build_trained, files_of_data_bin, load_split, read_checkpoint
from fairseq_syntax.inference.collect import CONTENTS, by_sentence
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.errors import InputError
from syntax_data.io.atomic_write import atomic_write, refuse_to_overwrite


def sentences(
    model: SyntaxTransformerModel, task: Any, split: str, *, batch_size: int, contents: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """For each sentence of a split its number and arrays, in batches of like lengths."""
    dataset = task.dataset(split)
    device = next(model.parameters()).device
    pad = task.source_dictionary.pad()
    iterator = task.get_batch_iterator(dataset, max_sentences=batch_size, disable_iterator_cache=True)
    for batch in iterator.next_epoch_itr(shuffle=False):
        tokens = {
            n: row[row.ne(pad)].tolist()
            for n, row in zip(batch["id"].tolist(), batch["net_input"]["src_tokens"], strict=True)
        }
        moved = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        for number, arrays in by_sentence(model, moved, pad=pad, contents=contents):
            yield number, {"tokens": np.array([task.source_dictionary[t] for t in tokens[number]]), **arrays}


def dump(args: argparse.Namespace) -> int:
    """Writes the file; returns the number of sentences in it."""
    contents = CONTENTS if args.contents is None else tuple(args.contents.split(","))
    if not set(contents) <= set(CONTENTS):
        raise ValueError(f"--contents: expected some of {','.join(CONTENTS)}, found {args.contents!r}")
    state, task = read_checkpoint(args.path, args.data)
    read = [args.path, *(path for path in files_of_data_bin(args.data) if not path.endswith(".npz"))]
    refuse_to_overwrite(args.output, read)
    model = build_trained(args.path, state, task, cpu=args.cpu)
    if not isinstance(model, SyntaxTransformerModel):
        raise InputError(args.path, None, f"expected a gated_syntax_transformer, found a {type(model).__name__}")
    load_split(task, args.data, args.gen_subset)
    found = sentences(model, task, args.gen_subset, batch_size=args.batch_size, contents=contents)
    count = len(task.dataset(args.gen_subset))
    with atomic_write(args.output) as path, zipfile.ZipFile(path, "w") as file:
        _add(file, "layers", np.array(model.encoder.traced_layers))
        _add(file, "masks", np.array(model.encoder.bias_builder.names))
        if model.learned_biases:
            _add(file, "biases", np.array(model.learned_biases))
        for number, sentence in tqdm(found, total=count, unit=" sentences", disable=None):
            for name, array in sentence.items():
                _add(file, f"{number}/{name}", array)
    return count


def _add(file: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with file.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def work(args: argparse.Namespace) -> None:
    """Does what the command line asks for, and says what was done."""
    utils.import_user_module(args)
    try:
        count = dump(args)
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    print(f"{args.output}: {count} sentences of {args.gen_subset}")
