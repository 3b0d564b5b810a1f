// Pairs of parts inside attention (matrix.h). A new part is in it by being registered.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/conformance/matrix.h"
#include "tests/support/errors.h"

namespace lithe::conformance {
namespace {

class Matrix : public testing::TestWithParam<size_t> {
 protected:
  // What is wrong, by combination.
  static std::string failures(std::string (*check)(const Combination&)) {
    const std::string& heads = choices(Combination::heads)[GetParam()];
    std::string out;
    for (const Combination& c : covering().combinations) {
      if (c.of[Combination::heads] != heads) continue;
      std::string why;
      try {
        why = check(c);
      } catch (const Error& error) {
        why = cat("it fails: ", error.what());
      }
      if (!why.empty()) out += cat("\n", c, ": ", why);
    }
    return out;
  }
};
std::string heads_name(const testing::TestParamInfo<size_t>& info) {
  std::string out;
  for (const char c : choices(Combination::heads)[info.param])
    if (std::isalnum(c)) out += c;
  return cat(info.param, out);
}
std::vector<size_t> all_heads() {
  std::vector<size_t> out;
  for (size_t i = 0; i < choices(Combination::heads).size(); ++i) out.push_back(i);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Heads, Matrix, testing::ValuesIn(all_heads()), heads_name);

TEST_P(Matrix, IsTheWrittenOutMha) { EXPECT_EQ(failures(check_written_out), ""); }
TEST_P(Matrix, SequencesDoNotMeet) { EXPECT_EQ(failures(check_rows_alone), ""); }
TEST_P(Matrix, DecodesTheWrittenOutMha) { EXPECT_EQ(failures(check_rows_decoded), ""); }
TEST_P(Matrix, IsPlannedAsItIsTrained) { EXPECT_EQ(failures(check_planned), ""); }

// What no combination has, and why.
const char* const kRefusals[] = {
    "no bidirectional form",            // memories, in encoders
    "pairs without a place",            // memories, with distances
    "read each token's own embedding",  // static_emb_qk, in memories
    "el_rewrite: rotary",               // keys that turn do not move to queries
    "both change the weights",          // two biases in one place
    "multiplies as a whole",            // logits, of which positions add a part
    "rpr: vectors have",
    "xl: rows have"  // of other heads
};

TEST(MatrixCovering, HasEveryPairThatCanBe) {
  const Covering& made = covering();
  size_t written = 0;
  for (const Combination& c : made.combinations) written += written_out(c).has_value();
  for (const auto& [pair, why] : made.refused) {
    const bool known = std::any_of(std::begin(kRefusals), std::end(kRefusals),
                                   [&, &text = why](const char* of) { return text.find(of) != std::string::npos; });
    const bool of_one_head =
        pair.starts_with("{type: sha") && (why.find("attention has 1 query heads") != std::string::npos ||
                                           why.find("needs heads * head_dim") != std::string::npos);
    EXPECT_TRUE(known || of_one_head) << pair << ": " << why;
  }
  for (const std::string& heads : choices(Combination::heads))
    for (const std::string& place : choices(Combination::place)) {
      const bool of_embedding = heads.find("static_emb_qk") != std::string::npos && place.starts_with("memory");
      EXPECT_EQ(made.refused.contains(cat(heads, " with ", place)), of_embedding) << heads << " with " << place;
    }
  EXPECT_GT(2 * written, made.combinations.size());  // most are compared with mha
}

// What is refused says so when it is read, as a plan and a training would.
TEST(MatrixCovering, RefusesBeforeTheFirstStep) {
  const auto refused = [](const std::string& heads, const std::string& place, const std::string& position) {
    return refusal({{heads, place, position, "dense", "decoder"}});
  };
  for (const char* position : {"alibi", "t5_bias", "xl"})
    EXPECT_NE(refused("sha", "field full", position).find("4 heads (num_attention_heads), attention has 1"),
              std::string::npos)
        << position;
  EXPECT_EQ(refused("{type: reduced, reduced_dim: 2}", "field full", "rpr"),
            "rpr: vectors have 4 channels, heads 2; give position.head_dim: 2");
  EXPECT_EQ(refused("{type: reduced, reduced_dim: 2}", "field full", "{type: rpr, head_dim: 2}"),
            "rpr: vectors have 2 channels, heads' values 4; give position.use_v: false");
  EXPECT_EQ(refused("{type: reduced, reduced_dim: 2}", "field full", "xl"),
            "xl: rows have 4 channels a head, heads 2; give position.head_dim: 2");
  EXPECT_NE(refused("mha", "field {type: local_prior, use: mix}", "t5_bias").find("both change the weights"),
            std::string::npos);
}

TEST(MatrixCovering, RefusesDroppedWeightsWithoutMapsBeforeTheFirstStep) {
  const auto refused = [](const std::string& field, const std::string& position) {
    const ModelConfig config = kit::model_config(
        cat("{hidden_size: 16, num_hidden_layers: 1, vocab_size: 17, max_position_embeddings: 13, ffn: {type: relu}, "
            "mixer: {type: attention, num_attention_heads: 2, attention_dropout: 0.1, field: ",
            field, "}, position: ", position, "}"));
    return kit::coded_error_of([&] { Model(config, kit::kMeta); });
  };
  EXPECT_EQ(refused("full", "rotary"), "no error");
  EXPECT_EQ(refused("{type: local, window: 3}", "none"), "no error");
  EXPECT_NE(refused("full", "alibi").find("2 model: attention_dropout 0.1 needs explicit maps, to which this position"),
            std::string::npos);
  for (const char* field : {"chunk", "top_keys", "span", "lsh", "{type: local, window: [2, 3]}", "local_prior"})
    EXPECT_NE(refused(field, "none").find("2 model: attention_dropout 0.1 needs explicit maps of one mask"),
              std::string::npos)
        << field;
}

}  // namespace
}  // namespace lithe::conformance
