"""``--bf16`` means a TPU.

What is wrong: fairseq takes ``--bf16`` and ``--memory-efficient-bf16`` on the command line for ``--tpu``. Without
torch_xla that ends in an ImportError that names no option. (fairseq-hydra-train does not do so: ``common.bf16=true``
trains in bfloat16.) https://github.com/facebookresearch/fairseq/issues/4696

The repair: the task raises an error at its start (:func:`check_tpu`). The options keep their meaning.
"""

from __future__ import annotations

from importlib.util import find_spec


def check_tpu(tpu: object) -> None:
    """Raise :class:`ValueError` for ``common.tpu`` without torch_xla.

    In a configuration from Python, it may be the string ``${common.tpu}``.
    """
    if tpu is True and find_spec("torch_xla") is None:
        raise ValueError(
            "--bf16, --memory-efficient-bf16 and --tpu make fairseq train on a TPU, for which torch_xla is not "
            "installed. For mixed precision use --amp or --fp16 (CUDA); fairseq-hydra-train's common.bf16=true "
            "trains in bfloat16 without a TPU"
        )
