#include "lithe/data/image_files.h"

#include <charconv>
#include <cstring>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/base/error.h"
#include "lithe/base/log.h"
#include "lithe/data/byte_source.h"
#include "lithe/text/hex.h"

namespace lithe {
namespace {

constexpr uint64_t kMostUnpacked = uint64_t(1) << 36;

bool is_packed(const Path& path) { return path.extension() == ".gz" || path.extension() == ".zst"; }

// The name without .gz or .zst.
std::string plain_name(const Path& path) { return (is_packed(path) ? path.stem() : path.filename()).string(); }

Path path_of(const std::string& given) { return given.starts_with("$LITHE_DATA/") ? glob(given).at(0) : Path(given); }

// What stands behind the bytes of an unpacked file.
struct Trailer {
  char magic[8] = {'l', 'i', 't', 'h', 'e', 'u', 'n', '1'};
  uint64_t bytes = 0, checksum = 0;
};

void write_unpacked(const Path& path, const Path& to, uint64_t most) {
  const auto source = open_decompressed(path);
  AtomicFile file(to);
  ChecksummedBlocks blocks([&](std::string_view bytes) { file.write(bytes); });
  Trailer trailer;
  std::string piece(size_t(1) << 18, '\0');
  while (const size_t n = source->read(piece.data(), piece.size())) {
    trailer.bytes += n;
    check(trailer.bytes <= most, "image", "'", path.string(), "' unpacks to more than the ", most,
          " bytes that its head or the limit allows; it is damaged");
    blocks.put(piece.data(), n);
  }
  trailer.checksum = blocks.finish();
  file.write(&trailer, sizeof trailer);
  file.commit();
}

bool is_whole(const HeldBytes& file) {
  Trailer trailer;
  if (file.map.size() < sizeof trailer) return false;
  const size_t bytes = file.map.size() - sizeof trailer;
  std::memcpy(&trailer, file.map.data() + bytes, sizeof trailer);
  return std::memcmp(trailer.magic, Trailer().magic, sizeof trailer.magic) == 0 && trailer.bytes == bytes &&
         trailer.checksum == chained_checksum(file, bytes);
}

std::string first_bytes(const Path& path, size_t count) {
  const auto source = open_decompressed(path);
  std::string out(count, '\0');
  size_t have = 0;
  while (have < count) {
    const size_t n = source->read(out.data() + have, count - have);
    if (n == 0) break;
    have += n;
  }
  out.resize(have);
  return out;
}

uint32_t big_endian(std::string_view bytes, size_t at) {
  uint32_t out = 0;
  for (size_t i = 0; i < 4; ++i) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

}  // namespace

std::vector<int64_t> idx_sizes(std::string_view head, const std::string& name) {
  check(head.size() >= 4 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] >= 1 && head[3] <= 4, "idx", "'",
        name, "' does not begin as an IDX file of bytes does (0 0 8 and its dimensions, 1 to 4)");
  const auto dimensions = size_t(uint8_t(head[3]));
  check(head.size() >= 4 + 4 * dimensions, "idx", "'", name, "' is cut inside of its head");
  std::vector<int64_t> out;
  uint64_t bytes = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    out.push_back(big_endian(head, 4 + 4 * d));
    check(out.back() >= 1 && uint64_t(out.back()) <= kMostUnpacked / bytes, "idx", "'", name, "': dimension ", d + 1,
          " of its head is ", out.back(), "; the entries must be 1 to ", kMostUnpacked, " bytes");
    bytes *= uint64_t(out.back());
  }
  return out;
}

size_t idx_head(const std::vector<int64_t>& sizes) { return 4 + 4 * sizes.size(); }

MappedFile map_unpacked(const Path& path, const Path& cache, uint64_t most) {
  check_usage(std::filesystem::exists(path), "image", "'", path.string(), "' does not exist");
  if (!is_packed(path)) return MappedFile(path);
  uint64_t sum = 0;
  {
    HeldBytes packed;
    packed.map = MappedFile(path);
    sum = chained_checksum(packed, packed.map.size());
  }
  const Path to = cache / (hex(sum) + ".unpacked");
  if (std::filesystem::exists(to)) {
    HeldBytes file;
    file.map = MappedFile(to);
    if (is_whole(file)) return std::move(file.map);
    log_warning("'", to.string(), "' is damaged; it is made again");
  }
  log_info("unpacking '", path.string(), "' into ", to.string());
  write_unpacked(path, to, most);
  return MappedFile(to);
}

// Entries of one size, one after another.
struct ImageFiles::Array {
  HeldBytes held;
  size_t begin = 0;
  int64_t count = 0, height = 0, width = 0, channels = 0;
  int64_t before = 0;   // bytes of an entry before its pixels
  bool planes = false;  // a plane a channel

  int64_t pixels() const { return height * width * channels; }
  Image read(int64_t i) const {
    const size_t at = begin + size_t(i * (before + pixels()) + before);
    const auto* from = reinterpret_cast<const uint8_t*>(held.map.data()) + at;
    Image out{height, width, channels, std::vector<uint8_t>(from, from + pixels())};
    if (planes)
      for (int64_t p = 0; p < height * width; ++p)
        for (int64_t c = 0; c < channels; ++c)
          out.pixels[size_t(p * channels + c)] = from[size_t(c * height * width + p)];
    held.has_read(size_t(pixels()));
    return out;
  }
};

struct ImageFiles::Tar {
  HeldBytes held;
  std::map<std::string, TarMember> members;
};

ImageFiles::ImageFiles(Path cache, RawShape raw) : cache_(std::move(cache)), raw_(raw) {}
ImageFiles::~ImageFiles() = default;

std::shared_ptr<const ImageFiles::Array> ImageFiles::array(const std::string& given) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = arrays_.find(given); found != arrays_.end()) return found->second;
  const Path path = path_of(given);
  const std::string name = plain_name(path);
  auto out = std::make_shared<Array>();
  uint64_t expected = 0;
  if (name.ends_with(".u8")) {
    check_usage(raw_.bytes() > 0, "image", "'", given,
                "' does not say how large its pictures are; set data.image.raw: [height, width, channels]");
    out->height = raw_.height, out->width = raw_.width, out->channels = raw_.channels;
  } else if (name.ends_with(".bin")) {
    out->height = out->width = 32, out->channels = 3, out->before = 1, out->planes = true;
  } else {
    const std::vector<int64_t> sizes = idx_sizes(first_bytes(path, 20), path.string());
    check(sizes.size() >= 3 && (sizes.size() == 3 || sizes[3] == 1 || sizes[3] == 3), "idx", "'", path.string(),
          "' holds no pictures: they have 3 dimensions, or 4, the last of 1 or 3 channels");
    out->begin = idx_head(sizes);
    out->count = sizes[0], out->height = sizes[1], out->width = sizes[2];
    out->channels = sizes.size() == 4 ? sizes[3] : 1;
    expected = out->begin + uint64_t(out->count) * uint64_t(out->pixels());
  }
  check(out->height <= kMostPixels / out->width, "image", "'", path.string(), "': pictures of ", out->width, " x ",
        out->height, " pixels are above the limit of ", kMostPixels);
  const int64_t entry = out->before + out->pixels();
  out->held.map = map_unpacked(path, cache_, expected ? expected : kMostUnpacked);
  const uint64_t bytes = out->held.map.size() - (is_packed(path) ? sizeof(Trailer) : 0);
  if (expected) {
    check(bytes == expected, "idx", "'", path.string(), "' must have ", expected, " bytes by its head, it has ", bytes);
  } else {
    check(bytes > 0 && bytes % uint64_t(entry) == 0, "image", "'", path.string(), "' has ", bytes,
          " bytes, which is no multiple of the ", entry, " of an entry; it is cut, or another format");
    out->count = int64_t(bytes) / entry;
  }
  arrays_[given] = out;
  return out;
}

std::shared_ptr<const ImageFiles::Tar> ImageFiles::tar(const std::string& given) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = tars_.find(given); found != tars_.end()) return found->second;
  const Path path = path_of(given);
  check_usage(std::filesystem::exists(path), "image", "'", path.string(), "' does not exist");
  auto out = std::make_shared<Tar>();
  out->held.map = MappedFile(path);
  for (TarMember& member : tar_members(out->held.view(), path.string())) {
    const std::string name = member.name;
    out->members[name] = std::move(member);
  }
  tars_[given] = out;
  return out;
}

Image ImageFiles::read(const std::string& reference) const {
  const size_t hash = reference.rfind('#');
  if (hash == std::string::npos) return decode_image(read_file(path_of(reference), kMostImageBytes), reference);
  const std::string path = reference.substr(0, hash), part = reference.substr(hash + 1);
  if (path.ends_with(".tar")) {
    const auto in = tar(path);
    const auto found = in->members.find(part);
    check(found != in->members.end(), "image", "'", path, "' has no member '", part, "'");
    Image out = decode_image(in->held.view().substr(found->second.begin, found->second.size), reference);
    in->held.has_read(found->second.size);
    return out;
  }
  int64_t index = -1;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  check_usage(error == std::errc() && end == part.data() + part.size() && index >= 0, "image", "'", reference,
              "' must end in # and the number of an entry, from 0");
  const auto in = array(path);
  check(index < in->count, "image", "'", path, "' has ", in->count, " entries, 0 to ", in->count - 1, ", not ", index);
  return in->read(index);
}

}  // namespace lithe
