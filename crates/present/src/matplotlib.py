# Draws the numbers above. With a file name it writes that file (.pdf, .svg, .png), without one it opens a window.
import sys

import matplotlib

if len(sys.argv) > 1:
    matplotlib.use("Agg")
import matplotlib.pyplot as plt


def text(string):
    """A label as it is: a dollar sign would begin a formula."""
    return string.replace("$", r"\$")


def with_bars(axes, points, style, label):
    """Points (x, value, low, high) with their intervals; one without both ends is hollow."""
    points = [point for point in points if point[1] is not None]
    if not points:
        return
    line = axes.plot([p[0] for p in points], [p[1] for p in points], style, linewidth=1, label=text(label))[0]
    colour = line.get_color()
    claims = [p for p in points if p[2] is not None and p[3] is not None]
    if claims:
        below = [max(0, p[1] - p[2]) for p in claims]
        above = [max(0, p[3] - p[1]) for p in claims]
        axes.errorbar(
            [p[0] for p in claims], [p[1] for p in claims], yerr=[below, above],
            fmt="o", markersize=3, capsize=3, color=colour,
        )
    rest = [p for p in points if p not in claims]
    axes.plot([p[0] for p in rest], [p[1] for p in rest], "o", markersize=4, markerfacecolor="none", color=colour)


def groups(key):
    """Cases by a key, in their order."""
    out = {}
    for case in CASES:
        out.setdefault(key(case), []).append(case)
    return out


def series(case):
    """What one line of a picture has in common."""
    return case["path"] + (" x%d" % case["threads"] if case["threads"] > 1 else "")


def by_size(axes, value, unit):
    """One line for each path and thread count against the size of the message."""
    for at, (label, cases) in enumerate(groups(series).items()):
        points = sorted((case["size"],) + value(case) for case in cases if value(case))
        with_bars(axes, points, STYLES[at % len(STYLES)], label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("size of the message, bytes")
    axes.set_ylabel(unit)


def by_percentile(axes, cases):
    """Round trip against the percentile, stretched toward the tail."""
    seen = {}
    for at, case in enumerate(cases):
        points = [(1 / (1 - p), value, low, high) for p, value, low, high in case["quantiles"]]
        seen.update((x, p) for (x, _, _, _), (p, _, _, _) in zip(points, case["quantiles"]))
        with_bars(axes, points, STYLES[at % len(STYLES)], series(case) + " " + case["message"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted(seen))
    axes.set_xticklabels(["p%g" % (100 * seen[x]) for x in sorted(seen)])
    axes.minorticks_off()
    axes.set_xlabel("percentile of messages")
    axes.set_ylabel("round trip, ns")


def median(case):
    return next((q[1:] for q in case["quantiles"] if q[0] == 0.5), None)


STYLES = ["-", "--", ":", "-."]
many = len({case["size"] for case in CASES}) > 1
timed = any(case["quantiles"] for case in CASES)
rows = 2 if RATIOS and many else 1
figure, all_axes = plt.subplots(rows, 1, figsize=(7, 4.5 * rows), squeeze=False)
top = all_axes[0][0]
if not timed:
    by_size(top, lambda case: case["bits_per_s"], "throughput, bit/s")
elif many:
    by_size(top, median, "median round trip, ns")
else:
    by_percentile(top, [case for case in CASES if case["quantiles"]])
if top.get_legend_handles_labels()[1]:
    top.legend(fontsize="small")
top.set_title(text(RUN))
if rows == 2:
    axes = all_axes[1][0]
    lines = {}
    for ratio in RATIOS:
        lines.setdefault(series(ratio), []).append(ratio)
    for at, (label, ratios) in enumerate(lines.items()):
        points = sorted((r["size"], r["ratio"], r["low"], r["high"]) for r in ratios)
        with_bars(axes, points, STYLES[at % len(STYLES)], label)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("size of the message, bytes")
    axes.set_ylabel(text(METRIC + " divided by that of " + BASELINE))
    axes.legend(fontsize="small")
figure.tight_layout()
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
elif plt.get_backend().lower() == "agg":
    # No display: a window would show nothing, and say nothing of it.
    figure.savefig("msgpath.png")
    print("msgpath.png")
else:
    plt.show()
