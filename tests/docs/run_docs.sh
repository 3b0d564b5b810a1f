#!/usr/bin/env bash
# Runs the blocks marked "```sh run" of README.md and docs/*.md, in order, in an empty directory with a small corpus, and
# checks that the generated references are current: run_docs.sh PATH/TO/lithe
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
lithe=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 passed=0

mkdir "$work/docs"
"$root/tools/docs.sh" "$lithe" "$work/docs"
for page in recipe-reference cli-reference; do
  if cmp -s "$work/docs/$page.md" "$root/docs/$page.md"; then
    passed=$((passed + 1))
  else
    echo "docs/$page.md is not what the program says; run ./dev docs"
    diff "$work/docs/$page.md" "$root/docs/$page.md" | head -5
    failed=$((failed + 1))
  fi
done

cd "$work"
ln -s "$root/recipes" recipes
mkdir -p bin runs/corpus
ln -s "$lithe" bin/lithe
export PATH="$work/bin:$PATH" XDG_CACHE_HOME="$work/cache" LITHE_LOG=warning
for i in $(seq 1 400); do
  echo "And it came to pass in the days of king number $i that the people of the valley went up to the hill, and found there $((i * 7 % 13)) wells of water."
  [ $((i % 40)) -ne 0 ] || echo
done >my.txt
cp my.txt runs/corpus/bible.txt

# Every recipe can be planned.
for recipe in recipes/*.yaml recipes/*/*.yaml; do
  case "$recipe" in recipes/presets/* | recipes/experiments/* | recipes/zero_shot/*) continue ;; esac
  if lithe plan --no-speed "$recipe" >/dev/null 2>err; then passed=$((passed + 1)); else
    echo "lithe plan $recipe: $(cat err)"
    failed=$((failed + 1))
  fi
done

# Every experiment can be costed with all its variants, as far as its corpus is here.
for experiment in recipes/experiments/*.yaml; do
  grep -q '^variants:' "$experiment" || continue
  if lithe compare --plan "$experiment" >/dev/null 2>err || grep -q 'nothing matches' err; then passed=$((passed + 1)); else
    echo "lithe compare --plan $experiment: $(cat err)"
    failed=$((failed + 1))
  fi
done

for page in "$root"/README.md "$root"/docs/*.md; do
  while IFS= read -r line; do
    [ -n "$line" ] || continue
    if bash -c "$line" >out 2>err; then
      passed=$((passed + 1))
    else
      echo "$(basename "$page"): $line"
      cat err
      failed=$((failed + 1))
    fi
  done < <(awk '/^```sh run/ { on = 1; next } /^```/ { on = 0 } on' "$page")
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
