#!/bin/sh
# English and German sentences side by side, from two Debian packages (MPL-2.0): paragraphs of LibreOffice's help that
# have the same id, as tab-separated lines for recipes/translation/help_en_de.yaml.
#   tools/libreoffice_pairs.sh corpus       writes corpus/{train,valid,test}.tsv
set -eu
[ $# -eq 1 ] || { echo "usage: tools/libreoffice_pairs.sh DIRECTORY" >&2; exit 2; }
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
for package in libreoffice-help-en-us libreoffice-help-de; do
  (cd "$work" && apt-get download -q "$package" >/dev/null 2>&1 && dpkg -x "$package"_*.deb .) || {
    echo "tools/libreoffice_pairs.sh: package $package could not be fetched; run apt-get update" >&2
    exit 1
  }
done

# Lines "file id <tab> text" of one language.
paragraphs() (
  cd "$work/usr/share/libreoffice/help/$1/text"
  grep -rhoHE '<(p|h[1-6]) id="[a-z_]*[0-9]+"[^>]*>.*</(p|h[1-6])>' --include='*.html' . |
    sed -E -e 's/^([^:]*):<[a-z0-9]+ id="([^"]*)"[^>]*>/\1 \2\t/' -e 's/<[^>]*>//g' -e 's/&lt;/</g' -e 's/&gt;/>/g' \
      -e 's/&quot;/"/g' -e 's/&nbsp;/ /g' -e 's/&amp;/\&/g' -e 's/\t +/\t/' -e 's/ +$//' |
    awk -F '\t' 'NF == 2 && length($2) > 1 && length($2) < 400 && !seen[$1]++' | LC_ALL=C sort -t "$(printf '\t')" -k 1,1
)
paragraphs en-US > "$work/en"
paragraphs de > "$work/de"
# What is equal was not translated; a text that stands in many places counts once.
LC_ALL=C join -t "$(printf '\t')" "$work/en" "$work/de" |
  awk -F '\t' '$2 != $3 && !seen[$2]++ { print $2 "\t" $3 }' > "$work/pairs"
awk -v out="$out" '{ print > (out "/" (NR % 40 == 0 ? "valid" : NR % 40 == 20 ? "test" : "train") ".tsv") }' "$work/pairs"
wc -l "$out/train.tsv" "$out/valid.tsv" "$out/test.tsv"
