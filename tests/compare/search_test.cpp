#include "lithe/compare/search.h"

#include <cmath>
#include <set>

#include "lithe/compare/supernet.h"
#include "lithe/ops/basic.h"
#include "tests/compare/compare_kit.h"
#include "tests/support/errors.h"

namespace lithe::compare {
namespace {

namespace fs = std::filesystem;

struct SearchKit : kit::CompareKit {
  Path file(const std::string& keys) const {
    write_file(directory / "search.yaml", "recipe: base.yaml\nset: {train.max_steps: 4, train.eval_steps: 0}\n" + keys);
    return directory / "search.yaml";
  }
  SearchResult run(const std::string& keys, const std::string& out = "out") const {
    return search(file(keys), directory / out);
  }
  std::string refusal(const std::string& keys) const {
    return kit::coded_error_of([&] { run(keys, "refused"); });
  }
};

const std::string kChoices =
    "choices: {model.ffn.intermediate_size: [16, 32], model.mixer.num_attention_heads: [2, 3, 4]}\n";

const Candidate& named(const SearchResult& r, const std::string& name) {
  for (const Candidate& c : r.candidates)
    if (c.name == name) return c;
  throw std::runtime_error("no candidate " + name);
}

// oracle: nas.search
TEST(Search, FindsTheBestOfAGridWhoseCandidatesAreRunsThatCompareReads) {
  const SearchKit kit;
  const SearchResult r = kit.run(kChoices + "method: exhaustive\n");
  ASSERT_EQ(r.candidates.size(), 6u);
  double least = INFINITY;
  for (const Candidate& c : r.candidates) {
    const bool refused = c.values[1] == "3";  // which does not divide 16 channels
    EXPECT_EQ(c.status, refused ? CandidateStatus::refused : CandidateStatus::finished) << c.name;
    if (refused) {
      EXPECT_NE(c.message.find("num_attention_heads"), std::string::npos) << c.message;
      EXPECT_TRUE(c.message.starts_with("search: variant '" + c.name + "': ")) << c.message;
    } else {
      least = std::min(least, c.loss);
    }
  }
  EXPECT_EQ(named(r, r.best).loss, least);
  EXPECT_LT(named(r, "c-0-0").parameters, named(r, "c-1-0").parameters);
  EXPECT_LT(named(r, "c-0-0").flops, named(r, "c-1-0").flops);
  for (const char* file : {"search.json", "search.html", "compare.yaml"})
    EXPECT_TRUE(fs::exists(kit.directory / "out" / file)) << file;
  // Everything is there: nothing is trained again.
  const Path weights = kit.directory / "out" / "runs" / r.best / "seed-1" / "model.safetensors";
  const auto before = fs::last_write_time(weights);
  write_file(kit.directory / "out" / "compare.yaml",
             read_file(kit.directory / "out" / "compare.yaml") + "measure: {repeats: 0}\n");
  const Comparison c = compare({kit.directory / "out" / "compare.yaml", kit.directory / "out", false});
  EXPECT_EQ(c.variants.size(), 4u);
  EXPECT_EQ(fs::last_write_time(weights), before);
  for (const VariantResult& v : c.variants) EXPECT_NEAR(v.loss, named(r, v.variant.name).loss, 1e-12);
}

// oracle: nas.search
TEST(Search, BudgetsDecideWhatIsBest) {
  const SearchKit kit;
  const SearchResult free = kit.run(kChoices + "method: exhaustive\n");
  const int64_t small = named(free, "c-0-0").parameters, large = named(free, "c-1-0").parameters;
  const std::string limit = cat("budget: {parameters: ", (small + large) / 2, ", weight: ");
  const SearchResult hard = kit.run(kChoices + "method: exhaustive\n" + limit + "1}\n"),
                     soft = kit.run(kChoices + "method: exhaustive\ntrain_beyond_budget: true\n" + limit + "1.0e+9}\n"),
                     none = kit.run(kChoices + "method: exhaustive\n" + limit + "0}\n");
  EXPECT_EQ(named(hard, "c-1-0").status, CandidateStatus::beyond);
  for (const SearchResult* r : {&hard, &soft}) {
    EXPECT_TRUE(named(*r, r->best).fits);
    EXPECT_LE(named(*r, r->best).parameters, (small + large) / 2);
  }
  EXPECT_EQ(named(soft, "c-1-0").status, CandidateStatus::finished);
  EXPECT_EQ(none.best, free.best);
}

// oracle: nas.search
TEST(Search, IsAFunctionOfItsSeedAndGoesOnWhereItStopped) {
  const SearchKit kit;
  const std::string keys =
      "choices: {model.ffn.intermediate_size: [16, 24, 32, 40], model.share.layers: [none, all], "
      "model.mixer.num_attention_heads: [2, 4]}\ncandidates: 5\npopulation: 2\nbudget: {latency: 1000, prompt_length: "
      "4}\n";
  const SearchResult one = kit.run(keys), again = kit.run(keys);
  ASSERT_EQ(one.candidates.size(), 5u);
  fs::remove_all(kit.directory / "out" / "runs" / one.candidates[3].name);
  fs::remove_all(kit.directory / "out" / "runs" / one.candidates[4].name);
  const SearchResult resumed = kit.run(keys);
  for (const SearchResult* r : {&again, &resumed}) {
    EXPECT_EQ(r->best, one.best);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(r->candidates[i].name, one.candidates[i].name);
      EXPECT_EQ(r->candidates[i].loss, one.candidates[i].loss);
      EXPECT_EQ(r->candidates[i].latency, one.candidates[i].latency);
      EXPECT_GT(r->candidates[i].latency, 0);
    }
  }
}

// oracle: nas.search
TEST(Search, ASupernetRanksCandidatesByTheirSlices) {
  const SearchKit kit;
  const std::string keys =
      "choices: {model.ffn.intermediate_size: [16, 32], model.hidden_size: [16, 24], model.num_hidden_layers: [1, 2]}\n"
      "candidates: 2\nsupernet: {steps: 6, candidates: 8}\nmethod: random\n";
  const SearchResult r = kit.run(keys);
  ASSERT_EQ(r.candidates.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(r.candidates[i].status, i < 2 ? CandidateStatus::finished : CandidateStatus::shared)
        << r.candidates[i].message;
    EXPECT_TRUE(std::isfinite(r.candidates[i].shared_loss));
    if (i) {
      EXPECT_GE(r.candidates[i].shared_loss, r.candidates[i - 1].shared_loss);
    }
  }
  // Stopped in the middle of the super-network: the same numbers.
  fs::remove_all(kit.directory / "out");
  const SearchResult again = kit.run(keys);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(again.candidates[i].shared_loss, r.candidates[i].shared_loss);
}

// Two heads of 4 channels are the first channels of two heads of 6, not the first 8 columns.
TEST(Supernet, ASliceIsTheFirstOfEachDimension) {
  const auto config = [](int64_t width, int64_t d) {
    ModelConfig c = read_model_config(parse_yaml(
        cat("{vocab_size: 11, token_width: 1, max_position_embeddings: 8, num_hidden_layers: 1, hidden_size: ", d,
            ", mixer: {type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: ", width, "}}"),
        "test"));
    return c;
  };
  TrainConfig train;
  train.max_steps = 1;
  const Supernet net({config(6, 8), config(10, 8), config(10, 12)}, train);
  const auto large = net.model(config(10, 12)), small = net.model(config(6, 8));
  EXPECT_EQ(net.parameters(), large->parameters().count());
  const auto both = [&](const char* name) {
    return std::pair{small->parameters().find(name)->master.value(), large->parameters().find(name)->master.value()};
  };
  const auto [up, whole_up] = both("layers.0.ffn.up.weight");  // [8, 6] of [12, 10]
  for (int64_t i = 0; i < 48; ++i) EXPECT_EQ(value_at(up, i), value_at(whole_up, i / 6 * 10 + i % 6)) << i;
  const auto [v, whole_v] = both("layers.0.mixer.heads.v.weight");  // [8, 2 heads of 4] of [12, 2 heads of 6]
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(value_at(v, i), value_at(whole_v, i / 8 * 12 + i % 8 / 4 * 6 + i % 4)) << i;
}

TEST(Supernet, GroupsOfQueriesStayWithTheirKeys) {
  const auto config = [](int64_t heads, int64_t kv) {
    return read_model_config(parse_yaml(
        cat("{vocab_size: 11, token_width: 1, max_position_embeddings: 8, num_hidden_layers: 1, hidden_size: "
            "8, position: none, mixer: {type: attention, num_attention_heads: ",
            heads, ", head_dim: 1, heads: {type: gqa, num_key_value_heads: ", kv, "}}, ffn: relu}"),
        "test"));
  };
  TrainConfig train;
  train.max_steps = 1;
  const Supernet net({config(4, 2), config(2, 2)}, train);
  const auto large = net.model(config(4, 2)), small = net.model(config(2, 2));
  const Tensor q = small->parameters().find("layers.0.mixer.heads.q.weight")->master.value(),
               whole = large->parameters().find("layers.0.mixer.heads.q.weight")->master.value();
  for (int64_t i = 0; i < 16; ++i)  // the first query of each key, columns 0 and 2
    EXPECT_EQ(value_at(q, i), value_at(whole, i / 2 * 4 + i % 2 * 2)) << i;
}

TEST(Search, RefusesWhatItCannotDo) {
  const SearchKit kit;
  const auto refused = [&](const std::string& keys, const std::string& why) {
    const std::string error = kit.refusal(keys);
    EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error;
  };
  refused("choices: {}\n", "choices");
  refused("choices: {train.learning_rate: [1, 2]}\n", "section model");
  refused("choices: {model.hidden_size: 16}\n", "list");
  refused("choices: {model.hidden_size: [16, 16]}\n", "repeats");
  refused("choices: {model.hidden_sizes: [16, 24]}\n", "hidden_size");
  refused(kChoices + "method: exhaustive\ncandidates: 5\n", "6 points");
  refused(kChoices + "metod: random\n", "method");
  for (const FieldDoc& doc : describe_search()) EXPECT_FALSE(doc.help.empty()) << doc.path;
}

TEST(Search, TheShippedFileIsRead) {
  const SearchFile s = read_search("recipes/experiments/search.yaml");
  EXPECT_EQ(s.choices.size(), 5u);
  EXPECT_EQ(s.text.front(), '#');
}

}  // namespace
}  // namespace lithe::compare
