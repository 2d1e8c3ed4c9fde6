#!/bin/sh
# What a loaded run costs. On a link of 10 Mbit/s between network namespaces: whether it takes the time that was asked, and how
# much of a CPU the load takes, by the CPU time of all its processes less that of the same echo without a load. As root or with user
# namespaces: benches/loaded.sh [MSGPATH] [SECONDS]
set -eu
msgpath=${1:-target/release/msgpath}
seconds=${2:-20}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
link="--between lab --link rate=10M,queue=100 -r 5 --no-save --progress none --json"

python3 - "$msgpath" "$seconds" $link <<'END'
import resource, subprocess, sys, time

msgpath, seconds, link = sys.argv[1], float(sys.argv[2]), sys.argv[3:]

def run(words, cases):
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([msgpath, *words, "-t", f"{seconds}s", *link], capture_output=True, text=True)
    took, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    asked = seconds * cases
    print(f"{' '.join(words)}: {took:.1f} s of {asked:.0f} s asked, {cpu:.2f} s of CPU, {100 * cpu / took:.1f} % of one")
    return cpu / took

# The echo is paced, so that it is the same work in both.
idle = run(["echo", "--rate", "100"], 1)
for words in (["loaded", "--rate", "100", "--direction", "up"], ["loaded", "--direction", "up"]):
    loaded = run(words, 2)
    print(f"  {100 * (loaded - idle):.1f} % of a CPU beyond the echo without a load")
END
