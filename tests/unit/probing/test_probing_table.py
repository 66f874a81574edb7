"""The tables of what probes found."""

from __future__ import annotations

from syntax_experiments.probing.table import markdown


def score(mean, low, high, sd=0.0):
    return {"mean": mean, "sd": sd, "values": [mean - sd, mean + sd], "interval": [low, high]}


def test_rows_and_differences():
    answer = {"accuracy": score(0.688, 0.66, 0.716), "balanced_accuracy": score(0.0625, 0.0625, 0.0625)}
    probed = {
        "accuracy": score(0.714, 0.685, 0.742, sd=0.004),
        "control": score(0.672, 0.6, 0.7, sd=0.044),
        "selectivity": score(0.042, 0, 0.1),
        "balanced_accuracy": score(0.2, 0.15, 0.25),
        "balanced_control": score(0.1, 0.1, 0.1),
        "spearman": score(0.8351, 0.82, 0.85, sd=0.0021),
        "not_converged": 0,
    }
    of_task = {
        "majority": answer,
        "surface": probed,
        "layers": {"0": probed, "2": probed},
        "random_encoder": {"0": probed, "2": probed},
        "differences": {
            "0": {},
            "2": {
                "layer 0": {"accuracy": score(-0.008, -0.03, 0.012)},
                "random encoder": {"spearman": score(0.1, 0, 0.2)},
            },
        },
    }
    rows = "71.4 ± 0.4 [68.5, 74.2] | 67.2 ± 4.4 | 4.2 | 20.0 [15.0, 25.0] | 10.0 | 0.835 ± 0.002 [0.820, 0.850] |"
    assert markdown({"x": of_task}).splitlines() == [
        "| task | states | accuracy [95%] | control | selectivity | balanced [95%] | control | ρ [95%] |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| x | most frequent answer | 68.8 [66.0, 71.6] |  |  | 6.2 [6.2, 6.2] |  |  |",
        f"| x | none: lengths and places | {rows}",
        f"| x | layer 0 (embeddings) | {rows}",
        f"| x | layer 2 | {rows}",
        f"| x | layer 0 (embeddings), random encoder | {rows}",
        f"| x | layer 2, random encoder | {rows}",
        "",
        "| task | difference | accuracy [95%] | balanced [95%] | ρ [95%] |",
        "| --- | --- | ---: | ---: | ---: |",
        "| x | layer 2 − layer 0 | -0.8 [-3.0, +1.2] |  |  |",
        "| x | layer 2 − random encoder |  |  | +0.100 [+0.000, +0.200] |",
    ]


def test_one_layer_differs_from_nothing():
    answer = {"accuracy": score(0.5, 0.4, 0.6)}
    of_task = {"majority": answer, "surface": answer, "layers": {"2": answer}, "differences": {"2": {}}}
    assert len(markdown({"x": of_task}).splitlines()) == 5
