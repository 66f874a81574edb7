"""Writing checkpoints that no training goes on with."""

from __future__ import annotations

from typing import Any

import torch


def drop_training_state(state: dict[str, Any]) -> None:
    """Take the optimizer's state and the weights of ``--ema`` out of a checkpoint's content."""
    state.pop("last_optimizer_state", None)
    for name in ("ema", "ema_fp32_params"):
        (state.get("extra_state") or {}).pop(name, None)


def save(state: dict[str, Any], path: str) -> None:
    """Write a checkpoint; a full disk is an OSError, and no check of torch's."""
    try:
        with open(path, "wb") as file:
            torch.save(state, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
