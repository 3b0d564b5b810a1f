#!/usr/bin/env bash
# Translation with and without trees (docs/results.md, "Syntax"): trains a parser on UD English-EWT, parses the English
# captions of Multi30k with it, and compares the forms of recipes/experiments/multi30k_syntax.yaml. Needs LITHE_DATA;
# writes to runs/ and corpus/.
#   tools/multi30k_syntax.sh build/release/bin/lithe [options of compare]
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:-build/release/bin/lithe}
shift || true
text=$LITHE_DATA/translation/multi30k trees=corpus/multi30k-trees
tools/small_parser.sh "$lithe"
mkdir -p $trees
for part in train val test; do
  from=$text/$part.en.gz
  [ $part = test ] && from=$text/test_2016_flickr.en.gz
  [ -e $trees/$part.conllu ] && continue
  gzip -dc "$from" > $trees/$part.en
  "$lithe" predict runs/ewt-parser --weights best --conllu $trees/$part.en > $trees/$part.part
  mv $trees/$part.part $trees/$part.conllu
done
"$lithe" compare recipes/experiments/multi30k_syntax.yaml --out runs/multi30k-syntax --threads 1 "$@"
