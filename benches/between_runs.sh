#!/usr/bin/env bash
# Whether the range between runs holds what later runs bring: starts default `echo` runs one after the other, and counts
# how many p50 lie in the range that was printed after half of them. Every run must print p50, p90 and p99 as numbers.
#
#   benches/between_runs.sh [RUNS [SECONDS]]     20 runs, one every 190 s: an hour
#
# MSGPATH is the program, target/release/msgpath if unset. The runs are kept in a folder of their own, removed at the end.
set -euo pipefail
runs=${1:-20} every=${2:-190} program=${MSGPATH:-target/release/msgpath}
[ -x "$program" ] || { echo "no program at $program: cargo build --release" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in $(seq "$runs"); do
    begun=$SECONDS
    # Exit code 5 and below tell of the result, which is on the disk all the same.
    XDG_DATA_HOME=$folder "$program" echo --name "run-$run" --json >"$folder/$run.json" || echo "run $run: exit $?" >&2
    python3 - "$folder/$run.json" "$run" <<'PYTHON'
import json, sys
case = json.load(open(sys.argv[1]))["cases"][0]
own = {q["p"]: q for q in case["quantiles"]}
shown = [f"p{100 * p:g} {own[p]['ns'] / 1e3:.1f} ({own[p]['range']})" for p in (0.5, 0.9, 0.99)]
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
half = runs // 2
between = next(b for b in cases[half - 1]["between"] if b["p"] == 0.5)
medians = [next(q["ns"] for q in case["quantiles"] if q["p"] == 0.5) for case in cases]
held = sum(ns is not None and between["lo_ns"] <= ns <= between["hi_ns"] for ns in medians)
low, high = between["lo_ns"] / 1e3, between["hi_ns"] / 1e3
print(f"range after run {half}: {low:.1f} to {high:.1f} us holds the p50 of {held} of {runs} runs")
print("p50, p90 and p99 are numbers in every run" if not missing else "not a number: " + ", ".join(missing))
sys.exit(0 if held >= 0.85 * runs and not missing else 1)
PYTHON
