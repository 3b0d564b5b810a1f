#include "lithe/data/token_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/data/token_store_writer.h"

namespace lithe {
namespace {

static_assert(std::endian::native == std::endian::little, "token stores are mapped as they are, in little endian");

constexpr std::string_view kMagic = "LITHETOK";
constexpr uint32_t kVersion = 1;
constexpr size_t kHead = 16;
constexpr int64_t kNarrowVocab = 65536;   // ids of a larger vocabulary do not fit uint16
constexpr uint64_t kNone = ~uint64_t(0);  // a special that the tokenizer does not have

// The trailer as it stands in the file. The names are StoreInfo's.
struct Trailer {
  uint64_t tokenizer_fingerprint, corpus_fingerprint, vocab_size, begin_of_text, end_of_text;
  uint64_t documents, tokens, bytes, words, lines;
  uint64_t body_checksum;  // of all bytes before the trailer
  uint64_t own_checksum;   // of the trailer before this number
};
static_assert(sizeof(Trailer) == 12 * 8);

uint64_t trailer_checksum(const Trailer& trailer) { return checksum(&trailer, sizeof trailer - 8, kVersion); }

// Of `count` tokens from byte `begin` on. Of codes only the first of `width` ints is bounded.
template <class T>
bool all_below(const HeldBytes& held, size_t begin, uint64_t count, uint64_t width, uint64_t bound) {
  const auto* ids = reinterpret_cast<const T*>(held.view().data() + begin);
  const uint64_t piece = std::max<uint64_t>(1, (uint64_t(1) << 20) / width);
  for (uint64_t first = 0; first < count; first += piece) {
    T largest = 0;
    const uint64_t end = std::min(count, first + piece);
    for (uint64_t i = first; i < end; ++i) largest = std::max(largest, ids[i * width]);
    if (largest >= bound) return false;
    held.forget(begin + first * width * sizeof(T), (end - first) * width * sizeof(T));
  }
  return true;
}

void count_text(std::string_view text, StoreInfo& info) {
  info.bytes += int64_t(text.size());
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    info.words += !space && !inside;
    inside = !space;
    info.lines += c == '\n';
  }
}

}  // namespace

TokenStore TokenStore::open(const Path& path) {
  auto bytes = std::make_shared<HeldBytes>();
  bytes->map = MappedFile(path);
  return parse(std::move(bytes), path.string());
}

TokenStore TokenStore::from_bytes(std::string bytes, const std::string& origin) {
  auto held = std::make_shared<HeldBytes>();
  held->owned = std::move(bytes);
  return parse(std::move(held), origin);
}

TokenStore TokenStore::from_documents(const std::vector<std::vector<int32_t>>& documents, StoreInfo info) {
  std::string bytes;
  TokenStoreWriter writer(info, [&](std::string_view part) { bytes += part; });
  for (const auto& document : documents) writer.add(document, {});
  writer.finish();
  return from_bytes(std::move(bytes));
}

TokenStore TokenStore::parse(std::shared_ptr<const HeldBytes> held, const std::string& origin) {
  const std::string_view bytes = held->view();
  const auto expect = [&](bool rule, const char* what) {
    check(rule, "token store", "'", origin, "' ", what, "; delete it, and it is built again");
  };
  expect(bytes.size() >= kHead + 8 + sizeof(Trailer) && bytes.substr(0, kMagic.size()) == kMagic,
         "is no token store, or a truncated one");
  uint32_t version = 0, width = 0;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&width, bytes.data() + 12, 4);
  expect(version == kVersion, "is of another version of the format");
  Trailer trailer;
  std::memcpy(&trailer, bytes.data() + bytes.size() - sizeof trailer, sizeof trailer);
  expect(trailer.own_checksum == trailer_checksum(trailer), "is truncated or damaged (checksum of the trailer)");

  constexpr uint64_t most = uint64_t(std::numeric_limits<int64_t>::max());
  const uint64_t size = bytes.size() - sizeof trailer;
  expect(trailer.vocab_size >= 1 && trailer.vocab_size <= uint64_t(std::numeric_limits<int32_t>::max()),
         "has an impossible vocabulary size");
  const uint64_t ints = width <= 4 ? 1 : width / 4;  // of a token
  expect(ints == 1 ? width == (trailer.vocab_size <= uint64_t(kNarrowVocab) ? 2u : 4u) : width % 4 == 0,
         "has an impossible width of tokens");
  expect(trailer.documents < size / 8 && trailer.tokens <= size / width, "has impossible counts");
  const uint64_t ids_size = (trailer.tokens * width + 7) / 8 * 8;
  expect(size == kHead + ids_size + (trailer.documents + 1) * 8, "has counts that do not match its size");
  expect(trailer.bytes <= most && trailer.words <= trailer.bytes && trailer.lines <= trailer.bytes,
         "has impossible counts of the text");
  for (const uint64_t special : {trailer.begin_of_text, trailer.end_of_text})
    expect(special == kNone || special < trailer.vocab_size, "has a special token outside its vocabulary");
  expect(trailer.body_checksum == chained_checksum(*held, size), "is damaged (checksum)");

  TokenStore store;
  store.wide_ = width >= 4;
  store.ids_ = bytes.data() + kHead;
  store.offsets_ = reinterpret_cast<const uint64_t*>(bytes.data() + kHead + ids_size);
  bool rising = store.offsets_[0] == 0 && store.offsets_[trailer.documents] == trailer.tokens;
  for (uint64_t d = 0; d < trailer.documents && rising; ++d) rising = store.offsets_[d] <= store.offsets_[d + 1];
  expect(rising, "has offsets of documents that do not rise from 0 to the count of tokens");
  const bool inside = store.wide_ ? all_below<uint32_t>(*held, kHead, trailer.tokens, ints, trailer.vocab_size)
                                  : all_below<uint16_t>(*held, kHead, trailer.tokens, ints, trailer.vocab_size);
  expect(inside, "has token ids outside its vocabulary");

  const auto special = [](uint64_t id) { return id == kNone ? std::nullopt : std::optional<int32_t>(int32_t(id)); };
  store.info_ = {.tokenizer_fingerprint = trailer.tokenizer_fingerprint,
                 .corpus_fingerprint = trailer.corpus_fingerprint,
                 .vocab_size = int64_t(trailer.vocab_size),
                 .token_width = int64_t(ints),
                 .begin_of_text = special(trailer.begin_of_text),
                 .end_of_text = special(trailer.end_of_text),
                 .documents = int64_t(trailer.documents),
                 .tokens = int64_t(trailer.tokens),
                 .bytes = int64_t(trailer.bytes),
                 .words = int64_t(trailer.words),
                 .lines = int64_t(trailer.lines)};
  store.fingerprint_ = trailer.body_checksum;
  store.bytes_ = std::move(held);
  return store;
}

void TokenStore::copy(int64_t first, int64_t count, int32_t* out) const {
  check(first >= 0 && count >= 0 && count <= tokens() && first <= tokens() - count, "token store", "tokens [", first,
        ", ", first + count, ") must lie in [0, ", tokens(), ")");
  if (wide_) {
    std::copy_n(static_cast<const uint32_t*>(ids_) + first * token_width(), count * token_width(), out);
  } else {
    std::copy_n(static_cast<const uint16_t*>(ids_) + first, count, out);
  }
  if (bytes_) bytes_->has_read(size_t(count * token_width()) * (wide_ ? 4 : 2));
}

TokenStoreWriter::TokenStoreWriter(StoreInfo info, Sink sink)
    : info_(info),
      sink_(std::move(sink)),
      blocks_(sink_),
      wide_(info_.vocab_size > kNarrowVocab || info_.token_width > 1) {
  const auto width = uint32_t(wide_ ? 4 * info_.token_width : 2);
  blocks_.put(kMagic.data(), kMagic.size());
  blocks_.put(&kVersion, 4);
  blocks_.put(&width, 4);
}

void TokenStoreWriter::add(std::span<const int32_t> ids, std::string_view text) {
  const auto width = size_t(info_.token_width);
  check(ids.size() % width == 0, "token store", "tokens of ", width, " ints cannot be ", ids.size(), " ints");
  for (size_t i = 0; i < ids.size(); i += width)
    check(ids[i] >= 0 && ids[i] < info_.vocab_size, "token store", "token ids must be in [0, ", info_.vocab_size,
          "), got ", ids[i]);
  if (wide_) {
    blocks_.put(ids.data(), ids.size_bytes());
  } else {
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    blocks_.put(narrow.data(), narrow.size() * 2);
  }
  info_.tokens += int64_t(ids.size() / width);
  ++info_.documents;
  offsets_.push_back(uint64_t(info_.tokens));
  count_text(text, info_);
}

const StoreInfo& TokenStoreWriter::finish() {
  const uint64_t zeros = 0;
  blocks_.put(&zeros, size_t(-(info_.tokens * (wide_ ? 4 * info_.token_width : 2)) & 7));
  blocks_.put(offsets_.data(), offsets_.size() * 8);
  const auto special = [](const std::optional<int32_t>& id) { return id ? uint64_t(*id) : kNone; };
  Trailer trailer = {.tokenizer_fingerprint = info_.tokenizer_fingerprint,
                     .corpus_fingerprint = info_.corpus_fingerprint,
                     .vocab_size = uint64_t(info_.vocab_size),
                     .begin_of_text = special(info_.begin_of_text),
                     .end_of_text = special(info_.end_of_text),
                     .documents = uint64_t(info_.documents),
                     .tokens = uint64_t(info_.tokens),
                     .bytes = uint64_t(info_.bytes),
                     .words = uint64_t(info_.words),
                     .lines = uint64_t(info_.lines),
                     .body_checksum = blocks_.finish(),
                     .own_checksum = 0};
  trailer.own_checksum = trailer_checksum(trailer);
  sink_({reinterpret_cast<const char*>(&trailer), sizeof trailer});
  return info_;
}

void seal_token_store(std::string& bytes) {
  if (bytes.size() < sizeof(Trailer)) return;
  const size_t size = bytes.size() - sizeof(Trailer);
  Trailer trailer;
  std::memcpy(&trailer, bytes.data() + size, sizeof trailer);
  trailer.body_checksum = chained_checksum(std::string_view(bytes).substr(0, size));
  trailer.own_checksum = trailer_checksum(trailer);
  std::memcpy(bytes.data() + size, &trailer, sizeof trailer);
}

}  // namespace lithe
