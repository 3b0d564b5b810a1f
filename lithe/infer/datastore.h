// Stores for kNN-LM [Khandelwal et al. 2020]: what a model's last rows were, and which token came next. On disk, and
// read through a memory map, so that a store may be larger than memory.
//
// Layout of DIR/datastore.bin, little endian: "LITHEKNN", u32 version, u32 bytes of a number (4: f32, 2: bf16) | keys
// [entries, width], list by list | i32 values[entries] | f32 centroids [lists, width] | u64 offsets[lists + 1], without
// lists none | u64 checksums of the keys, of each 64 KiB | a trailer; each part is filled with zeros up to a multiple
// of 8.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/base/held_bytes.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

struct DatastoreInfo {
  uint64_t model_fingerprint = 0, tokenizer_fingerprint = 0;  // weights_fingerprint(), Tokenizer::fingerprint()
  int64_t vocab_size = 0, width = 0;
  int64_t entries = 0;
  int64_t lists = 0;  // of the inverted-file index; 0: none
  DType type = DType::f32;
};

/// Cheap to copy; reading is thread-safe.
class Datastore {
 public:
  /// Maps a store and checks its sizes, its values and its index. Fails when it is none, cut short or damaged there;
  /// keys, most of the file, are checked when they are read for the first time.
  static Datastore open(const Path& directory);
  /// The same from memory; `origin` stands in errors.
  static Datastore from_bytes(std::string bytes, const std::string& origin = "memory");

  const DatastoreInfo& info() const { return info_; }
  /// Of all that the store holds; what stands beside a store keeps it, to know it again.
  uint64_t fingerprint() const { return fingerprint_; }
  /// The token of an entry.
  int32_t value(int64_t entry) const { return values_[entry]; }
  /// Copies keys [first, first + count) to out, as f32. Fails when they are not those that were written.
  void keys(int64_t first, int64_t count, float* out) const;
  /// [lists, width], and the entries [begin, end) of a list.
  const float* centroids() const { return centroids_; }
  int64_t list_begin(int64_t list) const { return int64_t(offsets_[list]); }
  int64_t list_end(int64_t list) const { return int64_t(offsets_[list + 1]); }
  /// Reads all keys and fails when they are not those that were written.
  void verify() const;
  /// Fails (usage) unless the store was made with these.
  void check_made_by(uint64_t model_fingerprint, uint64_t tokenizer_fingerprint) const;

 private:
  std::shared_ptr<const HeldBytes> bytes_;
  std::string origin_;
  DatastoreInfo info_;
  uint64_t keys_checksum_ = 0, fingerprint_ = 0;
  const std::byte* keys_ = nullptr;
  const int32_t* values_ = nullptr;
  const float* centroids_ = nullptr;
  const uint64_t* offsets_ = nullptr;
  const uint64_t* sums_ = nullptr;                                  // of the blocks of keys
  std::shared_ptr<std::vector<std::atomic<bool>>> blocks_checked_;  // two threads may check one, with one result

  int64_t key_bytes() const { return info_.entries * info_.width * size_of(info_.type); }
  void check_blocks(int64_t begin, int64_t end) const;
  static Datastore parse(std::shared_ptr<const HeldBytes> bytes, const std::string& origin);
};

/// Writes a store without lists; values stay in memory until the end, keys do not.
class DatastoreWriter {
 public:
  using Sink = ChecksummedBlocks::Sink;
  /// `info`: fingerprints, sizes and type; entries are counted.
  DatastoreWriter(DatastoreInfo info, Sink sink);
  /// Rows f32 [n, width] and the token after each.
  void add(const Tensor& rows, std::span<const int32_t> values);
  /// Nothing can be added after it. `centroids` and `offsets` of an index, whose order the entries were added in.
  const DatastoreInfo& finish(std::span<const float> centroids = {}, std::span<const uint64_t> offsets = {});

 private:
  DatastoreInfo info_;
  Sink sink_;
  ChecksummedBlocks keys_;
  std::string block_;
  std::vector<uint64_t> sums_;
  std::vector<int32_t> values_;

  void sum_blocks(std::string_view keys);
};

/// Orders a store's entries by the nearest of `lists` centroids, which k-means finds on a sample, and writes it anew.
/// The result depends on the store and `lists` alone.
void index_datastore(const Path& directory, int64_t lists);

/// Of each query, nearest first; entry -1: there were fewer.
struct NearestKeys {
  int64_t k = 0;
  std::vector<int64_t> entries;  // [queries, k]
  std::vector<float> distances;  // squared, Euclidean
};
/// Queries f32 [Q, width]. `probes` 0: exact. Else, with an index, among the entries of so many nearest lists. Of equal
/// distances the earlier entry. A query's result does not depend on the others, to the bit.
NearestKeys nearest_keys(const Datastore& store, const Tensor& queries, int64_t k, int64_t probes);

/// Sets the checksums of bytes laid out as a store, so that a fuzzer reaches what stands behind them.
void seal_datastore(std::string& bytes);

}  // namespace lithe
