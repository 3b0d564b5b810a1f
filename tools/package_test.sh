#!/usr/bin/env bash
# The packages in a bare Debian: debootstrap makes a root, apt installs what ./dev package made, and then a user's first commands run there:
# quickstart, manual page, completion, examples/generate against find_package(lithe), and the Python module. Needs root and debootstrap.
#   tools/package_test.sh [ROOT]      ROOT: a directory of an earlier debootstrap, kept; else a temporary one
set -euo pipefail
cd "$(dirname "$0")/.."
build="${LITHE_BUILD:-build/release}"
[ "$(id -u)" -eq 0 ] || { echo "package_test: needs root, for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null
./dev package
root="${1:-}"
if [ -z "$root" ]; then
  root=$(mktemp -d)
  trap 'umount "$root/proc" 2>/dev/null; rm -rf "$root"' EXIT
else
  trap 'umount "$root/proc" 2>/dev/null' EXIT
fi
if [ ! -e "$root/usr/bin/apt-get" ]; then
  mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | head -1)
  debootstrap --variant=minbase bookworm "$root" "$mirror" >"$build/debootstrap.log" 2>&1 || { tail -5 "$build/debootstrap.log" >&2; exit 1; }
fi
rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d" "$root/etc/apt/apt.conf.d"
cp -a /etc/apt/sources.list.d /etc/apt/apt.conf.d "$root/etc/apt/"
[ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/home/user"
cp "$build"/packages/*.deb "$root/home/user/"
mount -t proc proc "$root/proc" 2>/dev/null || true
cat >"$root/home/user/try.sh" <<'END'
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LITHE_LOG=warning
cd /home/user
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./lithe_*.deb bible-kjv bible-kjv-text >install.log 2>&1 || { tail -20 install.log; exit 1; }
lithe --version
lithe doctor >/dev/null
cp -r /usr/share/lithe/recipes .
mkdir -p runs/corpus
bible -f gen1:1-rev22:21 | cut -d' ' -f2- >runs/corpus/bible.txt
lithe train recipes/quickstart.yaml --out runs/quickstart --set train.max_steps=20 --overwrite
lithe generate runs/quickstart --prompt "And the LORD said" --max-new-tokens 20 --seed 7
lithe eval runs/quickstart --json | grep '"loss"'
zcat /usr/share/man/man1/lithe.1.gz /usr/share/man/man1/lithe-train.1.gz | grep 'TH LITHE-TRAIN 1' >/dev/null
. /usr/share/bash-completion/completions/lithe
COMP_WORDS=(lithe gen) COMP_CWORD=1
_lithe
[ "${COMPREPLY[*]}" = generate ] || { echo "completion of gen: ${COMPREPLY[*]}"; exit 1; }
COMP_WORDS=(lithe eval run --cache-type i) COMP_CWORD=4
_lithe
[ "${COMPREPLY[*]}" = int8 ] || { echo "completion of --cache-type: ${COMPREPLY[*]}"; exit 1; }
apt-get install -y -qq --no-install-recommends ./liblithe-dev_*.deb g++ cmake make pkg-config man-db >install.log 2>&1 || { tail -20 install.log; exit 1; }
man lithe-train | grep resume >/dev/null || { echo "man lithe-train says nothing"; exit 1; }
rm -rf generate
cp -r /usr/share/lithe/examples/generate .
cmake -S generate -B generate/build >/dev/null
cmake --build generate/build >/dev/null
generate/build/generate runs/quickstart "In the beginning"
g++ generate/main.cpp -o generate/by_pkg_config $(pkg-config --cflags --libs lithe)
[ "$(generate/by_pkg_config runs/quickstart "In the beginning")" = "$(generate/build/generate runs/quickstart "In the beginning")" ]
rm -rf requests
cp -r /usr/share/lithe/examples/requests .
cmake -S requests -B requests/build >/dev/null
cmake --build requests/build >/dev/null
printf 'In the beginning\nAnd\n' | requests/build/requests runs/quickstart | grep '^In the beginning' >/dev/null
apt-get install -y -qq --no-install-recommends ./python3-lithe_*.deb >install.log 2>&1 || { tail -20 install.log; exit 1; }
python3 - <<'PY'
import json, subprocess
import lithe
said = lithe.load("runs/quickstart").generate("In the beginning", max_new_tokens=9, seed=7).text
asked = ["lithe", "generate", "runs/quickstart", "--prompt", "In the beginning", "--max-new-tokens", "9", "--seed", "7", "--json"]
told = json.loads(subprocess.check_output(asked))["text"]
assert said == told, (said, told)
PY
echo "the packages work in a bare Debian"
END
chroot "$root" bash /home/user/try.sh
