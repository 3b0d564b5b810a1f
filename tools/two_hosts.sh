# Two hosts on this machine, for tools/cluster_test.sh and bench/peers/ranks.sh; read by them, not run. Needs root and iproute2.

# two_hosts_up NAME NET: the network namespaces NAME1 (address NET.1) and NAME2 (NET.2) behind the bridge NAME0 (NET.254, this machine).
two_hosts_up() {
  ip link add "${1}0" type bridge
  ip addr add "$2.254/24" dev "${1}0"
  ip link set "${1}0" up
  local n
  for n in 1 2; do
    ip netns add "$1$n"
    ip link add "${1}0n$n" type veth peer name eth0 netns "$1$n"
    ip link set "${1}0n$n" master "${1}0" up
    ip -n "$1$n" addr add "$2.$n/24" dev eth0
    ip -n "$1$n" link set eth0 up
    ip -n "$1$n" link set lo up
  done
}

# two_hosts_rate NAME RATE BURST LATENCY: what both send, as tc's tbf takes it. Fails where the kernel limits no rates.
two_hosts_rate() {
  local n
  for n in 1 2; do tc -n "$1$n" qdisc replace dev eth0 root tbf rate "$2" burst "$3" latency "$4" || return 1; done
}

# two_hosts_down NAME: takes away what there is of them.
two_hosts_down() {
  local n
  for n in 1 2; do ip netns del "$1$n" 2>/dev/null || true; done
  ip link del "${1}0" 2>/dev/null || true
}
