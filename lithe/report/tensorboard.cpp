#include "lithe/report/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".lithe";

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}

// TFRecord stores rotated CRCs, so that the CRC of data that itself holds CRCs stays meaningful.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(char(value >> (8 * i)));
}

template <class T>
T get_little_endian(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

// Protocol buffers: a message is a sequence of (field number << 3 | wire type) and value.
enum Wire : uint32_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out.push_back(char(value | 128));
  out.push_back(char(value));
}

void put_key(std::string& out, uint32_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_varint_field(std::string& out, uint32_t field, uint64_t value) {
  put_key(out, field, varint);
  put_varint(out, value);
}

void put_bytes_field(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, length_delimited);
  put_varint(out, bytes.size());
  out.append(bytes);
}

std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return {};
}

// Event.step, 0 when absent (as for file_version); nothing when the message is malformed.
std::optional<int64_t> step_of(std::string_view event) {
  while (!event.empty()) {
    const auto key = take_varint(event);
    if (!key) return {};
    uint64_t skip = 0;
    switch (*key & 7) {
      case varint: {
        const auto value = take_varint(event);
        if (!value) return {};
        if (*key >> 3 == 2) return int64_t(*value);
        break;
      }
      case fixed64: skip = 8; break;
      case fixed32: skip = 4; break;
      case length_delimited: {
        const auto size = take_varint(event);
        if (!size) return {};
        skip = *size;
        break;
      }
      default: return {};
    }
    if (skip > event.size()) return {};
    event.remove_prefix(skip);
  }
  return 0;
}

// Event: wall_time = 1 (double), step = 2, then one of file_version = 3, summary = 5, session_log = 7.
std::string event(double wall_time, int64_t step, uint32_t what, std::string_view content) {
  std::string out;
  put_key(out, 1, fixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(wall_time));
  if (step != 0) put_varint_field(out, 2, uint64_t(step));
  put_bytes_field(out, what, content);
  return out;
}

// Summary: value = 1, repeated.
std::string summary_event(double wall_time, int64_t step, std::string_view value) {
  std::string summary;
  put_bytes_field(summary, 1, value);
  return event(wall_time, step, 5, summary);
}

// The records of whole, undamaged frames whose step is at most `last_step`.
std::string kept_records(std::string_view file, int64_t last_step) {
  std::string kept;
  while (file.size() >= 16) {
    const auto size = get_little_endian<uint64_t>(file);
    if (get_little_endian<uint32_t>(file.substr(8)) != masked_crc(file.substr(0, 8)) || size > file.size() - 16) break;
    const std::string_view payload = file.substr(12, size);
    if (get_little_endian<uint32_t>(file.substr(12 + size)) != masked_crc(payload)) break;
    const auto step = step_of(payload);
    if (step && *step <= last_step) kept.append(file.substr(0, 16 + size));
    file.remove_prefix(16 + size);
  }
  return kept;
}

// The seconds in the name of an event file of ours; nothing for any other file.
std::optional<int64_t> seconds_in_name(const Path& path) {
  std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() <= kPrefix.size() + kSuffix.size())
    return {};
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (name.size() > 12 || !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return {};
  return std::atoll(name.c_str());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(byte)) & 255];
  return ~crc;
}

std::string tfrecord(std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 16);
  put_little_endian(out, uint64_t(payload.size()));
  put_little_endian(out, masked_crc(out));
  out.append(payload);
  put_little_endian(out, masked_crc(payload));
  return out;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TensorBoardWriter::TensorBoardWriter(const Path& directory, std::optional<int64_t> resume_step) {
  make_directory(directory);
  // TensorBoard reads the files of a directory in the order of their names, so a new name must sort last
  // even when the clock was set back.
  int64_t seconds = int64_t(wall_clock());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto earlier = seconds_in_name(entry.path());
    if (!earlier) continue;
    seconds = std::max(seconds, *earlier + 1);
    if (!resume_step) continue;
    const std::string file = read_file(entry.path());
    const std::string kept = kept_records(file, *resume_step);
    if (kept.size() != file.size()) write_file(entry.path(), kept);
  }
  check(!error, "tensorboard", "'", directory.string(), "': ", error.message());
  std::string digits = std::to_string(seconds);
  digits.insert(0, digits.size() < 10 ? 10 - digits.size() : 0, '0');
  path_ = directory / (std::string(kPrefix) + digits + std::string(kSuffix));

  const double now = wall_clock();
  const int64_t first_step = resume_step ? *resume_step + 1 : 0;
  std::string start = tfrecord(event(now, resume_step ? *resume_step : 0, 3, "brain.Event:2"));
  if (resume_step) {
    // SessionLog.status = START at this step: readers drop what they hold of this step and later ones.
    std::string session_log;
    put_varint_field(session_log, 1, 1);
    start += tfrecord(event(now, first_step, 7, session_log));
  }
  append_file(path_, start);
}

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  std::string summary_value;  // Summary.Value: tag = 1, simple_value = 2 (float)
  put_bytes_field(summary_value, 1, tag);
  put_key(summary_value, 2, fixed32);
  put_little_endian(summary_value, std::bit_cast<uint32_t>(float(value)));
  append_file(path_, tfrecord(summary_event(wall_time, step, summary_value)));
}

void TensorBoardWriter::text(std::string_view tag, int64_t step, std::string_view text, double wall_time) {
  std::string tensor;  // TensorProto: dtype = 1 (7 is string), tensor_shape = 2 (no dimensions), string_val = 8
  put_varint_field(tensor, 1, 7);
  put_bytes_field(tensor, 2, {});
  put_bytes_field(tensor, 8, text);
  std::string plugin, metadata;  // SummaryMetadata: plugin_data = 1, with plugin_name = 1
  put_bytes_field(plugin, 1, "text");
  put_bytes_field(metadata, 1, plugin);
  std::string summary_value;  // Summary.Value: tag = 1, tensor = 8, metadata = 9
  put_bytes_field(summary_value, 1, tag);
  put_bytes_field(summary_value, 8, tensor);
  put_bytes_field(summary_value, 9, metadata);
  append_file(path_, tfrecord(summary_event(wall_time, step, summary_value)));
}

}  // namespace lithe
