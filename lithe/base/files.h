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

/// A new file or directory that becomes `path` when it is whole. Until then its name is `path`.tmp-<16 hexadecimal
/// digits that nobody can guess>, and it is locked, so that those of processes that were killed can be told from those
/// of living ones: making one removes the former beside `path`.
class Temporary {
 public:
  enum class Kind { file, directory };
  Temporary(const Path& path, Kind kind);
  /// Removes it unless commit() was called.
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const Path& name() const { return name_; }
  int fd() const { return fd_; }
  /// Syncs it, gives it its name (a directory: onto nothing or an empty directory), and makes that durable.
  void commit();
  /// commit() of a directory that takes the place of one that may stand there, which is removed.
  void exchange();

 private:
  Path path_, name_;
  int fd_ = -1;  // holds the lock

  void sync();
  void finish();
};

/// Removes what killed processes left in `directory` under the names of Temporary.
void remove_temporaries(const Path& directory);

/// Writes a file so that a reader sees the old content or the new, never a part: the bytes go to a Temporary, which is
/// renamed on commit(). Without commit() `path` stays as it was.
class AtomicFile {
 public:
  explicit AtomicFile(const Path& path);

  void write(const void* bytes, size_t count);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  uint64_t written() const { return written_; }
  void commit();

 private:
  Path path_;
  Temporary temporary_;
  uint64_t written_ = 0;
  std::string buffer_;
  void flush();
};

/// AtomicFile in one call.
void write_file(const Path& path, std::string_view bytes);

/// DIRECTORY.suffix, which stands beside it; a slash behind its name does not count.
inline Path beside(const Path& directory, std::string_view suffix) {
  Path named = directory.filename().empty() ? directory.parent_path() : directory;
  return named += suffix;
}

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

/// Paths that match a shell pattern, sorted; a plain path matches itself. A pattern may begin with `$LITHE_DATA/`,
/// which is the environment variable's directory, or data/ where it is not set. Fails when nothing matches, and when
/// its braces stand for thousands of patterns.
std::vector<Path> glob(const std::string& pattern);

/// xxHash 64 of bytes: the checksum of caches and checkpoints.
uint64_t checksum(const void* bytes, size_t count, uint64_t seed = 0);

}  // namespace lithe
