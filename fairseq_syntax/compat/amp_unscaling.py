"""``--amp`` that divides gradients by the loss scale once.

What is wrong: fairseq divides gradients by the loss scale twice. ``AMPOptimizer`` unscales them for one object
(``scaler.unscale_(self.optimizer)`` in ``clip_grad_norm``) and steps by another one
(``scaler.step(self.fp32_optimizer)``). To torch's scaler that is a second optimizer, which it has yet to unscale. So
SGD hardly moves, and Adam's eps counts 128 times as much as it should, or more. Also the scaler starts at
``--fp16-init-scale``, not at ``--amp-init-scale``, and ``--amp-scale-window`` sets its window to ``--amp-init-scale``.
https://github.com/facebookresearch/fairseq/blob/main/fairseq/optim/amp_optimizer.py,
https://github.com/facebookresearch/fairseq/issues/5342 (the options)

The repair: the step goes through the object for which gradients were unscaled. The scaler gets the options of
``--amp``.
"""

from __future__ import annotations

import functools
from typing import Any

from fairseq.optim.amp_optimizer import AMPOptimizer


def unscale_once() -> None:
    """Make ``--amp`` step by the same gradients as training without it."""
    construct = AMPOptimizer.__init__

    @functools.wraps(construct)
    def __init__(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, cfg, *args, **kwargs)
        state = {**self.scaler.state_dict(), "scale": float(cfg.common.amp_init_scale)}
        if cfg.common.amp_scale_window is not None:
            state["growth_interval"] = cfg.common.amp_scale_window
        self.scaler.load_state_dict(state)  # nothing happens where there is no GPU, and the scaler is off

    @functools.wraps(AMPOptimizer.step)
    def step(self: Any) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    AMPOptimizer.__init__, AMPOptimizer.step = __init__, step
