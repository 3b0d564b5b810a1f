#!/usr/bin/env bash
# A cluster on this machine: munged, slurmctld and two slurmd of Debian's packages, each slurmd in a network namespace of its own behind a link of
# 1 Gbit/s. It runs the sbatch script of docs/clusters.md on both nodes, signals it, and kills one of its ranks; all of it ends with the weights of
# one process. Needs root, slurm-wlm, munge and iproute2. Nothing is left behind.
#   tools/cluster_test.sh [LITHE]     LITHE: the program; default build/release/bin/lithe
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=$(readlink -f "${1:-${LITHE_BUILD:-build/release}/bin/lithe}")
[ "$(id -u)" -eq 0 ] || { echo "cluster_test: needs root, for network namespaces and the daemons" >&2; exit 1; }
for program in munged slurmctld slurmd sbatch ip tc; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "cluster_test: $program is missing; apt install slurm-wlm munge iproute2" >&2; exit 1; }
done
PATH=$(dirname "$lithe"):$PATH:/usr/sbin
dir=$(mktemp -d)
chmod 755 "$dir"
net=10.77.91
. tools/two_hosts.sh

take_down() {
  local status=$? pid
  if [ $status -ne 0 ]; then tail -n 5 "$dir"/log/*.log "$dir"/*.out >&2 2>/dev/null || true; fi
  scancel --user=root 2>/dev/null || true
  sleep 1
  for pid in "$dir"/*.pid; do [ ! -e "$pid" ] || kill "$(cat "$pid")" 2>/dev/null || true; done
  two_hosts_down lithe
  sleep 1
  rm -rf "$dir"
  exit $status
}
trap take_down EXIT

two_hosts_up lithe $net
two_hosts_rate lithe 1gbit 128kb 50ms 2>/dev/null || echo "cluster_test: this kernel limits no rates" >&2

# The daemons.
mkdir "$dir"/{log,state,spool-n1,spool-n2,tmp-n1,tmp-n2}
head -c 128 /dev/urandom >"$dir/munge.key"
chmod 600 "$dir/munge.key"
munged --force --num-threads=1 --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munged.seed"
cat >"$dir/slurm.conf" <<CONF
ClusterName=lithe
SlurmctldHost=$(hostname)($net.254)
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
TmpFS=$dir/tmp-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
SlurmctldPort=17000
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=n1 NodeHostname=$(hostname) NodeAddr=$net.1 Port=17001 CPUs=1
NodeName=n2 NodeHostname=$(hostname) NodeAddr=$net.2 Port=17002 CPUs=1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$dir/slurm.conf"
slurmctld -c -f "$SLURM_CONF"
for n in 1 2; do nsenter --net=/run/netns/lithe$n slurmd -f "$SLURM_CONF" -N n$n; done
for _ in $(seq 60); do
  if [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; then break; fi
  sleep 0.5
done
[ "$(sinfo -h -t idle -o %D)" = 2 ] || { echo "cluster_test: the nodes do not come up" >&2; exit 1; }

# What runs there: the page's script, with two nodes of one processor.
cat docs/*.md >"$dir/text.txt"
cat >"$dir/recipe.yaml" <<RECIPE
model: {hidden_size: 32, num_hidden_layers: 2, hidden_dropout: 0.1, mixer: {type: attention, num_attention_heads: 2}}
data: {files: [$dir/text.txt], documents: paragraph, validation_fraction: 0.02, sequence_length: 64, cache_directory: $dir/cache}
train: {max_steps: 120, batch_tokens: 1024, gradient_accumulation_steps: 4, learning_rate: 0.003, eval_steps: 60, save_steps: 20}
RECIPE
job_script() {
  awk '/^## /{slurm = $2 == "Slurm"} /^```/{inside = !inside; next} slurm && inside' docs/clusters.md |
    sed -e 's/--nodes=4 --ntasks-per-node=2 --cpus-per-task=16/--nodes=2 --ntasks-per-node=1 --cpus-per-task=1/' -e "s|recipe.yaml|$dir/recipe.yaml|" -e "s|runs/big|$dir/$1|"
}
sum() { sha256sum <"$dir/$1/model.safetensors"; }
submit() { job_script "$1" | sbatch --parsable --chdir="$dir" --output="$dir/$1.out" "${@:2}"; }
state() { scontrol show job "$1" -o | sed 's/.*JobState=\([A-Z_]*\).*/\1/'; }
# Waits for one of these states.
await() {
  local job=$1
  for _ in $(seq 480); do
    case " ${*:2} " in *" $(state "$job") "*) return 0 ;; esac
    sleep 0.25
  done
  echo "cluster_test: job $job is $(state "$job"), and ${*:2} was awaited" >&2
  exit 1
}
await_checkpoint() {
  for _ in $(seq 480); do
    [ ! -e "$dir/$1/model.safetensors" ] || return 0
    sleep 0.1
  done
  echo "cluster_test: $1 saves nothing" >&2
  exit 1
}
same_bits() {
  [ "$(sum "$1")" = "$(sum one)" ] || { echo "cluster_test: $1 has other weights than one process" >&2; exit 1; }
  echo "$1: the weights of one process"
}

"$lithe" train "$dir/recipe.yaml" --out "$dir/one" --threads 1 >"$dir/one.out" 2>&1

job=$(submit two_nodes)
await "$job" COMPLETED FAILED
grep -q '2 ranks of 1 thread' "$dir/two_nodes.out"
same_bits two_nodes

job=$(submit requeued)
await_checkpoint requeued
scancel --signal=USR1 "$job"
for _ in $(seq 240); do
  restarts=$(scontrol show job "$job" -o | sed 's/.*Restarts=\([0-9]*\).*/\1/')
  [ "$restarts" = 0 ] || break
  sleep 0.25
done
[ "$restarts" = 1 ] || { echo "cluster_test: the job was not run again" >&2; exit 1; }
await "$job" COMPLETED FAILED
grep -q 'resuming after step' "$dir/requeued.out"
same_bits requeued

job=$(submit dead_rank --no-requeue)
await_checkpoint dead_rank
for pid in $(ip netns pids lithe2); do
  if [ "$(readlink "/proc/$pid/exe")" = "$lithe" ]; then kill -KILL "$pid"; fi
done
begin=$(date +%s)
await "$job" FAILED CANCELLED
[ $(($(date +%s) - begin)) -le 15 ] || { echo "cluster_test: a dead rank ends the job after $(($(date +%s) - begin)) s" >&2; exit 1; }
"$lithe" train "$dir/recipe.yaml" --out "$dir/dead_rank" --threads 1 --resume >>"$dir/dead_rank.out" 2>&1
same_bits dead_rank
