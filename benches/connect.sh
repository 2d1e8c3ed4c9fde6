#!/usr/bin/env bash
# Whether `msgpath connect` makes as many connections a second as TCP_CRR of netperf and tcp_crr of neper: a request and a reply of one byte
# on each, in turns, both ends of each program on the same two CPUs, all on 127.0.0.1.
#
#   benches/connect.sh [TURNS [SECONDS]]     5 turns of 3 s each: 2 minutes
#
# MSGPATH is the program, target/release/msgpath if unset; CPUS are the CPUs of client and server, 0,1. Beside netperf one connection is under
# way, beside neper 1 and 16. Exit 1: fewer than theirs. Exit 77: neither netperf nor neper is installed.
set -euo pipefail
turns=${1:-5} seconds=${2:-3} program=${MSGPATH:-target/release/msgpath} cpus=${CPUS:-0,1}
client=${cpus%,*} server=${cpus#*,}
[ -x "$program" ] || { echo "no program at $program: cargo build --release" >&2; exit 2; }
shapes=()
command -v netperf >/dev/null && command -v netserver >/dev/null && shapes+=('netperf 1') || echo "skipped: no netperf"
command -v tcp_crr >/dev/null && shapes+=('neper 1' 'neper 16') || echo "skipped: no tcp_crr (neper)"
[ ${#shapes[@]} -gt 0 ] || exit 77
folder=$(mktemp -d)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || true; rm -rf "$folder"' EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits until something listens at a port, without a connection: neper takes any as its client.
until_listens() {
    local hex
    hex=$(printf %04X "$1")
    until grep -qE "^ *[0-9]+: 0*(0100007F)?0*:$hex 0+:0000 0A" /proc/net/tcp /proc/net/tcp6 -h; do
        kill -0 "$running" || { cat "$folder/server" >&2; exit 1; }
        sleep 0.05
    done
}

# Each sets `rate`.
of_netperf() {
    local port
    port=$(free_port)
    netserver -D -4 -L 127.0.0.1 -p "$port" >"$folder/server" 2>&1 &
    running=$!
    until_listens "$port"
    rate=$(netperf -4 -H 127.0.0.1 -p "$port" -t TCP_CRR -l "$seconds" -T "$client,$server" -P 0 -v 0 -- -r 1,1 | tr -d ' \n')
    kill "$running"
    wait "$running" 2>/dev/null || true
    running=
}

of_neper() {
    local control data both here=$PWD
    cd "$folder" # where neper leaves its logs
    control=$(free_port) data=$(free_port)
    both=(-C "$control" -P "$data" -F "$1" -T 1 -l "$seconds" -Q 1 -R 1)
    taskset -c "$server" tcp_crr "${both[@]}" >"$folder/server" 2>&1 &
    running=$!
    until_listens "$control"
    taskset -c "$client" tcp_crr -c -H 127.0.0.1 "${both[@]}" >"$folder/neper" 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
    wait "$running" || true
    running=
    cd "$here"
    rate=$(sed -n 's/^throughput=//p' "$folder/neper" | tail -1)
}

ours() {
    XDG_DATA_HOME=$folder/home "$program" connect -x tcp -P "$1" -l 1 -t "${seconds}s" --cpu "$cpus" --no-save --json >"$folder/json" 2>"$folder/log" ||
        { cat "$folder/log" >&2; exit 1; }
    rate=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["cases"][0]["rate_per_s"]["value"])' <"$folder/json")
}

code=0
for shape in "${shapes[@]}"; do
    read -r tool connections <<<"$shape"
    : >"$folder/rates"
    for _ in $(seq "$turns"); do
        "of_$tool" "$connections"
        theirs=$rate
        ours "$connections"
        echo "$theirs $rate" | tee -a "$folder/rates" >&2
    done
    awk -v tool="$tool" -v connections="$connections" '
        { theirs += log($1); ours += log($2) }
        END { ratio = exp((ours - theirs) / NR)
              printf "%s, %d under way: %s %.0f/s, msgpath %.0f/s, ratio %.3f\n", tool, connections, tool, exp(theirs / NR), exp(ours / NR), ratio
              exit ratio < 1.0 }' "$folder/rates" || code=1
done
exit "$code"
