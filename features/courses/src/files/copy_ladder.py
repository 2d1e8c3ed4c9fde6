# Draws the numbers above: six files with the ending that is typed (.pdf, .svg, .png), six windows without one.
import sys

import matplotlib

if len(sys.argv) > 1:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt

METHODS = [name for name in ("A1", "A2", "A3", "8 calls", "contiguous") if any(row[0] == name for row in ROWS)]
SIZES = sorted({row[1] for row in ROWS})
THREADS = sorted({row[2] for row in ROWS})
GBITS, P50, L1, LLC, CYCLES = 3, 4, 5, 6, 7


def points(column, x, **fixed):
    """(x, value, low, high) of the rows of one line, by x."""
    keep = [row for row in ROWS if all(row[at] == value for at, value in ((0, fixed.get("method")),
            (1, fixed.get("size")), (2, fixed.get("threads"))) if value is not None)]
    return sorted((row[x],) + row[column] for row in keep if row[column] is not None)


def bars_of(values):
    """Lengths below and above, 0 where there is no interval."""
    below = [max(0, p[1] - p[2]) if p[2] is not None else 0 for p in values]
    above = [max(0, p[3] - p[1]) if p[3] is not None else 0 for p in values]
    return [below, above]


def lines(axes, column, x, **fixed):
    """One line for each method; a note where nothing was counted."""
    drawn = False
    for method in METHODS:
        values = points(column, x, method=method, **fixed)
        if values:
            drawn = True
            axes.errorbar([p[0] for p in values], [p[1] for p in values], yerr=bars_of(values), marker="o",
                          markersize=3, capsize=3, linewidth=1, label=method)
    if drawn:
        axes.set_xscale("log", base=2)
        axes.legend(fontsize=7)
    else:
        axes.text(0.5, 0.5, "not counted on this machine", ha="center", transform=axes.transAxes)


def panels(title, each):
    """A figure with two panels a row."""
    rows = (len(each) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(10, 3.6 * rows), squeeze=False)
    figure.suptitle(title)
    for at, draw in enumerate(each):
        draw(axes[at // 2][at % 2])
    for at in range(len(each), 2 * rows):
        axes[at // 2][at % 2].axis("off")
    figure.tight_layout()
    return figure


def by_size(column, unit, threads):
    def draw(axes):
        lines(axes, column, 1, threads=threads)
        axes.set(title="%d thread%s" % (threads, "" if threads == 1 else "s"), xlabel="message size, bytes", ylabel=unit)
    return draw


def by_threads(column, unit, size):
    def draw(axes):
        lines(axes, column, 2, size=size)
        axes.set(title="%d bytes" % size, xlabel="threads", ylabel=unit)
    return draw


def side_by_side(size):
    def draw(axes):
        names = [name for name in ("A1", "A2", "A3") if name in METHODS]
        for at, method in enumerate(names):
            values = points(GBITS, 2, method=method, size=size)
            places = [THREADS.index(p[0]) + (at - 1) * 0.27 for p in values]
            axes.bar(places, [p[1] for p in values], width=0.25, yerr=bars_of(values), capsize=2, label=method)
        axes.set_xticks(range(len(THREADS)))
        axes.set_xticklabels(["%d" % threads for threads in THREADS])
        axes.set(title="%d bytes" % size, xlabel="threads", ylabel="Gbit/s")
        axes.legend(fontsize=7)
    return draw


ENDS = sorted({THREADS[0], THREADS[-1]})
FIGURES = {
    "1-throughput-size": panels("Throughput against message size", [by_size(GBITS, "Gbit/s", n) for n in THREADS]),
    "2-latency-threads": panels("Median round trip against threads", [by_threads(P50, "us", n) for n in SIZES]),
    "3-scaling": panels("Throughput against threads", [by_threads(GBITS, "Gbit/s", n) for n in SIZES]),
    "4-bars": panels("A1, A2, A3", [side_by_side(n) for n in SIZES]),
    "5-cache-misses": panels(
        "L1 (first) and LLC misses a message against size, near end",
        [by_size(L1, "L1 misses", n) for n in ENDS] + [by_size(LLC, "LLC misses", n) for n in ENDS],
    ),
    "6-cycles-per-byte": panels("Cycles a byte, near end", [by_size(CYCLES, "cycles/byte", n) for n in ENDS]),
}
if len(sys.argv) > 1:
    for name, figure in FIGURES.items():
        figure.savefig(name + "." + sys.argv[1].rsplit(".", 1)[-1])
else:
    plt.show()
