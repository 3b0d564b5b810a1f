#!/usr/bin/env bash
# Encoding throughput of lithe, PyTorch, ONNX Runtime and OpenVINO on the same work, program after program in each round, so that a
# machine whose speed changes is fair to all; at the end the medians and lithe's ratio to the fastest of the others. A peer
# that is not installed is left out, and that is said. Needs `ninja -C build/release benchmarks` and what generate.sh says.
#   bench/peers/encode.sh [rounds] [repeats] [PyTorch's modes: fast,sdpa,compiled]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" repeats="${2:-3}" modes="${3:-fast,sdpa,compiled}"
. bench/peers/settings.sh
can "$peers" onnx,onnxruntime "ONNX Runtime" && ort=1 || ort=
can "$peers" openvino,nncf OpenVINO && openvino=1 || openvino=
can "$torch" torch PyTorch && pytorch=1 || pytorch=
for round in $(seq "$rounds"); do
  build/release/bench/encoder_bench "$repeats"
  [ -z "$pytorch" ] || peer "$torch" bench/peers/torch_encode.py "$repeats" "$modes"
  [ -z "$ort" ] || for weights in f32 int8; do peer "$peers" bench/peers/ort_encode.py "$weights" "$repeats"; done
  [ -z "$openvino" ] || for weights in f32 bf16 int8; do peer "$peers" bench/peers/openvino_runs.py encode "$weights" "$repeats"; done
done | tee >(cat >&2) | python3 bench/peers/ratios.py seq/s dtype batch
