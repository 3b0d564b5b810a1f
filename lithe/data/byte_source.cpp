#include "lithe/data/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr size_t kBlock = size_t(1) << 18;

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(const Path& path) : path_(path) {
    struct stat info {};
    // Asked before opening: opening a pipe would wait for its writer.
    const bool there = ::stat(path.c_str(), &info) == 0;
    check_usage(there, "corpus", "'", path.string(), "': ", std::strerror(errno));
    check_usage(!S_ISDIR(info.st_mode), "corpus", "'", path.string(),
                "' is a directory; name files, or a pattern such as '", (path / "*.txt").string(), "'");
    check_usage(S_ISREG(info.st_mode), "corpus", "'", path.string(),
                "' is not a plain file; copy its contents into one");
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    check(fd_ >= 0, "corpus", "'", path.string(), "': ", std::strerror(errno));
  }
  ~PlainSource() override { ::close(fd_); }

  size_t read(char* out, size_t count) override {
    while (true) {
      const ssize_t n = ::read(fd_, out, count);
      if (n >= 0) return size_t(n);
      check(errno == EINTR, "corpus", "'", path_.string(), "': ", std::strerror(errno));
    }
  }

 private:
  Path path_;
  int fd_ = -1;
};

// What both decompressors share: a block of compressed bytes and where in the file it stands.
class CompressedSource : public ByteSource {
 protected:
  explicit CompressedSource(const Path& path) : name_(path.string()), file_(path), block_(kBlock, '\0') {}

  // False at the end of the file. Called when the block is used up.
  bool refill() {
    position_ += filled_;
    used_ = 0;
    filled_ = file_.read(block_.data(), block_.size());
    return filled_ > 0;
  }
  [[noreturn]] void damaged(const char* format, const char* why) const {
    fail("corpus", "'", name_, "' is no sound ", format, " data near byte ", position_ + used_, " (", why,
         "); fetch or make the file again");
  }
  [[noreturn]] void truncated(const char* format) const {
    fail("corpus", "'", name_, "' is truncated: the ", format, " data end too early, at byte ", position_ + used_,
         "; fetch or make the file again");
  }

  std::string name_;
  PlainSource file_;
  std::string block_;
  size_t used_ = 0, filled_ = 0;
  uint64_t position_ = 0;      // of the block in the file
  bool holds_output_ = false;  // a full output may have left some in the decoder: ask it before reading on
};

class GzipSource final : public CompressedSource {
 public:
  explicit GzipSource(const Path& path) : CompressedSource(path) {
    check(inflateInit2(&stream_, 15 + 16) == Z_OK, "corpus", "'", name_, "': zlib cannot start (out of memory)");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(char* out, size_t count) override {
    count = std::min(count, kBlock);
    while (true) {
      if (used_ == filled_ && !holds_output_ && !refill()) {
        if (!in_member_ && members_ > 0) return 0;
        truncated("gzip");
      }
      if (!in_member_ && used_ < filled_) {
        if (members_ > 0 && block_[used_] == '\0') {  // padding by zeros, which gzip allows after the last member
          ++used_;
          padded_ = true;
          continue;
        }
        if (padded_) damaged("gzip", "something stands after the end");
        in_member_ = true;
      }
      stream_.next_in = reinterpret_cast<Bytef*>(block_.data() + used_);
      stream_.avail_in = uInt(filled_ - used_);
      stream_.next_out = reinterpret_cast<Bytef*>(out);
      stream_.avail_out = uInt(count);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      used_ = filled_ - stream_.avail_in;
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        damaged("gzip", stream_.msg ? stream_.msg : "wrong data");
      if (status == Z_STREAM_END) {
        in_member_ = false;
        ++members_;
        inflateReset(&stream_);
      }
      holds_output_ = stream_.avail_out == 0 && in_member_;
      if (stream_.avail_out < count) return count - stream_.avail_out;
    }
  }

 private:
  z_stream stream_{};
  bool in_member_ = false, padded_ = false;
  int64_t members_ = 0;
};

class ZstdSource final : public CompressedSource {
 public:
  explicit ZstdSource(const Path& path) : CompressedSource(path), stream_(ZSTD_createDStream()) {
    check(stream_ != nullptr, "corpus", "'", name_, "': zstd cannot start (out of memory)");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(char* out, size_t count) override {
    ZSTD_outBuffer output{out, count, 0};
    while (true) {
      if (used_ == filled_ && !holds_output_ && !refill()) {
        if (pending_ == 0) return 0;
        truncated("zstd");
      }
      ZSTD_inBuffer input{block_.data(), filled_, used_};
      const size_t status = ZSTD_decompressStream(stream_, &output, &input);
      used_ = input.pos;
      if (ZSTD_isError(status)) damaged("zstd", ZSTD_getErrorName(status));
      pending_ = status;
      holds_output_ = output.pos == output.size && status != 0;
      if (output.pos > 0) return output.pos;
    }
  }

 private:
  ZSTD_DStream* stream_;
  size_t pending_ = 1;  // 0 between frames; an empty file is truncated
};

}  // namespace

std::unique_ptr<ByteSource> open_plain(const Path& path) { return std::make_unique<PlainSource>(path); }

std::unique_ptr<ByteSource> open_decompressed(const Path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipSource>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdSource>(path);
  return open_plain(path);
}

size_t zlib_size(std::string_view bytes) {
  uLongf size = compressBound(uLong(bytes.size()));
  std::vector<Bytef> out(size);
  check(compress(out.data(), &size, reinterpret_cast<const Bytef*>(bytes.data()), uLong(bytes.size())) == Z_OK, "zlib",
        "cannot compress ", bytes.size(), " bytes");
  return size;
}

}  // namespace lithe
