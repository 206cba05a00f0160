"""The source of a function is found however long its loops are, wherever NumPy was imported."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from fgrad.capture import names
from fgrad.capture.rewrite import converted_code
from fgrad.capture.source import node_of

LINES = {
    "call": "        s = s + np.sin(x[{k}]) * np.linalg.norm(x)\n",
    "branch": "        if x[{k}] > 0: break\n",
    "step": "        s += 1\n",
}
LOOPS = {"for": "for i in range(4):", "while": "while x[0] < 4:", "if": "if x[0]:"}


def module(path: Path, name: str, text: str) -> ModuleType:
    where = path / f"{name}.py"
    where.write_text(text)
    spec = importlib.util.spec_from_file_location(name, where)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("line", LINES)
def test_bodies_of_all_lengths(tmp_path: Path, loop: str, line: str) -> None:
    """Jumps are longer than a byte holds in what one compilation makes, and not in the other."""
    if (loop, line) == ("if", "branch"):
        pytest.skip("`break` is in loops")
    head = f"    s = 0.0\n    {LOOPS[loop]}\n"
    texts = [
        f"def f{n}(x):\n{head}{''.join([LINES[line].format(k=k) for k in range(n)])}    return s\n"
        for n in range(1, 90)
    ]
    made = module(tmp_path, f"long_{loop}_{line}", "import numpy as np\n" + "\n".join(texts))
    for n in range(1, 90):
        assert node_of(getattr(made, f"f{n}")).lineno > 1


FORMS = {
    "plain": "def f(x):\n    return x\n",
    "one line": "def f(x): return x\ny = 1\n",
    "end of file": "def f(x):\n    return x",
    "signature": "def f(\n    x,\n    y=(1,\n2),\n):\n    return x\nz = 3\n",
    "result": "def f(\n    x: int,\n) -> tuple[\n    int\n]:\n    return x,\n",
    "comments": "def f(x):\n# here\n    y = x\n\n  # and here\n    return y\n# after\nz = 1\n",
    "text": "def f(x):\n    '''A\n\nB\n    '''\n    y = '''\ndef f()\n'''\n    return y\nz = 1\n",
    "long text": "def f(x):\n    '''\n" + "text\n" * 40 + "    '''\n    return x\nz = 1\n",
    "brackets": "def f(x):\n    y = [\n1,\n2\n]\n    return y\nz = 1\n",
    "backslash": "def f(x):\n    return x + \\\n1\nz = 1\n",
    "decorators": "@keep\n@keeps(\n    1\n)\ndef f(x):\n    return x\nz = 1\n",
    "decorated by a lambda": "@keeps(lambda x: x + 1)\n@keep\ndef f(x):\n    return x\n",
    "inner": "def g():\n    @keep\n    def f(x):\n        return x\n    return f\nf = g()\n",
    "inner text": "def g():\n    def f(x):\n        return '''\n  a\nb'''\n    return f\nf = g()\n",
    "branch": "if keep:\n    def f(x):\n        return x\nelse:\n    def f(x):\n        return 2\n",
    "tabs": "class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 1\n\t\treturn 2\nf = A.f\n",
    "tabs and spaces": "class A:\n        def f(self):\n        \treturn 1\nf = A.f\n",
    "private": "class A:\n    def f(self):\n        return self.__x\n\n    y = 1\nf = A.f\n",
    "twice": "def f(x):\n    return 1\ndef f(x):\n    return 2\n",
    "space": "def  f(x):\n    return x\n",
    "odd space": "def\tf(x):\n    return x\n",
    "lambda": "f = keep(\n    lambda x: x\n)\n",
    "lambdas": "f, g = lambda x: x, lambda y: (\n    y + 1)\n",
    "second lambda": "g, f = lambda x: x, lambda y: (\n    y + 1)\n",
    "lambda in a text": 'f = eval("0") or [f"{(h := lambda x: x)}", h][1]\n',
    "lambda in a default": "def g(x, f=lambda y: y):\n    return x\nf = g.__defaults__[0]\n",
    "lambda in a branch": "if keep:\n    for k in range(2):\n        f = lambda x: x + 1\n",
}
BEFORE = "def keep(f):\n    return f\n\n\ndef keeps(x):\n    return keep\n\n\n"


def found_in_all(fun: FunctionType, text: str) -> list[str]:
    """What is there in the tree of the whole file."""
    kind = ast.Lambda if fun.__name__ == "<lambda>" else ast.FunctionDef
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, kind)]
    first = fun.__code__.co_firstlineno
    return [
        ast.dump(n, include_attributes=True)
        for n in found
        if min([n.lineno, *[d.lineno for d in getattr(n, "decorator_list", ())]]) == first
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", [0, 1, 300])
def test_a_definition_is_what_the_whole_file_has(tmp_path: Path, form: str, before: int) -> None:
    text = BEFORE + "x = 0\n" * before + FORMS[form]
    fun = module(tmp_path, f"form_{before}", text).f
    node = node_of(fun)
    if form != "private":  # whose names are as Python reads them
        assert ast.dump(node, include_attributes=True) in found_in_all(fun, text)


def nest(depth: int) -> str:
    loops = [f"{'    ' * (k + 1)}for i{k} in range(2):\n" for k in range(depth)]
    return f"def f(x):\n{''.join(loops)}{'    ' * (depth + 1)}x = x + i0\n    return x\n"


def test_deep_nests_are_looked_at_a_few_times_for_each_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a loop wants was found by looking at its body twice, and so at those in it."""
    looked = 0
    before = names._before

    def counted(s: ast.stmt, after: names.Names) -> names.Names:
        nonlocal looked
        looked += 1
        return before(s, after)

    monkeypatch.setattr(names, "_before", counted)
    counts = []
    for depth in (6, 12):
        looked = 0
        converted_code(module(tmp_path, f"nest_{depth}", nest(depth)).f)
        counts.append(looked)
    assert counts[1] < 5 * counts[0]
