#!/usr/bin/env bash
# Prefill and greedy decoding of GPT-2 124M by lithe, ONNX Runtime, llama.cpp, PyTorch and OpenVINO (which only reads the
# prompt) with f32, bf16, 8-bit and 4-bit weights: case by case in turns of about a second, so that a machine whose speed
# changes is fair to all (turns.py); at the end the medians and lithe's ratio to the fastest of the others. A peer that is not
# installed is left out, and that is said.
#   bench/peers/generate.sh [rounds] [weights: f32 bf16 int8 int4]
# Needs `ninja -C build/release benchmarks`, and for the peers
#   python3 -m venv PEERS; PEERS/bin/pip install onnx onnxruntime openvino nncf gguf numpy
#   CMAKE_ARGS=-DGGML_NATIVE=ON PEERS/bin/pip install --no-binary llama-cpp-python llama-cpp-python
#   python3 -m venv TORCH; TORCH/bin/pip install torch numpy
# with PEERS_PYTHON=PEERS/bin/python and PYTHON=TORCH/bin/python (without: python3). The models, 2.5 GB, are made in a
# temporary directory, or in MODELS=DIRECTORY and kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}" kinds="${2:-f32 bf16 int8 int4}"
models="${MODELS:-$(mktemp -d)}"
[ -n "${MODELS:-}" ] || trap 'rm -rf "$models"' EXIT
mkdir -p "$models"
. bench/peers/settings.sh
can "$peers" onnx,onnxruntime "ONNX Runtime" && ort=1 || ort=
can "$peers" gguf,llama_cpp llama.cpp && llama=1 || llama=
can "$peers" openvino,nncf OpenVINO && openvino=1 || openvino=
can "$torch" torch PyTorch && pytorch=1 || pytorch=

llama_kinds() { [ "$1" = int4 ] && echo int4 int4-pure || echo "$1"; }
# make FILE COMMAND...: runs it unless the file is there.
make() { [ -e "$1" ] || "${@:2}" > /dev/null 2>&1 || { echo "failed: ${*:2}" >&2; exit 1; }; }
for kind in $kinds; do
  make "$models/lithe-$kind/config.json" build/release/bench/generate_bench make "$models/lithe-$kind" "$kind"
  [ -z "$ort" ] || [ "$kind" = bf16 ] ||
    make "$models/$kind.onnx" "$peers" bench/peers/ort_generate.py make "$models/$kind.onnx" "$kind"
  [ -n "$llama" ] || continue
  make "$models/f32.gguf" "$peers" bench/peers/llama_generate.py make "$models/f32.gguf"
  for one in $(llama_kinds "$kind"); do
    make "$models/$one.gguf" "$peers" bench/peers/llama_generate.py quantize "$models/f32.gguf" "$models/$one.gguf" "$one"
  done
done

for kind in $kinds; do
  {
    case "$kind" in f32 | bf16) rows="$kind" ;; *) rows="f32 bf16" ;; esac
    for row in $rows; do held= turn build/release/bench/generate_bench "$models/lithe-$kind" "$row" turns; done
    [ -z "$ort" ] || [ "$kind" = bf16 ] || turn "$peers" bench/peers/ort_generate.py "$models/$kind.onnx" "$kind"
    [ -z "$llama" ] || for one in $(llama_kinds "$kind"); do
      for flash in auto off; do turn "$peers" bench/peers/llama_generate.py "$models/$one.gguf" "$one" "$flash"; done
    done
    [ -z "$openvino" ] || [ "$kind" = int4 ] || turn "$peers" bench/peers/openvino_runs.py prefill "$kind"
    case "$pytorch$kind" in 1f32 | 1bf16)
      for mode in sdpa explicit compiled compiled-explicit; do turn "$torch" bench/peers/torch_generate.py "$kind" "$mode"; done ;;
    esac
  } | in_turns "$rounds" tok/s work weights
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s work weights
