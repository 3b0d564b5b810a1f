// Damaged tokenizer files load or end with lithe::Error: nothing else, and no crash.
#include "lithe/base/json.h"
#include "lithe/base/log.h"
#include "text_for_tests.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
#include "../fuzz/tokenizer_json_fuzz.cpp"

namespace lithe {
namespace {

std::vector<std::string> valid_files() {
  std::vector<std::string> files;
  const Json golden = parse_json(read_file("tests/text/golden_tokenizers.json"), "golden");
  // Cut down, so that a change hits structure as often as entries.
  for (const auto& base : golden.at("bases")) files.push_back(base.dump());
  for (const Json& entry : golden.at("cases")) {
    const std::string base = entry.at("base");
    Json small = golden.at("bases").at(base);
    if (base == "wordpiece") {
      small["model"]["vocab"] = {{"[UNK]", 0}, {"a", 1}, {"##b", 2}};
      small["added_tokens"] = Json::array();
    } else if (base == "byte_level" || base == "llama") {
      small = golden.at("bases").at("byte_level");
      small["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 2}, {"Ġ", 3}, {"H", 4}, {"<unk>", 5}, {"<|endoftext|>", 6}};
      small["model"]["merges"] = {"a b"};
      small["added_tokens"][0]["id"] = 6;
    }
    for (const auto& [key, value] : entry.at("patch").items())
      if (key == "model")
        small[key].update(value);
      else if (key != "added_tokens")
        small[key] = value;
    files.push_back(small.dump());
  }
  return files;
}

TEST(DamagedTokenizerFiles, LoadOrFailWithAnError) {
  const auto files = valid_files();
  set_log_level(LogLevel::error);
  size_t loaded = 0, refused = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const RandomKey key{.seed = i};
    std::string file = files[i % files.size()];
    const auto pick = [&](uint64_t element, size_t bound) { return size_t(random_below(key, element, bound)); };
    switch (pick(0, 5)) {
      case 0: file.resize(pick(1, file.size())); break;
      case 1:
        for (uint64_t n = 0; n <= pick(2, 4); ++n) file[pick(10 + n, file.size())] = char(pick(20 + n, 256));
        break;
      case 2: file[pick(1, file.size())] ^= char(1 << pick(2, 8)); break;
      case 3: {  // another number
        const size_t at = file.find_first_of("0123456789", pick(1, file.size()));
        if (at != file.npos)
          file.replace(at, 1, std::array{"-1", "99999999999999999999", "1e9", "4294967295", "true"}[pick(2, 5)]);
        break;
      }
      case 4: {  // a part stands twice or is gone
        const size_t begin = pick(1, file.size()), length = pick(2, 200);
        pick(3, 2) ? file.insert(begin, file.substr(begin, length)) : file.erase(begin, length);
        break;
      }
    }
    try {
      parse_tokenizer(file, "damaged");
      ++loaded;
    } catch (const Error&) {
      ++refused;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  }
  set_log_level(LogLevel::info);
  EXPECT_GT(loaded, 100u);
  EXPECT_GT(refused, 1000u);
}

TEST(DamagedTokenizerFiles, DeepAndEmptyOnes) {
  for (const std::string& file :
       {std::string(), std::string("null"), std::string("{"), std::string(100000, '['), std::string("\xFF\xFE"),
        std::string(R"({"model": null})"), std::string(R"({"model": {"vocab": []}})")})
    EXPECT_THROW(parse_tokenizer(file, "damaged"), Error);
}

// Each Replace may make a text longer: forty that double it would make a terabyte of one letter.
TEST(DamagedTokenizerFiles, NormalizersThatGrowWithoutEndAreRefused) {
  const Json golden = parse_json(read_file("tests/text/golden_tokenizers.json"), "golden");
  const auto tokenizer_with = [&](int steps, const std::string& content) {
    Json file = golden.at("bases").at("wordpiece");
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
    for (int i = 0; i < steps; ++i)
      file["normalizer"]["normalizers"].push_back(
          {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", content}});
    return parse_tokenizer(file.dump(), "tokenizer.json");
  };
  const auto encoding = [&](int steps, const std::string& content) {
    try {
      return cat(tokenizer_with(steps, content)->encode("a man and a cat").size() > 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(encoding(3, "aa"), "1");
  EXPECT_NE(encoding(40, "aa").find("makes more than"), std::string::npos) << encoding(40, "aa");
  EXPECT_NE(encoding(1, std::string(1 << 20, 'a')).find("makes more than"), std::string::npos);
  EXPECT_NE(encoding(300, "b").find("above the limit of 64"), std::string::npos) << encoding(300, "b");
}

}  // namespace
}  // namespace lithe
