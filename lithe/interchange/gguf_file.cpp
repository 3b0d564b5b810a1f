#include "lithe/interchange/gguf_file.h"

#include <algorithm>
#include <cstring>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr uint64_t kMostItems = uint64_t(1) << 26, kAlignment = 32;
enum : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

// Reads from the front; every step is checked against what is left.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}
  uint64_t at() const { return at_; }

  template <class... Args>
  [[noreturn]] void refuse(const Args&... why) const {
    fail("gguf", "'", origin_, "': ", why..., "; the file is damaged or not a GGUF file");
  }
  template <class T>
  T take() {
    if (bytes_.size() - at_ < sizeof(T)) refuse("it ends at byte ", bytes_.size(), " within its header");
    T out;
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return out;
  }
  std::string take_text() {
    const auto length = take<uint64_t>();
    if (length > bytes_.size() - at_) refuse("a text of ", length, " bytes at byte ", at_, " goes beyond its end");
    std::string out(bytes_.substr(at_, length));
    at_ += length;
    return out;
  }
  GgufValue take_value(uint32_t type) {
    if (type == array) return take_array();
    if (type == text) return {take_text()};
    if (type == boolean) return {take<uint8_t>() != 0};
    if (type == f32 || type == f64) return {take_real(type)};
    return {take_integer(type)};
  }

 private:
  std::string_view bytes_;
  const std::string& origin_;
  uint64_t at_ = 0;

  double take_real(uint32_t type) { return type == f32 ? double(take<float>()) : take<double>(); }
  int64_t take_integer(uint32_t type) {
    switch (type) {
      case u8: return take<uint8_t>();
      case i8: return take<int8_t>();
      case u16: return take<uint16_t>();
      case i16: return take<int16_t>();
      case u32: return take<uint32_t>();
      case i32: return take<int32_t>();
      case i64: return take<int64_t>();
      case u64: {
        const auto value = take<uint64_t>();
        if (value > uint64_t(INT64_MAX)) refuse("a number of the metadata is ", value);
        return int64_t(value);
      }
      default: refuse("the metadata have a value of type ", type);
    }
  }
  GgufValue take_array() {
    const auto type = take<uint32_t>();
    const auto count = take<uint64_t>();
    // Each item has a byte at least, so that nothing is made for items that are not there.
    if (count > kMostItems || count > bytes_.size() - at_) refuse("a list has ", count, " items");
    if (type == array) refuse("a list holds lists");
    if (type == text) {
      std::vector<std::string> out;
      for (uint64_t i = 0; i < count; ++i) out.push_back(take_text());
      return {out};
    }
    if (type == f32 || type == f64) {
      std::vector<double> out;
      for (uint64_t i = 0; i < count; ++i) out.push_back(take_real(type));
      return {out};
    }
    std::vector<int64_t> out;
    for (uint64_t i = 0; i < count; ++i) out.push_back(type == boolean ? take<uint8_t>() != 0 : take_integer(type));
    return {out};
  }
};

}  // namespace

GgufFile::GgufFile(const Path& path) : file_(path), bytes_(file_.view()), origin_(path.string()) { parse(); }
GgufFile::GgufFile(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) { parse(); }

void GgufFile::parse() {
  Reader in(bytes_, origin_);
  if (bytes_.size() < 24 || bytes_.substr(0, 4) != "GGUF") in.refuse("it does not begin with GGUF");
  in.take<uint32_t>();
  const auto version = in.take<uint32_t>();
  check(version == 2 || version == 3, "gguf", "'", origin_, "' is of version ", version,
        "; versions 2 and 3 can be read");
  const auto tensors = in.take<uint64_t>(), pairs = in.take<uint64_t>();
  if (tensors > kMostItems || pairs > kMostItems) in.refuse("it would have ", tensors, " tensors and ", pairs, " keys");
  for (uint64_t i = 0; i < pairs; ++i) {
    const std::string key = in.take_text();
    const auto type = in.take<uint32_t>();
    if (!metadata_.emplace(key, in.take_value(type)).second) in.refuse("key '", key, "' stands twice");
  }
  uint64_t alignment = kAlignment;
  if (const auto found = metadata_.find("general.alignment"); found != metadata_.end()) {
    const int64_t* given = found->second.get<int64_t>();
    if (!given || *given < 1 || *given > 65536) in.refuse("general.alignment is no size");
    alignment = uint64_t(*given);
  }
  for (uint64_t i = 0; i < tensors; ++i) {
    const std::string name = in.take_text();
    const auto rank = in.take<uint32_t>();
    if (rank < 1 || rank > 4) in.refuse("tensor '", name, "' has ", rank, " axes");
    std::vector<int64_t> sizes;
    __int128 numbers = 1;
    for (uint32_t axis = 0; axis < rank; ++axis) {
      const auto size = in.take<uint64_t>();
      if (size > (uint64_t(1) << 40)) in.refuse("tensor '", name, "' has an axis of ", size);
      sizes.insert(sizes.begin(), int64_t(size));
      numbers = std::min<__int128>(numbers * __int128(size), __int128(1) << 60);
    }
    const auto type = in.take<uint32_t>();
    const auto offset = in.take<uint64_t>();
    Entry entry{Shape(sizes), GgmlType(type), offset};
    check(block_bytes(entry.type) > 0, "gguf", "'", origin_, "': tensor '", name, "' is of type ", type,
          "; F32, F16, BF16, Q8_0, Q4_0, IQ4_NL, Q4_K, Q5_K and Q6_K can be read");
    if (numbers >= (__int128(1) << 60) || sizes.back() % block_numbers(entry.type))
      in.refuse("tensor '", name, "' ", entry.shape, " does not fill blocks of ", name_of(entry.type));
    if (offset % alignment) in.refuse("tensor '", name, "' lies at byte ", offset, ", no multiple of ", alignment);
    if (!entries_.emplace(name, entry).second) in.refuse("tensor '", name, "' stands twice");
  }
  const uint64_t data = (in.at() + alignment - 1) / alignment * alignment;
  for (auto& [name, entry] : entries_) {
    const uint64_t bytes = uint64_t(entry.shape.numel() / block_numbers(entry.type) * block_bytes(entry.type));
    if (data > bytes_.size() || entry.begin > bytes_.size() - data || bytes > bytes_.size() - data - entry.begin)
      in.refuse("tensor '", name, "' of ", bytes, " bytes at ", entry.begin, " goes beyond its end");
    entry.begin += data;
  }
}

std::string_view GgufFile::stored(const std::string& name) const {
  const auto found = entries_.find(name);
  check(found != entries_.end(), "gguf", "'", origin_, "' has no tensor '", name, "'");
  const Entry& e = found->second;
  return bytes_.substr(e.begin, size_t(e.shape.numel() / block_numbers(e.type) * block_bytes(e.type)));
}

Tensor GgufFile::read(const std::string& name) const {
  const char* from = stored(name).data();
  const Entry& e = entries_.at(name);
  const Tensor out = empty(e.shape, e.type == GgmlType::bf16 ? DType::bf16 : DType::f32);
  if (e.type == GgmlType::bf16)
    std::memcpy(out.raw(), from, size_t(out.bytes()));
  else
    read_blocks(e.type, from, out.numel(), out.data<float>());
  return out;
}

namespace {

class Writer {
 public:
  template <class T>
  void put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(const std::string& value) {
    put(uint64_t(value.size()));
    bytes_ += value;
  }
  void put_number(uint32_t type, int64_t value) {
    if (type == u32)
      put(uint32_t(value));
    else if (type == i32)
      put(int32_t(value));
    else
      put(value);
  }
  void put_pair(const GgufPair& pair) {
    put_text(pair.key);
    const auto list = [&](const auto& items, const auto& each) {
      put(uint32_t(array));
      put(pair.type);
      put(uint64_t(items.size()));
      for (const auto& item : items) each(item);
    };
    if (const auto* texts = pair.value.get<std::vector<std::string>>())
      list(*texts, [&](const std::string& t) { put_text(t); });
    else if (const auto* numbers = pair.value.get<std::vector<double>>())
      list(*numbers, [&](double v) { put(float(v)); });
    else if (const auto* integers = pair.value.get<std::vector<int64_t>>())
      list(*integers, [&](int64_t v) { put_number(pair.type, v); });
    else {
      put(pair.type);
      if (const auto* t = pair.value.get<std::string>())
        put_text(*t);
      else if (const auto* b = pair.value.get<bool>())
        put(uint8_t(*b));
      else if (const auto* v = pair.value.get<double>())
        put(float(*v));
      else
        put_number(pair.type, *pair.value.get<int64_t>());
    }
  }
  void align() { bytes_.append((kAlignment - bytes_.size() % kAlignment) % kAlignment, '\0'); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

void write_gguf(const Path& path, const std::vector<GgufPair>& metadata, const std::vector<GgufTensor>& tensors) {
  Writer header;
  header.put(uint32_t(0x46554747));  // GGUF
  header.put(uint32_t(3));
  header.put(uint64_t(tensors.size()));
  header.put(uint64_t(metadata.size()));
  for (const GgufPair& pair : metadata) header.put_pair(pair);
  uint64_t at = 0;
  const auto bytes_of = [](const GgufTensor& t) {
    return uint64_t(t.tensor.shape.numel() / block_numbers(t.type) * block_bytes(t.type));
  };
  for (const GgufTensor& t : tensors) {
    check(t.tensor.shape[-1] % block_numbers(t.type) == 0, "gguf", "tensor '", t.name, "' ", t.tensor.shape,
          " does not fill blocks of ", name_of(t.type));
    header.put_text(t.name);
    const Shape& shape = t.tensor.shape;
    header.put(uint32_t(shape.rank()));
    for (int axis = shape.rank(); axis-- > 0;) header.put(uint64_t(shape[axis]));
    header.put(uint32_t(t.type));
    header.put(at);
    at += (bytes_of(t) + kAlignment - 1) / kAlignment * kAlignment;
  }
  header.align();
  AtomicFile file(path);
  file.write(header.bytes());
  for (const GgufTensor& t : tensors) {
    std::string blocks(bytes_of(t), '\0');
    const Tensor tensor = t.tensor.read();
    if (t.type == GgmlType::bf16 && tensor.dtype() == DType::bf16) {
      std::memcpy(blocks.data(), tensor.raw(), blocks.size());
    } else {
      const Tensor wide = tensor.dtype() == DType::f32 ? tensor : convert(tensor, DType::f32);
      write_blocks(t.type, wide.data<float>(), wide.numel(), blocks.data());
    }
    blocks.append((kAlignment - blocks.size() % kAlignment) % kAlignment, '\0');
    file.write(blocks);
  }
  file.commit();
}

}  // namespace lithe
