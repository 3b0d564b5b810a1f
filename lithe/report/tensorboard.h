// Event files for TensorBoard: TFRecord frames around hand-encoded Event messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lithe/base/files.h"

namespace lithe {

/// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected, initial value and final xor 0xFFFFFFFF.
uint32_t crc32c(std::string_view bytes);

/// One TFRecord: length (u64), masked CRC of the length, the payload, masked CRC of the payload; little endian.
std::string tfrecord(std::string_view payload);

/// Seconds since 1970 as a real number: the wall time of an event.
double wall_clock();

/// Writes one event file `events.out.tfevents.<seconds>.lithe` in a directory. Every call reaches the operating
/// system before it returns. One writer per directory at a time.
class TensorBoardWriter {
 public:
  /// Makes `directory` and starts a new event file there. With `resume_step` the run continues after that step:
  /// events of later steps are removed from the event files that earlier writers left, and so is a record that was
  /// cut off by a kill; a TensorBoard that has already read them is told to drop them.
  explicit TensorBoardWriter(const Path& directory, std::optional<int64_t> resume_step = {});

  /// TensorBoard stores scalars as f32.
  void scalar(std::string_view tag, int64_t step, double value, double wall_time = wall_clock());

  /// TensorBoard renders the text as Markdown.
  void text(std::string_view tag, int64_t step, std::string_view text, double wall_time = wall_clock());

  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace lithe
