// Opens bytes as a graph of a small store, as they are and with their store and checksum made right, and searches it.
#include <cstdint>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/infer/hnsw_index.h"

namespace {

const lithe::Datastore& small_store() {
  static const lithe::Datastore store = [] {
    std::string bytes;
    lithe::DatastoreWriter writer({.vocab_size = 9, .width = 2}, [&](std::string_view part) { bytes += part; });
    const lithe::Tensor keys = lithe::zeros({60, 2}, lithe::DType::f32);
    for (int64_t i = 0; i < keys.numel(); ++i) keys.data<float>()[i] = float(i * 37 % 61);
    writer.add(keys, std::vector<int32_t>(60, 3));
    writer.finish();
    return lithe::Datastore::from_bytes(bytes);
  }();
  return store;
}

void search_if_sound(const std::string& bytes) {
  try {
    const lithe::HnswIndex index = lithe::HnswIndex::from_bytes(bytes, small_store());
    const lithe::Tensor query = lithe::zeros({1, 2}, lithe::DType::f32);
    for (const int64_t entry : index.nearest(query, 3, 8).entries)
      if (entry < -1 || entry >= 60) __builtin_trap();
  } catch (const lithe::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  search_if_sound(bytes);
  if (size < 24) return 0;
  const uint64_t store = small_store().fingerprint();
  std::memcpy(bytes.data() + 16, &store, 8);
  lithe::seal_hnsw_index(bytes);
  search_if_sound(bytes);
  return 0;
}
