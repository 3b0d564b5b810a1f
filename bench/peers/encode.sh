#!/usr/bin/env bash
# Encoding throughput of lithe, PyTorch, ONNX Runtime and OpenVINO on the same work, case by case in turns of a second, so that a
# machine whose speed changes is fair to all (turns.py); at the end the medians and lithe's ratio to the fastest of the others.
# A peer that is not installed is left out, and that is said. Needs `ninja -C build/release benchmarks` and what generate.sh says.
#   bench/peers/encode.sh [rounds] [PyTorch's modes: fast,sdpa,compiled]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}" modes="${2:-fast,sdpa,compiled}"
. bench/peers/settings.sh
can "$peers" onnx,onnxruntime "ONNX Runtime" && ort=1 || ort=
can "$peers" openvino,nncf OpenVINO && openvino=1 || openvino=
can "$torch" torch PyTorch && pytorch=1 || pytorch=
{
  held= turn build/release/bench/encoder_bench --turns
  [ -z "$pytorch" ] || turn "$torch" bench/peers/torch_encode.py "$modes"
  [ -z "$ort" ] || for weights in f32 int8; do turn "$peers" bench/peers/ort_encode.py "$weights"; done
  [ -z "$openvino" ] || for weights in f32 bf16 int8; do turn "$peers" bench/peers/openvino_runs.py encode "$weights"; done
} | in_turns "$rounds" seq/s dtype batch | tee >(cat >&2) | python3 bench/peers/ratios.py seq/s dtype batch
