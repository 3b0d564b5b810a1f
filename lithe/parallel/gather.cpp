#include "lithe/parallel/gather.h"

namespace lithe {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& values) {
  return std::as_bytes(std::span(values.data(), values.size()));
}
template <class T>
std::span<std::byte> bytes_in(T& values) {
  return std::as_writable_bytes(std::span(values.data(), values.size()));
}

}  // namespace

// Every message to the next rank, which passes on what came: size - 1 rounds of one message each.
std::vector<std::string> gather_bytes(Communicator& ranks, const std::string& mine) {
  const int size = ranks.size(), rank = ranks.rank();
  std::vector<std::string> out(static_cast<size_t>(size));
  out[size_t(rank)] = mine;
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int round = 0; round + 1 < size; ++round) {
    const std::string& given = out[size_t((rank - round + size) % size)];
    std::string& taken = out[size_t((rank - round - 1 + size) % size)];
    const std::vector<uint64_t> length{given.size()};
    std::vector<uint64_t> coming(1);
    const auto sent_length = ranks.send(bytes_of(length), next, kGatherTag);
    ranks.receive(bytes_in(coming), before, kGatherTag)->wait();
    taken.resize(coming[0]);
    const auto sent = ranks.send(bytes_of(given), next, kGatherTag + 1);
    ranks.receive(bytes_in(taken), before, kGatherTag + 1)->wait();
    sent_length->wait();
    sent->wait();
  }
  return out;
}

void barrier(Communicator& ranks) { gather_bytes(ranks, ""); }

}  // namespace lithe
