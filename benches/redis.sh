#!/usr/bin/env bash
# Whether `msgpath rpc redis://` is as fast as redis-benchmark and memtier_benchmark: GET of one key in turns, with 1 and 50 connections,
# and with 16 in flight.
#
#   benches/redis.sh [TURNS [CALLS]]     5 turns of 200000 calls
#
# MSGPATH is the program, target/release/msgpath if unset. A Redis of its own is started at a port that is free. Exit 1: a rate
# is below 0.95 of the other tool's. Exit 77: no Redis. memtier_benchmark is left out, with a word, where it is not installed.
set -euo pipefail
turns=${1:-5} calls=${2:-200000} program=${MSGPATH:-target/release/msgpath}
[ -x "$program" ] || { echo "no program at $program: cargo build --release" >&2; exit 2; }
for tool in redis-server redis-benchmark redis-cli; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
folder=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no --dir "$folder" >"$folder/log" &
server=$!
trap 'kill "$server"; wait "$server" || true; rm -rf "$folder"' EXIT
until redis-cli -p "$port" set k 12345678 >/dev/null 2>&1; do sleep 0.1; done

of_redis_benchmark() {
    redis-benchmark -p "$port" -n "$calls" -c "$1" -P "$2" --csv GET k 2>/dev/null | tail -1 | cut -d, -f2 | tr -d '"'
}

# One thread, as redis-benchmark has; so many calls in all. The last line of its table: Totals, and calls a second.
of_memtier_benchmark() {
    memtier_benchmark -s 127.0.0.1 -p "$port" -t 1 -c "$1" -n "$((calls / $1))" --pipeline "$2" --command 'GET k' --hide-histogram 2>/dev/null |
        awk '$1 == "Totals" { print $2 }'
}

ours() {
    XDG_DATA_HOME=$folder/home "$program" rpc "redis://127.0.0.1:$port" -k "$calls" GET -key k -P "$1" --inflight "$2" --no-save --json 2>/dev/null |
        python3 -c 'import json, sys; case = json.load(sys.stdin)["cases"][0]; print(case["rate_per_s"]["value"])'
}

tools=(redis-benchmark)
if command -v memtier_benchmark >/dev/null; then tools+=(memtier_benchmark); else echo "skipped: no memtier_benchmark"; fi
code=0
for tool in "${tools[@]}"; do
    for shape in '1 1' '50 1' '1 16'; do
        read -r connections depth <<<"$shape"
        for _ in $(seq "$turns"); do
            echo "$("of_${tool/-/_}" "$connections" "$depth") $(ours "$connections" "$depth")"
        done | awk -v tool="$tool" -v shape="$connections connections, $depth in flight" '
            { theirs += log($1); ours += log($2) }
            END { printf "%s: %s %.0f/s, msgpath %.0f/s, ratio %.3f\n", shape, tool, exp(theirs / NR), exp(ours / NR), exp((ours - theirs) / NR)
                  exit exp((ours - theirs) / NR) < 0.95 }' || code=1
    done
done
exit "$code"
