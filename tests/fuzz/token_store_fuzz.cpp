// Opens bytes as a token store, as they are and with their checksums made right, and reads all that a reader may.
#include <cstdint>
#include <vector>

#include "lithe/base/error.h"
#include "lithe/data/batches.h"
#include "lithe/data/token_store_writer.h"

namespace {

void read_all(const lithe::TokenStore& store) {
  std::vector<int32_t> ids;
  for (int64_t d = 0; d < store.documents(); ++d) {
    ids.resize(size_t(store.document_end(d) - store.document_begin(d)));
    store.copy(store.document_begin(d), int64_t(ids.size()), ids.data());
    for (const int32_t id : ids)
      if (id < 0 || id >= store.info().vocab_size) __builtin_trap();
  }
  const lithe::BatchOrder order(store, 3, 16, 1);
  for (int64_t i = 0; i < order.batches_per_epoch(); ++i)
    if (const int64_t rows = order.batch(0, i).rows(); rows < 1 || rows > 16) __builtin_trap();
}

void read_if_sound(const std::string& bytes) {
  try {
    read_all(lithe::TokenStore::from_bytes(bytes));
  } catch (const lithe::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read_if_sound(bytes);
  lithe::seal_token_store(bytes);
  read_if_sound(bytes);
  return 0;
}
