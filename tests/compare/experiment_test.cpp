#include "lithe/compare/experiment.h"

#include <gtest/gtest.h>

#include "lithe/base/error.h"

namespace lithe::compare {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_experiment(text, "some/place/e.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "not refused";
}

TEST(Experiment, ReadsWhatTheFileSays) {
  const Experiment e = parse_experiment(
      "recipe: ../r.yaml\nbaseline: mha\nvariants:\n  mha: {}\n  sha: {model.mixer.heads: sha}\n  own: {recipe: "
      "/x.yaml}\n"
      "seeds: [4, 5]\nbudget: {match: flops}\n",
      "some/place/e.yaml");
  EXPECT_EQ(e.name, "e");
  EXPECT_EQ(e.recipe_of(e.variants[0]), Path("some/r.yaml"));
  EXPECT_EQ(e.recipe_of(e.variants[2]), Path("/x.yaml"));
  EXPECT_EQ(e.peop_baseline, "sha");
  EXPECT_EQ(e.variants[1].override[0].first, "model.mixer.heads");
  EXPECT_EQ(e.seeds, (std::vector<int64_t>{4, 5}));
}

TEST(Experiment, IsStrict) {
  const std::string head = "recipe: r.yaml\nbaseline: a\n", two = "variants: {a: {}, b: {}}\n";
  EXPECT_NE(refusal(head + two + "sedes: [1]\n").find("seeds"), std::string::npos);
  EXPECT_NE(refusal(head + two + "budget: {matsch: flops}\n").find("match"), std::string::npos);
  EXPECT_NE(refusal(head + "variants: {a: {}}\n").find("at least two"), std::string::npos);
  EXPECT_NE(refusal("recipe: r.yaml\nbaseline: aa\nvariants: {ab: {}, b: {}}\n").find("did you mean 'ab'"),
            std::string::npos);
  EXPECT_NE(refusal(head + "variants: {a: {}, ../b: {}}\n").find("a variant's name"), std::string::npos);
  EXPECT_NE(refusal(head + "variants: {a: {}, b: {heads: sha}}\n").find("dotted key"), std::string::npos);
  EXPECT_NE(refusal(head + two + "seeds: [1, 1]\n").find("repeats"), std::string::npos);
  EXPECT_NE(refusal(head + two + "seeds: []\n").find("empty"), std::string::npos);
  EXPECT_NE(refusal(head + two + "seeds: 3\n").find("must be a list, like [1, 2, 3]"), std::string::npos);
  EXPECT_NE(refusal("recipee: r.yaml\nbaseline: a\n" + two).find("is it what 'recipee' means?"), std::string::npos);
  EXPECT_NE(refusal(head + two + "budget: {solve: model.hidden_size}\n").find("met by every width"), std::string::npos);
  EXPECT_NE(refusal("[1, 2]").find("not a list"), std::string::npos);
}

TEST(Experiment, AllThatAreShippedAreRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("recipes/experiments")) {
    const std::string text = read_file(entry.path());
    if (!parse_yaml(text, entry.path().string()).find("variants")) continue;
    ++count;
    const Experiment e = read_experiment(entry.path());
    for (const VariantConfig& v : e.variants) EXPECT_TRUE(std::filesystem::exists(e.recipe_of(v))) << entry.path();
    EXPECT_EQ(text.front(), '#') << "a shipped experiment says what it is in its first line";
  }
  EXPECT_GE(count, 1);
}

TEST(Experiment, EveryKeyIsDescribed) {
  for (const FieldDoc& doc : describe_experiment()) EXPECT_FALSE(doc.help.empty()) << doc.path;
}

}  // namespace
}  // namespace lithe::compare
