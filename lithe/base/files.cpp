#include "lithe/base/files.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lithe/base/error.h"

namespace lithe {
namespace {

std::string reason() { return std::strerror(errno); }

constexpr size_t kBuffer = size_t(1) << 20;

}  // namespace

std::string read_file(const Path& path, uint64_t max_bytes) {
  const MappedFile file(path);
  check(file.size() <= max_bytes, "read", "'", path.string(), "' has ", file.size(), " bytes, at most ", max_bytes,
        " are read");
  return std::string(file.view());
}

void append_file(const Path& path, std::string_view bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  check(fd >= 0, "append", "'", path.string(), "': ", reason());
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = reason();
      ::close(fd);
      fail("append", "'", path.string(), "': ", why);
    }
    bytes.remove_prefix(size_t(n));
  }
  ::close(fd);
}

namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr size_t kDigits = 16;

// 64 bits that nobody can guess, as hexadecimal digits.
std::string unguessable() {
  uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != sizeof bits)
    check(errno == EINTR, "write", "the system gives no random numbers: ", reason());
  char text[kDigits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return text;
}

bool is_temporary(const std::string& name, const std::string& begins) {
  const size_t mark = name.size() - std::min(name.size(), kDigits + kTemporary.size());
  return mark > 0 && name.starts_with(begins) && name.compare(mark, kTemporary.size(), kTemporary) == 0 &&
         name.find_first_not_of("0123456789abcdef", mark + kTemporary.size()) == std::string::npos;
}

// Those whose names begin so and that no living process has locked.
void remove_dead(const Path& directory, const std::string& begins) {
  std::error_code ignored;
  std::vector<Path> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory.empty() ? Path(".") : directory, ignored))
    if (is_temporary(entry.path().filename().string(), begins)) found.push_back(entry.path());
  for (const Path& path : found) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(path, ignored);
    ::close(fd);
  }
}

}  // namespace

void remove_temporaries(const Path& directory) { remove_dead(directory, ""); }

Temporary::Temporary(const Path& path, Kind kind) : path_(path) {
  if (kind == Kind::directory && !path_.has_filename()) path_ = path_.parent_path();  // given as "directory/"
  remove_dead(path_.parent_path(), path_.filename().string() + std::string(kTemporary));
  struct stat held {
  }, there{};
  do {  // again when another process took it for a dead one before it was locked
    if (fd_ >= 0) ::close(fd_);
    name_ = path_.string() + std::string(kTemporary) + unguessable();
    if (kind == Kind::file)
      fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    else
      fd_ = ::mkdir(name_.c_str(), 0755) ? -1 : ::open(name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    check(fd_ >= 0, "write", "'", path_.string(), "': ", reason());
    ::flock(fd_, LOCK_EX);  // where a file system has no locks, nothing is taken for dead either
  } while (::fstat(fd_, &held) != 0 || ::lstat(name_.c_str(), &there) != 0 || held.st_ino != there.st_ino);
}

Temporary::~Temporary() {
  if (fd_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(name_, ignored);
  ::close(fd_);
}

void Temporary::sync() {
  const bool synced = ::fsync(fd_) == 0;
  check(synced, "write", "'", path_.string(), "': ", reason(), "; nothing was changed there");
}

void Temporary::commit() {
  sync();
  const bool renamed = ::rename(name_.c_str(), path_.c_str()) == 0;
  check(renamed, "write", "'", path_.string(), "': ", reason());
  finish();
}

void Temporary::exchange() {
  if (!std::filesystem::exists(path_)) return commit();
  sync();
  if (::renameat2(AT_FDCWD, name_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system that cannot do it at once: what stood there stands aside for a moment.
    const Path aside = path_.string() + std::string(kTemporary) + unguessable();
    check(::rename(path_.c_str(), aside.c_str()) == 0, "write", "'", path_.string(), "': ", reason(),
          "; nothing was changed there");
    if (::rename(name_.c_str(), path_.c_str()) != 0) {
      const std::string why = reason();
      ::rename(aside.c_str(), path_.c_str());
      fail("write", "'", path_.string(), "': ", why, "; nothing was changed there");
    }
    name_ = aside;
  }
  finish();
  std::error_code ignored;
  std::filesystem::remove_all(name_, ignored);
}

void Temporary::finish() {
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  check(closed, "write", "'", path_.string(), "': ", reason());
  sync_directory(path_.parent_path());
}

AtomicFile::AtomicFile(const Path& path) : path_(path), temporary_(path, Temporary::Kind::file) {
  buffer_.reserve(kBuffer);
}

void AtomicFile::write(const void* bytes, size_t count) {
  written_ += count;
  const char* at = static_cast<const char*>(bytes);
  while (count) {
    const size_t part = std::min(count, kBuffer - buffer_.size());
    buffer_.append(at, part);
    at += part;
    count -= part;
    if (buffer_.size() == kBuffer) flush();
  }
}

void AtomicFile::flush() {
  const char* at = buffer_.data();
  size_t left = buffer_.size();
  while (left) {
    const ssize_t n = ::write(temporary_.fd(), at, left);
    if (n < 0 && errno == EINTR) continue;
    check(n > 0, "write", "'", path_.string(), "': ", reason(), "; nothing was changed there");
    at += n;
    left -= size_t(n);
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  flush();
  temporary_.commit();
}

void write_file(const Path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void sync_directory(const Path& directory) {
  const Path name = directory.empty() ? Path(".") : directory;
  const int fd = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void make_directory(const Path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  for (Path at = std::filesystem::absolute(directory).lexically_normal(); error && at.has_relative_path();
       at = at.parent_path()) {
    std::error_code none;
    check_usage(!std::filesystem::exists(at, none) || std::filesystem::is_directory(at, none), "mkdir", "'",
                at.string(), "' is a file; give a directory");
  }
  check(!error && std::filesystem::is_directory(directory), "mkdir", "'", directory.string(),
        "': ", error ? error.message() : "a file of that name exists");
}

MappedFile::MappedFile(const Path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe would wait for its writer
  check(fd >= 0, "read", "'", path.string(), "': ", reason());
  struct stat info {};
  const bool plain = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  void* map = nullptr;
  if (plain && info.st_size > 0) map = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const std::string why = reason();
  ::close(fd);
  check(plain, "read", "'", path.string(), "': not a plain file");
  check(map != MAP_FAILED, "read", "'", path.string(), "': ", why);
  data_ = static_cast<const std::byte*>(map);
  size_ = size_t(info.st_size);
}

void MappedFile::forget(size_t begin, size_t count) const {
  const auto page = size_t(::sysconf(_SC_PAGESIZE)), first = (begin + page - 1) / page * page,
             last = (begin + count) / page * page;
  if (data_ && first < last) ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

DirectoryLock::DirectoryLock(const Path& directory) {
  const Path file = directory / ".lock";
  struct stat held {
  }, there{};
  do {  // again when the process that held the file has removed it since it was opened here
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    check(fd_ >= 0, "lock", "'", file.string(), "': ", reason());
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(std::exchange(fd_, -1));
      fail("lock", "'", directory.string(),
           "' is in use by another run; wait for it, stop it, or choose another --out");
    }
  } while (::fstat(fd_, &held) != 0 || ::stat(file.c_str(), &there) != 0 || held.st_ino != there.st_ino);
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

constexpr int64_t kMostPatterns = 4096;

// The patterns that braces stand for, or more where groups are nested.
int64_t alternatives(const std::string& pattern) {
  int64_t product = 1;
  std::vector<int64_t> open;
  for (const char c : pattern) {
    if (c == '{') open.push_back(1);
    if (c == ',' && !open.empty()) ++open.back();
    if (c != '}' || open.empty()) continue;
    product = std::min(product * open.back(), kMostPatterns + 1);
    open.pop_back();
  }
  return product;
}

// The only variable that a pattern may name, so that recipes say where the public sets are, not where one user has
// them.
constexpr std::string_view kData = "$LITHE_DATA/";

std::string with_data_directory(const std::string& pattern) {
  if (!pattern.starts_with(kData)) return pattern;
  const char* set = std::getenv("LITHE_DATA");
  const std::string directory = set && *set ? set : "data";
  return cat(directory, directory.ends_with('/') ? "" : "/", pattern.substr(kData.size()));
}

}  // namespace

std::vector<Path> glob(const std::string& given) {
  const std::string pattern = with_data_directory(given);
  check_usage(alternatives(pattern) <= kMostPatterns, "files", "'", pattern.substr(0, 100), "' stands for more than ",
              kMostPatterns, " patterns by its braces; name fewer, or use *");
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  std::vector<Path> paths;
  if (status == 0)
    for (size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (paths.empty() && given.starts_with(kData))
    fail_usage(
        "files", "nothing matches '", pattern, "', which the recipe calls '", given,
        "'; set LITHE_DATA to the directory of the data sets (docs/data.md says which and where they come from)");
  std::error_code ignored;
  check_usage(!paths.empty() || !std::filesystem::exists(pattern, ignored), "files", "nothing matches '", pattern,
              "' as a pattern, and a file of that name is there; write ? for each of [ ] { } * in its name");
  check_usage(!paths.empty(), "files", "nothing matches '", pattern,
              "'; check the path (it is relative to the current directory)");
  return paths;
}

uint64_t checksum(const void* bytes, size_t count, uint64_t seed) { return XXH3_64bits_withSeed(bytes, count, seed); }

}  // namespace lithe
