// Every rank learns what each of them has.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "lithe/parallel/communicator.h"

namespace lithe {

/// Tags that gathers take; others are free.
inline constexpr int kGatherTag = 30000;

/// The bytes of each rank, in the order of ranks. All ranks call it.
std::vector<std::string> gather_bytes(Communicator& ranks, const std::string& mine);

/// As many numbers of each rank, in the order of ranks.
template <class T>
std::vector<std::vector<T>> gather(Communicator& ranks, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::vector<T>> out;
  for (const std::string& bytes :
       gather_bytes(ranks, std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(T)))) {
    out.emplace_back(bytes.size() / sizeof(T));
    std::memcpy(out.back().data(), bytes.data(), bytes.size());
  }
  return out;
}

/// Returns when all ranks have called it.
void barrier(Communicator& ranks);

}  // namespace lithe
