#!/bin/sh
# Does a storm spoil the answer? Three compares of the same paths: on the machine as it is, while a hog comes and goes on
# one of the measuring CPUs, and as it is again. Prints the line about calm rounds and the verdicts of each; the verdicts
# of all three should agree. For a quiet machine with two CPUs or more: benches/storm.sh [MSGPATH] [CPU] [SECONDS]
set -eu
msgpath=${1:-target/release/msgpath}
cpu=${2:-0}
seconds=${3:-2}
folder=$(mktemp -d)
hog=
stop() {
    [ -z "$hog" ] || kill "$hog" 2>/dev/null || true
    hog=
}
trap 'stop; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

# One process: it spins for 3 s of 8, and ends by itself after 10 minutes.
start_hog() {
    taskset -c "$cpu" python3 -c '
import time
end = time.monotonic() + 600
while time.monotonic() < end:
    busy = time.monotonic() + 3
    while time.monotonic() < busy:
        pass
    time.sleep(5)' &
    hog=$!
}

for name in before storm after; do
    [ "$name" = storm ] && start_hog
    "$msgpath" compare -x tcp:send,tcp:sendmsg,unix:send -l 64 -t "$seconds" -o extend=yes --no-save --json >"$folder/$name.json" || true
    stop
done

python3 - "$folder" <<'END'
import json, sys
answers = []
for name in ("before", "storm", "after"):
    with open(f"{sys.argv[1]}/{name}.json") as file:
        summary = json.load(file)
    summary = summary.get("summary", summary)
    calm, comparison = summary["calm"], summary["comparison"]
    paths = {case["case"]["id"]: case["case"]["path"] for case in summary["cases"]}
    answer = {paths[ratio["case"]]: ratio["verdict"] for ratio in comparison["ratios"]}
    answers.append(answer)
    used = "theirs" if calm["used"] else "all rounds"
    print(f"{name}: calm rounds {calm['calm']} of {calm['rounds']} (headline: {used}), margin {100 * comparison['margin']:.1f} %, {answer}")
print("the verdicts agree" if all(answer == answers[0] for answer in answers) else "THE VERDICTS DIFFER")
sys.exit(any(answer != answers[0] for answer in answers))
END
