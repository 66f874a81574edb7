"""Which component may use which: no import circle, and every import runs from a higher component to a lower one.

A component is a folder of a package, or a module beside the folders. A new one, or a new arrow between two of them, is
a change of ``COMPONENTS``: an arrow is a decision. Imports inside functions, and by ``import_module`` of a name that is
spelled out, count like all others. Those for types alone count as arrows between components, but make no circle.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Components from the lowest to the highest, and what each may use: those further up in this table, torch, and fairseq.
#: A name without a package is a component of the same one; "…" stands for all of them that are lower.
COMPONENTS = {
    "syntax_preprocess": "",  # the version
    "syntax_preprocess.errors": "",
    "syntax_preprocess.system": "errors",
    "syntax_preprocess.folding": "",
    "syntax_preprocess.lines": "errors",
    "syntax_preprocess.translations": "errors lines",
    "syntax_preprocess.trees": "errors",
    "syntax_preprocess.bad_parses": "errors trees",
    "syntax_preprocess.brackets": "errors folding trees",
    "syntax_preprocess.conllu": "errors trees",
    "syntax_preprocess.ranges": "lines",
    "syntax_preprocess.formats": "lines trees brackets conllu ranges",
    "syntax_preprocess.lockstep": "errors formats ranges",
    "syntax_preprocess.counts": "errors",
    "syntax_preprocess.controls": "trees",
    "syntax_preprocess.alignment": "errors folding",
    "syntax_preprocess.symbols": "errors lines alignment",
    "syntax_preprocess.record": "errors system",
    "syntax_preprocess.features": "trees formats controls alignment symbols",
    "syntax_preprocess.parsers": "errors folding lines trees bad_parses brackets conllu ranges formats controls "
    "alignment record",
    "syntax_preprocess.data_bin": "errors system lines trees bad_parses ranges formats lockstep counts controls "
    "alignment symbols record features",
    "syntax_preprocess.plan": "errors lines ranges formats counts record parsers",
    "syntax_preprocess.store": "errors system formats counts plan",
    "syntax_preprocess.job": "errors system trees formats counts record parsers plan store",
    "syntax_preprocess.outputs": "errors system formats counts record plan store",
    "syntax_preprocess.scoring": "",
    "syntax_preprocess.analysis": "errors system lines translations trees bad_parses formats features",
    "syntax_preprocess.commands": "…",
    "fairseq_syntax._installed": "syntax_preprocess",
    "fairseq_syntax.options": "",
    "fairseq_syntax.nn": "torch options syntax_preprocess.features",
    "fairseq_syntax.testing": "torch nn syntax_preprocess.features syntax_preprocess.trees",
    "fairseq_syntax.compat": "torch fairseq syntax_preprocess.errors",
    "fairseq_syntax.data": "torch fairseq nn compat syntax_preprocess.errors syntax_preprocess.features "
    "syntax_preprocess.data_bin",
    "fairseq_syntax.models": "torch fairseq options nn compat syntax_preprocess.errors",
    "fairseq_syntax.criterions": "torch fairseq nn",
    "fairseq_syntax.analysis": "torch nn models syntax_preprocess.errors syntax_preprocess.lines "
    "syntax_preprocess.trees syntax_preprocess.bad_parses syntax_preprocess.formats syntax_preprocess.alignment "
    "syntax_preprocess.features",
    "fairseq_syntax.inference": "torch fairseq nn compat data models analysis syntax_preprocess.errors "
    "syntax_preprocess.lines syntax_preprocess.trees syntax_preprocess.bad_parses syntax_preprocess.formats "
    "syntax_preprocess.lockstep syntax_preprocess.controls syntax_preprocess.alignment syntax_preprocess.symbols "
    "syntax_preprocess.features syntax_preprocess.parsers",
    "fairseq_syntax.tasks": "torch fairseq compat data models inference syntax_preprocess.bad_parses",
    "fairseq_syntax.commands": "torch fairseq … syntax_preprocess.errors syntax_preprocess.system "
    "syntax_preprocess.formats syntax_preprocess.features syntax_preprocess.data_bin syntax_preprocess.commands",
    "fairseq_syntax": "fairseq … syntax_preprocess",  # importing it registers everything
}

#: The one exception: command lines of the light package, whose --help loads no torch, hand over to the work by name.
BY_NAME = {
    ("syntax_preprocess.commands.dump", "fairseq_syntax.commands.dump"),
    ("syntax_preprocess.commands.average_checkpoints", "fairseq_syntax.commands.average_checkpoints"),
    ("syntax_preprocess.commands.probe", "fairseq_syntax.commands.probe"),
}

PACKAGES = ("syntax_preprocess", "fairseq_syntax")
OUTSIDE = {"torch": "torch", "fairseq": "fairseq", "fairseq_cli": "fairseq"}  # other packages count for nothing


def modules() -> dict[str, Path]:
    """The files of both packages, by the names under which they are imported."""
    found = {}
    for package in PACKAGES:
        folder = Path(importlib.util.find_spec(package).origin).parent
        for path in Path(folder).rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


FILES = modules()


def for_types_alone(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imported(module: str, *, types: bool) -> Iterator[str]:
    """What a module imports of both packages, torch and fairseq: modules, and the names of the other two.

    `types`: imports for type checkers, too.
    """
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    left_out = {id(n) for node in ast.walk(tree) if for_types_alone(node) and not types for n in ast.walk(node)}
    for node in (node for node in ast.walk(tree) if id(node) not in left_out):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{source}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [spelled(node.args[0])]
        for name in names:
            if (top := name.partition(".")[0]) in OUTSIDE:
                yield OUTSIDE[top]
            elif top in PACKAGES:
                yield name if name in FILES else name.rpartition(".")[0]


def spelled(name: ast.expr) -> str:
    """What is written of a module's name: all of it, or what an f-string begins with; nothing of a variable."""
    if isinstance(name, ast.JoinedStr):
        return spelled(name.values[0]).rpartition(".")[0]
    return name.value if isinstance(name, ast.Constant) else ""


def component_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def allowed(component: str, *, all_lower: bool = True) -> set[str]:
    """What the table lets a component use: others, torch, fairseq; `all_lower`: with those that "…" stands for."""
    package, lower = component.partition(".")[0], list(COMPONENTS)[: list(COMPONENTS).index(component)]
    found: set[str] = set()
    for name in COMPONENTS[component].split():
        if name == "…":
            found.update(other for other in lower if other.partition(".")[0] == package and all_lower)
        else:
            found.add(name if name in OUTSIDE or name.partition(".")[0] in PACKAGES else f"{package}.{name}")
    return found


IMPORTS = {module: sorted(set(imported(module, types=True)) - {module}) for module in FILES}


@pytest.mark.parametrize("component", COMPONENTS)
def test_components_of_the_table_use_lower_ones(component):
    lower = list(COMPONENTS)[: list(COMPONENTS).index(component)]
    assert not allowed(component) - {*lower, "torch", "fairseq"}


def test_text_never_needs_torch_and_networks_never_need_fairseq():
    for component in COMPONENTS:
        if component.startswith("syntax_preprocess"):
            assert all(other.startswith("syntax_preprocess") for other in allowed(component)), component
    assert "fairseq" not in allowed("fairseq_syntax.nn")


def test_every_module_is_in_a_component():
    assert not {module for module in FILES if component_of(module) not in COMPONENTS}


@pytest.mark.parametrize("module", FILES)
def test_imports_run_to_lower_components(module):
    component = component_of(module)
    fine = {component, *allowed(component)}
    used = {name for name in IMPORTS[module] if component_of(name) not in fine}
    used -= {name for name in used if (module, name) in BY_NAME}
    assert not used, "against the table of components"


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_a_component_is_allowed_it_uses(component):
    used = {component_of(name) for module in FILES if component_of(module) == component for name in IMPORTS[module]}
    assert not allowed(component, all_lower=False) - used, "take it off the table of components"


def test_modules_that_are_imported_by_name_count(tmp_path, monkeypatch):
    path = tmp_path / "x.py"
    path.write_text(
        'importlib.import_module("fairseq_syntax.nn.trace")\n'
        'def f(name):\n    import_module(f"fairseq_syntax.nn.masks.{name}")\n    import_module(f"{name}.nn")\n'
        'import_module(name)\nimport_module("torch.nn")\nimport_module(f"fairseq.{name}")\n'
    )
    monkeypatch.setitem(FILES, "fairseq_syntax.x", path)
    found = ["fairseq", "fairseq_syntax.nn.masks", "fairseq_syntax.nn.trace", "torch"]
    assert sorted(imported("fairseq_syntax.x", types=True)) == found
    assert all(name in IMPORTS[module] for module, name in BY_NAME)


def test_there_is_no_circle():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " → ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in imported(module, types=False):
                if name in FILES and name != module:
                    visit(name, (*path, module))
            done.add(module)

    for module in FILES:
        visit(module, ())
