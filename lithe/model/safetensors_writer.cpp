#include "lithe/model/safetensors_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lithe/base/json.h"
#include "lithe/model/safetensors_format.h"

namespace lithe {
namespace {

// With checksums of 0; `at` gets the place of each tensor behind the header, and at last the bytes of all.
std::string header_of(const std::map<std::string, SafetensorsWriter::Entry>& tensors,
                      const std::map<std::string, std::string>& metadata, uint64_t& at,
                      std::map<std::string, uint64_t>& places) {
  // As text: Json holds the keys of an object in a list, in which thousands of tensors are found slowly.
  const std::string no_checksum(kChecksumDigits, '0');
  std::string checksums, entries;
  at = 0;
  for (const auto& [name, entry] : tensors) {
    const std::string key = dump(Json(name));
    checksums += cat(checksums.empty() ? "" : ",", key, ":\"", no_checksum, "\"");
    Json shape = Json::array();
    for (int i = 0; i < entry.shape.rank(); ++i) shape.push_back(entry.shape[i]);
    const auto bytes = uint64_t(entry.shape.numel() * size_of(entry.dtype));
    entries += cat(
        ",", key, ":",
        dump(Json({{"dtype", safetensors_name(entry.dtype)}, {"shape", shape}, {"data_offsets", {at, at + bytes}}})));
    places[name] = at;
    at += bytes;
  }
  Json all = metadata;
  all[kChecksumsKey] = "{" + checksums + "}";
  std::string text = "{\"__metadata__\":" + dump(all) + entries + "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

int64_t SafetensorsWriter::file_bytes(const std::map<std::string, Entry>& tensors,
                                      const std::map<std::string, std::string>& metadata) {
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> places;
  const std::string header = header_of(tensors, metadata, bytes, places);
  return int64_t(sizeof(uint64_t) + header.size() + bytes);
}

SafetensorsWriter::SafetensorsWriter(const Path& path, const std::map<std::string, Entry>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path), metadata_(metadata), temporary_(path, Temporary::Kind::file) {
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> places;
  const std::string text = header_of(tensors, metadata, bytes, places);
  for (const auto& [name, at] : places) places_[name] = {.entry = tensors.at(name), .data = at};
  const std::string no_checksum(kChecksumDigits, '0');
  const uint64_t length = text.size(), data = sizeof length + length;
  // The checksums stand in the order of names, with nothing else like them in between: the metadata hold them as a text
  // in which quotes are escaped.
  size_t from = text.find(dump(Json(std::string(kChecksumsKey))));
  for (auto& [name, place] : places_) {
    const std::string quoted = dump(Json(dump(Json(name))));  // with quotes around, which the text has not
    const std::string key = quoted.substr(1, quoted.size() - 2) + ":\\\"" + no_checksum;
    from = text.find(key, from);
    check(from != std::string::npos, "safetensors", "internal: the header has no checksum of '", name, "'");
    from += key.size();
    place.checksum = sizeof length + from - kChecksumDigits;
    place.data += data;
  }
  write(0, &length, sizeof length);
  write(sizeof length, text.data(), text.size());
}

void SafetensorsWriter::put(const std::string& name, const Tensor& tensor) {
  const auto found = places_.find(name);
  check(found != places_.end() && written_.insert(name).second, "safetensors", "internal: tensor '", name,
        "' was not announced, or comes a second time");
  const Place& place = found->second;
  check(tensor.shape() == place.entry.shape && tensor.dtype() == place.entry.dtype, "safetensors", "internal: tensor '",
        name, "' is ", tensor.dtype(), " ", tensor.shape(), ", it was to be ", place.entry.dtype, " ",
        place.entry.shape);
  const auto bytes = size_t(tensor.bytes());
  const std::string sum = safetensors_checksum(metadata_, name, tensor.dtype(), tensor.shape(),
                                               [&](uint64_t seed) { return checksum(tensor.raw(), bytes, seed); });
  write(place.data, tensor.raw(), bytes);
  write(place.checksum, sum.data(), sum.size());
}

void SafetensorsWriter::commit() {
  for (const auto& [name, place] : places_)
    check(written_.count(name), "safetensors", "internal: tensor '", name, "' was never written");
  temporary_.commit();
}

void SafetensorsWriter::write(uint64_t at, const void* bytes, size_t count) const {
  const char* from = static_cast<const char*>(bytes);
  while (count) {
    const ssize_t n = ::pwrite(temporary_.fd(), from, count, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    check(n > 0, "write", "'", path_.string(), "': ", n < 0 ? std::strerror(errno) : "nothing more can be written",
          "; nothing was changed there");
    from += n;
    at += uint64_t(n);
    count -= size_t(n);
  }
}

}  // namespace lithe
