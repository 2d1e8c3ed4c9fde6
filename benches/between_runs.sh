#!/usr/bin/env bash
# Whether the range between runs holds what later runs bring: starts default `echo` runs one after the other, takes the last range that
# was printed up to the half of them (where there was none yet, the first one that is printed), and counts how many p50 of the runs after
# it lie in it. Every run must print p50, p90 and p99 as numbers.
# Exit code 1: fewer than 85 % of these runs, no range to judge or no run after it, a percentile that is no number.
#
#   benches/between_runs.sh [RUNS [SECONDS]]     20 runs, one every 190 s: an hour
#   BEFORE="nice -n 5" benches/between_runs.sh   BEFORE is a command with its words, put before each run: it can wait for a quiet machine
#                                                before the run alone, and not before the pauses between two
#
# MSGPATH is the program, target/release/msgpath if unset. The runs are kept in a folder of their own, removed at the end.
set -euo pipefail
runs=${1:-20} every=${2:-190} program=${MSGPATH:-target/release/msgpath}
read -ra before <<<"${BEFORE-}"
[ -x "$program" ] || { echo "no program at $program: cargo build --release" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in $(seq "$runs"); do
    begun=$SECONDS
    # Exit code 5 and below tell of the result, which is on the disk all the same.
    XDG_DATA_HOME=$folder "${before[@]}" "$program" echo --name "run-$run" --json >"$folder/$run.json" ||
        echo "run $run: exit $?" >&2
    python3 - "$folder/$run.json" "$run" <<'PYTHON'
import json, sys
document = json.load(open(sys.argv[1]))
if "cases" not in document:
    sys.exit(f"run {sys.argv[2]} measured nothing: {document.get('error', {}).get('what', document)}")
case = document["cases"][0]
own = {q["p"]: q for q in case["quantiles"]}
shown = [f"p{100 * p:g} {own[p]['ns'] / 1e3:.1f} ({own[p]['range']})" for p in (0.5, 0.9, 0.99) if own[p]["ns"] is not None]
between = next((b for b in case.get("between", []) if b["p"] == 0.5), None)
text = f"   last {between['count']} runs: {between['lo_ns'] / 1e3:.1f} to {between['hi_ns'] / 1e3:.1f}" if between else ""
print(f"run {sys.argv[2]:>2}  {'   '.join(shown)} us{text}", flush=True)
PYTHON
    left=$((every - (SECONDS - begun)))
    if [ "$run" -lt "$runs" ] && [ "$left" -gt 0 ]; then sleep "$left"; fi
done
python3 - "$folder" "$runs" <<'PYTHON'
import json, sys
folder, runs = sys.argv[1], int(sys.argv[2])
cases = [json.load(open(f"{folder}/{run}.json"))["cases"][0] for run in range(1, runs + 1)]
missing = [
    f"run {at + 1}: p{100 * q['p']:g}"
    for at, case in enumerate(cases)
    for q in case["quantiles"][:3]
    if q["ns"] is None or q["range"] == "not_yet"
]
print("p50, p90 and p99 are numbers in every run" if not missing else "not a number: " + ", ".join(missing))
ranges = [next((b for b in case.get("between", []) if b["p"] == 0.5), None) for case in cases]
printed = [run for run in range(1, runs + 1) if ranges[run - 1]]
half = runs // 2
at = max((run for run in printed if run <= half), default=min(printed, default=None))
if at is None:
    sys.exit(f"none of the {runs} runs printed a range between runs: there is nothing to judge; try more runs")
low, high = ranges[at - 1]["lo_ns"], ranges[at - 1]["hi_ns"]
after = range(at + 1, runs + 1)
if not after:
    sys.exit(f"the first range between runs was printed by the last run, {at}: no run is left to judge it by; try more runs")
medians = [next(q["ns"] for q in cases[run - 1]["quantiles"] if q["p"] == 0.5) for run in after]
held = sum(ns is not None and low <= ns <= high for ns in medians)
which = "the last one up to the half" if at <= half else "the first one, none was printed up to the half"
print(f"range of run {at} ({which}): {low / 1e3:.1f} to {high / 1e3:.1f} us")
print(f"it holds the p50 of {held} of the {len(after)} runs after it")
sys.exit(0 if held >= 0.85 * len(after) and not missing else 1)
PYTHON
