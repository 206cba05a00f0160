"""The reference: pages of the site made of docstrings, and what these leave out.

python docs/reference.py            lists the public names whose docstrings are incomplete
write(folder)                       a page for each module; `docs/conf.py` calls it

A docstring is complete if it says: what the function does, in a first sentence; each argument, by
its name; what comes back, where the first sentence does not begin with it; each error that the
function raises itself; and an example, which the tests run.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

MODULES = {
    "fgrad": "Transforms, compiler, inspection",
    "fgrad.tree": "Trees of arrays",
    "fgrad.lax": "Loops, branches, collectives, operations by explicit axes",
    "fgrad.lax.linalg": "Factorisations of matrices",
    "fgrad.nn": "Activations, layers, losses, first weights",
    "fgrad.optim": "Optimizers and schedules",
    "fgrad.random": "Random numbers from keys",
    "fgrad.sparse": "Sparse Jacobians and Hessians",
    "fgrad.scipy.cluster.vq": "The nearest of some centres",
    "fgrad.scipy.fft": "Fourier, cosine and sine transforms",
    "fgrad.scipy.integrate": "Integrals and ordinary differential equations",
    "fgrad.scipy.interpolate": "Splines, polynomials, grids, scattered data",
    "fgrad.scipy.linalg": "Linear algebra",
    "fgrad.scipy.ndimage": "Filters and geometry of images, measures of objects",
    "fgrad.scipy.optimize": "Minimisers and roots with derivatives",
    "fgrad.scipy.signal": "Convolutions, filters, spectra, resampling",
    "fgrad.scipy.sparse.linalg": "Linear systems solved by products alone",
    "fgrad.scipy.spatial.distance": "Distances between points",
    "fgrad.scipy.spatial.transform": "Rotations",
    "fgrad.scipy.special": "Special functions",
    "fgrad.scipy.stats": "Distributions and statistics",
    "fgrad.debug": "Printing, breakpoints, NaN and indices",
    "fgrad.testing": "Checks of derivatives and transforms",
    "fgrad.checkpoint_policies": "What a checkpoint keeps",
    "fgrad.parallel": "Calls on many processes",
    "fgrad.distributed": "Programs of many processes",
    "fgrad.interop.c": "Functions for C",
    "fgrad.interop.njit": "Numba",
    "fgrad.interop.torch": "PyTorch",
    "fgrad.interop.jax": "JAX",
}
# What a module needs: without its library it has no page.
LIBRARIES = {
    "fgrad.interop.njit": "numba",
    "fgrad.interop.torch": "torch",
    "fgrad.interop.jax": "jax",
}
MODULES = {m: t for m, t in MODULES.items() if find_spec(LIBRARIES.get(m, "fgrad"))}
HEADINGS = ("Arguments", "Returns", "Raises", "Example", "Yields", "Attributes")
# A purpose that begins like this says what is done, and not what comes back.
IMPERATIVE = re.compile(
    r"(Add|Allow|Apply|Call|Change|Check|Compute|Compile|Copy|Do|End|Let|Load|Make|Map|Move|Name|"
    r"Open|Print|Put|Raise|Register|Run|Save|Send|Show|Start|Stop|Transform|Use|Wait|Write)\b"
)


class Docstring(NamedTuple):
    """A docstring in parts: the first sentence, further paragraphs, and the sections by heading."""

    purpose: str
    text: str
    sections: dict[str, str]


def parse(doc: str) -> Docstring:
    """The parts of a docstring."""
    heading, parts = "", {"": ""}
    for line in inspect.cleandoc(doc).splitlines():
        if line.rstrip(":") in HEADINGS and line.endswith(":"):
            heading = line.rstrip(":")
            parts[heading] = ""
        elif heading and line and not line.startswith(" "):
            heading = ""
            parts[""] += f"\n{line}\n"
        else:
            parts[heading] += line + "\n"
    sections = {name: textwrap.dedent(text).strip("\n") for name, text in parts.items() if name}
    purpose, _, text = parts[""].strip("\n").partition("\n\n")
    return Docstring(" ".join(purpose.split()), text.strip("\n"), sections)


def entries(section: str) -> Iterator[tuple[str, str]]:
    """`name: text` of a section, with the lines that belong to it."""
    for block in re.split(r"\n(?=\S)", section):
        name, colon, text = " ".join(block.split()).partition(":")
        if colon and re.fullmatch(r"[\w*., `]+", name):
            yield name.replace("`", ""), text.strip()
        elif block.strip():
            yield "", " ".join(block.split())


# --- public names -------------------------------------------------------------------------------


@cache
def public(module: str) -> dict[str, object]:
    """The public names of a module: its `__all__`, else what it defines."""
    found = importlib.import_module(module)
    names = vars(found).get("__all__")
    if names is None:
        names = [n for n in dir(found) if not n.startswith("_")]
        # What has no traced form wraps SciPy's function, and has SciPy's docstring.
        plain = {n: home(inspect.unwrap(getattr(found, n))) for n in names if is_scipy(module)}
        names = [n for n in names if not plain.get(n, "").startswith("scipy.")]
    values = {name: getattr(found, name) for name in sorted(names, key=str.lower)}
    return {n: v for n, v in values.items() if not isinstance(v, types.ModuleType)}


def home(value: object) -> str:
    """The module in which a function or class was defined."""
    return getattr(value, "__module__", None) or ""


@cache
def shared(module: str) -> dict[str, str]:
    """Arguments that mean the same in all functions of a module: its own docstring tells them."""
    sections = parse(importlib.import_module(module).__doc__ or "").sections
    return {
        one.strip(): text
        for names, text in entries(sections.get("Arguments", ""))
        for one in names.split(",")
    }


def is_record(value: object) -> bool:
    """Whether a class only names its fields or values: a named tuple, or an enumeration."""
    return isinstance(value, type) and (hasattr(value, "_fields") or issubclass(value, Enum))


def is_result(module: str, value: object) -> bool:
    """Whether a class is what a function of its module returns: that has the example."""
    functions = [f for f in public(module).values() if isinstance(f, types.FunctionType)]
    return isinstance(value, type) and value.__name__ in [
        f.__annotations__.get("return") for f in functions
    ]


def is_scipy(module: str) -> bool:
    """Whether names, arguments and results are those of SciPy, whose documents tell them."""
    own = ("fgrad.scipy.integrate", "fgrad.scipy.optimize")
    return module.startswith("fgrad.scipy.") and module not in own


def is_alias(name: str, value: object) -> bool:
    """Whether a name is another one of a function that has its own, as `remat` of `checkpoint`."""
    own = getattr(value, "__name__", name)
    return own != name and own.isidentifier()


def is_numpy(value: object) -> bool:
    """Whether a public name is one of NumPy's or Python's functions, as `fgrad.lax.sin`."""
    return isinstance(value, np.ufunc) or not home(value).startswith("fgrad")


def members(cls: type) -> Iterator[tuple[str, object]]:
    """The public methods and properties that a class defines itself."""
    for name, value in vars(cls).items():
        plain = getattr(value, "__func__", value)
        if not name.startswith("_") and isinstance(plain, (types.FunctionType, property)):
            yield name, value


# --- what is missing ----------------------------------------------------------------------------


def parameters(value: object) -> list[str]:
    """The names of arguments that users give; none where Python cannot tell."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [name for name in found.parameters if name != "self" and not name.startswith("_")]


def raised(function: Callable[..., object]) -> set[str]:
    """The errors that the body of a function raises, by name."""
    plain = inspect.unwrap(function)
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(plain))).body
    except (TypeError, OSError, SyntaxError, ValueError):
        return set()
    made = [n.exc for n in ast.walk(node) if isinstance(n, ast.Raise) and n.exc is not None]
    names = [e.func.id for e in made if isinstance(e, ast.Call) and isinstance(e.func, ast.Name)]
    return {name for name in names if name[0].isupper()}


def missing(module: str, value: object) -> list[str]:
    """What the docstring of a public name does not say; `[]` if it is complete.

    What SciPy's documents tell of its own functions is not asked for again.
    """
    doc = (value.__doc__ if isinstance(value, type) else inspect.getdoc(value)) or ""
    purpose, text, sections = parse(doc)
    found = []
    if not purpose.endswith((".", ":", ")")):
        found.append("purpose")
    if is_scipy(module):
        return found
    told = " ".join(
        [*shared(module), purpose, text, *[t for n, t in sections.items() if n != "Example"]]
    )
    words = set(re.findall(r"\w+", told))
    if not isinstance(value, type):
        found += [f"argument {p}" for p in parameters(value) if p not in words]
        if IMPERATIVE.match(purpose) and not {"Returns", "Yields"} & set(sections):
            result = inspect.signature(value).return_annotation  # type: ignore[arg-type]
            found += [] if result in (None, "None") else ["result"]
        found += [f"error {e}" for e in sorted(raised(value)) if e not in words]  # type: ignore[arg-type]
    if ">>>" not in doc and not is_record(value) and not is_result(module, value):
        found.append("example")
    return found


def checked() -> Iterator[tuple[str, str, object]]:
    """Module, name and value of each public name that has a docstring of fgrad's own."""
    for module in MODULES:
        for name, value in public(module).items():
            if callable(value) and not is_numpy(value) and not is_alias(name, value):
                yield module, name, value


# --- pages --------------------------------------------------------------------------------------

CODE = re.compile(r"(`[^`]+`)")


def escaped(text: str) -> str:
    """Words of a docstring as Markdown: what stands in backticks is code, the rest is no markup."""
    parts = CODE.split(text)
    return "".join(
        p if i % 2 else re.sub(r"([*_\[\]<>|#~])", r"\\\1", p) for i, p in enumerate(parts)
    )


def paragraphs(text: str) -> str:
    """Paragraphs as Markdown; indented ones are formulas, or code."""
    blocks = []
    for block in filter(str.strip, re.split(r"\n\s*\n", text)):
        if block.lstrip().startswith(">>>"):
            blocks.append(f"```pycon\n{textwrap.dedent(block)}\n```")
        elif block.startswith(" ") or all(re.search(r"\S {3,}\S", x) for x in block.splitlines()):
            blocks.append(f"```text\n{textwrap.dedent(block)}\n```")
        elif re.match(r"[*-] ", block):
            items = [" ".join(item.split()) for item in re.split(r"\n(?=[*-] )", block)]
            blocks.append("\n".join([f"{item[:2]}{escaped(item[2:])}" for item in items]))
        else:
            blocks.append(escaped(" ".join(block.split())))
    return "\n\n".join(blocks)


def fields(sections: dict[str, str], further: dict[str, str]) -> str:
    """Arguments, results and errors as a list of fields; `further` arguments are the module's."""
    lines = []
    own = sections.get("Arguments", sections.get("Attributes", ""))
    for names, text in [*entries(own), *further.items()]:
        for name in names.split(","):  # Sphinx takes the first of two for a type
            given = name.strip() or "\\"
            lines.append(f":param {given}: {escaped(text)}")
    for heading in ("Returns", "Yields"):
        if heading in sections:
            lines.append(f":{heading.lower()}: {escaped(' '.join(sections[heading].split()))}")
    for name, text in entries(sections.get("Raises", "")):
        lines.append(f":raises {name}: {escaped(text)}" if name else f":raises \\: {escaped(text)}")
    return "\n".join(lines)


def signature(value: object) -> str:
    """The arguments with their types, as they are written in the source."""
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "()"
    text = text.replace("'", "").replace("Callable[P, ", "Callable[..., ")
    text = text.removesuffix(" -> None") if isinstance(value, type) else text
    return re.sub(r"<[^<>]*>", "...", text).replace("\n", " ")


def entry(module: str, name: str, value: object) -> str:
    """A name of a module with all that its docstring says."""
    kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
    if is_alias(name, value):
        return directive(kind, name, f"Another name of `{getattr(value, '__name__', '')}`.")
    if kind == "data":
        return directive(kind, name, escaped(parse(type(value).__doc__ or "").purpose))
    if not isinstance(value, type):
        doc, common = inspect.getdoc(value) or "", shared(module)
        told = set(re.findall(r"\w+", doc.partition(">>>")[0]))
        left = {p: common[p] for p in parameters(value) if p in common and p not in told}
        return directive(kind, name + signature(value), described(doc, left))
    body = [described(value.__doc__ or "")]
    for member, inner in members(value):
        text = described(inspect.getdoc(inner) or "")
        if isinstance(inner, property):
            body.append(directive("property", member, text))
        else:
            body.append(directive("method", member + signature(inner), text))
    return directive(kind, name + signature(value), "\n\n".join(body))


def described(doc: str, further: dict[str, str] | None = None) -> str:
    """A docstring as Markdown."""
    purpose, text, sections = parse(doc)
    parts = [escaped(purpose), paragraphs(text), fields(sections, further or {})]
    if "Example" in sections:
        parts += ["**Example**", paragraphs(sections["Example"])]
    return "\n\n".join([p for p in parts if p])


def directive(kind: str, head: str, body: str) -> str:
    """A directive of Sphinx with as many backticks as its body needs."""
    ticks = "`" * (max([2, *[len(t) for t in re.findall(r"^`{3,}", body, re.MULTILINE)]]) + 1)
    return f"{ticks}{{py:{kind}}} {head}\n\n{body}\n{ticks}"


def page(module: str) -> str:
    """The page of a module: what it is for, a table of its names, an entry for each."""
    doc = parse(importlib.import_module(module).__doc__ or "")
    names = public(module)
    own = {n: v for n, v in names.items() if not is_numpy(v)}
    rows = [
        f"| [`{n}`](#{module}.{n}) | {escaped(summary(n, v)).replace(chr(10), ' ')} |"
        for n, v in own.items()
    ]
    parts = [
        f"# {module}",
        escaped(re.sub(r"^L\d\. ", "", doc.purpose)),
        paragraphs(doc.text),
        scipy_note(module),
        "| name | |\n|---|---|\n" + "\n".join(rows),
    ]
    numpys = [f"`{n}`" for n in names if n not in own]
    if numpys:
        parts.append(
            "Functions of NumPy under another name or the same: " + ", ".join(numpys) + "."
        )
    parts.append(f"```{{py:module}} {module}\n```")
    parts += [entry(module, name, value) for name, value in own.items()]
    return "\n\n".join([p for p in parts if p]) + "\n"


def scipy_note(module: str) -> str:
    """Where the arguments of functions that are SciPy's are told."""
    if not is_scipy(module):
        return ""
    there = module.removeprefix("fgrad.")
    return (
        f"Names, arguments and results are those of [{there}]"
        f"(https://docs.scipy.org/doc/scipy/reference/{there.removeprefix('scipy.')}.html), "
        "which tells them in full."
    )


def is_balanced(text: str) -> bool:
    """Whether what opens closes; one may open with `[` and close with `)`, an interval."""
    return len(re.findall(r"[(\[]", text)) == len(re.findall(r"[)\]]", text))


def summary(name: str, value: object) -> str:
    """The first sentence of what a name is."""
    if is_alias(name, value):
        return f"`{getattr(value, '__name__', '')}`"
    purpose = parse((value if callable(value) else type(value)).__doc__ or "").purpose
    ends = [m.start() for m in re.finditer(r"(?<! al\.)(?<=[.:])\s", purpose)]
    return next((purpose[:n] for n in ends if is_balanced(purpose[:n])), purpose)


def write(folder: Path) -> None:
    """All pages, and their index."""
    folder.mkdir(exist_ok=True)
    rows = "\n".join([f"| [{m}]({m}.md) | {title} |" for m, title in MODULES.items()])
    pages = {f"{m}.md": page(m) for m in MODULES}
    listed = "\n".join(MODULES)
    pages["index.md"] = (
        "# Reference\n\nEvery public name, by its docstring; the examples are run by the tests."
        f"\n\n| module | |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    )
    for name, text in pages.items():
        update(folder / name, text)


def update(path: Path, text: str) -> None:
    """Write a file unless it has this text: what is older than its page is not made again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Print what is missing, by name."""
    names = list(checked())
    gaps = {f"{module}.{name}": missing(module, value) for module, name, value in names}
    for name, found in gaps.items():
        if found:
            print(f"{name}: {', '.join(found)}")
    print(f"{sum(not g for g in gaps.values())} of {len(names)} docstrings are complete")


if __name__ == "__main__":
    main()
