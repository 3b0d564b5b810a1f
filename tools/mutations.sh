#!/usr/bin/env bash
# Takes the mends of known defects out, one at a time, and asks whether the conformance suite sees each: tools/mutations.sh [FILTER].
# It works on a copy of the sources in build/mutations and leaves this tree as it is. A mutation is a file, a sed expression that must
# change it, the suite and its tests that look, and the defect.
set -euo pipefail
cd "$(dirname "$0")/.."
matrix='Heads/Matrix.*:MatrixCovering.*'
mutations=(
  "parts/common/attention_core.cpp|s/const bool looked_at = .*;/const bool looked_at = false;/|conformance|$matrix|heads of seeds are read in place of finished heads, by all"
  "parts/position/rpr.cpp|s/bool reads_heads() const override { return true; }/bool reads_heads() const override { return false; }/|conformance|$matrix|rpr tables meet seeds"
  "parts/position/xl.cpp|s/bool reads_keys() const override { return true; }/& bool reads_heads() const override { return false; }/|conformance|$matrix|xl rows meet seeds"
  "parts/field/topk_importance.cpp|s/bool reads_keys() const override .*/& bool reads_heads() const override { return false; }/|conformance|$matrix|importance of seeds"
  "parts/field/kmeans.cpp|s/bool reads_keys() const override { return true; }/& bool reads_heads() const override { return false; }/|conformance|$matrix|clusters of seeds"
  "parts/field/lsh.cpp|s/bool reads_keys() const override { return true; }/& bool reads_heads() const override { return false; }/|conformance|$matrix|buckets of seeds"
  "parts/field/sort.cpp|s/bool reads_keys() const override { return true; }/& bool reads_heads() const override { return false; }/|conformance|$matrix|blocks sorted by seeds"
  "parts/mixer/memory_attention.cpp|s/if (heads_->expands()) kept = heads_->expand(kept, turn);//|conformance|$matrix|memories keep seeds"
  "parts/heads/hidden_rows.cpp|s/return inner_->expands() ? inner_->expand(made, turn) : made;/return made;/|conformance|$matrix|hidden rows of seeds"
  "parts/common/attention_core.cpp|s/\.key_dim = heads_->key_dim(),/.key_dim = head_dim_,/|conformance|$matrix|fields take head_dim for the width of reduced keys"
  "parts/common/attention_core.cpp|s/if (position_) position_->check_heads(.*;//|conformance|$matrix|widths of positions are not checked when read"
  "parts/memory/priority_queue.cpp|s/if (value(score, \*at, head) < value(score, \*least, head)) least = at;/if (value(score, *at, head) <= value(score, *least, head)) least = at;/|parts|*PriorityQueue*|of equal scores the newer goes"
  "parts/mixer/memory_attention.cpp|s/if (position_ \&\& position_->turns()) {/if (false) {/|parts|*PriorityQueue*|lengths of keys that positions turned"
  "parts/stack/token_skip.cpp|s/(value_at(y, c) - value_at(x, c))/(value_at(x, c) - value_at(y, c))/|parts|*TokenSkip*|the gate of token_skip learns in the wrong direction"
)
copy=build/mutations
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -p -u -t "$copy"
cmake -S "$copy" -B "$copy/build/release" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLITHE_WERROR=ON -DLITHE_BENCH=OFF >/dev/null
nice ninja -C "$copy/build/release" test_conformance test_parts >/dev/null
missed=0
for mutation in "${mutations[@]}"; do
  IFS='|' read -r file edit suite tests defect <<<"$mutation"
  [[ "$defect" == *"${1:-}"* ]] || continue
  cp "$copy/lithe/$file" "$copy/before"
  sed -i "$edit" "$copy/lithe/$file"
  if cmp -s "$copy/lithe/$file" "$copy/before"; then
    echo "not applied: $defect ($file)"
    missed=$((missed + 1))
    continue
  fi
  if ! nice ninja -C "$copy/build/release" "test_$suite" >"$copy/log" 2>&1; then
    echo "does not compile: $defect"
    missed=$((missed + 1))
  elif "$copy/build/release/tests/test_$suite" --gtest_filter="$tests" --gtest_fail_fast --gtest_brief=1 >"$copy/log" 2>&1; then
    echo "NOT FOUND: $defect ($file)"
    missed=$((missed + 1))
  else
    echo "found: $defect ($(grep -m1 -o '\[  FAILED  \] [^ ,]*' "$copy/log" | cut -c14-))"
  fi
  cp -p "$copy/before" "$copy/lithe/$file"
  touch "$copy/lithe/$file"
done
[ "$missed" -eq 0 ] || { echo "$missed of them were not found"; exit 1; }
