"""A GPU's first minutes: is all right there, and how fast is it beside fairseq's Transformer?

    python benchmarks/gpu.py [--output gpu] [--limit 540] [--only STEPS] [--cpu] [--tiny]

No data is needed: random tokens under random trees. Steps, each in a process of its own and with a limit of seconds:

- device: what it is; bandwidth, matrix products, what launching a small operation and reading a number cost;
- biases, attention, gates: values and gradients beside a CPU's in float64; attention by each implementation in three
  precisions;
- models: the loss and all gradients of every architecture in five precisions beside float64 on a CPU;
- training: losses of some updates beside a CPU's, then in half precision; translations beside a CPU's;
- speed: training steps, encoder and beam search in turn with stock, words/s and memory, at 512/2048, 6+6 layers;
- launches: operations, waits and the device's own time of a training step;
- tables: forms of the gradient of learned bias tables.

FOLDER/findings.json has every finding, FOLDER/report.md tables, and what was wrong first; both are written again after
each step. The exit status is 1 if something was wrong. `--cpu --tiny` tries the program itself.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from fairseq_syntax.compat import cudnn_attention
from fairseq_syntax.modules.attention import IMPLEMENTATIONS, ExpertMixture
from fairseq_syntax.modules.biases import (
    AttentionBias,
    BatchBiases,
    BiasBuilder,
    BiasTable,
    Buckets,
    PairValues,
    bias_names,
    bias_type,
)
from fairseq_syntax.modules.gate_norm import GateBatchNorm
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from fairseq_syntax.testing import LABELS
from random_models import PAPERS, ROBERTAS, Classifier, Size, System, be_quiet, random_batch, random_batches
from speed import in_turn, seconds

GATED = "--arch gated_syntax_transformer --syntax-dropout 0 --syntax-masks"
#: Systems that are timed: what papers have, and the gated one with dropout on the mixture and on each expert.
TIMED = {
    "transformer": "--arch transformer",
    "transformer again": "--arch transformer",
    "slr": f"{GATED} slr",
    "slr,sdoi": f"{GATED} slr,sdoi",
    "slr, dropout on experts": f"{GATED} slr --syntax-attention-dropout-on experts",
    "slr,sdoi, dropout on experts": f"{GATED} slr,sdoi --syntax-attention-dropout-on experts",
    "tree biases": PAPERS["tree biases"],
    "relative position": PAPERS["relative position"],
}
SMALL = Size(64, 128, 4, 2)
TINY = ("slr,sdoi", "tree biases")  # systems that --tiny tries
LAUNCHED = ("transformer", "slr,sdoi", "slr,sdoi, dropout on experts", "tree biases")  # whose launches are counted
#: Largest errors relative to float64, of a value or of a gradient, by precision. Gates divide by the little that their
#: logits vary by in untrained models.
ATTENTION = {torch.float32: 3e-5, torch.float16: 3e-3, torch.bfloat16: 2.5e-2}
MODEL = {"float32": 2e-2, "float16": 8e-2, "bfloat16": 0.4, "amp float16": 8e-2, "amp bfloat16": 0.4}


class Report:
    """Findings of one step: dicts whose `ok` is true, false, or None where nothing can be wrong."""

    def __init__(self, step: str, path: Path, device: str, tiny: bool):
        self.step, self.path, self.device, self.tiny = step, path, device, tiny

    def add(self, check: str, ok: bool | None = None, **values: Any) -> None:
        numbers = {k: float(f"{v:.5g}") if isinstance(v, float) and math.isfinite(v) else v for k, v in values.items()}
        with self.path.open("a") as file:
            print(json.dumps({"step": self.step, "check": check, "ok": ok, **numbers}, default=str), file=file)

    @contextlib.contextmanager
    def checking(self, check: str, **values: Any) -> Iterator[None]:
        """What fails inside is a finding, and the step goes on."""
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{type(error).__name__}: {str(error)[:300]} ({Path(place.filename).name}:{place.lineno})"
            self.add(check, False, error=message, **values)


def error(found: Tensor, expected: Tensor) -> float:
    """‖found - expected‖ / ‖expected‖; infinite if anything found is not finite."""
    found, expected = found.detach().double().cpu(), expected.detach().double().cpu()
    if not found.isfinite().all():
        return math.inf
    return float((found - expected).norm() / expected.norm().clamp(min=1e-12))


def moved(value: Any, device: str) -> Any:
    if isinstance(value, Mapping):
        return {name: moved(part, device) for name, part in value.items()}
    return value.to(device) if isinstance(value, Tensor) else value


def microseconds(function: Callable[[], Any], repeats: int = 20) -> float:
    function()
    return 1e6 * statistics.median(seconds(function) for _ in range(repeats))


def check_device(report: Report) -> None:
    gpu = report.device == "cuda"
    name = torch.cuda.get_device_name() if gpu else platform.machine()
    report.add("device", name=name, torch=torch.__version__, cuda=torch.version.cuda, python=platform.python_version())
    size = 256 if report.tiny else 8192
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        a, b = (torch.randn(size, size, device=report.device).to(dtype) for _ in range(2))
        us = microseconds(lambda a=a, b=b: a @ b)
        report.add("matrix product", dtype=str(dtype), tflops=2 * size**3 / us / 1e6)
    x = torch.ones(2**20 if report.tiny else 2**30, dtype=torch.uint8, device=report.device)
    y = torch.empty_like(x)
    report.add("copy, bytes read and written", tb_per_s=2 * x.numel() / microseconds(lambda: y.copy_(x)) / 1e6)
    small = torch.zeros(1, device=report.device)
    report.add("small operation", us=microseconds(lambda: [small.add_(1) for _ in range(100)]) / 100)
    report.add("number read", us=microseconds(lambda: [small.item() for _ in range(100)]) / 100)


def check_biases(report: Report) -> None:
    for n in (4, 33, 130):
        net_input = random_batch(Random(n), [n, max(2, n // 2), n - 1])["net_input"]
        features, tokens = SyntaxBatch.of(net_input["src_syntax"]), net_input["src_tokens"]
        for name in bias_names():
            with report.checking("bias", name=name, n=n):
                bias = bias_type(name)()
                build = BiasBuilder([bias.with_labels(dict.fromkeys(bias.features, LABELS))])
                pair = [
                    build(features.to(torch.device(device)), tokens.to(device), teaches=True).biases[0]
                    for device in ("cpu", report.device)
                ]
                here, there = ([x] if isinstance(x, Tensor) else [*vars(x).values()] for x in pair)
                same = [
                    torch.allclose(a.double(), b.cpu().double(), rtol=1e-4, atol=1e-4)
                    for a, b in zip(here, there, strict=True)
                    if isinstance(a, Tensor)
                ]
                report.add("bias", all(same), name=name, n=n)
    # On a GPU a cycle of heads ends the process, by an assertion of the device: it gets one of its own.
    code = (
        "import sys, torch; from fairseq_syntax.modules.dependency import ancestors; d = sys.argv[1]\n"
        "print(ancestors(torch.tensor([[0, 1, 2]], device=d), torch.tensor([[2, 1, 0]], device=d)).sum().item())"
    )
    done = subprocess.run([sys.executable, "-c", code, report.device], capture_output=True, text=True)
    report.add("cycle of heads", done.returncode != 0 and "cycle" in done.stdout + done.stderr)


def check_attention(report: Report) -> None:
    shapes = (
        ((7, 4, 8), (24, 4, 16)) if report.tiny else ((7, 8, 64), (24, 8, 64), (130, 8, 64), (77, 4, 32), (23, 4, 8))
    )
    for n, heads, d in shapes:
        for more in ("", "position", "values"):
            expected = _attention("reference", torch.float64, "cpu", n, heads, d, more)
            for dtype, most in ATTENTION.items():
                for name in IMPLEMENTATIONS:
                    values = dict(implementation=name, dtype=str(dtype), n=n, heads=heads, d=d, more=more)
                    with report.checking("attention", **values):
                        found = _attention(name, dtype, report.device, n, heads, d, more)
                        worst = max(error(a, b) for a, b in zip(found, expected, strict=True))
                        report.add("attention", worst < most, error=worst, **values)


def _attention(name: str, dtype: torch.dtype, device: str, n: int, heads: int, d: int, more: str) -> list[Tensor]:
    """Output and gradients of q, k, v, and `more`, of two masks, one with hidden pairs, and left padding.

    Args:
        more: a bias by ``position``, or ``values`` of pairs; or nothing.
    """
    draw = torch.Generator().manual_seed(n)
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    masks = random(3, 2, n, n) * 3
    masks[:, 1].masked_fill_(random(3, n, n) < -0.3, -math.inf)
    masks.diagonal(dim1=2, dim2=3).zero_()
    padding = torch.arange(n) < torch.tensor([[0], [n // 2], [n - 1]])
    masks.masked_fill_((padding.unsqueeze(1) | padding.unsqueeze(2)).unsqueeze(1), 0.0)
    weights = random(3, 3, heads, 1).softmax(dim=1).to(device, wide)
    inputs = [random(3, heads, n, d).to(device, dtype).requires_grad_() for _ in range(3)]
    biases = [AttentionBias(bias=mask.unsqueeze(1).to(device, wide)) for mask in masks.unbind(dim=1)]
    has_parse = torch.ones(3, 2, dtype=torch.bool, device=device)
    x = random(1, heads, n, n).to(device, wide).requires_grad_() if more == "position" else None
    vectors = random(9, d).to(device, wide).requires_grad_()
    if more == "values":
        buckets = Buckets((random(3, n, n) * 9).long().clamp(-1, 8).to(device))
        biases[0].values = (PairValues(buckets, vectors),)
    mixture = ExpertMixture(BatchBiases(biases, has_parse, padding=padding.to(device)), weights, position=x)
    implementation = IMPLEMENTATIONS[name]
    if not implementation.supports(mixture):
        raise ValueError(f"{name} does not support the mixture")
    output = implementation.attend(*inputs, mixture).output * ~padding[:, None, :, None].to(device)
    output.backward(random(3, heads, n, d).to(output))
    inputs += [of for of in (x, vectors) if of is not None and of.grad is not None]
    return [output, *(of.grad for of in inputs)]


def check_gates(report: Report) -> None:
    for way in ("running", "batch"):
        for size in (1, 3, 64):
            with report.checking("gate batch norm", statistics=way, batch=size):
                found = []
                for device, dtype in (("cpu", torch.float64), (report.device, torch.float32)):
                    draw = torch.Generator().manual_seed(size)
                    norm = GateBatchNorm(24, statistics=way).to(device)
                    for tensor in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
                        tensor.copy_(torch.rand(24, generator=draw) + 0.5)
                    x, of_y = (
                        torch.randn(size, 24, generator=draw, dtype=torch.float64).to(device, dtype) for _ in "xy"
                    )
                    y = norm(x.requires_grad_())
                    y.backward(of_y)
                    found.append([y, x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var])
                worst = max(error(there, here) for here, there in zip(*found, strict=True))
                report.add("gate batch norm", worst < 1e-4, statistics=way, batch=size, error=worst)


def all_systems() -> dict[str, tuple[type[System], str]]:
    """Every architecture: its kind and options; none drops anything."""
    still = "--dropout 0 --attention-dropout 0"
    more = {
        "slr,sdoi": f"{GATED} slr,sdoi",
        "slr,sdoi, batch statistics": f"{GATED} slr,sdoi --gate-batch-norm-statistics batch",
        "slr, hard": f"{GATED} slr --slr hard --syntax-heads 2",
        "tree edges": "--arch tree_bias_transformer --syntax-masks tree_edge --tree-edge-values "
        f"--deprel-labels '{' '.join(LABELS)}'",
        "tree biases, tables shared": f"{PAPERS['tree biases']} --bias-tables-shared",
        "tree HMM": "--arch tree_hmm_transformer",
    }
    translation = {**PAPERS, **more, "PASCAL": "--arch pascal_transformer"}
    found = {name: (System, f"{still} {of}") for name, of in translation.items()}
    found |= {f"{name}, classifying": (Classifier, f"{still} {of}") for name, of in ROBERTAS.items()}
    stock = ("transformer", "roberta, classifying")
    return {
        name: (kind, of if name in stock or "--syntax-dropout" in of else f"{of} --syntax-dropout 0")
        for name, (kind, of) in found.items()
    }


def check_models(report: Report) -> None:
    for name, (kind, of) in all_systems().items():
        if report.tiny and name not in TINY:
            continue
        with report.checking("model", name=name):
            system = kind(of, SMALL, cpu=True, dropout="torch")
            draw = torch.Generator().manual_seed(1)
            for parameter in system.model.parameters():
                if not parameter.data.any():  # what begins at 0 is to do something
                    parameter.data.normal_(std=0.05, generator=draw)
            batch = kind.batches(400, 2)[1]
            sample = system.sample(batch, labels=True)
            for training in (False, True):
                if training and "SEPREM" in name:
                    continue  # it draws which distances it hides
                expected = _gradients(system, system.model.double(), sample, training, None)
                for precision, most in MODEL.items():
                    if report.device == "cpu" and "float16" in precision.split():
                        continue
                    values = dict(name=name, training=training, precision=precision)
                    with report.checking("model", **values):
                        amp, dtype = precision.startswith("amp"), getattr(torch, precision.split()[-1])
                        model = copy.deepcopy(system.model).to(report.device, torch.float32 if amp else dtype)
                        there = moved(sample, report.device)
                        found = _gradients(system, model, there, training, dtype if amp else None)
                        worst = max(error(a, b) for a, b in zip(found, expected, strict=True))
                        report.add("model", worst < most, error=worst, **values)


def _gradients(
    system: System, model: nn.Module, sample: Any, training: bool, autocast: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    """The loss, and all gradients as one vector."""
    model.train(training)
    model.zero_grad(set_to_none=True)
    device = next(model.parameters()).device.type
    with torch.autocast(device, autocast) if autocast else contextlib.nullcontext():
        loss, size, _ = system.trainer.criterion(model, sample)
    (loss.float() / size).backward()
    gradients = [(torch.zeros_like(p) if p.grad is None else p.grad).double().flatten() for p in model.parameters()]
    return loss.double() / size, torch.cat(gradients)


def check_training(report: Report) -> None:
    updates = 4 if report.tiny else 12
    batches = random_batches(100 if report.tiny else 1000, 2)
    ways = {
        "fp32": "", "amp": "--amp", "fp16": "--fp16", "bf16": "--bf16",
        "fp16, memory-efficient": "--fp16 --memory-efficient-fp16",
        "fp16, gradients apart": "--fp16 --fp16-no-flatten-grads",
    }  # fmt: skip
    for name, (kind, of) in all_systems().items():
        if kind is Classifier or (report.tiny and name not in TINY):
            continue
        for way, options in ways.items():
            if report.device == "cpu" and way != "fp32":
                continue
            with report.checking("training", name=name, way=way):
                system = kind(f"{of} --lr 1e-3 {options}", SMALL, cpu=report.device == "cpu", dropout="torch")
                losses = _losses(system, batches, updates)
                first, last = (sum(some) / len(batches) for some in (losses[: len(batches)], losses[-len(batches) :]))
                ok = len(losses) >= updates - 2 and all(map(math.isfinite, losses)) and last < first
                report.add("training", ok, name=name, way=way, first=first, last=last)
                if way == "fp32":
                    _compare_with_cpu(report, name, system, losses, kind(f"{of} --lr 1e-3", SMALL, cpu=True), batches)


def _losses(system: System, batches: list[Any], updates: int) -> list[float]:
    """The losses of updates by batches in turn; of those that overflow there is none."""
    logs = [system.train(batches[i % len(batches)]) for i in range(updates)]
    return [float(log["loss"]) for log in logs if log is not None]


def _compare_with_cpu(
    report: Report, name: str, system: System, losses: list[float], on_cpu: System, batches: list[Any]
) -> None:
    if "SEPREM" not in name:  # it draws which distances it hides
        expected = _losses(on_cpu, batches, len(losses))
        worst = max(abs(a / b - 1) for a, b in zip(losses, expected, strict=True))
        report.add("losses beside a CPU's", worst < 2e-3, name=name, error=worst)
    on_cpu.model.load_state_dict({name: value.cpu() for name, value in system.model.state_dict().items()})
    batch = random_batch(Random(3), [7, 12, 15, 20])
    pairs = [[best[0] for best in of.generate(batch)] for of in (on_cpu, system)]
    same = all(torch.equal(a["tokens"], b["tokens"].cpu()) for a, b in zip(*pairs, strict=True))
    worst = max(abs(float(a["score"]) - float(b["score"])) for a, b in zip(*pairs, strict=True))
    report.add("translations beside a CPU's", same and worst < 1e-4, name=name, error=worst)


def check_speed(report: Report) -> None:
    size = SMALL if report.tiny else Size(512, 2048, 8, 6)
    some = ["transformer", "transformer again", "slr,sdoi, dropout on experts", "slr,sdoi", "tree biases"]
    papers = [name for name in PAPERS if name not in TIMED]
    plans = [("fp16", 4096, [*TIMED, *papers]), ("fp16", 16384, [*TIMED]), ("amp", 4096, some), ("fp32", 4096, some)]
    if report.tiny:
        plans = [("fp32", 100, ["transformer", "transformer again", "slr,sdoi"])]
    repeats = 1 if report.tiny else 7
    for precision, tokens, names in plans:
        with report.checking("speed", precision=precision, tokens=tokens):
            options = "" if precision == "fp32" else f"--{precision}"
            told = {**PAPERS, **TIMED}
            systems = {
                name: System(f"{told[name]} {options}", size, cpu=report.device == "cpu", dropout="torch")
                for name in names
            }
            batches = random_batches(tokens, 3)
            words = sum(batch["ntokens"] for batch in batches)
            train, ratios = in_turn({name: system.train for name, system in systems.items()}, batches, repeats)
            encode, encoder = in_turn({name: system.evaluate for name, system in systems.items()}, batches, repeats)
            memory = [_peak_memory(system, batches[-1], report.device) for system in systems.values()]
            for i, name in enumerate(systems):
                report.add(
                    "speed", name=name, precision=precision, tokens=tokens,
                    words_per_s=words / train[name], ratio=ratios[i - 1] if i else 1.0,
                    encoder_words_per_s=words / encode[name], encoder_ratio=encoder[i - 1] if i else 1.0,
                    mib=memory[i], mib_ratio=memory[i] / memory[0] if memory[0] else None,
                )  # fmt: skip
            if precision != "fp16" or tokens != 4096:
                continue
            chosen = {name: systems[name].generate for name in some}
            translated = [random_batch(Random(1), [24] * 64)]
            _, ratios = in_turn(chosen, translated, 3)
            for name, ratio in zip(some, [1.0, *ratios], strict=True):
                report.add("generation", name=name, ratio=ratio)


def _peak_memory(system: System, batch: Any, device: str) -> float:
    """MiB that a training step takes beside the model and its optimizer."""
    if device == "cpu":
        return 0.0
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with patch.object(torch.cuda, "reset_peak_memory_stats"):  # as fairseq's trainer does
        system.train(batch)
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def check_launches(report: Report) -> None:
    gpu = report.device == "cuda"
    size = Size(512, 2048, 8, 6) if gpu else SMALL
    batches = random_batches(4096 if gpu else 100, 1)
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    for way in ("--fp16", "") if gpu else ("",):
        for name in TINY if report.tiny else LAUNCHED:
            with report.checking("launches", name=name):
                system = System(f"{TIMED[name]} {way}", size, cpu=not gpu, dropout="torch")
                for _ in range(3):
                    system.train(batches[0])
                ms = 1e3 * statistics.median(seconds(lambda system=system: system.train(batches[0])) for _ in range(5))
                with profile(activities=activities) as recorded:
                    system.train(batches[0])
                    if gpu:
                        torch.cuda.synchronize()
                events = recorded.events()
                kernels = [e for e in events if e.device_type.name == "CUDA" and not e.is_user_annotation]
                waits = sum("Synchronize" in event.name for event in events)
                device_ms = sum(event.device_time_total for event in kernels) / 1e3
                values = dict(kernels=len(kernels), waits=waits, ms=ms, device_ms=device_ms)
                report.add("launches", name=name, way=way or "fp32", **values)


def check_tables(report: Report) -> None:
    """Time forms of the lookup in a bias table and of its gradient, 8 heads, 52 buckets."""
    heads, buckets = 8, 52
    table = BiasTable(heads=heads, buckets=buckets).to(report.device)

    def ours(numbers: Tensor) -> Tensor:
        return table(Buckets(numbers)).bias

    def index_select(numbers: Tensor) -> Tensor:
        return table.weight.index_select(1, numbers.flatten()).view(heads, *numbers.shape).transpose(0, 1)

    def embedding(numbers: Tensor) -> Tensor:
        return F.embedding(numbers, table.weight.t()).permute(0, 3, 1, 2)

    def one_hot(numbers: Tensor) -> Tensor:
        vectors = F.one_hot(numbers.flatten(), buckets).to(torch.bfloat16 if report.device == "cuda" else torch.float32)
        return (table.weight.to(vectors.dtype) @ vectors.t()).float().view(heads, *numbers.shape).transpose(0, 1)

    for tokens, n in ((256, 16),) if report.tiny else ((4096, 32), (16384, 32), (16384, 64), (16384, 256)):
        numbers = torch.randint(0, buckets, (tokens // n, n, n), device=report.device)
        gradient = torch.randn(tokens // n, heads, n, n, device=report.device)
        for form in (ours, index_select, embedding, one_hot):
            us = microseconds(partial(_there_and_back, form, numbers, gradient))
            report.add("tables", name=form.__name__, n=n, tokens=tokens, us=us)


def _there_and_back(form: Callable[[Tensor], Tensor], numbers: Tensor, gradient: Tensor) -> None:
    form(numbers).backward(gradient)


#: Steps, and the seconds that each may take.
STEPS: dict[str, tuple[Callable[[Report], None], int]] = {
    "device": (check_device, 40), "biases": (check_biases, 40), "attention": (check_attention, 60),
    "gates": (check_gates, 40), "models": (check_models, 150), "training": (check_training, 150),
    "speed": (check_speed, 200), "launches": (check_launches, 60), "tables": (check_tables, 40),
}  # fmt: skip


def summary(findings: list[dict[str, Any]]) -> list[str]:
    """Markdown: each check's numbers of what is right and wrong, and its largest error."""
    lines = ["| check | right | wrong | largest error |", "| --- | --- | --- | --- |"]
    for check in dict.fromkeys(f["check"] for f in findings if f["ok"] is not None):
        of_check = [finding for finding in findings if finding["check"] == check]
        numbers = [sum(f["ok"] is ok for f in of_check) for ok in (True, False)]
        errors = [f["error"] for f in of_check if isinstance(f.get("error"), float) and "bfloat16" not in str(f)]
        lines.append(f"| {check} | {numbers[0]} | {numbers[1]} | {max(errors, default='')} |")
    return lines


def table(findings: list[dict[str, Any]], check: str) -> list[str]:
    """Markdown of the numbers of a check in which nothing can be wrong."""
    rows = [{k: v for k, v in f.items() if k not in ("step", "check", "ok")} for f in findings if f["check"] == check]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [f"\n## {check}\n", f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
    return [*lines, *(f"| {' | '.join(str(row.get(name, '')) for name in names)} |" for row in rows)]


def write(folder: Path, findings: list[dict[str, Any]], states: Mapping[str, str]) -> None:
    (folder / "findings.json").write_text(json.dumps({"steps": states, "findings": findings}, indent=1))
    wrong = [finding for finding in findings if finding["ok"] is False]
    lines = ["| step | |", "| --- | --- |", *(f"| {name} | {state} |" for name, state in states.items()), ""]
    lines += summary(findings)
    lines += ["\n## Wrong\n"] * bool(wrong) + [f"- {json.dumps(finding, ensure_ascii=False)}" for finding in wrong]
    for check in dict.fromkeys(finding["check"] for finding in findings if finding["ok"] is None):
        lines += table(findings, check)
    (folder / "report.md").write_text("\n".join(lines) + "\n")


def run(args: argparse.Namespace) -> bool:
    """Run steps as processes, one after another; true if all is right."""
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.limit
    states: dict[str, str] = {}
    findings: list[dict[str, Any]] = []
    for name in args.only.split(",") if args.only else STEPS:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as work:
            path = Path(work, "findings")
            path.touch()
            options = [*(["--cpu"] * args.cpu), *(["--tiny"] * args.tiny)]
            command = [sys.executable, str(Path(__file__).resolve()), "--step", name, str(path), *options]
            with (folder / f"{name}.log").open("w") as log:
                try:
                    limit = max(1.0, min(STEPS[name][1], end - begin))
                    status = subprocess.run(command, stdout=log, stderr=log, timeout=limit, cwd=work).returncode
                    states[name] = "ended" if status == 0 else f"failed, see {name}.log"
                except subprocess.TimeoutExpired:
                    states[name] = "out of time"
            findings += [json.loads(line) for line in path.read_text().splitlines()]
        states[name] += f", {time.monotonic() - begin:.0f} s"
        print(f"{name}: {states[name]}", flush=True)
        write(folder, findings, states)
    return all(state.startswith("ended") for state in states.values()) and all(f["ok"] is not False for f in findings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="gpu", metavar="FOLDER", help="for results (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=540, metavar="S", help="seconds in all (default: %(default)s)")
    parser.add_argument("--only", help=f"some steps, with commas between: {', '.join(STEPS)}")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the program")
    parser.add_argument("--step", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if unknown := [name for name in (args.only or "device").split(",") if name not in STEPS]:
        parser.error(f"--only: expected some of {', '.join(STEPS)}, found {unknown[0]!r}")
    if not (args.cpu or torch.cuda.is_available()):
        parser.error("expected a GPU, found none; --cpu tries the program without")
    if args.step:
        name, path = args.step
        be_quiet()
        cudnn_attention.switch(False)  # as the task does
        STEPS[name][0](Report(name, Path(path), "cpu" if args.cpu else "cuda", args.tiny))
        return 0
    right = run(args)
    print((Path(args.output) / "report.md").read_text())
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
