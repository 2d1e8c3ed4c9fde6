#!/bin/sh
# What a loaded run costs. On a link of 10 Mbit/s between network namespaces: whether it takes the time that was asked, and how much
# of a CPU the two processes of its load take while they send, unpaced and paced. Exit code 1 where the load takes more than 5 % of a
# CPU, or the run more than a tenth and 3 s beyond the time that was asked. As root or with user namespaces:
# benches/loaded.sh [MSGPATH] [SECONDS A CASE]
set -eu
msgpath=${1:-target/release/msgpath}
seconds=${2:-20}

exec python3 - "$msgpath" "$seconds" <<'END'
import os, subprocess, sys, time

msgpath, seconds = sys.argv[1], float(sys.argv[2])
LINK = "--between lab --link rate=10M,queue=100 -r 5 --no-save --progress none --json".split()
MOST_CPU, MORE, START = 0.05, 0.1, 3.0
# An end of the load has a thread for each of its 4 streams beside the first; one of the echo has two or three threads.
THREADS = 5
TICK = os.sysconf("SC_CLK_TCK")

def processes():
    """Parent, threads and CPU time (s) of each process."""
    all = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        all[int(pid)] = (int(words[1]), int(words[17]), (int(words[11]) + int(words[12])) / TICK)
    return all

def below(root, all):
    """Processes that `root` has started, and those that they have."""
    found, new = set(), {root}
    while new:
        new = {pid for pid, (parent, _, _) in all.items() if parent in new} - found
        found |= new
    return found

def run(words, cases):
    begun, spent, went, before = time.monotonic(), 0.0, {}, {}
    child = subprocess.Popen([msgpath, *words, "-t", f"{seconds}s", *LINK], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while child.poll() is None:
        now, all = time.monotonic(), processes()
        sends = {pid: (now, all[pid][2]) for pid in below(child.pid, all) if all[pid][1] >= THREADS}
        for pid in sends.keys() & before.keys():
            spent += sends[pid][1] - before[pid][1]
            went[pid] = went.get(pid, 0.0) + now - before[pid][0]
        before = sends
        time.sleep(0.1)
    took, asked = time.monotonic() - begun, seconds * cases
    if child.returncode != 0:
        sys.exit(f"{' '.join(words)}: {child.stderr.read()}")
    # Both ends of a load send and receive over the same time.
    sent = max(went.values(), default=0.0)
    if len(went) != 2 or sent < seconds / 4:
        sys.exit(f"{' '.join(words)}: {len(went)} processes of a load were seen for {sent:.1f} s, 2 were expected")
    share = spent / sent
    print(f"{' '.join(words)}: {took:.1f} s of {asked:.0f} s asked; the load takes {100 * share:.1f} % of a CPU over {sent:.1f} s")
    return [text for wrong, text in (
        (share > MOST_CPU, f"the load takes more than {100 * MOST_CPU:.0f} % of a CPU"),
        (took > (1 + MORE) * asked + START, "the run takes more than the time that was asked"),
    ) if wrong]

wrong = run(["loaded", "--direction", "up"], 2) + run(["loaded", "--direction", "up", "--load-rate", "9M"], 2)
for text in wrong:
    print(f"FAILED: {text}")
sys.exit(1 if wrong else 0)
END
