#!/usr/bin/env bash
# Calls of nginx by `rpc` and by wrk, in turn, over HTTP/1.1 in clear text and over TLS: rates in a closed loop with as many connections.
# Exit 1 where rpc has less than 95 % of wrk's rate (the median of the ratios of neighbours).
#
#   benches/http.sh [PAIRS [SECONDS [CONNECTIONS]]]      7 pairs of 3 s, 1 connection
#
# MSGPATH is the program, target/release/msgpath if unset, built with --features tls. Needs nginx, wrk and openssl. All of it stays on
# 127.0.0.1 and in a folder of its own.
set -euo pipefail
pairs=${1:-7} seconds=${2:-3} connections=${3:-1} program=${MSGPATH:-target/release/msgpath}
for tool in nginx wrk openssl python3; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
[ -x "$program" ] || { echo "no program at $program: cargo build --release --features tls" >&2; exit 2; }
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
clear=18480 secure=18481
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout "$folder/key.pem" -out "$folder/cert.pem" \
    -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null
cat >"$folder/nginx.conf" <<END
daemon off; master_process off; worker_processes 1; pid $folder/pid; error_log $folder/log;
events {}
http {
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
    client_body_temp_path $folder/a; proxy_temp_path $folder/b; fastcgi_temp_path $folder/c; uwsgi_temp_path $folder/d; scgi_temp_path $folder/e;
    server { listen 127.0.0.1:$clear; location / { return 200 "hello"; } }
    server { listen 127.0.0.1:$secure ssl; ssl_certificate $folder/cert.pem; ssl_certificate_key $folder/key.pem; ssl_protocols TLSv1.3; location / { return 200 "hello"; } }
}
END
nginx -p "$folder" -e "$folder/log" -c "$folder/nginx.conf" &
server=$!
until { exec 3<>"/dev/tcp/127.0.0.1/$secure"; } 2>/dev/null; do
    kill -0 "$server" || { cat "$folder/log"; exit 1; }
    sleep 0.05
done
exec 3>&- 3<&-

# Calls a second, and p50 and p99 in µs.
of_wrk() {
    wrk -t "$connections" -c "$connections" -d "${seconds}s" --latency "$1" >"$folder/wrk"
    python3 - "$folder/wrk" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
unit = {"us": 1, "ms": 1e3, "s": 1e6}
at = lambda p: next(float(a) * unit[b] for a, b in re.findall(rf"{p}%\s+([\d.]+)(us|ms|s)", text))
print(re.search(r"Requests/sec:\s+([\d.]+)", text)[1], at(50), at(99))
PYTHON
}

# As many calls as wrk made.
of_rpc() {
    XDG_DATA_HOME=$folder "$program" rpc "$1" -k "$2" GET -P "$connections" -r 5 --json --no-save ${3:+--cacert "$3"} >"$folder/rpc" || true
    python3 - "$folder/rpc" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
case = value["cases"][0]
at = {q["p"]: q["ns"] / 1e3 for q in case["latency"]["quantiles"]} if "latency" in case else {q["p"]: q["ns"] / 1e3 for q in case["quantiles"]}
kind = value["rpc"]["kinds"][0]
print(kind["calls"] / (kind["wall_ns"] / 1e9), at[0.5], at[0.99])
PYTHON
}

failed=0
for url in "http://127.0.0.1:$clear/" "https://127.0.0.1:$secure/"; do
    cacert=
    case $url in https*) cacert=$folder/cert.pem ;; esac
    : >"$folder/pairs"
    for pair in $(seq "$pairs"); do
        wrk=$(of_wrk "$url")
        calls=$(python3 -c "print(max(1000, int($(cut -d' ' -f1 <<<"$wrk") * $seconds)))")
        rpc=$(of_rpc "$url" "$calls" "$cacert")
        echo "$wrk $rpc" | tee -a "$folder/pairs" | sed "s|^|$url pair $pair: wrk rate p50 p99, rpc the same: |"
    done
    python3 - "$folder/pairs" "$url" <<'PYTHON' || failed=1
import statistics, sys
rows = [[float(word) for word in line.split()] for line in open(sys.argv[1])]
ratios = [statistics.median(row[3 + at] / row[at] for row in rows) for at in range(3)]
print(f"{sys.argv[2]}: rpc over wrk: rate {ratios[0]:.3f}, p50 {ratios[1]:.3f}, p99 {ratios[2]:.3f}")
sys.exit(0 if ratios[0] >= 0.95 else 1)
PYTHON
done
exit $failed
