"""A checkpoint's configuration names no files.

What is wrong: fairseq opens the files that a checkpoint names when its model, task or tokenizer is built: pretrained
embeddings, BPE codes, dictionaries, other checkpoints. They are files of the machine that it was trained on; here, a
checkpoint may name any. For example ``encoder_embed_path`` in
https://github.com/facebookresearch/fairseq/blob/main/fairseq/models/transformer/transformer_base.py

The repair: :func:`drop` takes such options out of what a checkpoint records. A model's weights hold its embeddings; the
rest can be given again. The folder of the data is kept: commands ask for it.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from fairseq.data.encoders import gpt2_bpe

#: Options that fairseq would open when something is built as recorded, with their defaults.
OPENED: dict[str, Any] = dict.fromkeys(
    [
        # models; embed_path is of a side, where the sides are dictionaries of their own
        "decoder_embed_path", "embed_path", "encoder_embed_path", "load_pretrained_aux_decoder_from",
        "load_pretrained_decoder_from", "load_pretrained_encoder_from", "pretrained_checkpoint",
        "pretrained_mlm_checkpoint", "pretrained_xlm_checkpoint", "seq2seq_path", "w2v_path",
        # BPE and tokenizers
        "bpe_codes", "bpe_merges", "bpe_vocab", "bpe_vocab_file", "sentencepiece_model", "sentencepiece_model_path",
        # tasks
        "extra_data", "fixed_dictionary", "input_parses", "label_dir", "lang_dict", "multitask_config_yaml",
        "parser_models", "post_save_script", "sampling_weights_from_file", "source_dict", "target_dict",
        "target_dictionary",
        # criteria and scoring
        "wer_args", "wer_kenlm_model", "wer_lexicon",
    ]
) | {
    "baseline_model": "",
    "config_yaml": "config.yaml",
    "gpt2_encoder_json": gpt2_bpe.DEFAULT_ENCODER_JSON,
    "gpt2_vocab_bpe": gpt2_bpe.DEFAULT_VOCAB_BPE,
    "lang_to_offline_shard_ratio": "",
    "plasma_path": "/tmp/plasma",
}  # fmt: skip
#: Options of the process that trains, evaluates or prepares data, which takes them from its own command line.
OF_COMMANDS: dict[str, Any] = dict.fromkeys(
    [
        "aim_repo", "alignfile", "continue_once", "distributed_init_method", "ema_seed_model", "finetune_from_model",
        "lm_path", "log_file", "path", "quantization_config_path", "replace_unk", "results_path", "save_predictions",
        "srcdict", "subword_model", "tensorboard_logdir", "testpref", "tgtdict", "trainpref", "user_dir", "validpref",
    ]
) | {
    "checkpoint_suffix": "",
    "destdir": "data-bin",
    "input": "-",
    "interactive_input": "-",
    "restore_file": "checkpoint_last.pt",
    "save_dir": "checkpoints",
    "source_subword_sampling": 0.0,
    "target_subword_sampling": 0.0,
}  # fmt: skip


def drop(configuration: object) -> list[str]:
    """Put fairseq's defaults where a configuration (mappings, sequences, namespaces) names files.

    Returns:
        the names of options that would have been opened.
    """
    if isinstance(configuration, Namespace):
        configuration = vars(configuration)
    found: list[str] = []
    if isinstance(configuration, dict):
        for name, value in list(configuration.items()):
            for options in (OPENED, OF_COMMANDS):
                if name in options and value != options[name]:
                    configuration[name] = options[name]
                    found += [name] if options is OPENED and value is not None else []
            found += drop(value)
    elif isinstance(configuration, (list, tuple)):
        for value in configuration:
            found += drop(value)
    return list(dict.fromkeys(found))
