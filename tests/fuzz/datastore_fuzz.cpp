// Opens bytes as a datastore, as they are and with their checksums made right, and reads all that a reader may.
#include <cstdint>
#include <vector>

#include "lithe/base/error.h"
#include "lithe/infer/datastore.h"

namespace {

void read_all(const lithe::Datastore& store) {
  const lithe::DatastoreInfo& info = store.info();
  std::vector<float> key(static_cast<size_t>(info.width));
  for (int64_t i = 0; i < info.entries; ++i) {
    store.keys(i, 1, key.data());
    if (store.value(i) < 0 || store.value(i) >= info.vocab_size) __builtin_trap();
  }
  for (int64_t l = 0; l < info.lists; ++l)
    if (store.list_begin(l) > store.list_end(l) || store.list_end(l) > info.entries) __builtin_trap();
  const lithe::Tensor query = lithe::zeros({1, info.width}, lithe::DType::f32);
  for (const int64_t probes : {int64_t(0), int64_t(1)})
    for (const int64_t entry : lithe::nearest_keys(store, query, 3, probes).entries)
      if (entry < -1 || entry >= info.entries) __builtin_trap();
}

void read_if_sound(const std::string& bytes) {
  try {
    const lithe::Datastore store = lithe::Datastore::from_bytes(bytes);
    read_all(store);
    store.verify();
  } catch (const lithe::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read_if_sound(bytes);
  lithe::seal_datastore(bytes);
  read_if_sound(bytes);
  return 0;
}
