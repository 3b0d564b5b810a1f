#!/usr/bin/env bash
# tools/arm64_sysroot.sh DIR PACKAGE...: Debian's arm64 packages and what they need, unpacked below DIR. They are
# downloaded by an apt with lists and a state of its own: nothing on this machine is installed, changed or removed.
set -euo pipefail
root=$(mkdir -p "$1" && cd "$1" && pwd)
shift
packages=(libc6-dev libgcc-12-dev libstdc++-12-dev libgomp1 "$@")
stamp="$root/.packages"
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "${packages[*]}" ] && exit 0
state="$root.apt"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
: >"$state/status"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$state/status"
  -o Dir::State::Lists="$state/lists" -o Dir::Cache="$state/cache")
log="$state/log"
# Sources that have no arm64 index fail alone; that a package is missing shows below.
"${apt[@]}" update >"$log" 2>&1 || true
if ! "${apt[@]}" -y --download-only --no-install-recommends install "${packages[@]}" >>"$log" 2>&1; then
  cat "$log" >&2
  echo "arm64: Debian's arm64 packages could not be downloaded; give a sysroot of your own as LITHE_ARM64_SYSROOT" >&2
  exit 1
fi
for package in "$state"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
# What Debian links absolutely would lead out of the sysroot.
find "$root" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
done
echo "${packages[*]}" >"$stamp"
