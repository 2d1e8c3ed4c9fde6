#!/bin/sh
# Makes the pictures of the README from real runs on this machine:
#
#   docs/report-light.png  docs/report-dark.png    the report of an echo, as a browser shows it
#   docs/terminal.png                              a comparison, as a terminal shows it
#
# Run it on a quiet machine; it takes a few minutes:  docs/pictures.sh
# Needs a Rust toolchain and Chromium. MSGPATH names a built program, CHROMIUM a browser, SECONDS_EACH the time of a case.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$browser" ]; then
    echo "no Chromium: apt-get install chromium, or set CHROMIUM" >&2
    exit 3
fi
if [ -z "${MSGPATH:-}" ]; then
    cargo build --release --quiet
    MSGPATH=${CARGO_TARGET_DIR:-$PWD/target}/release/msgpath
fi
seconds=${SECONDS_EACH:-10}

# page.html out.png width height scheme (0: dark, 1: light)
shot() {
    sandbox=$([ "$(id -u)" = 0 ] && echo --no-sandbox || true)
    # shellcheck disable=SC2086 # no word at all where there is no option
    timeout 120 "$browser" --headless $sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
        --virtual-time-budget=10000 --blink-settings=preferredColorScheme="$5" --window-size="$3,$4" \
        --screenshot="$work/shot.png" "file://$1" >"$work/browser.log" 2>&1 || true
    if [ ! -s "$work/shot.png" ]; then
        cat "$work/browser.log" >&2
        echo "the browser made no picture of $1" >&2
        exit 1
    fi
    mv "$work/shot.png" "$2"
    echo "$2"
}

# The runs stay in a folder of their own, whose name is not part of the picture.
export HOME="$work/home" XDG_DATA_HOME=
mkdir "$HOME"

# What is typed stands in the picture: nothing but what a reader would type.
"$MSGPATH" echo -o stamps=both -t "${seconds}s" >"$work/echo.txt"
"$MSGPATH" report @last -o "$work/report.html" >/dev/null
shot "$work/report.html" docs/report-light.png 1280 900 1
shot "$work/report.html" docs/report-dark.png 1280 900 0

"$MSGPATH" compare --color always -t "${seconds}s" -o message-log=0 >"$work/compare.txt"
# A picture has an end: what is left out is said.
most=64
all=$(wc -l <"$work/compare.txt")
if [ "$all" -gt "$most" ]; then
    head -n "$most" "$work/compare.txt" >"$work/head.txt"
    printf '\n... and %s more lines\n' $((all - most)) >>"$work/head.txt"
    mv "$work/head.txt" "$work/compare.txt"
fi
escape=$(printf '\033')
{
    printf '%s\n' '<!doctype html><meta charset="utf-8"><style>' \
        'body{margin:0;background:#10141a}pre{margin:18px 22px;font:14px/19px "DejaVu Sans Mono","Noto Sans Mono",monospace;color:#d9dee5}' \
        '.c1{font-weight:700;color:#fff}.c2{color:#8f9aa6}.c31{color:#f58a7b}.c32{color:#5fd3a6}.c33{color:#f2c14e}.c34{color:#7cb7ff}' \
        '</style><pre>'
    printf '<span class="c2">$</span> <b>msgpath compare -t %ss -o message-log=0</b>\n' "$seconds"
    # The last lines name files of this machine.
    sed -e '/^saved /d' -e '/^report /d' -e 's/&/\&amp;/g' -e 's/</\&lt;/g' -e 's/>/\&gt;/g' \
        -e "s/$escape\[0m/<\/span>/g" -e "s/$escape\[\([0-9]*\)m/<span class=\"c\1\">/g" "$work/compare.txt"
    printf '</pre>\n'
} >"$work/terminal.html"
lines=$(wc -l <"$work/terminal.html")
shot "$work/terminal.html" docs/terminal.png 920 $((lines * 19 + 10)) 0
