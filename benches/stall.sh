#!/usr/bin/env bash
# Does an open loop count what was due while the server stood still? The server is stopped for 4 s of 16 s at 100 messages a second, once
# under sockperf's under-load mode and once under `echo --rate`. 400 of 1,600 messages wait for up to 4 s, evenly, and 160 of
# them for more than 2.4 s: the p90. Exit 1 where one of the two is not within 10 % of it; 77 without sockperf.
#
#   benches/stall.sh [MSGPATH]      target/release/msgpath; 40 s
set -euo pipefail
msgpath=${1:-target/release/msgpath}
[ -x "$msgpath" ] || { echo "no program at $msgpath: cargo build --release" >&2; exit 2; }
command -v sockperf >/dev/null || { echo "skipped: sockperf is not installed"; exit 77; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

# Stops a process for 4 s, 5 s from now.
stall() {
    sleep 5
    kill -STOP "$1"
    sleep 4
    kill -CONT "$1"
}

port=$(python3 -c 'import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sockperf server -i 127.0.0.1 -p "$port" >"$folder/server" 2>&1 &
server=$!
sleep 1
sockperf under-load -i 127.0.0.1 -p "$port" --mps 100 -t 16 --full-rtt --full-log "$folder/log" >"$folder/sockperf" 2>&1 &
client=$!
stall "$server"
wait "$client" || { cat "$folder/sockperf"; exit 1; }
kill "$server"
server=

"$msgpath" echo -x udp:send --rate 100 -t 16s -w 0 -r 16 -o arrivals=constant,extend=no,what-ifs=no --no-save --json >"$folder/msgpath" 2>"$folder/said" &
client=$!
for _ in $(seq 50); do
    far=$(pgrep -P "$client" | head -1) && break
    kill -0 "$client" 2>/dev/null || { cat "$folder/said"; exit 1; }
    sleep 0.1
done
stall "$far"
wait "$client" || { cat "$folder/said"; exit 1; }

python3 - "$folder" <<'PYTHON'
import json, re, sys
folder = sys.argv[1]
said = open(f"{folder}/sockperf").read()
theirs = float(re.search(r"percentile 90\.000\s*=\s*([\d.]+)", said)[1]) / 1e6
case = json.load(open(f"{folder}/msgpath"))["cases"][0]
ours = next(q["ns"] for q in case["quantiles"] if q["p"] == 0.9)
ours = ours / 1e9 if ours else float("nan")
print(f"p90: sockperf {theirs:.3f} s, msgpath {ours:.3f} s, by count 2.4 s")
sys.exit(0 if all(abs(own / 2.4 - 1) < 0.1 for own in (theirs, ours)) else 1)
PYTHON
