"""Message flow as a PNG picture: drawn by Graphviz where it is installed, otherwise by matplotlib."""

from __future__ import annotations

import io
import logging
import math
import shutil
import subprocess
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from devmem.errors import ExportError, MissingExtraError
from devmem.views.diagrams import dot_graph, edge_label, name_label
from devmem.views.flow import FlowEdge, participants_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOG: Final = logging.getLogger(__name__)
_SECONDS: Final = 120.0
_ON_WHITE: Final = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}


def png_picture(edges: Sequence[FlowEdge]) -> bytes:
    """Return a picture of the flow as a PNG file.

    Raises:
        MissingExtraError: neither Graphviz nor matplotlib is installed.
        ExportError: Graphviz is installed and cannot draw it.
    """
    program = shutil.which("dot")
    return _by_graphviz(program, edges) if program else _by_matplotlib(edges)


def _by_graphviz(program: str, edges: Sequence[FlowEdge]) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the program is Graphviz, and the text is its input
            [program, "-Tpng"], input="".join(dot_graph(edges)).encode(), capture_output=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_drawn(program, str(error)) from error
    if done.returncode or not done.stdout.startswith(b"\x89PNG"):
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}, no picture"
        raise _not_drawn(program, said)
    return done.stdout


def _not_drawn(program: str, why: str) -> ExportError:
    return ExportError(f"Graphviz ({program}) cannot draw the flow: {why}. `--format dot` writes what it was given.")


def _by_matplotlib(edges: Sequence[FlowEdge]) -> bytes:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            feature="a PNG of the message flow",
            package="matplotlib",
            extra="draw",
            advice="Or install Graphviz (`apt install graphviz`), which draws it too; `--format dot` needs neither.",
        ) from error
    names = participants_of(edges)
    side = 4 + 0.8 * len(names)
    figure = Figure(figsize=(min(side * 1.5, 40), min(side, 30)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.4, 1.4)
    places = _on_a_circle(names)
    for (sender, receiver), labels in _by_pair(edges).items():
        _draw_arrow(axes, places[sender], places[receiver], labels)
    for name, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": "black"}
        axes.text(x, y, name_label(name), ha="center", va="center", bbox=box, zorder=3, parse_math=False)
    picture = io.BytesIO()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(picture, format="png")
    if told:
        _LOG.warning("matplotlib's font lacks %d of the letters; Graphviz draws them (%s)", len(told), told[0].message)
    return picture.getvalue()


def _on_a_circle(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    turn = 2 * math.pi / max(len(names), 1)
    return {name: (math.cos(math.pi - at * turn), math.sin(math.pi - at * turn)) for at, name in enumerate(names)}


def _by_pair(edges: Sequence[FlowEdge]) -> dict[tuple[str, str], list[str]]:
    pairs: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        pairs.setdefault((edge.sender, edge.receiver), []).append(edge_label(edge))
    return pairs


def _draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], labels: Sequence[str]) -> None:
    if start == end:
        # To oneself: a loop outside of the circle.
        (x, y), half = start, 0.08
        points = [(x - half * y, y + half * x), (x + half * y, y - half * x)]
        style, place, gap = "arc3,rad=-2.5", (x * 1.22, y * 1.22), 10
    else:
        points, style, gap = [start, end], "arc3,rad=0.15", 22
        across = (end[1] - start[1], start[0] - end[0])
        place = ((start[0] + end[0]) / 2 + 0.075 * across[0], (start[1] + end[1]) / 2 + 0.075 * across[1])
    arrow = {"arrowstyle": "-|>", "connectionstyle": style, "shrinkA": gap, "shrinkB": gap}
    axes.annotate("", xy=points[-1], xytext=points[0], arrowprops=arrow)
    axes.text(
        place[0], place[1], "\n".join(labels), ha="center", va="center", fontsize=8, bbox=_ON_WHITE, parse_math=False
    )
