#!/bin/sh
# JSON lines (query, choices, gold) of HellaSwag's validation set as llama.cpp has it: six lines an item, the context,
# the number of the right ending, four endings. tools/hellaswag.sh hellaswag_val_full.txt.bz2 > hellaswag.jsonl
set -eu
[ $# -eq 1 ] || { echo "usage: $0 hellaswag_val_full.txt.bz2 > hellaswag.jsonl" >&2; exit 2; }
bzip2 -dc "$1" | awk '
function quoted(s) { gsub(/[\\"]/, "\\\\&", s); gsub(/\t/, "\\t", s); gsub(/\r/, "", s); return "\"" s "\"" }
{ item[NR % 6] = $0 }
NR % 6 == 0 {
  printf "{\"query\": %s, \"choices\": [%s, %s, %s, %s], \"gold\": %d}\n",
         quoted(item[1]), quoted(item[3]), quoted(item[4]), quoted(item[5]), quoted(item[0]), item[2]
}'
