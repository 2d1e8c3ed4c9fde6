#!/usr/bin/env bash
# Texts of strace and of `perf sched timehist`, one for each combination of the options that shape their lines.
#
#   features/tracers/tests/texts.sh FOLDER
#
# Each text is FOLDER/strace-N or FOLDER/timehist-N, and FOLDER/options has a line `NAME<tab>OPTIONS` for each. An option that the
# installed version lacks has no text. What cannot be made here is said on standard error, behind `skipped:`.
set -uo pipefail
folder=$1
: >"$folder/options"
count=0

# Keeps a text that is not empty.
keep() {
    [ -s "$folder/text" ] || return 0
    count=$((count + 1))
    mv "$folder/text" "$folder/$1-$count"
    printf '%s\t%s\n' "$1-$count" "$2" >>"$folder/options"
}

# A program whose name has a blank, with children, a pipe, a signal and errors; and one that only has a child.
ln -sf /bin/sh "$folder/my prog"
much='ls / >/dev/null; (sleep 0.01; cat /etc/hostname /nowhere) 2>/dev/null | wc -c >/dev/null & wait; sh -c "kill -USR1 \$\$"; true'
little='cd /nowhere 2>/dev/null; : & wait'

traced() {
    local options=$1 program=$2
    # Each option is a word.
    # shellcheck disable=SC2086
    strace $options -o "$folder/text" "$folder/my prog" -c "$program" </dev/null >/dev/null 2>&1
    keep strace "$options"
}

if command -v strace >/dev/null; then
    # Whose a call is, where it was made, when, and how long it took.
    for who in '' -f '-f -Y' '-f --decode-pids=comm,pidns'; do
        for where in '' -i '-n -i'; do
            for when in '' -r -t -tt -ttt '-r -t' '-r -tt' '-r -ttt' --relative-timestamps=ns --absolute-timestamps=format:unix,precision:ns \
                --absolute-timestamps=format:time,precision:ms; do
                for long in '' -T --syscall-times=ns; do
                    traced "$who $where $when $long" "$little"
                done
            done
        done
    done
    # What a call is shown with, and what is shown beside calls.
    for what in -y -yy -x -xx -k '-e write=all -e read=all' '-v -s 4096' '-X raw' '-X verbose' '-a 0' '-a 100' -q -qq -z -Z \
        '-e abbrev=none' '-e raw=all' '-e verbose=none' '-e signal=none' --seccomp-bpf '-P /etc/hostname' '-e trace=%process' \
        '-e status=failed,unfinished,detached' '-e fault=close:error=EIO:when=3' '-y --secontext' --tips=none; do
        for when in '' -r '-ttt -T'; do
            traced "-f $what $when" "$much"
        done
    done
    for table in -c '-w -c' '-c -S time' '-w -c -S calls' '-c -U time-total,calls,errors,name' '-w -c -U calls,time-max,time-total,name' -C \
        '-C -ttt -T'; do
        traced "-f $table" "$much"
    done
    [ "$count" -gt 0 ] || echo "skipped: strace traces nothing here" >&2
else
    echo "skipped: no strace" >&2
fi

before=$count
if ! command -v perf >/dev/null; then
    echo "skipped: no perf" >&2
elif ! perf sched record -o "$folder/perf.data" -- sh -c "$much" </dev/null >/dev/null 2>&1; then
    echo "skipped: perf sched record records nothing here" >&2
else
    flags=(-V -w -M -n --state -S)
    for subset in $(seq 0 $(((1 << ${#flags[@]}) - 1))); do
        options=
        for bit in "${!flags[@]}"; do
            [ $((subset >> bit & 1)) = 0 ] || options+="${flags[bit]} "
        done
        # shellcheck disable=SC2086
        perf sched timehist -i "$folder/perf.data" $options </dev/null >"$folder/text" 2>/dev/null && keep timehist "$options"
    done
    for options in --show-prio '--pid 0' '-C 0' -I '-I -w' -g '--max-stack 1'; do
        # shellcheck disable=SC2086
        perf sched timehist -i "$folder/perf.data" $options </dev/null >"$folder/text" 2>/dev/null && keep timehist "$options"
    done
    [ "$count" -gt "$before" ] || echo "skipped: perf sched timehist prints nothing here" >&2
fi
rm -f "$folder/text" "$folder/perf.data"
