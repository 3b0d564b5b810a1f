#include "lithe/model/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/base/json.h"
#include "lithe/model/safetensors_format.h"
#include "lithe/model/safetensors_writer.h"
#include "lithe/model/tensor_stream.h"
#include "lithe/tensor/half.h"

namespace lithe {
namespace {

using Tree = nlohmann::json;  // a header may have many thousand keys

constexpr std::pair<DType, const char*> kNames[] = {{DType::f64, "F64"}, {DType::f32, "F32"}, {DType::bf16, "BF16"},
                                                    {DType::i64, "I64"}, {DType::i32, "I32"}, {DType::u8, "U8"},
                                                    {DType::i8, "I8"},   {DType::f32, "F16"}, {DType::u8, "BOOL"}};
constexpr uint64_t kMaxHeader = 100'000'000;

}  // namespace

const char* safetensors_name(DType dtype) {
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return "?";
}

std::string safetensors_checksum(const std::map<std::string, std::string>& metadata, const std::string& name,
                                 DType dtype, const Shape& shape,
                                 const std::function<uint64_t(uint64_t seed)>& sum_of_bytes) {
  std::string facts = cat(name, '\0', safetensors_name(dtype), shape);
  for (const auto& [key, value] : metadata) facts += cat('\0', key, '\0', value);
  const uint64_t sum = sum_of_bytes(checksum(facts.data(), facts.size()));
  char text[kChecksumDigits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

void write_safetensors(const Path& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::map<std::string, PendingTensor> all;
  for (const auto& [name, tensor] : tensors) all[name] = pending(tensor);
  stream_safetensors(path, all, metadata);
}

void stream_safetensors(const Path& path, const std::map<std::string, PendingTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::map<std::string, SafetensorsWriter::Entry> entries;
  for (const auto& [name, pending] : tensors) entries[name] = {pending.shape, pending.dtype};
  SafetensorsWriter file(path, entries, metadata);
  for (const auto& [name, pending] : tensors) file.put(name, pending.read());
  file.commit();
}

SafetensorsFile::SafetensorsFile(const Path& path) : file_(path), bytes_(file_.view()), origin_(path.string()) {
  parse();
}

SafetensorsFile::SafetensorsFile(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {
  parse();
}

void SafetensorsFile::parse() {
  const auto refuse = [&](const auto&... why) {
    fail("safetensors", "'", origin_, "': ", why..., "; the file is damaged or not a safetensors file");
  };
  uint64_t length = 0;
  if (bytes_.size() < 8) refuse("it has ", bytes_.size(), " bytes, at least 8 are needed");
  std::memcpy(&length, bytes_.data(), 8);
  if (length > kMaxHeader || length > bytes_.size() - 8)
    refuse("its header would have ", length, " bytes, the file has ", bytes_.size());
  data_ = 8 + length;
  const uint64_t available = bytes_.size() - data_;
  const Tree header = parse_json_sorted(bytes_.substr(8, length), origin_, true);
  if (!header.is_object()) refuse("its header is not an object");
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) refuse("its metadata is not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) refuse("metadata '", key, "' is not text");
        metadata_[key] = text.get<std::string>();
      }
      continue;
    }
    const auto is_count = [](const Tree& v) {
      return v.is_number_unsigned() && v.get<uint64_t>() <= (uint64_t(1) << 48);
    };
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
      refuse("tensor '", name, "' lacks dtype, shape or data_offsets");
    const Tree &shape = value["shape"], &offsets = value["data_offsets"], &dtype = value["dtype"];
    if (!dtype.is_string() || !shape.is_array() || shape.size() > 4 || !offsets.is_array() || offsets.size() != 2 ||
        !is_count(offsets[0]) || !is_count(offsets[1]))
      refuse("tensor '", name, "' is described wrongly");
    Entry entry{};
    const auto known =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) { return dtype == n.second; });
    if (known == std::end(kNames))
      fail("safetensors", "'", origin_, "': tensor '", name, "' has dtype ", dump(dtype),
           ", which is not supported (F64, F32, BF16, F16, I64, I32, U8, I8, BOOL are)");
    entry.dtype = known->first;
    entry.half = dtype == "F16";
    std::vector<int64_t> sizes;
    __int128 numel = 1;
    for (const Tree& s : shape) {
      if (!is_count(s)) refuse("tensor '", name, "' has a wrong shape");
      sizes.push_back(s.get<int64_t>());
      numel = std::min<__int128>(numel * sizes.back(), __int128(1) << 60);
    }
    entry.shape = Shape(sizes);
    entry.begin = offsets[0].get<uint64_t>();
    entry.end = offsets[1].get<uint64_t>();
    if (entry.begin > entry.end || entry.end > available)
      refuse("tensor '", name, "' lies at bytes ", entry.begin, "-", entry.end, " of ", available);
    if (numel * entry.size() != __int128(entry.end - entry.begin))
      refuse("tensor '", name, "' of shape ", entry.shape, " does not fill its ", entry.end - entry.begin, " bytes");
    if (entry.begin != entry.end) ranges.push_back({entry.begin, entry.end});
    entries_[name] = entry;
  }
  if (const auto sums = metadata_.find(kChecksumsKey); sums != metadata_.end()) {
    const auto text = parse_json_sorted(sums->second, origin_);
    if (!text.is_object()) refuse("its checksums are not an object");
    for (const auto& [name, sum] : text.items()) {
      if (!sum.is_string()) refuse("the checksum of tensor '", name, "' is not text");
      checksums_[name] = sum.get<std::string>();
    }
    metadata_.erase(sums);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) refuse("two tensors overlap at byte ", ranges[i].first);
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  check(found != entries_.end(), "safetensors", "'", origin_, "' has no tensor '", name, "'");
  return found->second;
}

void SafetensorsFile::verify(const std::string& name, const Entry& e) const {
  if (checksums_.empty()) return;
  {
    const std::lock_guard lock(guard_);
    if (!verified_.insert(name).second) return;
  }
  const auto kept = checksums_.find(name);
  const std::string sum = safetensors_checksum(metadata_, name, e.dtype, e.shape, [&](uint64_t seed) {
    const uint64_t begin = data_ + e.begin, count = e.end - e.begin;
    return file_.size() ? checksum_of_mapped(file_, begin, count, seed) : checksum(bytes_.data() + begin, count, seed);
  });
  check(kept != checksums_.end() && kept->second == sum, "safetensors", "'", origin_, "': tensor '", name,
        "' is damaged: its checksum must be ", kept == checksums_.end() ? "in the file" : kept->second, ", it is ", sum,
        "; bring the file back from a copy, or make it again");
}

void SafetensorsFile::read(const std::string& name, const Tensor& to) const {
  const Entry& e = entry(name);
  check(e.shape == to.shape(), "safetensors", "'", origin_, "': tensor '", name, "' is ", e.shape, ", the model needs ",
        to.shape());
  if (!to.is_meta()) verify(name, e);
  copy(e, 0, to);
}

void SafetensorsFile::read_rows(const std::string& name, int64_t first, const Tensor& to) const {
  const Entry& e = entry(name);
  check(e.shape.rank() == 2 && to.shape().rank() == 2 && e.shape[1] == to.cols() && first >= 0 &&
            first + to.rows() <= e.shape[0],
        "safetensors", "'", origin_, "': tensor '", name, "' is ", e.shape, ", which has no rows ", to.shape(), " at ",
        first);
  if (!to.is_meta()) verify(name, e);
  copy(e, first * to.cols(), to);
}

// Elements of e from `first` on, as many as `to` has. A piece at a time, so that what is read does not stand in memory
// twice.
void SafetensorsFile::copy(const Entry& e, int64_t first, const Tensor& to) const {
  constexpr int64_t kPiece = int64_t(1) << 20;  // elements
  if (to.is_meta()) return;
  for (int64_t at = 0; at < to.numel(); at += kPiece)
    copy_piece(e, first + at, to, at, std::min(kPiece, to.numel() - at));
}

void SafetensorsFile::copy_piece(const Entry& e, int64_t first, const Tensor& to, int64_t at, int64_t count) const {
  const int64_t size = e.size();
  const uint64_t begin = data_ + e.begin + uint64_t(first * size), bytes = uint64_t(count * size);
  const char* from = bytes_.data() + begin;
  if (e.half) {
    dispatch_float(to.dtype(), [&]<class To>() {
      for (int64_t i = 0; i < count; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + i * size, sizeof bits);
        to.data<To>()[at + i] = To(float_of_half(bits));
      }
    });
  } else if (e.dtype == to.dtype()) {
    std::memcpy(static_cast<char*>(to.raw()) + at * size, from, bytes);
  } else {
    const auto convert = [&]<class T>(T v) {
      dispatch_float(to.dtype(), [&]<class To>() {
        for (int64_t i = 0; i < count; ++i) {
          std::memcpy(&v, from + i * size, sizeof v);
          to.data<To>()[at + i] = To(v);
        }
      });
    };
    switch (e.dtype) {
      case DType::f64: convert(double()); break;
      case DType::f32: convert(float()); break;
      case DType::bf16: convert(bf16()); break;
      case DType::i64: convert(int64_t()); break;
      case DType::i32: convert(int32_t()); break;
      case DType::u8: convert(uint8_t()); break;
      case DType::i8: convert(int8_t()); break;
    }
  }
  file_.forget(begin, bytes);
}

}  // namespace lithe
