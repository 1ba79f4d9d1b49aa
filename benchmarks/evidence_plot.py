"""The share decided alone by the number of logged decisions, as a picture: `python -m benchmarks.evidence_plot`.

A panel for each data set and embedder. Above is the share of unseen requests that is decided alone, with the best
threshold of a simulation as a dashed line; below is the share of these that is wrong, with the promise as a dashed
line. Each seed is a thin line, their mean a thick one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from benchmarks import rows
from benchmarks.evidence import MAX_ERROR
from benchmarks.report_evidence import BEST_SHARES
from benchmarks.tables import by, mean_of

PLOT = Path(__file__).parent / "plots" / "evidence.svg"
_ACROSS = 4
_PANEL_WIDTH, _PANEL_HEIGHT = 280, 300
_LEFT, _TOP, _RIGHT = 44, 30, 20
_SHARE_HEIGHT, _GAP, _WRONG_HEIGHT = 150, 26, 44
_LEGEND_HEIGHT = 20
_COLOURS = ("#1d4ed8", "#b45309", "#15803d", "#7e22ce")
_BEST, _AXIS = "#555", "#444"
_FONT = 'font-family="sans-serif" font-size="11"'
_MOST_WRONG = 0.03
"""The highest share of wrong answers that is drawn; what is above it stands at the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """A rectangle of a picture, and the numbers at its ends.

    Attributes:
        left: The x of the least number.
        bottom: The y of 0.
        width: Its width, for `most_x`.
        height: Its height, for `most_y`.
        most_x: The number at the right end.
        most_y: The number at the upper end.
    """

    left: float
    bottom: float
    width: float
    height: float
    most_x: float
    most_y: float

    def locate(self, x: float, y: float) -> str:
        """Return the coordinates of a point, held within the rectangle."""
        right = self.width * min(x / self.most_x, 1.0)
        up = self.height * min(y / self.most_y, 1.0)
        return f"{self.left + right:.1f},{self.bottom - up:.1f}"

    def draw_line(self, points: Mapping[int, float], style: str) -> str:
        """Return a line through points, from the least x to the greatest."""
        places = " ".join(self.locate(x, points[x]) for x in sorted(points))
        return f'<polyline points="{places}" fill="none" {style}/>'

    def draw_frame(self) -> str:
        """Return the two axes."""
        top, right = self.bottom - self.height, self.left + self.width
        return f'<path d="M{self.left} {top}V{self.bottom}H{right}" fill="none" stroke="{_AXIS}"/>'

    def draw_tick(self, y: float) -> str:
        """Return a share beside the vertical axis."""
        _, _, down = self.locate(0, y).partition(",")
        return f'<text x="{self.left - 5}" y="{float(down) + 4:.1f}" text-anchor="end">{100 * y:.0f}</text>'


def draw_evidence(path: Path, found: Sequence[rows.Row]) -> None:
    """Write the picture of these rows as SVG; nothing if none of them is about learning."""
    learned = [row for row in found if row["question"] == "learned"]
    panels = by(learned, "dataset", "flows", "embedder")
    if not panels:
        return
    teachers = sorted({row["teacher"] for row in learned}, reverse=True)
    colours = dict(zip(teachers, _COLOURS, strict=False))
    panel_rows = -(-len(panels) // _ACROSS)
    labels = [(colour, "", f"the model is right in {teacher:.0%}") for teacher, colour in colours.items()]
    labels.append((_BEST, "4 3", "above: the best threshold of a simulation; below: the promise"))
    height = panel_rows * _PANEL_HEIGHT + _LEGEND_HEIGHT * len(labels) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_ACROSS * _PANEL_WIDTH}" height="{height}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, ((dataset, flows, embedder), runs) in enumerate(panels):
        row, column = divmod(number, _ACROSS)
        title = f"{dataset}, {flows} flows, {embedder}"
        best = BEST_SHARES.get((dataset, int(flows), embedder), {})
        parts += _draw_panel(title, runs, best, colours, column * _PANEL_WIDTH, row * _PANEL_HEIGHT)
    for number, (colour, dashes, label) in enumerate(labels):
        y = panel_rows * _PANEL_HEIGHT + _LEGEND_HEIGHT * number + 12
        line = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts.append(f'<path d="M{_LEFT} {y}H{_LEFT + 24}" {line}/>')
        parts.append(f'<text x="{_LEFT + 32}" y="{y + 4}">{label}</text>')
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join((*parts, "</svg>", "")), "utf-8")


def _draw_panel(
    title: str,
    runs: Sequence[rows.Row],
    best: Mapping[int, float],
    colours: Mapping[float, str],
    left: int,
    top: int,
) -> list[str]:
    most = max(row["after"] for row in runs)
    width = _PANEL_WIDTH - _LEFT - _RIGHT
    share_bottom = top + _TOP + _SHARE_HEIGHT
    wrong_bottom = share_bottom + _GAP + _WRONG_HEIGHT
    share = Axes(
        left=left + _LEFT, bottom=share_bottom, width=width, height=_SHARE_HEIGHT, most_x=max(most, 1), most_y=1.0
    )
    wrong = Axes(
        left=left + _LEFT,
        bottom=wrong_bottom,
        width=width,
        height=_WRONG_HEIGHT,
        most_x=max(most, 1),
        most_y=_MOST_WRONG,
    )
    dashed = f'stroke="{_BEST}" stroke-width="1.5" stroke-dasharray="4 3"'
    parts = [
        f'<text x="{left + _LEFT}" y="{top + 16}" font-weight="bold">{title}</text>',
        share.draw_frame(),
        wrong.draw_frame(),
        *map(share.draw_tick, (0.0, 0.5, 1.0)),
        *map(wrong.draw_tick, (0.0, MAX_ERROR, _MOST_WRONG)),
        f'<text x="{left + _LEFT + 4}" y="{top + _TOP + 2}" fill="{_AXIS}">% decided alone</text>',
        f'<text x="{left + _LEFT + 4}" y="{wrong_bottom - _WRONG_HEIGHT - 4}" fill="{_AXIS}">% of these wrong</text>',
        f'<text x="{left + _LEFT + width}" y="{wrong_bottom + 28}" text-anchor="end">decisions in the log</text>',
        wrong.draw_line({0: MAX_ERROR, most: MAX_ERROR}, dashed),
    ]
    for count in (0, most // 2, most):
        x, _, _ = wrong.locate(count, 0).partition(",")
        parts.append(f'<text x="{x}" y="{wrong_bottom + 14}" text-anchor="middle">{count:,}</text>')
    if best:
        parts.append(share.draw_line(best, dashed))
    for (teacher,), own in by(runs, "teacher"):
        colour = colours[float(teacher)]
        for axes, what in ((share, "alone"), (wrong, "wrong")):
            thin, thick = (f'stroke="{colour}" stroke-width="{weight}"' for weight in (0.5, 2))
            for _, of_seed in by(own, "seed"):
                parts.append(axes.draw_line({row["after"]: row["numbers"][what] for row in of_seed}, thin))
            means = {int(after): mean_of(at, "numbers", what) for (after,), at in by(own, "after")}
            parts.append(axes.draw_line(means, thick))
    return parts


def main() -> None:
    """Draw the picture of the stored rows."""
    draw_evidence(PLOT, rows.read("evidence"))


if __name__ == "__main__":
    typer.run(main)
