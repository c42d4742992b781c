"""Rules that every file keeps."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.source import PACKAGE, ROOT, Module, modules, project_files

LONGEST_MODULE = 400
LONGER_FOR_A_REASON: dict[str, str] = {}
"""Files that may be longer, each with the reason."""

NEVER_IMPORTED = (
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "shelve",
    "marshal",
    "torch.distributed.rpc",
    "torch.rpc",
)
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv"}


def places(rule: str) -> list[str]:
    """Where the package breaks a rule."""
    return [module.where(node) for module in modules() for node in RULES[rule](module)]


def prints(module: Module) -> list[ast.AST]:
    if module.package == "cli":
        return []
    return [call for call in module.calls() if ast.unparse(call.func) == "print"]


def reads_of_the_environment(module: Module) -> list[ast.AST]:
    if module.name == "starling.core.environment":
        return []
    return [
        node
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and ast.unparse(node.value) == "os")
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and any(alias.name in ENVIRONMENT for alias in node.names))
        or (isinstance(node, ast.keyword) and node.arg == "envvar")
    ]


def pickles_and_rpc(module: Module) -> list[ast.AST]:
    found: list[ast.AST] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        else:
            continue
        if any(f"{name}.".startswith(f"{banned}.") for name in names for banned in NEVER_IMPORTED):
            found.append(node)
    for call in module.calls():
        settings = {keyword.arg: keyword.value for keyword in call.keywords}
        if "allow_pickle" in settings and ast.unparse(settings["allow_pickle"]) != "False":
            found.append(call)
        if ast.unparse(call.func) == "torch.load" and ast.unparse(settings.get("weights_only", ast.Constant(None))) != "True":
            found.append(call)
    return found


def writes_that_miss_a_full_disk(module: Module) -> list[ast.AST]:
    """``ndarray.tofile`` and ``numpy.save`` lose their last bytes in silence (core/npy.py has what to use instead)."""
    return [
        call for call in module.calls() if ast.unparse(call.func).endswith(".tofile") or ast.unparse(call.func) == "np.save"
    ]


ASK_FOR_A_DEVICE = {
    "starling.nn.ops.arrays": "the one place that asks where rows lie (`has_kernels`)",
    "starling.comm.switch": "which links a worker needs",
    "starling.comm.team": "which of its mailboxes rows go through",
    "starling.engine.data.compact": "on the processor a batch is not copied",
    "starling.engine.fill": "on the processor a graph is not copied",
    "starling.engine.hybrid.share.source": "on the processor a graph is not copied",
    "starling.engine.hybrid.planning.targets": "on graphics cards edges are listed",
    "starling.launch.train_worker": "workers compute where the config says",
    "starling.train.devices": "which devices there are",
    "starling.train.sync": "on graphics cards gradients are exchanged in one order",
}
"""Modules that may ask what kind of device one is, each with what depends on it."""


def asks_for_a_device(node: ast.AST) -> bool:
    """``device.type`` under any name that ends in device, and ``torch.device(name).type``; `is_cpu` and `is_cuda`."""
    if not isinstance(node, ast.Attribute):
        return False
    base = node.value.func if isinstance(node.value, ast.Call) else node.value
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return node.attr in {"is_cpu", "is_cuda"} or (node.attr == "type" and name.endswith("device"))


def looks_where_rows_lie(module: Module) -> list[ast.AST]:
    """Whether kernels may read rows is asked in one place (`has_kernels`); where a worker computes is another question."""
    return [node for node in ast.walk(module.tree) if asks_for_a_device(node) and module.name not in ASK_FOR_A_DEVICE]


RULES = {
    "print outside cli": prints,
    "environment variable outside core/environment.py": reads_of_the_environment,
    "pickle or RPC": pickles_and_rpc,
    "write that misses a full disk": writes_that_miss_a_full_disk,
    "rows asked where they lie": looks_where_rows_lie,
}


@pytest.mark.parametrize("rule", RULES)
def test_nowhere(rule: str) -> None:
    assert places(rule) == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        ("print outside cli", "def f():\n    print('hello')"),
        ("environment variable outside core/environment.py", "import os\nos.environ['A']"),
        ("environment variable outside core/environment.py", "import os\nx = os.getenv('A')"),
        ("environment variable outside core/environment.py", "from os import environ"),
        ("environment variable outside core/environment.py", "typer.Option(envvar='A')"),
        ("pickle or RPC", "import pickle"),
        ("pickle or RPC", "def f():\n    from pickle import loads"),
        ("pickle or RPC", "import torch.distributed.rpc as rpc"),
        ("pickle or RPC", "from torch.distributed import rpc"),
        ("pickle or RPC", "import torch\ntorch.distributed.rpc.init_rpc('a')"),
        ("pickle or RPC", "np.load(path, allow_pickle=True)"),
        ("pickle or RPC", "np.load(path, allow_pickle=trusted)"),
        ("pickle or RPC", "torch.load(path)"),
        ("write that misses a full disk", "array.tofile(file)"),
        ("write that misses a full disk", "np.save(path, array)"),
        ("rows asked where they lie", "if rows.device.type == 'cpu':\n    pass"),
        ("rows asked where they lie", "fast = x.is_cpu"),
        ("rows asked where they lie", "device = rows.device\nfast = device.type == 'cpu'"),
        ("rows asked where they lie", "self._device.type"),
        ("rows asked where they lie", "team.device.type"),
        ("rows asked where they lie", "torch.device(name).type"),
    ],
)
def test_the_rules_can_tell(rule: str, source: str) -> None:
    assert RULES[rule](Module(PACKAGE / "store" / "made_up.py", ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["np.load(path, allow_pickle=False)", "torch.load(path, weights_only=True)", "blueprint()", "column.type", "device.index"],
)
def test_the_rules_leave_alone(source: str) -> None:
    assert not any(rule(Module(PACKAGE / "store" / "made_up.py", ast.parse(source))) for rule in RULES.values())


def test_only_modules_that_ask_for_a_device_may() -> None:
    asking = {module.name for module in modules() for node in ast.walk(module.tree) if asks_for_a_device(node)}
    assert ASK_FOR_A_DEVICE.keys() - asking == set()


def test_every_module_says_what_it_is() -> None:
    assert [module.where(module.tree) for module in modules() if not ast.get_docstring(module.tree)] == []


def test_every_package_has_a_readme() -> None:
    packages = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))
    assert packages
    assert [str(package.relative_to(ROOT)) for package in packages if not (package / "README.md").is_file()] == []


def test_no_module_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in project_files() if path.suffix == ".py"
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {
        name: lengths[name] for name in LONGER_FOR_A_REASON
    }


# Written in pieces, so that this file does not find itself.
PLACES_OF_ONE_MACHINE = re.compile(r"(?<![\w.])/" + r"(?:root|work)/")
PACKAGE_INDEXES = re.compile(
    "https?://[^ )]*(?:py" + r"pi\.|download\.py" + r"torch\.|/simp" + r"le\b)|--(?:extra-)?ind" + "ex-url"
)


@pytest.mark.parametrize("pattern", [PLACES_OF_ONE_MACHINE, PACKAGE_INDEXES], ids=["machine", "index"])
def test_no_file_depends_on_one_machine_or_package_index(pattern: re.Pattern[str]) -> None:
    found = []
    for path in project_files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.relative_to(ROOT)}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert found == []


def test_kept_results_do_not_say_where_they_were_measured() -> None:
    temporary = re.compile(r"""["' ]/(?:tmp|var|home|mnt)/""")
    results = sorted((ROOT / "bench" / "results").glob("*.json*"))
    assert results
    assert [path.name for path in results if temporary.search(path.read_text())] == []


def test_the_patterns_can_tell() -> None:
    for wrong in ("see /" + "root/x", "'/" + "work/y'"):
        assert PLACES_OF_ONE_MACHINE.search(wrong)
    for fine in ("a/root/x", "../shared/data", "https://example.org/root/"):
        assert not PLACES_OF_ONE_MACHINE.search(fine)
    for wrong in ("https://py" + "pi.org/simple", "pip install --ind" + "ex-url X", "https://mirror/simp" + "le/"):
        assert PACKAGE_INDEXES.search(wrong)
    assert not PACKAGE_INDEXES.search("https://example.org/simplex")
