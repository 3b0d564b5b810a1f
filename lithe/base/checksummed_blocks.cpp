#include "lithe/base/checksummed_blocks.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <memory>

namespace lithe {
namespace {

constexpr size_t kBlockBytes = size_t(1) << 20;

}  // namespace

void ChecksummedBlocks::put(const void* bytes, size_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const size_t part = std::min(count, kBlockBytes - block_.size());
    block_.append(at, part);
    at += part;
    count -= part;
    if (block_.size() == kBlockBytes) flush();
  }
}

uint64_t ChecksummedBlocks::finish() {
  if (!block_.empty()) flush();
  return sum_;
}

void ChecksummedBlocks::flush() {
  sum_ = checksum(block_.data(), block_.size(), sum_);
  sink_(block_);
  block_.clear();
}

namespace {

template <class F>
uint64_t chained(std::string_view bytes, const F& after_block) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const std::string_view block = bytes.substr(at, kBlockBytes);
    sum = checksum(block.data(), block.size(), sum);
    after_block(at, block.size());
  }
  return sum;
}

}  // namespace

uint64_t chained_checksum(std::string_view bytes) {
  return chained(bytes, [](size_t, size_t) {});
}

uint64_t chained_checksum(const HeldBytes& held, size_t count) {
  return chained(held.view().substr(0, count), [&](size_t at, size_t size) { held.forget(at, size); });
}

uint64_t checksum_of_file(const Path& path) {
  const MappedFile file(path);
  return checksum_of_mapped(file, 0, file.size());
}

uint64_t checksum_of_mapped(const MappedFile& file, size_t begin, size_t count, uint64_t seed) {
  constexpr size_t kPiece = size_t(1) << 22;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset_withSeed(state.get(), seed);
  for (size_t at = begin; at < begin + count; at += kPiece) {
    const size_t piece = std::min(kPiece, begin + count - at);
    XXH3_64bits_update(state.get(), file.data() + at, piece);
    file.forget(at, piece);
  }
  return XXH3_64bits_digest(state.get());
}

}  // namespace lithe
