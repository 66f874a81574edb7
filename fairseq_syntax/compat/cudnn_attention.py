"""cuDNN's attention under masks.

What is wrong: torch 2.11 to 2.13 take cuDNN's attention first on GPUs of compute capability 9.0 and 10 (H100, H200,
B200) if cuDNN is newer than 9.15. Under a mask, which every padded batch has, its gradient of queries is NaN where keys
are 64 more than a multiple of 128 and all scores of a query are far below 0:
https://github.com/pytorch/pytorch/issues/196678. A mask in float32 beside queries in half precision is read as half
precision: https://github.com/pytorch/pytorch/pull/191612. And it builds a plan for each new shape of a batch, of which
fairseq's have hundreds.

The repair: the task switches it off as it is set up (:func:`switch`), for the whole process, unless
``--cudnn-attention`` is given: for fairseq's own attention, that is for baselines, too. torch then takes its efficient
kernel under a mask. On an H100 under torch 2.11, cuDNN's gradient was NaN at 64 and 192 keys.
"""

from __future__ import annotations

import torch


def switch(on: bool) -> None:
    """Let torch take cuDNN's attention, or not, in all threads of the process."""
    torch.backends.cuda.enable_cudnn_sdp(on)
