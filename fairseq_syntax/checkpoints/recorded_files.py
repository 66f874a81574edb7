"""A checkpoint's configuration names no files.

What is wrong: fairseq 0.12.2, main and fairseq-fixed 0.12.3 open what a checkpoint names when its model, task or
tokenizer is built: pretrained embeddings, BPE codes, dictionaries, other checkpoints. Those are files of the machine
that it was trained on; here, it may name any. For example ``encoder_embed_path`` in
https://github.com/facebookresearch/fairseq/blob/main/fairseq/models/transformer/transformer_base.py

The repair: :func:`drop` takes such options out of what a checkpoint records. A model's weights hold its embeddings; the
rest can be given again. The folder of the data is kept: commands ask for it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from fairseq.data.encoders import gpt2_bpe

#: Options that fairseq would open when something is built as recorded, and what it has for them by default.
OPENED: dict[str, Any] = {
    # models
    "decoder_embed_path": None,
    "embed_path": None,  # of a side, where the sides are dictionaries of their own
    "encoder_embed_path": None,
    "load_pretrained_aux_decoder_from": None,
    "load_pretrained_decoder_from": None,
    "load_pretrained_encoder_from": None,
    "pretrained_checkpoint": None,
    "pretrained_mlm_checkpoint": None,
    "pretrained_xlm_checkpoint": None,
    "seq2seq_path": None,
    "w2v_path": None,
    # BPE and tokenizers
    "bpe_codes": None,
    "bpe_merges": None,
    "bpe_vocab": None,
    "bpe_vocab_file": None,
    "gpt2_encoder_json": gpt2_bpe.DEFAULT_ENCODER_JSON,
    "gpt2_vocab_bpe": gpt2_bpe.DEFAULT_VOCAB_BPE,
    "sentencepiece_model": None,
    "sentencepiece_model_path": None,
    # tasks
    "baseline_model": "",
    "config_yaml": "config.yaml",
    "extra_data": None,
    "fixed_dictionary": None,
    "input_parses": None,
    "label_dir": None,
    "lang_dict": None,
    "lang_to_offline_shard_ratio": "",
    "multitask_config_yaml": None,
    "plasma_path": "/tmp/plasma",
    "post_save_script": None,
    "sampling_weights_from_file": None,
    "source_dict": None,
    "parser_models": None,
    "target_dict": None,
    "target_dictionary": None,
    # criteria and scoring
    "wer_args": None,
    "wer_kenlm_model": None,
    "wer_lexicon": None,
}
#: Options of the process that trains, evaluates or prepares data, which takes them from its own command line.
OF_COMMANDS: dict[str, Any] = {
    "aim_repo": None,
    "alignfile": None,
    "checkpoint_suffix": "",
    "continue_once": None,
    "destdir": "data-bin",
    "distributed_init_method": None,
    "ema_seed_model": None,
    "finetune_from_model": None,
    "input": "-",
    "interactive_input": "-",
    "lm_path": None,
    "log_file": None,
    "path": None,
    "quantization_config_path": None,
    "replace_unk": None,
    "restore_file": "checkpoint_last.pt",
    "results_path": None,
    "save_dir": "checkpoints",
    "save_predictions": None,
    "srcdict": None,
    "tensorboard_logdir": None,
    "testpref": None,
    "tgtdict": None,
    "trainpref": None,
    "user_dir": None,
    "validpref": None,
}
#: Options that name a folder, and are taken from the record all the same.
KEPT = frozenset({"data"})


def drop(configuration: object) -> Iterator[tuple[str, Any]]:
    """Puts fairseq's defaults where a configuration (mappings, sequences, namespaces) names files.

    The names and values of those that something would have opened are what is yielded.
    """
    is_namespace = isinstance(configuration, Namespace)
    if is_namespace:
        configuration = vars(configuration)
    if isinstance(configuration, dict):
        for name, value in list(configuration.items()):
            for options in (OPENED, OF_COMMANDS):
                if name in options and value != options[name]:
                    configuration[name] = options[name]
                    if options is OPENED and value is not None:
                        yield name, value
            yield from drop(value)
    elif isinstance(configuration, (list, tuple)):
        for value in configuration:
            yield from drop(value)
