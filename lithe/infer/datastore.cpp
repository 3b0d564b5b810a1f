#include "lithe/infer/datastore.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lithe/base/error.h"

namespace lithe {
namespace {

static_assert(std::endian::native == std::endian::little, "stores are mapped as they are, in little endian");

constexpr std::string_view kMagic = "LITHEKNN";
constexpr uint32_t kVersion = 2;
constexpr uint64_t kSummed = 64 * 1024;  // bytes of keys with a checksum of their own
constexpr uint64_t kHead = 16;
constexpr uint64_t kMostWidth = 1 << 20, kMostLists = 1 << 24;  // far beyond what anybody has
constexpr uint64_t kMostEntries = uint64_t(1) << 40;

// The trailer as it stands in the file.
struct Trailer {
  uint64_t model_fingerprint, tokenizer_fingerprint, vocab_size, width, entries, lists;
  uint64_t keys_checksum;  // of the keys
  uint64_t tail_checksum;  // of what stands between keys and trailer
  uint64_t own_checksum;   // of the head and the trailer before this number
};
static_assert(sizeof(Trailer) == 9 * 8);

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }
uint64_t blocks_of(uint64_t bytes) { return (bytes + kSummed - 1) / kSummed; }

uint64_t own_checksum(std::string_view head, const Trailer& trailer) {
  return checksum(&trailer, sizeof trailer - 8, checksum(head.data(), head.size(), kVersion));
}

// Where the parts of a store lie.
struct Places {
  uint64_t keys, values, centroids, offsets, sums, trailer;
  Places(const Trailer& t, uint64_t number) {
    keys = kHead;
    values = keys + padded(t.entries * t.width * number);
    centroids = values + padded(t.entries * 4);
    offsets = centroids + padded(t.lists * t.width * 4);
    sums = offsets + (t.lists ? (t.lists + 1) * 8 : 0);
    trailer = sums + blocks_of(t.entries * t.width * number) * 8;
  }
};

bool sane(const Trailer& t, uint64_t number) {
  return (number == 2 || number == 4) && t.vocab_size >= 1 && t.vocab_size <= uint64_t(INT32_MAX) && t.width >= 1 &&
         t.width <= kMostWidth && t.entries >= 1 && t.entries <= kMostEntries && t.lists <= kMostLists;
}

}  // namespace

Datastore Datastore::open(const Path& directory) {
  const Path file = directory / "datastore.bin";
  check_usage(std::filesystem::exists(file), "datastore", "'", directory.string(),
              "' holds no datastore.bin; make one with `lithe datastore build`");
  auto bytes = std::make_shared<HeldBytes>();
  bytes->map = MappedFile(file);
  return parse(std::move(bytes), directory.string());
}

Datastore Datastore::from_bytes(std::string bytes, const std::string& origin) {
  auto held = std::make_shared<HeldBytes>();
  held->owned = std::move(bytes);
  return parse(std::move(held), origin);
}

Datastore Datastore::parse(std::shared_ptr<const HeldBytes> held, const std::string& origin) {
  const std::string_view bytes = held->view();
  const auto expect = [&](bool rule, const char* what) {
    check(rule, "datastore", "'", origin, "' ", what, "; build it again with `lithe datastore build`");
  };
  expect(bytes.size() >= kHead + sizeof(Trailer) && bytes.substr(0, kMagic.size()) == kMagic,
         "is no datastore, or one cut short");
  uint32_t version = 0, number = 0;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&number, bytes.data() + 12, 4);
  expect(version == kVersion, "is of another version of the format");
  Trailer t;
  std::memcpy(&t, bytes.data() + bytes.size() - sizeof t, sizeof t);
  expect(t.own_checksum == own_checksum(bytes.substr(0, kHead), t),
         "is cut short or damaged (checksum of the trailer)");
  expect(sane(t, number), "says impossible sizes");
  const Places at(t, number);
  expect(at.trailer + sizeof t == bytes.size(), "has another size than its head says");
  expect(t.tail_checksum == chained_checksum(bytes.substr(at.values, at.trailer - at.values)),
         "is damaged (checksum of values and index)");

  Datastore store;
  store.info_ = {.model_fingerprint = t.model_fingerprint,
                 .tokenizer_fingerprint = t.tokenizer_fingerprint,
                 .vocab_size = int64_t(t.vocab_size),
                 .width = int64_t(t.width),
                 .entries = int64_t(t.entries),
                 .lists = int64_t(t.lists),
                 .type = number == 2 ? DType::bf16 : DType::f32};
  const auto* base = reinterpret_cast<const std::byte*>(bytes.data());
  store.keys_ = base + at.keys;
  store.values_ = reinterpret_cast<const int32_t*>(base + at.values);
  store.centroids_ = reinterpret_cast<const float*>(base + at.centroids);
  store.offsets_ = reinterpret_cast<const uint64_t*>(base + at.offsets);
  store.sums_ = reinterpret_cast<const uint64_t*>(base + at.sums);
  store.blocks_checked_ = std::make_shared<std::vector<std::atomic<bool>>>(blocks_of(t.entries * t.width * number));
  store.keys_checksum_ = t.keys_checksum;
  store.fingerprint_ = t.own_checksum;  // of the other checksums, too
  for (uint64_t i = 0; i < t.entries; ++i)
    expect(store.values_[i] >= 0 && uint64_t(store.values_[i]) < t.vocab_size, "has a token outside its vocabulary");
  if (t.lists) {
    bool rising = store.offsets_[0] == 0 && store.offsets_[t.lists] == t.entries;
    for (uint64_t l = 0; l < t.lists && rising; ++l) rising = store.offsets_[l] <= store.offsets_[l + 1];
    expect(rising, "has lists that do not rise from 0 to the count of entries");
  }
  store.bytes_ = std::move(held);
  store.origin_ = origin;
  return store;
}

void Datastore::keys(int64_t first, int64_t count, float* out) const {
  check(first >= 0 && count >= 0 && first <= info_.entries && count <= info_.entries - first, "datastore", "entries [",
        first, ", ", first + count, ") must lie in [0, ", info_.entries, ")");
  const auto numbers = size_t(count * info_.width), begin = size_t(first * info_.width);
  check_blocks(int64_t(begin) * size_of(info_.type), int64_t(begin + numbers) * size_of(info_.type));
  if (info_.type == DType::f32) {
    std::memcpy(out, keys_ + begin * 4, numbers * 4);
    return;
  }
  for (size_t i = 0; i < numbers; ++i) {
    uint16_t high = 0;
    std::memcpy(&high, keys_ + (begin + i) * 2, 2);
    out[i] = std::bit_cast<float>(uint32_t(high) << 16);
  }
}

// Of the bytes [begin, end) of keys.
void Datastore::check_blocks(int64_t begin, int64_t end) const {
  const auto all = uint64_t(key_bytes());
  for (uint64_t block = uint64_t(begin) / kSummed; block * kSummed < uint64_t(end); ++block) {
    std::atomic<bool>& checked = (*blocks_checked_)[block];
    if (checked.load(std::memory_order_relaxed)) continue;
    const uint64_t from = block * kSummed;
    check(checksum(keys_ + from, std::min(kSummed, all - from)) == sums_[block], "datastore", "'", origin_,
          "' is damaged (checksum of keys, from byte ", from, "); build it again with `lithe datastore build`");
    checked.store(true, std::memory_order_relaxed);
  }
}

void Datastore::verify() const {
  check_blocks(0, key_bytes());
  const auto bytes = uint64_t(key_bytes());
  check(chained_checksum({reinterpret_cast<const char*>(keys_), bytes}) == keys_checksum_, "datastore", "'", origin_,
        "' is damaged (checksum of keys); build it again with `lithe datastore build`");
}

void Datastore::check_made_by(uint64_t model_fingerprint, uint64_t tokenizer_fingerprint) const {
  check_usage(info_.tokenizer_fingerprint == tokenizer_fingerprint, "datastore", "'", origin_,
              "' was made with another tokenizer than the model's; build one with this model");
  check_usage(info_.model_fingerprint == model_fingerprint, "datastore", "'", origin_,
              "' was made with other weights than the model's; build one with this model, and give the same --weights");
}

DatastoreWriter::DatastoreWriter(DatastoreInfo info, Sink sink) : info_(info), sink_(std::move(sink)), keys_(sink_) {
  check(info_.type == DType::f32 || info_.type == DType::bf16, "datastore", "keys are f32 or bf16, not ", info_.type);
  check(info_.width >= 1 && info_.vocab_size >= 1, "datastore", "keys of ", info_.width, " numbers for ",
        info_.vocab_size, " tokens are impossible");
  info_.entries = info_.lists = 0;
  const auto number = uint32_t(size_of(info_.type));
  std::string head(kMagic);
  head.append(reinterpret_cast<const char*>(&kVersion), 4).append(reinterpret_cast<const char*>(&number), 4);
  sink_(head);
}

void DatastoreWriter::add(const Tensor& rows, std::span<const int32_t> values) {
  check(rows.dtype() == DType::f32 && rows.cols() == info_.width && rows.rows() == int64_t(values.size()), "datastore",
        "keys must be f32 [", values.size(), ",", info_.width, "], got ", rows);
  for (const int32_t value : values)
    check(value >= 0 && value < info_.vocab_size, "datastore", "tokens must be in [0, ", info_.vocab_size, "), got ",
          value);
  const Tensor kept = info_.type == DType::f32 ? rows : convert(rows, info_.type);
  const std::string_view bytes(static_cast<const char*>(kept.raw()), size_t(kept.bytes()));
  keys_.put(bytes.data(), bytes.size());
  sum_blocks(bytes);
  values_.insert(values_.end(), values.begin(), values.end());
  info_.entries += int64_t(values.size());
}

void DatastoreWriter::sum_blocks(std::string_view keys) {
  while (!keys.empty()) {
    const size_t part = std::min(keys.size(), kSummed - block_.size());
    block_.append(keys.substr(0, part));
    keys.remove_prefix(part);
    if (block_.size() < kSummed) continue;
    sums_.push_back(checksum(block_.data(), block_.size()));
    block_.clear();
  }
}

const DatastoreInfo& DatastoreWriter::finish(std::span<const float> centroids, std::span<const uint64_t> offsets) {
  check(info_.entries > 0, "datastore", "the text has no token to predict");
  const uint64_t keys_checksum = keys_.finish();
  info_.lists = offsets.empty() ? 0 : int64_t(offsets.size()) - 1;
  check(int64_t(centroids.size()) == info_.lists * info_.width, "datastore", "an index of ", info_.lists,
        " lists has as many centroids, got ", centroids.size(), " numbers");
  std::string tail;
  const auto append = [&](const void* bytes, size_t count) {
    tail.append(static_cast<const char*>(bytes), count);
    tail.append(padded(count) - count, '\0');
  };
  const uint64_t key_bytes = uint64_t(info_.entries * info_.width) * uint64_t(size_of(info_.type));
  sink_(std::string(padded(key_bytes) - key_bytes, '\0'));
  append(values_.data(), values_.size() * 4);
  append(centroids.data(), centroids.size_bytes());
  append(offsets.data(), offsets.size_bytes());
  if (!block_.empty()) sums_.push_back(checksum(block_.data(), block_.size()));
  append(sums_.data(), sums_.size() * 8);
  sink_(tail);
  Trailer t{.model_fingerprint = info_.model_fingerprint,
            .tokenizer_fingerprint = info_.tokenizer_fingerprint,
            .vocab_size = uint64_t(info_.vocab_size),
            .width = uint64_t(info_.width),
            .entries = uint64_t(info_.entries),
            .lists = uint64_t(info_.lists),
            .keys_checksum = keys_checksum,
            .tail_checksum = chained_checksum(tail),
            .own_checksum = 0};
  const auto number = uint32_t(size_of(info_.type));
  std::string head(kMagic);
  head.append(reinterpret_cast<const char*>(&kVersion), 4).append(reinterpret_cast<const char*>(&number), 4);
  t.own_checksum = own_checksum(head, t);
  sink_({reinterpret_cast<const char*>(&t), sizeof t});
  return info_;
}

void seal_datastore(std::string& bytes) {
  if (bytes.size() < kHead + sizeof(Trailer)) return;
  const size_t end = bytes.size() - sizeof(Trailer);
  Trailer t;
  std::memcpy(&t, bytes.data() + end, sizeof t);
  uint32_t number = 0;
  std::memcpy(&number, bytes.data() + 12, 4);
  const std::string_view all(bytes);
  if (sane(t, number))
    if (const Places at(t, number); at.values <= end && at.trailer == end) {
      const uint64_t key_bytes = t.entries * t.width * number;
      for (uint64_t block = 0; block < blocks_of(key_bytes); ++block) {
        const uint64_t from = block * kSummed,
                       sum = checksum(bytes.data() + at.keys + from, std::min(kSummed, key_bytes - from));
        std::memcpy(bytes.data() + at.sums + block * 8, &sum, 8);
      }
      t.keys_checksum = chained_checksum(all.substr(at.keys, t.entries * t.width * number));
      t.tail_checksum = chained_checksum(all.substr(at.values, end - at.values));
    }
  t.own_checksum = own_checksum(all.substr(0, kHead), t);
  std::memcpy(bytes.data() + end, &t, sizeof t);
}

}  // namespace lithe
