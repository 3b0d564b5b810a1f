#!/usr/bin/env bash
# Finds the files of docs/data.sha256 below a directory by size and content, whatever they are called, and links them
# under their names below LITHE_DATA (default data/): tools/data.sh DIRECTORY [LIST]
set -euo pipefail
from=${1:?usage: ./dev data DIRECTORY}
list=${2:-$(dirname "$0")/../docs/data.sha256}
to=${LITHE_DATA:-data}
[ -d "$from" ] || { echo "dev: there is no directory '$from'; give the one that holds what you downloaded" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Checksums of the files whose size is one of the list's, of nothing else.
find -L "$(realpath "$from")" -type f -printf '%s\t%p\n' 2>/dev/null | sort -k2 |
  awk -F'\t' 'NR == FNR { split($0, f, " "); wanted[f[2]] = 1; next } $1 in wanted { print $2 }' "$list" - |
  tr '\n' '\0' | xargs -0 -r sha256sum >"$work/found"

linked=0 damaged=0
while read -r sum bytes path; do
  case "$sum" in "#"*) continue ;; esac
  if [ ! -e "$to/$path" ]; then
    source=$(awk -v sum="$sum" '$1 == sum { print substr($0, 67); exit }' "$work/found")
    if [ -n "$source" ]; then
      mkdir -p "$(dirname "$to/$path")"
      ln -sfn "$source" "$to/$path"
      linked=$((linked + 1))
      state=here
    else
      state=missing
    fi
  elif [ "$(stat -Lc %s "$to/$path")" = "$bytes" ] && [ "$(sha256sum <"$to/$path" | cut -d' ' -f1)" = "$sum" ]; then
    state=here
  else
    echo "dev: $to/$path is not the file of docs/data.sha256 ($bytes bytes, SHA-256 $sum)" >&2
    damaged=$((damaged + 1))
    state=damaged
  fi
  echo "$state $path"
done <"$list" >"$work/states"

awk '{ n = split($2, part, "/"); set = part[1] "/" part[2]; if (!(set in all)) order[++sets] = set; ++all[set]; if ($1 == "here") ++here[set] }
  END { for (i = 1; i <= sets; ++i) { s = order[i]; printf "%-36s %s\n", s, here[s] == all[s] ? "complete" : here[s] + 0 " of " all[s] " files" } }' "$work/states"
echo "$linked files linked below $to, $damaged damaged"
[ "$damaged" -eq 0 ]
