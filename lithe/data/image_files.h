// Where pictures stand: files of their own, members of a tar, entries of an array.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "lithe/base/files.h"
#include "lithe/data/image.h"

namespace lithe {

/// A member of a tar: a regular file.
struct TarMember {
  std::string name;
  size_t begin = 0, size = 0;  // of its bytes in the tar
};
/// The regular files in a tar (ustar, GNU or pax), in order. Fails on what is cut or damaged, naming `name`.
std::vector<TarMember> tar_members(std::string_view bytes, const std::string& name);

/// The bytes of `path`, unpacked where it ends in .gz or .zst: then from a checksummed file in `cache` that is named by
/// its contents, written on the first call. Fails where it unpacks to more than `most` bytes.
MappedFile map_unpacked(const Path& path, const Path& cache, uint64_t most);

/// Size of the pictures in an array that does not say it (.u8 files).
struct RawShape {
  int64_t height = 0, width = 0, channels = 0;
  int64_t bytes() const { return height * width * channels; }
};

/// Reads pictures by reference; may be called from many threads. References:
///   a.png                   a file: PNG, JPEG, PPM
///   a.tar#dir/b.jpg         a member of a tar
///   x-images-idx3-ubyte#7   entry 7, from 0, of an IDX file of bytes with 3 dimensions (grey) or 4 (channels last)
///   data_batch_1.bin#7      of CIFAR-10's binary layout: a label, then red, green and blue planes of 32 x 32
///   pictures.u8#7           of pictures one after another without a head, as RawShape says
/// A path may begin with `$LITHE_DATA/`, as a pattern may (glob). Arrays may end in .gz or .zst. Nothing is held but
/// maps of the files that were read.
class ImageFiles {
 public:
  ImageFiles(Path cache, RawShape raw);
  ~ImageFiles();
  Image read(const std::string& reference) const;

 private:
  struct Array;
  struct Tar;
  Path cache_;
  RawShape raw_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Array>> arrays_;
  mutable std::map<std::string, std::shared_ptr<const Tar>> tars_;

  std::shared_ptr<const Array> array(const std::string& path) const;
  std::shared_ptr<const Tar> tar(const std::string& path) const;
};

/// Bytes of an entry of CIFAR-10's binary layout.
inline constexpr int64_t kCifarBytes = 1 + 3 * 32 * 32;

/// The sizes in an IDX file of bytes, [count, ...]; `head` is at least its first 16 bytes. Fails on another type, and
/// on sizes that no file has. And the bytes before the entries.
std::vector<int64_t> idx_sizes(std::string_view head, const std::string& name);
size_t idx_head(const std::vector<int64_t>& sizes);

}  // namespace lithe
