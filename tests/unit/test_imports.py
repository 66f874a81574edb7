"""Which component may use which: every import runs from a higher component to a lower one.

A component is a folder of a package, or a module beside the folders. ``COMPONENTS`` has each, with its imports. Imports
inside functions, for types alone, and by ``import_module`` of a literal name, count like all others.
"""

from __future__ import annotations

import ast
import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

#: Components from the lowest to the highest, and what each uses, exactly: those further up in this table, torch, and
#: fairseq. A name without a package is a component of the same one; "…": any that are lower.
COMPONENTS = {
    "syntax_data": "",  # the version
    "syntax_data.errors": "",
    "syntax_data.io": "errors",
    "syntax_data.text": "errors io",
    "syntax_data.trees": "errors text",
    "syntax_data.controls": "trees",
    "syntax_data.features": "errors text trees controls",
    "syntax_data.parsers": "errors io text trees controls",
    "syntax_data.parsing": "errors io text trees parsers",
    "syntax_data.data_bin": "errors io text trees controls features parsers",
    "syntax_data.scoring": "errors text",
    "syntax_data.squad": "errors io text scoring",
    "syntax_data.commands": "…",
    "fairseq_syntax.options": "",
    "fairseq_syntax.modules": "torch options syntax_data.features",
    "fairseq_syntax.testing": "torch modules syntax_data.features syntax_data.trees",
    "fairseq_syntax.compat": "torch fairseq",
    "fairseq_syntax.encoder": "torch fairseq options modules",
    "fairseq_syntax.data": "torch fairseq modules compat syntax_data.errors syntax_data.text syntax_data.features "
    "syntax_data.data_bin syntax_data.squad",
    "fairseq_syntax.models": "torch fairseq options modules encoder",
    "fairseq_syntax.criterions": "torch fairseq modules syntax_data.scoring",
    "fairseq_syntax.checkpoints": "torch fairseq models syntax_data.errors",
    "fairseq_syntax.inference": "torch fairseq modules compat data models checkpoints syntax_data.errors "
    "syntax_data.text syntax_data.trees syntax_data.controls syntax_data.features syntax_data.parsers",
    "fairseq_syntax.tasks": "torch fairseq modules compat data models inference syntax_data.errors syntax_data.text "
    "syntax_data.trees syntax_data.features syntax_data.data_bin syntax_data.squad",
    "fairseq_syntax.commands": "…",
    "fairseq_syntax": "…",  # importing it registers everything
    "syntax_experiments": "",
    "syntax_experiments.training_log": "syntax_data.errors",
    "syntax_experiments.plots": "…",
    "syntax_experiments.probing": "…",
}

PACKAGES = tuple(name for name in COMPONENTS if "." not in name)
OUTSIDE = {"torch": "torch", "fairseq": "fairseq", "fairseq_cli": "fairseq"}  # other packages count for nothing


def modules() -> dict[str, Path]:
    """The files of the packages, by the names under which they are imported."""
    found = {}
    for package in PACKAGES:
        folder = Path(importlib.util.find_spec(package).origin).parent
        for path in folder.rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if component_of(name) in COMPONENTS or package != "syntax_experiments":
                found[name] = path
    return found


def component_of(name: str) -> str:
    return ".".join(name.split(".")[:2])


def literal(name: ast.expr) -> str:
    """What a module's name begins with: all of it, or the first part of an f-string; nothing of a variable."""
    if isinstance(name, ast.JoinedStr):
        return literal(name.values[0]).rpartition(".")[0]
    return name.value if isinstance(name, ast.Constant) else ""


def imported(module: str, path: Path, files: dict[str, Path]) -> Iterator[str]:
    """What a module imports of the packages, torch and fairseq."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{source}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [literal(node.args[0])]
        for name in names:
            if (top := name.partition(".")[0]) in OUTSIDE:
                yield OUTSIDE[top]
            elif top in PACKAGES:
                found = name if name in files else name.rpartition(".")[0]
                if found != module:
                    yield found


def test_imports_run_down_the_table_of_components():
    files, order = modules(), list(COMPONENTS)
    uses: dict[str, dict[str, str]] = {component: {} for component in COMPONENTS}
    wrong = [f"{module} is in no component" for module in files if component_of(module) not in COMPONENTS]
    assert not wrong
    for module, path in files.items():
        for name in {*imported(module, path, files)}:
            uses[component_of(module)].setdefault(name if name in OUTSIDE else component_of(name), f"{module}: {name}")
    for component, found in uses.items():
        lower, package = order[: order.index(component)], component.partition(".")[0]
        written = COMPONENTS[component].split()
        allowed = {n if n in OUTSIDE or n.partition(".")[0] in PACKAGES else f"{package}.{n}" for n in written}
        if "…" in written:
            free = {*lower, *OUTSIDE.values()} if package != "syntax_data" else {*lower}
            wrong += [f"{found[n]} is not lower than {component}" for n in found.keys() - {component} - free]
            continue
        wrong += [f"{component} uses {n}, which is not lower" for n in allowed - {*lower, *OUTSIDE.values()}]
        wrong += [f"{found[n]} is not in the table" for n in found.keys() - {component} - allowed]
        wrong += [f"{component} does not use {n}: take it off the table" for n in allowed - found.keys()]
    assert not wrong
    text_half = " ".join(uses for name, uses in COMPONENTS.items() if name.startswith("syntax_data"))
    assert not {"torch", "fairseq"} & {*text_half.split()}
    assert "fairseq" not in COMPONENTS["fairseq_syntax.modules"].split()


def test_modules_that_are_imported_by_name_count(tmp_path):
    path = tmp_path / "x.py"
    path.write_text(
        'importlib.import_module("fairseq_syntax.modules.trace")\n'
        'def f(name):\n    import_module(f"fairseq_syntax.modules.biases.{name}")\n    import_module(f"{name}.nn")\n'
        'import_module(name)\nimport_module("torch.nn")\nimport_module(f"fairseq.{name}")\n'
    )
    files = modules()
    found = ["fairseq", "fairseq_syntax.modules.biases", "fairseq_syntax.modules.trace", "torch"]
    assert sorted(imported("fairseq_syntax.x", path, files)) == found


def test_no_two_classes_of_the_product_share_a_name():
    files = [path for name, path in modules().items() if not name.startswith("syntax_experiments")]
    nodes = [node for path in files for node in ast.parse(path.read_text()).body]
    names = [node.name for node in nodes if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    assert len(names) > 100
    assert [name for name, count in Counter(names).items() if count > 1] == []
