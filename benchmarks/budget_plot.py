"""Cost against accuracy, as a picture: one point for each way of choosing, a panel for each data set."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks import rows
from benchmarks.tables import by, mean_of

_WIDE, _HIGH, _EDGE, _LOW = 300, 260, 48, 44
_COLOURS = ("#767676", "#b45309", "#1d4ed8", "#15803d", "#7e22ce")
_LEGEND = 20
_FONT = 'font-family="sans-serif" font-size="11"'


def drawn(path: Path, found: Sequence[rows.Row]) -> None:
    """Write the picture of these rows as SVG."""
    panels = by([row for row in found if row["question"] == "simulated"], "dataset", "embedder")
    if not panels:
        return
    names = list(panels[0][1][0]["ways"])
    across = 3
    down = -(-len(panels) // across)
    height = down * _HIGH + _LEGEND * len(names) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across * _WIDE}" height="{height}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, ((dataset, embedder), runs) in enumerate(panels):
        left, top = number % across * _WIDE, number // across * _HIGH
        parts += _panel(f"{dataset}, {embedder}", names, runs, left, top)
    for number, name in enumerate(names):
        y = down * _HIGH + _LEGEND * number + 12
        parts.append(f'<circle cx="{_EDGE}" cy="{y}" r="5" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        parts.append(f'<text x="{_EDGE + 12}" y="{y + 4}">{name}</text>')
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join((*parts, "</svg>", "")), "utf-8")


def _panel(title: str, names: Sequence[str], runs: Sequence[rows.Row], left: int, top: int) -> list[str]:
    points = {name: tuple(_mean(runs, name, what) for what in ("dollars", "accuracy")) for name in names}
    most = max(dollars for dollars, _ in points.values()) * 1.1 or 1.0
    low = min(accuracy for _, accuracy in points.values()) - 0.02
    x0, y0 = left + _EDGE, top + _HIGH - _LOW
    wide, high = _WIDE - _EDGE - 16, _HIGH - _LOW - 30

    def at(dollars: float, accuracy: float) -> tuple[float, float]:
        return round(x0 + wide * dollars / most, 1), round(y0 - high * (accuracy - low) / (1 - low), 1)

    parts = [
        f'<text x="{left + _EDGE}" y="{top + 18}" font-weight="bold">{title}</text>',
        f'<path d="M{x0} {top + 30}V{y0}H{x0 + wide}" fill="none" stroke="#444"/>',
        f'<text x="{x0 + wide}" y="{y0 + 32}" text-anchor="end">dollars a thousand requests</text>',
        f'<text x="{x0 + 4}" y="{top + 36}" fill="#444">accuracy</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        x, _ = at(share * most / 1.1, low)
        parts.append(f'<text x="{x}" y="{y0 + 15}" text-anchor="middle">{share * most / 1.1:.3f}</text>')
    for accuracy in (low, (low + 1) / 2, 1.0):
        _, y = at(0, accuracy)
        parts.append(f'<text x="{x0 - 5}" y="{y + 4}" text-anchor="end">{100 * accuracy:.0f}</text>')
    for number, name in enumerate(names):
        x, y = at(*points[name])
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
    return parts


def _mean(runs: Sequence[rows.Row], way: str, what: str) -> float:
    return mean_of([row["ways"] for row in runs], way, what)
