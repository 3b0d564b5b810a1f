// A graph over the keys of a store [Malkov and Yashunin 2020], beside it on disk: approximate neighbours in a time that
// grows with the logarithm of the entries. hnswlib builds and searches it; what is kept is who is linked to whom, and
// keys are read from the store.
//
// Layout of DIR/hnsw.bin, little endian: "LITHENSW", u32 version, u32 links M, u64 fingerprint of the store, u64
// entries, u32 entry point, u32 level of it | u8 levels[entries] | u32 [entries, 1 + 2M]: a count, and so many entries,
// on level 0 | for each level of each entry above, u32 [1 + M] | u64 checksum of all; levels are filled with zeros up
// to a multiple of 8.
#pragma once

#include "lithe/infer/datastore.h"

namespace lithe {

struct HnswOptions {
  int64_t links = 16;          // M: of an entry on levels above 0; on level 0 twice as many
  int64_t construction = 200;  // candidates of an insertion (ef_construction)
};

/// Cheap to copy; reading is thread-safe. Fails (usage) in a lithe that was built without hnswlib.
class HnswIndex {
 public:
  /// Entries one after another, by one thread and with a fixed seed: the result depends on the store and options alone.
  /// `progress(done, entries)`, optional, is called now and then.
  static HnswIndex build(Datastore store, const HnswOptions& options = {},
                         const std::function<void(int64_t, int64_t)>& progress = {});
  /// Fails when it is none, cut short, damaged, or of another store.
  static HnswIndex open(const Path& directory, Datastore store);
  /// The same from memory; `origin` stands in errors.
  static HnswIndex from_bytes(std::string_view bytes, Datastore store, const std::string& origin = "memory");
  static bool exists(const Path& directory);

  std::string to_bytes() const;
  /// Writes DIR/hnsw.bin.
  void save(const Path& directory) const;
  int64_t links() const;
  /// As nearest_keys(), among so many candidates (ef, at least k). A query's result does not depend on the others, to
  /// the bit.
  NearestKeys nearest(const Tensor& queries, int64_t k, int64_t effort) const;
  /// Of the k nearest keys of some of the store's own keys, themselves left out, the share that nearest() finds.
  double recall(int64_t k, int64_t effort) const;

 private:
  struct Graph;
  std::shared_ptr<Graph> graph_;
};

/// Sets the checksum of bytes laid out as an index, so that a fuzzer reaches what stands behind it.
void seal_hnsw_index(std::string& bytes);

}  // namespace lithe
