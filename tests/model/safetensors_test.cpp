#include "lithe/model/safetensors.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "lithe/model/safetensors_writer.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

class Safetensors : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  const Path file_ = scratch_.path() / "model.safetensors";
};

// A file of this header and `data` bytes behind it.
std::string bytes_of(const std::string& header, size_t data) {
  uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + std::string(data, '\x01');
}

std::string refused_file(const std::string& bytes) {
  try {
    SafetensorsFile(bytes, "some.safetensors");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("some.safetensors"), std::string::npos) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

// In whatever order they come, the file is the same; each comes once.
TEST_F(Safetensors, AWriterTakesTensorsInAnyOrder) {
  const std::map<std::string, Tensor> tensors{{"a", kit::normal({3, 5}, DType::f32, 1)},
                                              {"b \"quoted\": 0000000000000000", kit::normal({7}, DType::bf16, 2)},
                                              {"c\\", empty({0, 2}, DType::f32)},
                                              {"d", kit::normal({2, 2}, DType::f64, 3)}};
  const std::map<std::string, std::string> notes{{"format", "lithe"}, {"zz", "{\"a\":\"0000000000000000\"}"}};
  write_safetensors(file_, tensors, notes);
  std::map<std::string, SafetensorsWriter::Entry> entries;
  for (const auto& [name, x] : tensors) entries[name] = {x.shape(), x.dtype()};
  const Path other = scratch_.path() / "other";
  {
    SafetensorsWriter writer(other, entries, notes);
    for (auto it = tensors.rbegin(); it != tensors.rend(); ++it) writer.put(it->first, it->second);
    EXPECT_NE(kit::error_of([&] { writer.put("a", tensors.at("a")); }).find("a second time"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(other));
    writer.commit();
  }
  EXPECT_EQ(read_file(other), read_file(file_));
  const SafetensorsFile in(other);
  for (const auto& [name, x] : tensors) {
    const Tensor back = empty_like(x);
    in.read(name, back);
    EXPECT_EQ(kit::bit_difference(back, x), "") << name;
  }
  SafetensorsWriter lacking(scratch_.path() / "lacking", entries, notes);
  EXPECT_NE(kit::error_of([&] { lacking.commit(); }).find("was never written"), std::string::npos);
}

TEST_F(Safetensors, EveryTypeSurvives) {
  std::map<std::string, Tensor> tensors;
  for (DType dtype : {DType::f64, DType::f32, DType::bf16}) tensors[name_of(dtype)] = kit::normal({3, 5}, dtype, 1);
  for (DType dtype : {DType::i64, DType::i32, DType::u8}) {
    tensors[name_of(dtype)] = empty({4}, dtype);
    kit::assign(tensors[name_of(dtype)], {0, 1, 100, 255});
  }
  tensors["empty"] = empty({0, 3}, DType::f32);
  tensors["name with \"quotes\" and ünicode"] = kit::normal({1}, DType::f32, 2);
  write_safetensors(file_, tensors, {{"format", "lithe"}, {"note", "x"}});
  const SafetensorsFile in(file_);
  EXPECT_EQ(in.entries().size(), tensors.size());
  EXPECT_EQ(in.metadata(), (std::map<std::string, std::string>{{"format", "lithe"}, {"note", "x"}}));
  for (const auto& [name, x] : tensors) {
    ASSERT_TRUE(in.entries().count(name)) << name;
    EXPECT_EQ(in.entries().at(name).dtype, x.dtype());
    const Tensor back = empty_like(x);
    in.read(name, back);
    EXPECT_EQ(kit::bit_difference(back, x), "") << name;
  }
}

TEST_F(Safetensors, BytesAreTheFormats) {
  Tensor a = empty({2}, DType::f32), b = empty({1, 1}, DType::i32);
  kit::assign(a, {1, -2});
  kit::assign(b, {258});
  write_safetensors(file_, {{"b", b}, {"a", a}}, {});
  // XXH3 of name, dtype, shape; and with that as seed, of the bytes.
  const auto sum = [](const std::string& facts, const std::string& bytes) {
    char text[17];
    std::snprintf(
        text, sizeof text, "%016llx",
        static_cast<unsigned long long>(checksum(bytes.data(), bytes.size(), checksum(facts.data(), facts.size()))));
    return std::string(text);
  };
  const std::string sum_a = sum(std::string("a\0F32[2]", 8), std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)),
                    sum_b = sum(std::string("b\0I32[1,1]", 10), std::string("\x02\x01\x00\x00", 4));
  const std::string header =
      R"({"__metadata__":{"lithe.checksums":"{\"a\":\")" + sum_a + R"(\",\"b\":\")" + sum_b +
      R"(\"}"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[1,1],"data_offsets":[8,12]}})";
  const size_t padded = (header.size() + 7) / 8 * 8;  // data begin at a multiple of 8
  std::string want(8, '\0');
  want[0] = char(padded);
  want += header + std::string(padded - header.size(), ' ');
  want += std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x02\x01\x00\x00", 12);  // 1, -2, 258, little-endian
  EXPECT_EQ(read_file(file_), want);
}

TEST_F(Safetensors, ReadingConvertsFloatsOnce) {
  Tensor wide = empty({3}, DType::f32);
  kit::assign(wide, {1.001, 3.14159, -70000});
  write_safetensors(file_, {{"a", wide}}, {});
  const SafetensorsFile in(file_);
  const Tensor narrow = empty({3}, DType::bf16), exact = empty({3}, DType::f64);
  in.read("a", narrow);
  in.read("a", exact);
  EXPECT_EQ(kit::values(narrow), kit::values(convert(wide, DType::bf16)));
  EXPECT_EQ(kit::values(exact), kit::values(wide));
}

TEST_F(Safetensors, WrongNamesAndShapesAreNamed) {
  write_safetensors(file_, {{"a", kit::normal({2, 3}, DType::f32, 1)}}, {});
  const SafetensorsFile in(file_);
  const auto error = [&](const std::string& name, const Shape& shape) -> std::string {
    try {
      in.read(name, empty(shape, DType::f32));
    } catch (const Error& e) {
      return e.what();
    }
    return "read";
  };
  EXPECT_EQ(error("b", {2, 3}), "safetensors: '" + file_.string() + "' has no tensor 'b'");
  EXPECT_EQ(error("a", {3, 2}), "safetensors: '" + file_.string() + "': tensor 'a' is [2,3], the model needs [3,2]");
}

TEST_F(Safetensors, DamagedFilesAreRefusedBeforeUse) {
  EXPECT_NE(refused_file("").find("at least 8"), std::string::npos);
  EXPECT_NE(refused_file("1234567").find("at least 8"), std::string::npos);
  EXPECT_NE(refused_file(std::string(8, '\xff')).find("header would have"), std::string::npos);
  EXPECT_NE(refused_file(bytes_of("{}", 0).substr(0, 9)).find("header would have 2 bytes"), std::string::npos);
  for (const char* header : {"", "{", "[]", "3", "null", "{\"a\":1}", "{} trailing", "\xff\xfe"})
    EXPECT_NE(refused_file(bytes_of(header, 8)), "accepted") << header;
  for (const char* missing : {R"({"a":{"dtype":"F32","shape":[2]}})", R"({"a":{"dtype":"F32","data_offsets":[0,8]}})",
                              R"({"a":{"shape":[2],"data_offsets":[0,8]}})"})
    EXPECT_NE(refused_file(bytes_of(missing, 8)).find("'a'"), std::string::npos) << missing;
  EXPECT_EQ(refused_file(bytes_of(tensor("F32", "[2]", "[0,8]"), 8)), "accepted");
  // Types, shapes and offsets that do not fit the file or each other.
  EXPECT_NE(refused_file(bytes_of(tensor("F99", "[2]", "[0,8]"), 8)).find("F99"), std::string::npos);
  for (const auto& [shape, offsets] : {std::pair<const char*, const char*>{"[2]", "[0,9]"},
                                       {"[2]", "[0,4]"},
                                       {"[2]", "[8,0]"},
                                       {"[2]", "[-8,0]"},
                                       {"[2]", "[0]"},
                                       {"[2]", "[0,8,8]"},
                                       {"[2]", "[0.5,8]"},
                                       {"[2]", "\"0,8\""},
                                       {"[3]", "[0,8]"},
                                       {"[-2]", "[0,8]"},
                                       {"[2.5]", "[0,8]"},
                                       {"2", "[0,8]"},
                                       {"[1,1,1,1,2]", "[0,8]"},
                                       {"[4294967296,4294967296,2]", "[0,8]"},
                                       {"[18446744073709551615]", "[0,8]"},
                                       {"[2]", "[18446744073709551608,0]"}})
    EXPECT_NE(refused_file(bytes_of(tensor("F32", shape, offsets), 8)), "accepted") << shape << " " << offsets;
}

TEST_F(Safetensors, OverlapsAndRepeatedNamesAreRefused) {
  const std::string a = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})",
                    b = R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})",
                    c = R"({"dtype":"F32","shape":[1],"data_offsets":[8,12]})";
  EXPECT_NE(refused_file(bytes_of("{\"a\":" + a + ",\"b\":" + b + "}", 12)).find("overlap"), std::string::npos);
  EXPECT_EQ(refused_file(bytes_of("{\"a\":" + a + ",\"b\":" + c + "}", 12)), "accepted");
  EXPECT_NE(refused_file(bytes_of("{\"a\":" + a + ",\"a\":" + c + "}", 12)), "accepted");
}

TEST_F(Safetensors, MetadataMustBeText) {
  EXPECT_EQ(refused_file(bytes_of(R"({"__metadata__":{"k":"v"}})", 0)), "accepted");
  EXPECT_NE(refused_file(bytes_of(R"({"__metadata__":{"k":1}})", 0)).find("'k'"), std::string::npos);
  EXPECT_NE(refused_file(bytes_of(R"({"__metadata__":[]})", 0)), "accepted");
}

// Whatever is damaged in the numbers, or in what the header says of them, is found when the tensor is read; files of
// other programs have no checksums and are read as they are.
TEST_F(Safetensors, DamagedTensorsAreNotRead) {
  const Tensor a = kit::normal({4, 3}, DType::f32, 1), b = kit::normal({2}, DType::f32, 2), back = empty_like(a);
  write_safetensors(file_, {{"a", a}, {"b", b}}, {{"format", "lithe"}});
  const std::string sound = read_file(file_);
  const auto reading = [&](const std::string& bytes, const std::string& name, const Tensor& to) {
    return kit::error_of([&] { SafetensorsFile(bytes, "some.safetensors").read(name, to); });
  };
  EXPECT_EQ(reading(sound, "a", back), "no error");
  std::string damaged = sound;
  damaged[sound.size() - 8 - 1] ^= 1;  // the last byte of a
  EXPECT_NE(reading(damaged, "a", back).find("some.safetensors': tensor 'a' is damaged: its checksum must be "),
            std::string::npos)
      << reading(damaged, "a", back);
  EXPECT_NE(kit::error_of([&] {
              SafetensorsFile(damaged, "x").read_rows("a", 0, empty({1, 3}, DType::f32));
            }).find("is damaged"),
            std::string::npos);
  EXPECT_EQ(reading(damaged, "b", empty_like(b)), "no error");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = sound;
    return out.replace(out.find(from), from.size(), to);
  };
  EXPECT_NE(reading(with("F32", "I32"), "a", back).find("is damaged"), std::string::npos);
  EXPECT_NE(reading(with("[4,3]", "[3,4]"), "a", empty({3, 4}, DType::f32)).find("is damaged"), std::string::npos);
  EXPECT_NE(reading(with("\"format\":\"lithe\"", "\"format\":\"lathe\""), "a", back).find("is damaged"),
            std::string::npos);
  // Without the checksums.
  damaged.replace(damaged.find("lithe.checksums"), 15, "other.checksums");
  EXPECT_EQ(reading(damaged, "a", back), "no error");
}

// 300,000 names took half a minute.
TEST_F(Safetensors, AHeaderOfManyNamesIsReadInTime) {
  std::string header = "{";
  for (int i = 0; i < 300000; ++i)
    header += cat(i ? "," : "", "\"t", i, "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(SafetensorsFile(bytes_of(header + "}", 0), "many").entries().size(), 300000u);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 15);
}

TEST_F(Safetensors, AFailedWriteLeavesTheOldFile) {
  write_safetensors(file_, {{"a", kit::normal({2}, DType::f32, 1)}}, {});
  const std::string before = read_file(file_);
  EXPECT_THROW(write_safetensors(file_ / "below_a_file", {{"a", kit::normal({2}, DType::f32, 2)}}, {}), Error);
  EXPECT_EQ(read_file(file_), before);
}

}  // namespace
}  // namespace lithe
