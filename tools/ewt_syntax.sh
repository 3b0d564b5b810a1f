#!/usr/bin/env bash
# Tagging with and without trees (docs/results.md, "Syntax"): compares the forms of recipes/experiments/ewt_syntax.yaml with gold
# trees, and with those of a parser that has not learned from these sentences, whose probabilities are a form of their own. Needs
# LITHE_DATA; writes to runs/ and corpus/.
#   tools/ewt_syntax.sh build/release/bin/lithe [options of compare]
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:-build/release/bin/lithe}
shift || true
gold=$LITHE_DATA/syntax/UD_English-EWT trees=corpus/ewt-trees
tools/small_parser.sh "$lithe"
mkdir -p $trees
for part in dev test; do
  [ -e $trees/$part.conllu ] && continue
  "$lithe" predict runs/ewt-parser --weights best --conllu --probabilities "$gold/en_ewt-ud-$part.conllu" > $trees/$part.part
  mv $trees/$part.part $trees/$part.conllu
done
sed -e "s|^recipe: \.\.|recipe: $PWD/recipes|" \
  -e "s|^baseline:|set: {task.train: [$trees/dev.conllu], task.test: [$trees/test.conllu]}\n&|" \
  -e 's|^  branches:|  probabilities: {model.mixer.field: {type: tree, tree: parser, weight: probability, apply: log_add}}\n&|' \
  recipes/experiments/ewt_syntax.yaml > $trees/predicted.yaml
"$lithe" compare recipes/experiments/ewt_syntax.yaml --out runs/ewt-syntax --threads 1 "$@"
"$lithe" compare $trees/predicted.yaml --out runs/ewt-syntax-predicted --threads 1 "$@"
