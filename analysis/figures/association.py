"""The label association problem: measured precision and recall below their bounds."""

from collections.abc import Mapping, Sequence

from analysis.figures.curves import Curve, Panel
from analysis.utility.label_association import Measured


def product_panel(
    ratios: Sequence[float],
    measured: Mapping[str, Sequence[Measured]],
    bounds: Mapping[str, Sequence[float]],
    title: str,
) -> Panel:
    """Precision times recall against s/K.

    Args:
        ratios: s/K of each point.
        measured: by mechanism, one value a point, with intervals.
        bounds: by name, one value a point; above 1 they are drawn at 1, where they say nothing.
        title: heading of the panel.
    """
    curves = [Curve(name, ratios, [min(1.0, v) for v in values], dashed=True, marked=False)
              for name, values in bounds.items()]  # fmt: skip
    for name, points in measured.items():
        products = [point.product for point in points]
        curves.append(
            Curve(name, ratios, [p.value for p in products], [p.low for p in products], [p.high for p in products])
        )
    return Panel("cluster size over labels, s/K", "precision x recall", curves, title=title)


def tradeoff_panel(measured: Mapping[str, Sequence[Measured]], bounds: Mapping[str, float], title: str) -> Panel:
    """Precision against recall: a line a mechanism along its parameter, a hyperbola a bound of their product.

    Args:
        measured: by mechanism, with intervals of the precision.
        bounds: by name, of precision times recall.
        title: heading of the panel.
    """
    recalls = [0.02 * i for i in range(1, 51)]
    curves = [Curve(name, recalls, [min(1.0, bound / r) for r in recalls], dashed=True, marked=False)
              for name, bound in bounds.items()]  # fmt: skip
    for name, points in measured.items():
        ends = [(point.recall.value, point.precision) for point in points]
        curves.append(
            Curve(name, [r for r, _ in ends], [p.value for _, p in ends], [p.low for _, p in ends],
                  [p.high for _, p in ends])
        )  # fmt: skip
    return Panel("recall", "precision", curves, log_x=False, title=title)
