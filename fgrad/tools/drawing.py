"""L7. A picture of a program, as SVG: forward on the left, derivative on the right.

    your line                    | forward, downwards      | derivative, upwards
    the arguments                | w: f64[3,2]             | result 1
    hidden = np.tanh(x @ w)      | dot_general -> tanh     | dot_general <- mul
    return np.mean(hidden**2)    | mul -> reduce_sum       | mul
    the results                  | result 0                |

A box is an equation; in large programs it is what a line became in one kernel, what a line became,
or a whole function.  A colour is a kernel; all that is of it stands out under the pointer.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc

BOXES = 150  # at most, if there is a coarser way to draw
WIDE = 4  # boxes beside each other
LINE, CHAR, PAD, GAP = 15.0, 6.7, 6.0, 14.0
LETTERS = 60  # of a line of source, at most
LISTED = 25  # equations in the text under the pointer

_STYLE = """
text { font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #0f172a; }
.where, .small { fill: #64748b; }
.title { font: 600 13px system-ui, sans-serif; }
.box { stroke: #94a3b8; stroke-width: 1; }
.edge { fill: none; stroke: #64748b; opacity: .45; }
.across { stroke: #b45309; stroke-dasharray: 4 2; }
.rule { stroke: #e2e8f0; }
"""


class Node(NamedTuple):
    """An equation to be drawn: where it belongs, its texts, and what it reads, by number."""

    line: Loc | None
    place: str  # "arguments", "results", or "" for equations
    right: bool  # in the column of the derivative
    name: str  # of the operation
    texts: tuple[str, ...]
    group: int | None
    reads: tuple[int, ...]


class Box(NamedTuple):
    """One or more nodes in one box of the picture."""

    nodes: list[int]
    texts: list[str]
    title: str
    group: int | None
    right: bool
    row: Hashable

    @property
    def width(self) -> float:
        """Of the longest text."""
        return 2 * PAD + CHAR * max([len(text) for text in self.texts])

    @property
    def height(self) -> float:
        """Of all texts."""
        return 2 * PAD + LINE * len(self.texts) - 3


class Spot(NamedTuple):
    """Where a box is: its left upper corner."""

    x: float
    y: float


def _row_of(node: Node) -> Hashable:
    return node.place or node.line


def _function_of(node: Node) -> Hashable:
    if node.place or node.line is None:
        return node.place or None
    return node.line._replace(line=0)


# From fine to coarse: the row of a node, and what shares a box with it.
Level = tuple[Callable[[Node], Hashable], Callable[[int, Node], Hashable]]
LEVELS: tuple[Level, ...] = (
    (_row_of, lambda k, _node: k),
    (_row_of, lambda k, n: k if n.place else (n.line, n.right, n.group)),
    (_row_of, lambda _k, n: (_row_of(n), n.right)),
    (_function_of, lambda _k, n: (_function_of(n), n.right)),
)


def boxes_of(nodes: Sequence[Node]) -> list[Box]:
    """The boxes of the finest level that is not too fine."""
    boxes: list[Box] = []
    for row_of, key_of in LEVELS:
        members: dict[Hashable, list[int]] = {}
        for k, node in enumerate(nodes):
            members.setdefault(key_of(k, node), []).append(k)
        boxes = [_box(nodes, inside, row_of(nodes[inside[0]])) for inside in members.values()]
        if len(boxes) <= BOXES:
            break
    return boxes


def _box(nodes: Sequence[Node], inside: list[int], row: Hashable) -> Box:
    own = [nodes[k] for k in inside]
    groups = {node.group for node in own}
    group = groups.pop() if len(groups) == 1 else None
    if len(own) == 1:
        return Box(inside, list(own[0].texts), "\n".join(own[0].texts), group, own[0].right, row)
    counts = Counter([node.name for node in own])
    texts = [f"{count} {name}" for name, count in counts.most_common(4)]
    if len(counts) > 4:
        texts.append(f"{sum(counts.values()) - sum(c for _, c in counts.most_common(4))} more")
    listed = ["  ".join(node.texts) for node in own[:LISTED]]
    if len(own) > LISTED:
        listed.append(f"and {len(own) - LISTED} more")
    return Box(inside, texts, "\n".join(listed), group, own[0].right, row)


def _edges(nodes: Sequence[Node], boxes: Sequence[Box]) -> Counter[tuple[int, int]]:
    """Pairs of boxes, the second of which reads the first, and how often."""
    home = {k: b for b, box in enumerate(boxes) for k in box.nodes}
    return Counter(
        [
            (home[source], home[k])
            for k, node in enumerate(nodes)
            for source in node.reads
            if home[source] != home[k]
        ]
    )


def _layers(boxes: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The boxes of a cell by depth: each below what it reads."""
    place = {box: k for k, box in enumerate(boxes)}
    reads: dict[int, list[int]] = {box: [] for box in boxes}
    for source, reader in edges:
        if source in place and reader in place and place[source] < place[reader]:
            reads[reader].append(source)
    depth: dict[int, int] = {}
    layers: list[list[int]] = []
    for box in boxes:
        at = depth[box] = 1 + max([depth[s] for s in reads[box]], default=-1)
        while len(layers) <= at:
            layers.append([])
        layers[at].append(box)
    return [layer[k : k + WIDE] for layer in layers for k in range(0, len(layer), WIDE)]


class Column(NamedTuple):
    """A cell of a row: layers of boxes, its size."""

    layers: list[list[int]]
    width: float
    height: float


def _column(boxes: Sequence[Box], inside: list[int], edges: Iterable[tuple[int, int]]) -> Column:
    layers = _layers(inside, edges)
    if inside and boxes[inside[0]].right:
        layers.reverse()  # derivatives go up
    widths = [sum([boxes[b].width + GAP for b in layer]) for layer in layers]
    heights = [max([boxes[b].height for b in layer]) + GAP for layer in layers]
    return Column(layers, max(widths, default=0.0), sum(heights))


class Picture:
    """The layout of a program, and its text as SVG."""

    def __init__(
        self,
        title: str,
        nodes: Sequence[Node],
        legend: Sequence[tuple[int, str]],
        colour: Callable[[int], str],
        costs: dict[Loc, str],
    ) -> None:
        self.title, self.legend, self.colour, self.costs = title, legend, colour, costs
        self.boxes = boxes_of(nodes)
        self.edges = _edges(nodes, self.boxes)
        rows: dict[Hashable, tuple[list[int], list[int]]]
        rows = {row: ([], []) for row in _in_order(self.boxes)}
        for b, box in enumerate(self.boxes):
            rows[box.row][box.right].append(b)
        lines = [row for row in rows if isinstance(row, Loc)]
        letters = [max(len(_cut(row.text())), len(str(row)) + 12) for row in lines]
        self.source = 3 * GAP + CHAR * max(letters, default=20)
        pairs = list(self.edges)
        self.rows = {
            row: [_column(self.boxes, side, pairs) for side in sides] for row, sides in rows.items()
        }
        self.middle = [max([cells[k].width for cells in self.rows.values()]) for k in (0, 1)]
        self.spots: dict[int, Spot] = {}
        self.tops: list[tuple[Hashable, float, float]] = []
        self._place()

    def _place(self) -> None:
        y = 60.0
        for row, cells in self.rows.items():
            height = max(cells[0].height, cells[1].height, 2 * LINE) + GAP
            for k, cell in enumerate(cells):
                self._place_cell(cell, k, y + GAP)
            self.tops.append((row, y, height))
            y += height
        self.bottom = y

    def _place_cell(self, cell: Column, side: int, y: float) -> None:
        start = self.source + (self.middle[0] + 3 * GAP) * side
        for layer in cell.layers:
            width = sum([self.boxes[b].width + GAP for b in layer]) - GAP
            x = start + (self.middle[side] - width) / 2
            for b in layer:
                self.spots[b] = Spot(x, y)
                x += self.boxes[b].width + GAP
            y += max([self.boxes[b].height for b in layer]) + GAP

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        texts = [len(self.title), *[len(text) + 4 for _, text in self.legend]]
        width = max(self.source + sum(self.middle) + 4 * GAP, CHAR * max(texts) + 2 * GAP)
        return width, self.bottom + 2 * LINE + LINE * len(self.legend)

    def svg(self) -> str:
        """The picture as one element, for a file or inside of a page."""
        width, height = self.size
        shown = sorted({box.group for box in self.boxes if box.group is not None})
        hover = "".join(
            [f"svg:has(.k{g}:hover) .drawn:not(.k{g}) {{ opacity: .25 }}\n" for g in shown]
        )
        heads = [(8.0, "your line"), (self.source, "forward")]
        if any([box.right for box in self.boxes]):
            heads.append((self.source + self.middle[0] + 3 * GAP, "derivative"))
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}"><style>{_STYLE}{hover}</style>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            _text(8, 18, self.title, "title"),
            *[_text(x, 44, text, "title") for x, text in heads],
            *[self._row(*top) for top in self.tops],
            *[self._edge(*pair, count) for pair, count in self.edges.items()],
            *[self._drawn(b) for b in range(len(self.boxes))],
            *[self._legend(at, *row) for at, row in enumerate(self.legend)],
        ]
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _row(self, row: Hashable, y: float, _height: float) -> str:
        where, text, cost = str(row), "", ""
        if isinstance(row, Loc):
            where = str(row) if row.line else f"all of {row.func}"
            text, cost = row.text() if row.line else "", self.costs.get(row, "")
        elif row is None:
            where = "made by the compiler"
        rule = f'<path class="rule" d="M0 {y:.1f} H {self.size[0]:.0f}"/>'
        above = _text(8, y + GAP + 8, f"{where}  {cost}".rstrip(), "where")
        return rule + above + _text(8, y + GAP + 8 + LINE, _cut(text), "")

    def _drawn(self, b: int) -> str:
        box, (x, y) = self.boxes[b], self.spots[b]
        fill = "#ffffff" if box.group is None else self.colour(box.group)
        kernel = "" if box.group is None else f" k{box.group}"
        texts = [_text(x + PAD, y + PAD + 8, box.texts[0], "")]
        for k, text in enumerate(box.texts[1:], 1):
            texts.append(_text(x + PAD, y + PAD + 8 + LINE * k, text, "small"))
        rounded = 10 if box.row in ("arguments", "results") else 3
        return (
            f'<g class="drawn{kernel}"><title>{html.escape(box.title)}</title><rect class="box"'
            f' x="{x:.1f}" y="{y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
            f' rx="{rounded}" fill="{fill}"/>{"".join(texts)}</g>'
        )

    def _edge(self, source: int, reader: int, count: int) -> str:
        a, b = self.boxes[source], self.boxes[reader]
        (ax, ay), (bx, by) = self.spots[source], self.spots[reader]
        wide = min(1.0 + 0.4 * (count - 1), 5.0)
        if a.right != b.right:
            x0, y0 = ax + (0.0 if a.right else a.width), ay + a.height / 2
            x1, y1 = bx + (0.0 if b.right else b.width), by + b.height / 2
            bend = (x1 - x0) / 2
            path = f"M{x0:.1f} {y0:.1f} C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f}"
            kind = "edge across"
            return f'<path class="{kind}" stroke-width="{wide:.1f}" d="{path} {x1:.1f} {y1:.1f}"/>'
        up = by < ay
        x0, y0 = ax + a.width / 2, ay + (0.0 if up else a.height)
        x1, y1 = bx + b.width / 2, by + (b.height if up else 0.0)
        bend = (y1 - y0) / 2
        path = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f}"
        return f'<path class="edge" stroke-width="{wide:.1f}" d="{path} {x1:.1f} {y1:.1f}"/>'

    def _legend(self, at: int, k: int, text: str) -> str:
        y = self.bottom + LINE * (at + 1)
        square = f'<rect x="8" y="{y - 9:.1f}" width="11" height="11" fill="{self.colour(k)}"/>'
        return f'<g class="drawn k{k}">{square}{_text(24, y, text, "")}</g>'


def _in_order(boxes: Sequence[Box]) -> list[Hashable]:
    """The rows: functions in the order in which they run, lines of each as they are written."""
    runs: dict[Hashable, list[int]] = {}
    for box in boxes:
        if isinstance(box.row, Loc):
            forward = [] if box.right else box.nodes
            runs.setdefault(box.row._replace(line=0), []).extend(forward)
    middle = {f: sorted(ks)[len(ks) // 2] if ks else len(boxes) for f, ks in runs.items()}
    lines = {box.row for box in boxes if isinstance(box.row, Loc)}
    ordered = sorted(lines, key=lambda row: (middle[row._replace(line=0)], row))
    others = [None] if any([box.row is None for box in boxes]) else []
    return ["arguments", *others, *ordered, "results"]


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else text[: LETTERS - 3] + "..."


def _text(x: float, y: float, text: str, kind: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{style} xml:space="preserve">{html.escape(text)}</text>'
