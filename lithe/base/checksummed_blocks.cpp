#include "lithe/base/checksummed_blocks.h"

#include <algorithm>

#include "lithe/base/files.h"

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

uint64_t chained_checksum(std::string_view bytes) {
  uint64_t sum = 0;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(kBlockBytes, bytes.size())))
    sum = checksum(bytes.data(), std::min(kBlockBytes, bytes.size()), sum);
  return sum;
}

}  // namespace lithe
