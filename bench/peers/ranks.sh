#!/usr/bin/env bash
# Data parallel training of configuration a (bench/train_bench.cpp) by two processes with a thread each: lithe by mpirun beside one process
# with two threads, two processes that know nothing of each other, and PyTorch's DistributedDataParallel over gloo, in turns; at the end the
# medians. As root the ranks are then put into two network namespaces with links of these rates, and `lithe plan --ranks 2` predicts
# each row before it is measured.
#   bench/peers/ranks.sh TEXT [rounds] [precisions: f32 bf16] [links: 10gbit 1gbit]      TEXT: a file of 1 MB or more
# Needs build/release/bin/lithe with its MPI plug-in, openmpi-bin, and PYTHON, a Python with torch 2; for links iproute2.
set -euo pipefail
text="$(realpath "${1:?ranks.sh TEXT}")"
cd "$(dirname "$0")/../.."
rounds="${2:-3}" precisions="${3:-f32 bf16}" links="${4-10gbit 1gbit}" steps=14 net=10.77.92
lithe="$(realpath "${LITHE_BINARY:-build/release/bin/lithe}")"
. bench/peers/settings.sh
. tools/two_hosts.sh
PATH=$PATH:/usr/sbin
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
dir=$(mktemp -d)
take_down() {
  pkill -P $$ || true  # a stopped round
  for n in 1 2; do ip netns pids ranks$n 2>/dev/null | xargs -r kill -KILL || true; done
  two_hosts_down ranks
  rm -rf "$dir"
}
trap take_down EXIT
can "$torch" torch PyTorch && pytorch=1 || pytorch=
[ "$(id -u)" -eq 0 ] || { echo "left out: links (they need root)" >&2; links=; }
cat >"$dir/a.yaml" <<END
model:
  vocab_size: 8192
  hidden_size: 512
  num_hidden_layers: 6
  max_position_embeddings: 256
  position: learned
  norm: {type: layer, eps_mode: variance}
  mixer: {type: attention, num_attention_heads: 8, attention_bias: true, output_bias: true}
  ffn: {type: gelu, intermediate_size: 2048, bias: true}
data: {files: ["$text"], tokenizer: {type: bytes}, sequence_length: 256, cache_directory: "$dir/cache"}
train: {max_steps: $steps, batch_tokens: 2048, gradient_accumulation_steps: 2, learning_rate: 0.0003, max_grad_norm: 0, eval_steps: 0,
        save_steps: 0, sample_steps: 0, logging_steps: 2}
END
# rate RUN: tokens a second, the median of the intervals behind the first.
rate() { "$torch" -c "import json, statistics, sys; print(round(statistics.median([json.loads(l)['tokens_per_second'] for l in open(sys.argv[1])][1:]), 1))" "$1/speed.jsonl"; }
train() { "$lithe" train "$dir/a.yaml" --out "$dir/$1" --overwrite --threads "$2" --set train.precision="$precision" >"$dir/$1.log" 2>&1; }
ranks() {  # OPTIONS OF MPIRUN...
  mpirun -n 2 --bind-to none "$@" "$lithe" train "$dir/a.yaml" --out "$dir/ranks" --overwrite --threads 1 --set train.precision="$precision" >"$dir/ranks.log" 2>&1 ||
    { tail -n 3 "$dir/ranks.log" >&2; exit 1; }
}
say() { echo "lithe cfg=a dtype=$precision link=$1 mode=$2 tok/s=$3${4:+ $4}"; }  # LINK MODE TOKENS/S MORE

# mpirun's agent enters the namespaces in place of ssh.
if [ -n "$links" ]; then
  two_hosts_up ranks $net
  mkdir "$dir/1" "$dir/2"  # daemons of one machine would share their files
  printf '#!/bin/sh\nn=${1##*.}\nshift\nexport TMPDIR=%s/$n\nexec nsenter --net=/run/netns/ranks$n sh -c "$*"\n' "$dir" >"$dir/agent"
  chmod +x "$dir/agent"
  # Half of the time of a byte there and back.
  cat >"$dir/latency.py" <<'END'
import socket, sys, time
if len(sys.argv) == 2:
    with socket.create_server((sys.argv[1], 7000)) as server, server.accept()[0] as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := peer.recv(1):
            peer.sendall(byte)
else:
    time.sleep(0.5)
    with socket.create_connection((sys.argv[1], 7000)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin = time.perf_counter()
        for _ in range(2000):
            peer.sendall(b"x")
            peer.recv(1)
        print(f"{(time.perf_counter() - begin) / 4000 * 1e6:.0f}us")
END
  nsenter --net=/run/netns/ranks1 "$torch" "$dir/latency.py" $net.1 &
  latency=$(nsenter --net=/run/netns/ranks2 "$torch" "$dir/latency.py" $net.1 connect)
  wait
  echo "a byte between the namespaces takes $latency" >&2
fi

for round in $(seq "$rounds"); do
  for precision in $precisions; do
    train threads 2
    say none threads "$(rate "$dir/threads")"
    train apart1 1 & train apart2 1
    wait $!
    apart=$("$torch" -c "print($(rate "$dir/apart1") + $(rate "$dir/apart2"))")
    say apart two-processes "$apart"
    ranks --mca btl self,vader
    say none ranks "$(rate "$dir/ranks")"
    for rate in $links; do
      two_hosts_rate ranks "$rate" 4mb 100ms
      efficiency=$("$lithe" plan "$dir/a.yaml" --set train.precision="$precision" --threads 1 --ranks 2 --network "${rate%gbit}Gbit/s,$latency" --json |
        "$torch" -c "import json, sys; print(round([r for r in json.load(sys.stdin)['ranks'] if r['ranks'] == 2][0]['efficiency'], 3))")
      ranks --host $net.1:1,$net.2:1 --mca plm_rsh_agent "$dir/agent" --mca btl self,tcp --mca btl_tcp_if_include $net.0/24 --mca oob_tcp_if_include $net.0/24
      measured=$(rate "$dir/ranks")
      say "$rate" ranks "$measured" "efficiency=$("$torch" -c "print(round($measured / $apart, 3))") predicted=$efficiency"
    done
    [ -z "$pytorch" ] || for mode in eager compiled; do
      "$torch" -m torch.distributed.run --nproc_per_node 2 bench/peers/torch_ddp.py "$precision" $mode 2>"$dir/torch.log" || { tail -n 3 "$dir/torch.log" >&2; exit 1; }
    done
  done
done | tee "$dir/lines"
"$torch" bench/peers/ratios.py tok/s cfg dtype link <"$dir/lines"
