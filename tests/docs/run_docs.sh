#!/usr/bin/env bash
# What a newcomer does, from an empty directory without data sets: the blocks of docs/*.md and README.md, in this order, with a small text
# where the quickstart's would be, each as one script. Also checks that the generated references are current.
#   ```sh run     runs as it stands
#   ```sh short   runs, but trainings, comparisons and benchmarks of shipped recipes are shortened
#   ```sh data    needs data sets: without them it is refused with the word where to get them
#   ```sh         builds, or is for another machine: not run
#   run_docs.sh PATH/TO/lithe
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
lithe=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 passed=0

mkdir "$work/docs"
"$root/tools/docs.sh" "$lithe" "$work/docs"
for page in recipe-reference cli-reference methods; do
  if cmp -s "$work/docs/$page.md" "$root/docs/$page.md"; then
    passed=$((passed + 1))
  else
    echo "docs/$page.md is not what the program says; run ./dev docs"
    diff "$work/docs/$page.md" "$root/docs/$page.md" | head -5 || true
    failed=$((failed + 1))
  fi
done

cd "$work"
ln -s "$root/recipes" recipes
mkdir -p bin runs/corpus
cat >bin/lithe <<END
#!/usr/bin/env bash
case "\$SHORT \$1 \$2" in
  "1 train recipes/"* | "1 init recipes/"*) exec "$lithe" "\$@" --set train.max_steps=20 --set train.eval_steps=10 --set train.save_steps=10 ;;
  "1 compare "*) exec "$lithe" "\$@" --plan ;;
  "1 bench "*) exec "$lithe" "\$@" --rounds 1 --seconds 0.0001 ;;
esac
exec "$lithe" "\$@"
END
chmod +x bin/lithe
unset LITHE_DATA
export SHORT=0 PATH="$work/bin:$PATH" XDG_CACHE_HOME="$work/cache" LITHE_LOG=warning
for i in $(seq 1 400); do
  echo "And it came to pass in the days of king number $i that the people of the valley went up to the hill, and found there $((i * 7 % 13)) wells of water."
  [ $((i % 40)) -ne 0 ] || echo
done >my.txt
cp my.txt runs/corpus/bible.txt

# Every recipe can be planned.
for recipe in recipes/*.yaml recipes/*/*.yaml; do
  case "$recipe" in recipes/presets/* | recipes/experiments/* | recipes/zero_shot/* | recipes/synthetic/*) continue ;; esac
  if lithe plan --no-speed "$recipe" >/dev/null 2>err && lithe plan --cost "$recipe" >/dev/null 2>err; then passed=$((passed + 1)); else
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

# Blocks as files: block-<n>, whose first line says what kind it is and where it stands.
for page in "$root"/docs/*.md "$root"/README.md; do
  rm -f block-*
  awk -v page="$(basename "$page")" '
    /^```sh (run|short|data)$/ { name = sprintf("block-%03d", ++n); print "# " $2 " " page ":" NR > name; on = 1; next }
    /^```/ { on = 0 }
    on { print > name }' "$page"
  for block in block-*; do
    [ -e "$block" ] || continue
    read -r _ kind place <"$block"
    export SHORT=0
    [ "$kind" != short ] || export SHORT=1
    status=0
    bash -euo pipefail "$block" >out 2>err || status=$?
    if [ "$status" -eq 0 ]; then
      passed=$((passed + 1))
    elif [ "$kind" = data ] && grep -q 'set LITHE_DATA' err; then
      passed=$((passed + 1))
    else
      echo "$place fails with exit code $status:"
      cat "$block" err
      failed=$((failed + 1))
    fi
  done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
