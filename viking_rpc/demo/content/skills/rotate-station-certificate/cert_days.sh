#!/bin/sh
# Print stations whose certificate ends within a number of days, soonest first.
# usage: cert_days.sh FILE [DAYS]     FILE: station<TAB>serial<TAB>not-after as epoch seconds
set -eu

file=${1:?usage: cert_days.sh FILE [DAYS]}
days=${2:-20}
now=$(date +%s)

awk -F '\t' -v now="$now" -v days="$days" '
    NF == 3 { left = int(($3 - now) / 86400); if (left <= days) printf "%d\t%s\t%s\n", left, $1, $2 }
    NF != 3 { printf "line %d: expected 3 fields, got %d\n", NR, NF > "/dev/stderr"; bad = 1 }
    END { exit bad }
' "$file" | sort -n
