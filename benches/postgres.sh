#!/usr/bin/env bash
# Whether `msgpath rpc postgres://` is as fast as `pgbench -M prepared`: SELECT 1 in turns, with 1 and with 8 clients.
#
#   benches/postgres.sh [TURNS [SECONDS]]     5 turns of 4 s each: 2 minutes
#
# MSGPATH is the program, target/release/msgpath if unset, built with --features postgres. A PostgreSQL of its own is started in a
# temporary folder, by a user without privileges. Exit 1: a rate is below 0.95 of pgbench's. Exit 77: no PostgreSQL.
set -euo pipefail
turns=${1:-5} seconds=${2:-4} program=${MSGPATH:-target/release/msgpath}
[ -x "$program" ] || { echo "no program at $program: cargo build --release --features postgres" >&2; exit 2; }
for tool in initdb postgres pgbench; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
folder=$(mktemp -d)
chmod 777 "$folder"
server=
trap '[ -z "$server" ] || { kill -INT "$server"; wait "$server" || true; }; rm -rf "$folder"' EXIT
"${as[@]}" initdb -D "$folder/data" -U bench -A trust --no-sync >/dev/null
"${as[@]}" postgres -D "$folder/data" -k "$folder" -c listen_addresses= -c fsync=off >"$folder/log" 2>&1 &
server=$!
until [ -S "$folder/.s.PGSQL.5432" ] && pgbench -i -I d -h "$folder" -U bench postgres >/dev/null 2>&1; do sleep 0.1; done
echo 'SELECT 1' >"$folder/one.sql"

theirs() {
    pgbench -n -M prepared -f "$folder/one.sql" -c "$1" -j "$1" -T "$seconds" -h "$folder" -U bench postgres 2>/dev/null |
        sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}

# Calls a second over the rounds: what was answered, by the time that it took. So many calls as fill about the same time.
ours() {
    XDG_DATA_HOME=$folder/home "$program" rpc "postgres://bench@/postgres?host=$folder" -k "$2" 'SELECT 1' -P "$1" --no-save --json 2>/dev/null |
        python3 -c 'import json, sys; case = json.load(sys.stdin)["cases"][0]; print(case["rate_per_s"]["value"])'
}

code=0
for clients in 1 8; do
    calls=$(python3 -c "print(int(float('$(theirs "$clients")') * $seconds))")
    for _ in $(seq "$turns"); do
        echo "$(theirs "$clients") $(ours "$clients" "$calls")"
    done | tee "$folder/rates" | awk -v clients="$clients" '
        { theirs += log($1); ours += log($2) }
        END { printf "%d clients: pgbench %.0f/s, msgpath %.0f/s, ratio %.3f\n", clients, exp(theirs / NR), exp(ours / NR), exp((ours - theirs) / NR)
              exit exp((ours - theirs) / NR) < 0.95 }' || code=1
done
exit "$code"
