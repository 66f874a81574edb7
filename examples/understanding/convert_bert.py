"""A pre-trained BERT (safetensors) as a checkpoint of fairseq's RoBERTa.

    python examples/understanding/convert_bert.py bert-base-uncased --output pretrained/bert-base-uncased

reads config.json, vocab.txt and model.safetensors, and writes dict.txt and model.pt. The models are the same but for
four things:

- BERT's ``[CLS] [PAD] [SEP] [UNK] [MASK]`` are fairseq's ``<s> <pad> </s> <unk> <mask>``, with rows of their own.
- fairseq has no token types: all positions get type 0, which is added to the positions here.
- ε of fairseq's layer normalisation is 1e-5, BERT's 1e-12.
- BERT's pooler is left out. If the file has no masked-LM head, model.pt has a new one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path

import torch
from fairseq import options, tasks
from fairseq.models import BaseFairseqModel
from torch import Tensor

from syntax_data.commands.main import command_line, run
from syntax_data.errors import InputError, one_line, short_repr
from syntax_data.io.atomic_write import atomic_write
from syntax_experiments.corpora.wordpiece import SPECIAL, read_vocabulary

#: Modules of BERT's layers, by fairseq's.
LAYER = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
#: Modules of BERT's masked-LM head, by fairseq's.
LM_HEAD = {"dense": "cls.predictions.transform.dense", "layer_norm": "cls.predictions.transform.LayerNorm"}
#: What BERT's configuration must have: fairseq's RoBERTa can do nothing else.
REQUIRED = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
#: Options of fairseq, by keys of BERT's configuration.
OPTIONS = {
    "num_hidden_layers": "--encoder-layers",
    "hidden_size": "--encoder-embed-dim",
    "intermediate_size": "--encoder-ffn-embed-dim",
    "num_attention_heads": "--encoder-attention-heads",
    "max_position_embeddings": "--max-positions",
}
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
}


def read_safetensors(path: str) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file: the length of a JSON header, the header, the numbers.

    Raises:
        InputError: the file is cut off, or no such file.
    """
    with open(path, "rb") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
        content = bytearray(file.read())
    try:
        entries = json.loads(header)
        entries.pop("__metadata__", None)
        return {
            name: torch.frombuffer(
                content, dtype=DTYPES[of["dtype"]], count=math.prod(of["shape"]), offset=of["data_offsets"][0]
            ).reshape(of["shape"])
            for name, of in entries.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(path, None, f"expected a whole safetensors file, found: {one_line(error)}") from None


class Weights:
    """The tensors of a BERT by name, which are taken out one by one; shapes are checked when the model gets them."""

    def __init__(self, path: str):
        self.path = path
        self._tensors = {
            # The first BERTs' names, of TensorFlow.
            name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias"): tensor
            for name, tensor in read_safetensors(path).items()
        }

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise InputError(self.path, None, f"expected the tensor {name} of a BERT, found none")
        return self._tensors.pop(name).float()

    def rest(self) -> list[str]:
        """The names of those that were not taken."""
        return sorted(self._tensors)


def convert(weights: Weights, layers: int, rows: list[int]) -> dict[str, Tensor]:
    """Return weights by the names of fairseq's RoBERTa; those of the masked-LM head only if the file has one.

    Args:
        rows: number of each symbol of fairseq's dictionary in BERT's vocabulary.
    """
    prefix = "encoder.sentence_encoder."
    embeddings = weights.take("embeddings.word_embeddings.weight")
    if len(embeddings) != len(rows):
        message = f"expected embeddings of the {len(rows)} lines of vocab.txt, found {len(embeddings)}"
        raise InputError(weights.path, None, message)
    positions = weights.take("embeddings.position_embeddings.weight")
    positions = positions + weights.take("embeddings.token_type_embeddings.weight")[0]
    found = {
        f"{prefix}embed_tokens.weight": embeddings[rows],
        # fairseq's positions begin at 2, after the padding's.
        f"{prefix}embed_positions.weight": torch.cat([positions.new_zeros(2, positions.shape[1]), positions]),
    }
    modules = {f"{prefix}layernorm_embedding": "embeddings.LayerNorm"}
    for i in range(layers):
        modules |= {f"{prefix}layers.{i}.{name}": f"encoder.layer.{i}.{of}" for name, of in LAYER.items()}
    if "cls.predictions.bias" in weights:
        modules |= {f"encoder.lm_head.{name}": of for name, of in LM_HEAD.items()}
        found["encoder.lm_head.bias"] = weights.take("cls.predictions.bias")[rows]
    for name, of in modules.items():
        found |= {f"{name}.{kind}": weights.take(f"{of}.{kind}") for kind in ("weight", "bias")}
    return found


def read_config(path: str) -> dict[str, int]:
    """Return the sizes in BERT's config.json, by fairseq's options.

    Raises:
        InputError: it is of a model that fairseq's RoBERTa cannot be.
    """
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    for key, value in REQUIRED.items():
        if config.get(key, value) != value:
            raise InputError(path, None, f"expected {key} {value!r}, found {short_repr(config[key])}")
    for key in OPTIONS:
        if not isinstance(config.get(key), int):
            raise InputError(path, None, f"expected an integer as {key}, found {short_repr(config.get(key))}")
    return {option: config[key] for key, option in OPTIONS.items()}


def write_dictionary(numbers: dict[str, int], path: str) -> None:
    """Write fairseq's dictionary; its special symbols are in no file, and the task adds ``<mask>`` at the end."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.writelines(f"{symbol} 1\n" for symbol in numbers if symbol not in SPECIAL.values())


def convert_folder(folder: str, output: str) -> None:
    """Write dict.txt and model.pt of the BERT in a folder."""
    sizes = read_config(os.path.join(folder, "config.json"))
    numbers = read_vocabulary(os.path.join(folder, "vocab.txt"))
    weights = Weights(os.path.join(folder, "model.safetensors"))
    os.makedirs(output, exist_ok=True)
    write_dictionary(numbers, os.path.join(output, "dict.txt"))
    architecture = ["--arch", "roberta", *(word for option, size in sizes.items() for word in (option, str(size)))]
    arguments = [output, "--task", "masked_lm", "--criterion", "masked_lm", *architecture]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    task = tasks.setup_task(args)
    rows = [numbers[SPECIAL.get(symbol, symbol)] for symbol in task.source_dictionary.symbols]
    torch.manual_seed(1)  # for what the file lacks
    model = task.build_model(args)
    _load(model, convert(weights, sizes["--encoder-layers"], rows), weights)
    history = [{"criterion_name": "MaskedLmLoss", "lr_scheduler_state": {"best": None}, "num_updates": 0}]
    state = {"args": args, "model": model.state_dict(), "optimizer_history": history, "extra_state": {}}
    with atomic_write(os.path.join(output, "model.pt")) as temporary:
        torch.save(state, temporary)
    print(f"left out: {', '.join(weights.rest()) or 'nothing'}")
    print(
        f"wrote {output}; give fairseq-train {' '.join(architecture)} --finetune-from-model {Path(output) / 'model.pt'}"
    )


def _load(model: BaseFairseqModel, found: dict[str, Tensor], weights: Weights) -> None:
    try:
        fresh = torch.nn.Module.load_state_dict(model, found, strict=False)
    except RuntimeError as error:  # shapes
        raise InputError(weights.path, None, f"expected the sizes of config.json, found: {one_line(error)}") from None
    new = fresh.missing_keys & dict(model.named_parameters()).keys()  # neither buffers nor tied embeddings
    assert not fresh.unexpected_keys, fresh.unexpected_keys
    print(f"new: {', '.join(sorted(new)) or 'nothing'}")


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = command_line("convert_bert.py", __doc__)
    parser.add_argument("folder", metavar="FOLDER", help="with config.json, vocab.txt and model.safetensors")
    parser.add_argument("--output", required=True, metavar="DIR", help="folder to write dict.txt and model.pt to")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Convert a model; broken input ends the command with a message and exit status 1."""
    run("convert_bert.py", get_parser, lambda args: convert_folder(args.folder, args.output), argv)


if __name__ == "__main__":
    main()
