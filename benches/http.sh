#!/usr/bin/env bash
# Calls of nginx by `rpc` and by a tool of others, in turn, over HTTP/1.1 in clear text and over TLS, with as many connections:
#   beside wrk in a closed loop: the rates;
#   beside oha at one rate, by a schedule, timed from the intended send: rates, p50 and p99.
# Judged are medians of the ratios of neighbours. Exit 1: rpc has less than 95 % of a rate, or a time at the same rate that is more
# than 5 % above oha's. Times more than 5 % below are said: a schedule of oha is as fine as its timer, a millisecond.
#
#   benches/http.sh [PAIRS [SECONDS [CONNECTIONS [RATE]]]]      7 pairs of 3 s, 1 connection; beside oha 1000 a second over at least 8
#
# MSGPATH is the program, target/release/msgpath if unset, built with --features tls. Needs nginx, wrk and openssl; oha where it is
# installed. All of it stays on 127.0.0.1 and in a folder of its own.
set -euo pipefail
pairs=${1:-7} seconds=${2:-3} connections=${3:-1} rate=${4:-1000} program=${MSGPATH:-target/release/msgpath}
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

# Calls a second, and p50 and p99 in µs, of what rpc prints with --json.
of_rpc() {
    XDG_DATA_HOME=$folder "$program" rpc "$@" -r 5 --json --no-save >"$folder/rpc" || true
    python3 - "$folder/rpc" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
case, kind = value["cases"][0], value["rpc"]["kinds"][0]
at = {q["p"]: q["ns"] for q in case["quantiles"]}
if at[0.5] is None:
    sys.exit(f"rpc gives no times: {case['quantiles'][0]['why']}")
rate = kind["calls"] / (kind["wall_ns"] / 1e9) if case.get("open") is None else case["rate_per_s"]["value"]
print(rate, at[0.5] / 1e3, at[0.99] / 1e3)
PYTHON
}

# The same of oha at the rate, from the intended send. Its option for JSON has another name since 1.10.
of_oha() {
    local json=(-j)
    ! oha --help | grep -q -e --output-format || json=(--output-format json)
    oha -q "$rate" -z "${seconds}s" -c "$2" --latency-correction --no-tui "${json[@]}" ${3:+--cacert "$3"} "$1" >"$folder/oha"
    python3 - "$folder/oha" <<'PYTHON'
import json, sys
value = json.load(open(sys.argv[1]))
at = value["latencyPercentiles"]
print(value["summary"]["requestsPerSec"], at["p50"] * 1e6, at["p99"] * 1e6)
PYTHON
}

# Medians of the ratios of a file of pairs; with `times` p50 and p99 are judged too.
judge() {
    python3 - "$@" <<'PYTHON'
import statistics, sys
file, what, times = sys.argv[1:]
rows = [[float(word) for word in line.split()] for line in open(file)]
rate, p50, p99 = (statistics.median(row[3 + at] / row[at] for row in rows) for at in range(3))
word = lambda ratio: "" if 0.95 <= ratio <= 1.05 else f" ({'below' if ratio < 1 else 'above'} 5 %)"
print(f"{what}: rate {rate:.3f}, p50 {p50:.3f}{word(p50) if times else ''}, p99 {p99:.3f}{word(p99) if times else ''}")
sys.exit(0 if rate >= 0.95 and not (times and max(p50, p99) > 1.05) else 1)
PYTHON
}

failed=0
oha=1
command -v oha >/dev/null || { oha=; echo "skipped at one rate: oha is not installed"; }
open=$((connections > 8 ? connections : 8))
for url in "http://127.0.0.1:$clear/" "https://127.0.0.1:$secure/"; do
    cacert=
    case $url in https*) cacert=$folder/cert.pem ;; esac
    : >"$folder/pairs"
    for pair in $(seq "$pairs"); do
        wrk=$(of_wrk "$url")
        calls=$(python3 -c "print(max(1000, int($(cut -d' ' -f1 <<<"$wrk") * $seconds)))")
        rpc=$(of_rpc "$url" -k "$calls" GET -P "$connections" ${cacert:+--cacert "$cacert"})
        echo "$wrk $rpc" | tee -a "$folder/pairs" | sed "s|^|$url pair $pair: wrk rate p50 p99, rpc the same: |"
    done
    judge "$folder/pairs" "$url: rpc over wrk" '' || failed=1
    [ -n "$oha" ] || continue
    : >"$folder/pairs"
    for pair in $(seq "$pairs"); do
        theirs=$(of_oha "$url" "$open" "$cacert")
        rpc=$(of_rpc "$url" GET --rate "$rate" --arrivals constant --duration "${seconds}s" -P "$open" ${cacert:+--cacert "$cacert"})
        echo "$theirs $rpc" | tee -a "$folder/pairs" | sed "s|^|$url pair $pair: oha rate p50 p99, rpc the same: |"
    done
    judge "$folder/pairs" "$url at $rate/s: rpc over oha" times || failed=1
done
exit $failed
