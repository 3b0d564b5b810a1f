// Recipes that nobody would write, from the keys that the program says it has: each is planned or refused when it is
// read, within two seconds of a processor and a gigabyte. LITHE_RANDOM_RECIPES says how many and LITHE_RANDOM_SEED from
// which on; a failure prints its recipe.
#include <gtest/gtest.h>

#include <charconv>
#include <map>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/base/random.h"
#include "tests/support/program_test.h"

namespace lithe {
namespace {

using kit::Finished;
using kit::run_program;

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::stoll(text) : otherwise;
}

class Generator {
 public:
  explicit Generator(const Json& keys) {
    for (const Json& key : keys) {
      if (key.contains("slot"))
        parts_[key["slot"]][key["part"]].push_back(key);
      else if (key["key"].get<std::string>().starts_with("model."))
        model_.push_back(key);
    }
  }
  void know_parts(const Json& parts) {
    for (const Json& part : parts) parts_[part["slot"]][part["name"]];
  }

  std::string recipe(uint64_t seed, const std::string& text) {
    random_ = {.seed = seed, .purpose = purpose_of("random recipe")};
    drawn_ = 0;
    Json out = {{"data", {{"files", {text}}, {"tokenizer", {{"type", "bytes"}}}, {"sequence_length", 32}}},
                {"train", {{"batch_tokens", 128}, {"max_steps", 2}}}};
    Json& model = out["model"] = {{"hidden_size", 32}, {"num_hidden_layers", 2}};
    model["architecture"] = one_of({"decoder", "decoder", "encoder", "encoder_decoder"});
    if (model["architecture"] == "encoder") out["train"]["objective"] = "mlm", model["head"] = "mlm";
    model["mixer"] = chance(0.5) ? part("mixer", 0) : Json({{"type", "attention"}, {"num_attention_heads", 4}});
    if (model["mixer"]["type"] == "attention" && !model["mixer"].contains("num_attention_heads"))
      model["mixer"]["num_attention_heads"] = 4;
    if (chance(0.2)) out["train"]["gradient_checkpointing"] = true;
    if (chance(0.3)) out["train"]["precision"] = "bf16";
    for (const Json& key : model_)
      if (chance(0.06)) set(model, key, key["key"].get<std::string>().substr(6), 0);
    return out.dump();
  }

 private:
  std::map<std::string, std::map<std::string, std::vector<Json>>> parts_;
  std::vector<Json> model_;
  RandomKey random_;
  uint64_t drawn_ = 0;

  uint64_t below(uint64_t n) { return random_below(random_, drawn_++, n); }
  bool chance(double p) { return random_uniform(random_, drawn_++) < p; }
  std::string one_of(const std::vector<std::string>& words) { return words[below(words.size())]; }

  Json part(const std::string& slot, int depth) {
    const auto& all = parts_[slot];
    if (all.empty()) return nullptr;
    const auto& [name, keys] = *std::next(all.begin(), int64_t(below(all.size())));
    Json out = {{"type", name}};
    for (const Json& key : keys)
      if (chance(key["type"].get<std::string>().starts_with("part of") ? 0.5 : 0.25)) set(out, key, key["key"], depth);
    return out;
  }

  void set(Json& to, const Json& key, const std::string& path, int depth) {
    const std::string type = key["type"];
    if (type.starts_with("section")) return;
    if (const size_t dot = path.find('.'); dot != std::string::npos) {
      Json& section = to[path.substr(0, dot)];
      if (section.is_null() || section.is_object()) set(section, key, path.substr(dot + 1), depth);
      return;
    }
    if (!type.starts_with("part of slot "))
      to[path] = value(type, key["rule"]);
    else if (depth < 3)
      to[path] = part(type.substr(13), depth + 1);
  }

  Json value(const std::string& type, const std::string& rule) {
    if (type == "true/false") return chance(0.5);
    if (type.find("integer") != std::string::npos) {
      const Json one = integer(rule);
      return type.starts_with("list") ? Json({one, integer(rule)}) : one;
    }
    if (type.find("number") != std::string::npos) {
      constexpr double kNumbers[] = {0, 1, 0.5, 0.1, 0.9, 2, -1, 1e-30, 1e30, 1e308, 64};
      return kNumbers[below(std::size(kNumbers))];
    }
    if (!rule.starts_with("one of ")) return "x";
    std::vector<std::string> words;
    for (size_t at = 7; at < rule.size() + 2;) {
      const size_t end = std::min(rule.find(", ", at), rule.size());
      words.push_back(rule.substr(at, end - at));
      at = end + 2;
    }
    return one_of(words);
  }

  int64_t integer(const std::string& rule) {
    constexpr int64_t kNumbers[] = {-1,      0,       1,       2,          3,          4,
                                    5,       8,       16,      31,         64,         1000,
                                    1 << 16, 1 << 20, 1 << 24, 16'777'217, 4294967298, 9007199254740991,
                                    1 << 12, 4097,    65537,   1 << 30,    7,          32};
    int64_t least = 0;
    for (const char* before : {"between ", "at least "})
      if (const std::string word = before; rule.starts_with(word))
        std::from_chars(rule.data() + word.size(), rule.data() + rule.size(), least);
    return chance(0.6) ? least + int64_t(below(9)) : kNumbers[below(std::size(kNumbers))];
  }
};

class RandomRecipes : public kit::ProgramTest {};

TEST_F(RandomRecipes, ArePlannedOrRefusedInWordsOfRecipes) {
  const kit::Scratch scratch;
  const std::string text = scratch.add("text.txt", kit::small_text(2000));
  Generator generator(parse_json(run_program({"list", "--keys", "--json"}).out, "keys"));
  generator.know_parts(parse_json(run_program({"list", "--json"}).out, "parts")["parts"]);
  const int64_t count = number_of("LITHE_RANDOM_RECIPES", 60), first = number_of("LITHE_RANDOM_SEED", 1);
  int64_t planned = 0;
  std::map<std::string, int64_t> refusals;
  for (int64_t seed = first; seed < first + count; ++seed) {
    const std::string recipe = generator.recipe(uint64_t(seed), text);
    const Finished f = run_program({"plan", scratch.add("recipe.yaml", recipe), "--no-speed", "--threads", "1"},
                                   {.data_limit = int64_t(1) << 30, .cpu_limit = 2});
    planned += f.code == 0;
    if (f.code == 2) ++refusals[f.err];
    EXPECT_TRUE(f.code == 0 || f.code == 2 || f.code == 4)
        << "seed " << seed << ", exit " << f.code << ", signal " << f.signal << "\n"
        << f.err << recipe;
    EXPECT_EQ(f.err.find("internal"), std::string::npos) << "seed " << seed << "\n" << f.err << recipe;
  }
  std::string most;  // what is refused before it is planned says little
  for (const auto& [words, times] : refusals)
    if (most.empty() || times > refusals[most]) most = words;
  EXPECT_GE(planned * 20, count) << refusals[most] << " times " << most;
}

}  // namespace
}  // namespace lithe
