// Files: whole reads, memory maps, atomic writes, directory locks. Every error names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

using Path = std::filesystem::path;

/// The bytes of a file. Fails when it is missing, unreadable, a directory, or above `max_bytes`.
std::string read_file(const Path& path, uint64_t max_bytes = uint64_t(1) << 34);

/// Appends to a file and flushes it to the operating system (used for metrics lines).
void append_file(const Path& path, std::string_view bytes);

/// Writes a file so that a reader sees the old content or the new, never a part: the bytes go to a
/// temporary name beside `path`, are synced, and are renamed on commit(). Without commit() the
/// temporary file is removed and `path` stays as it was.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  uint64_t written() const { return written_; }
  void commit();

 private:
  Path path_, temporary_;
  int fd_ = -1;
  uint64_t written_ = 0;
  std::string buffer_;
  void flush();
};

/// AtomicFile in one call.
void write_file(const Path& path, std::string_view bytes);

/// Makes renames and new names inside `directory` durable.
void sync_directory(const Path& directory);

/// Makes `directory` and its parents; fails with the reason.
void make_directory(const Path& directory);

/// A read-only memory map. Empty files map to an empty view.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  /// Gives back the memory behind bytes that have been read; touched again, they come from the file again.
  void forget(size_t begin, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Holds an exclusive lock on `directory/.lock` while alive; fails when another process holds it.
class DirectoryLock {
 public:
  explicit DirectoryLock(const Path& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

/// Paths that match a shell pattern, sorted; a plain path matches itself. Fails when nothing matches.
std::vector<Path> glob(const std::string& pattern);

/// xxHash 64 of bytes: the checksum of caches and checkpoints.
uint64_t checksum(const void* bytes, size_t count, uint64_t seed = 0);

}  // namespace lithe
