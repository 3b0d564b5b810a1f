#include "lithe/report/tensorboard.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include "lithe/base/error.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

// A second, independent reader of TFRecord and protocol buffers.
struct Field {
  int number = 0, wire = 0;
  uint64_t integer = 0;  // varint, fixed32 or fixed64
  std::string bytes;
};

uint64_t unsigned_at(const std::string& s, size_t at, int count) {
  uint64_t value = 0;
  std::memcpy(&value, s.data() + at, size_t(count));  // the tests run on little-endian machines
  return value;
}

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  size_t at = 0;
  const auto take = [&] {
    uint64_t value = 0;
    int shift = 0;
    while (true) {
      const auto byte = uint8_t(message.at(at++));
      value |= uint64_t(byte & 0x7F) << shift;
      shift += 7;
      if (!(byte & 0x80)) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = take();
    Field field{int(key >> 3), int(key & 7), 0, ""};
    if (field.wire == 0) field.integer = take();
    if (field.wire == 1) field.integer = unsigned_at(message, at, 8), at += 8;
    if (field.wire == 5) field.integer = unsigned_at(message, at, 4), at += 4;
    if (field.wire == 2) {
      const size_t size = take();
      field.bytes = message.substr(at, size);
      at += size;
    }
    fields.push_back(field);
  }
  return fields;
}

std::string bytes_field(const std::string& message, int number) {
  for (const Field& field : fields_of(message))
    if (field.number == number) return field.bytes;
  return "absent";
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version, tag, text, plugin;
  std::optional<float> scalar;
  bool starts_session = false;
};

std::vector<Event> events_of(const std::string& file) {
  std::vector<Event> events;
  for (size_t at = 0; at < file.size();) {
    const size_t size = unsigned_at(file, at, 8);
    const std::string payload = file.substr(at + 12, size);
    EXPECT_EQ(tfrecord(payload), file.substr(at, size + 16));
    at += size + 16;
    Event event;
    for (const Field& field : fields_of(payload)) {
      if (field.number == 1) std::memcpy(&event.wall_time, &field.integer, 8);
      if (field.number == 2) event.step = int64_t(field.integer);
      if (field.number == 3) event.file_version = field.bytes;
      if (field.number == 7) event.starts_session = field.bytes == std::string("\x08\x01");
      if (field.number != 5) continue;
      for (const Field& part : fields_of(bytes_field(field.bytes, 1))) {
        if (part.number == 1) event.tag = part.bytes;
        if (part.number == 2) {
          float value = 0;
          std::memcpy(&value, &part.integer, 4);
          event.scalar = value;
        }
        if (part.number == 8) event.text = bytes_field(part.bytes, 8);
        if (part.number == 9) event.plugin = bytes_field(bytes_field(part.bytes, 1), 1);
      }
    }
    events.push_back(event);
  }
  return events;
}

class TensorBoard : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path directory_ = scratch_.path() / "events";
};

TEST(Crc32c, EqualsTheVectorsOfRfc3720) {
  std::string up(32, 0), down(32, 0);
  for (int i = 0; i < 32; ++i) up[size_t(i)] = char(i), down[size_t(31 - i)] = char(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(crc32c(down), 0x113FDB5Cu);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(TfRecord, FramesAPayloadWithMaskedChecksums) {
  const std::string record = tfrecord("123456789");
  ASSERT_EQ(record.size(), 25u);
  EXPECT_EQ(record.substr(0, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 9), "123456789");
  // 0xE3069283 rotated right by 15 is 0x2507C60D; plus 0xA282EAD8 is 0xC78AB0E5.
  EXPECT_EQ(unsigned_at(record, 21, 4), 0xC78AB0E5u);
}

TEST_F(TensorBoard, WritesTheExactBytesOfAScalar) {
  TensorBoardWriter writer(directory_);
  const std::string before = read_file(writer.path());
  writer.scalar("loss", 300, 1.5, 2.0);
  const std::string payload(
      "\x09\0\0\0\0\0\0\0\x40"  // wall_time = 2.0
      "\x10\xAC\x02"            // step = 300
      "\x2A\x0D\x0A\x0B"        // summary, one value
      "\x0A\x04loss"            // tag
      "\x15\0\0\xC0\x3F",
      27);  // simple_value = 1.5f
  EXPECT_EQ(read_file(writer.path()), before + tfrecord(payload));
  const std::vector<Event> events = events_of(before);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
}

TEST_F(TensorBoard, ScalarsAndTextsReadBack) {
  TensorBoardWriter writer(directory_);
  writer.scalar("eval/loss", 7, 3.25, 1700000000.25);
  writer.scalar("loss", 8, std::nan(""), 1700000001);
  writer.text("sample", 9, "line one\nline <two> \xC3\xA9", 1700000002);
  writer.text("sample", 10, "", 1700000003);
  const std::vector<Event> events = events_of(read_file(writer.path()));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].tag, "eval/loss");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_EQ(events[1].scalar, 3.25f);
  EXPECT_EQ(events[1].wall_time, 1700000000.25);
  EXPECT_TRUE(std::isnan(events[2].scalar.value()));
  EXPECT_EQ(events[3].tag, "sample");
  EXPECT_EQ(events[3].text, "line one\nline <two> \xC3\xA9");
  EXPECT_EQ(events[3].plugin, "text");
  EXPECT_EQ(events[4].text, "");
}

TEST_F(TensorBoard, ResumeDropsLaterStepsAndATornRecord) {
  TensorBoardWriter first(directory_);
  for (int step = 1; step <= 10; ++step) first.scalar("loss", step, step, step);
  append_file(first.path(), tfrecord("").substr(0, 7));
  TensorBoardWriter second(directory_, 6);
  EXPECT_GT(second.path(), first.path());
  second.scalar("loss", 7, 70, 70);

  const std::vector<Event> kept = events_of(read_file(first.path()));
  ASSERT_EQ(kept.size(), 7u);  // the version and steps 1 to 6
  EXPECT_EQ(kept.back().step, 6);
  EXPECT_EQ(kept.back().scalar, 6.0f);
  const std::vector<Event> added = events_of(read_file(second.path()));
  ASSERT_EQ(added.size(), 3u);
  EXPECT_TRUE(added[1].starts_session);
  EXPECT_EQ(added[1].step, 7);
  EXPECT_EQ(added[2].scalar, 70.0f);
}

TEST_F(TensorBoard, ResumeKeepsForeignFilesAndSurvivesDamagedOnes) {
  make_directory(directory_);
  const Path foreign = directory_ / "events.out.tfevents.1600000000.other";
  const Path damaged = directory_ / "events.out.tfevents.1600000000.lithe";
  write_file(foreign, "not ours");
  write_file(damaged, std::string(100, '\xFF'));
  TensorBoardWriter writer(directory_, 3);
  EXPECT_EQ(read_file(foreign), "not ours");
  EXPECT_EQ(read_file(damaged), "");
  EXPECT_EQ(events_of(read_file(writer.path())).size(), 2u);
}

TEST_F(TensorBoard, WithoutResumeEarlierFilesStay) {
  TensorBoardWriter first(directory_);
  first.scalar("loss", 5, 1, 1);
  const std::string before = read_file(first.path());
  TensorBoardWriter second(directory_);
  EXPECT_EQ(read_file(first.path()), before);
  EXPECT_NE(first.path(), second.path());
}

TEST_F(TensorBoard, ADirectoryThatCannotBeMadeIsNamed) {
  write_file(directory_, "a file");
  try {
    TensorBoardWriter writer(directory_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(directory_.string()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lithe
