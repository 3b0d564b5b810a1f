// Ids and texts that Hugging Face's tokenizers 0.23.3 gives (make_golden.py).
#include "lithe/base/json.h"
#include "lithe/text/utf8.h"
#include "text_for_tests.h"

namespace lithe {
namespace {

TEST(GoldenTokenizers, IdsAndTextsAreThoseOfHuggingFace) {
  const Path path = "tests/text/golden_tokenizers.json";
  const Json golden = parse_json(read_file(path), path.string());
  const auto texts = golden.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(golden.at("cases").size(), 75u);
  for (const Json& entry : golden.at("cases")) {
    const std::string name = entry.at("name");
    SCOPED_TRACE(name);
    Json file = golden.at("bases").at(entry.at("base").get<std::string>());
    for (const auto& [key, value] : entry.at("patch").items()) {
      if (key == "model")
        file["model"].update(value);
      else
        file[key] = value;
    }
    const auto tokenizer = parse_tokenizer(file.dump(), name);
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids = tokenizer->encode_with_specials(texts[i]);
      EXPECT_EQ(ids, entry.at("ids")[i].get<std::vector<int32_t>>()) << texts[i];
      if (entry.contains("decoded")) {
        EXPECT_EQ(valid_utf8(tokenizer->decode(ids)), entry.at("decoded")[i].get<std::string>());
      }
    }
  }
}

}  // namespace
}  // namespace lithe
