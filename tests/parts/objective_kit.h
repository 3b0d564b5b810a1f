// What the tests of objectives share: batches to alter, tokenizers, and what an objective refuses.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/objective/objective.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe::kit {

using Ids = std::vector<int32_t>;

/// One batch, whatever is asked for.
class Always : public BatchSource {
 public:
  explicit Always(lithe::Batch batch) : batch_(std::move(batch)) {}
  int64_t batches_per_epoch() const override { return 1 << 20; }
  int64_t largest_batch() const override { return batch_.rows(); }
  lithe::Batch batch(int64_t, int64_t) const override { return batch_; }

 private:
  lithe::Batch batch_;
};

/// Lower-case word pieces with the specials of BERT, so that some words have several.
inline std::shared_ptr<const Tokenizer> pieces() {
  WordPieceTrainer trainer({.vocab_size = 50});
  trainer.add(small_text(3000));
  return trainer.train();
}

inline std::shared_ptr<const Tokenizer> words(const char* hash, const char* code, int64_t buckets = 0) {
  TokenizerConfig config{.type = "words"};
  config.words.hash = hash;
  config.words.code = code;
  if (buckets) config.words.num_buckets = buckets;
  return make_tokenizer(config, {});
}

/// The objective that train.objective names so: `mlm`, or `{type: mlm, mlm_probability: 0.5}`.
inline std::unique_ptr<const Objective> objective(const std::string& yaml) {
  Registry::instance();  // parts are resolved through it
  struct One {
    PartChoice choice;
    void fields(Fields& f) { f.part("objective", "objective", choice, ""); }
  } one;
  Node node = Node::map();
  node.set("objective", parse_yaml(yaml, "test"));
  read_fields(node, "train", [&](Fields& f) { one.fields(f); });
  return make_objective(one.choice);
}

/// Batches of `objective` made of one plain batch.
inline std::unique_ptr<BatchSource> learning(const lithe::Batch& batch, const std::string& objective_yaml,
                                             std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed = 1) {
  return objective(objective_yaml)->batches(std::make_unique<Always>(batch), std::move(tokenizer), seed);
}

/// Sequences of these texts, framed by the tokenizer's specials.
inline lithe::Batch framed(const Tokenizer& tokenizer, const std::vector<std::string>& texts, bool frame = true) {
  lithe::Batch batch{.offsets = {0}, .token_width = tokenizer.width()};
  const Specials& s = tokenizer.specials();
  const auto special = [&](std::optional<int32_t> id) {
    if (!frame || !id) return;
    batch.tokens.push_back(*id);
    batch.tokens.resize(batch.tokens.size() + size_t(tokenizer.width()) - 1);
  };
  for (const std::string& text : texts) {
    special(s.cls ? s.cls : s.bos);
    const Ids ids = tokenizer.encode(text);
    batch.tokens.insert(batch.tokens.end(), ids.begin(), ids.end());
    special(s.sep ? s.sep : s.eos);
    batch.offsets.push_back(int64_t(batch.tokens.size()) / tokenizer.width());
  }
  return batch;
}

inline Ids token(const lithe::Batch& batch, int64_t row) {
  const auto width = batch.token_width;
  return {batch.tokens.begin() + row * width, batch.tokens.begin() + (row + 1) * width};
}

inline bool special(const Tokenizer& tokenizer, const lithe::Batch& batch, int64_t row) {
  return tokenizer.is_special(batch.tokens[size_t(row * batch.token_width)]);
}

/// `seen` of `all` independent trials that succeed with probability p, within four standard errors.
inline void expect_share(int64_t seen, int64_t all, double p, const std::string& what) {
  EXPECT_NEAR(double(seen) / double(all), p, 4 * std::sqrt(p * (1 - p) / double(all))) << what << " of " << all;
}

/// Ordinary tokens of a vocabulary.
inline int64_t ordinary_tokens(const Tokenizer& tokenizer) {
  int64_t out = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    out += !tokenizer.is_special(id) && !tokenizer.token(id).empty();
  return out;
}

inline const std::vector<std::string>& some_texts() {
  static const std::vector<std::string> texts{small_text(300, 1), small_text(200, 2), small_text(20, 3)};
  return texts;
}

/// What prepare() says of a model: "no error", or the exit code and the message.
inline std::string refusal(const std::string& objective_yaml, const std::string& model, const LessonFacts& facts) {
  ModelConfig config = read_model_config(parse_yaml(model, "model"));
  return coded_error_of([&] { objective(objective_yaml)->prepare(facts, config); });
}

inline void expect_refused(const std::string& objective_yaml, const std::string& model, const LessonFacts& facts,
                           const std::string& says) {
  const std::string error = refusal(objective_yaml, model, facts);
  EXPECT_EQ(error.substr(0, 2), "2 ") << objective_yaml << " " << model << ": " << error;
  EXPECT_NE(error.find(says), std::string::npos) << error;
}

/// A new batch in every epoch, place and seed, and the same when it is asked for again.
inline void expect_new_and_repeatable(const std::string& objective_yaml) {
  const auto tokenizer = pieces();
  const lithe::Batch plain = framed(*tokenizer, some_texts());
  const auto a = learning(plain, objective_yaml, tokenizer), b = learning(plain, objective_yaml, tokenizer),
             other = learning(plain, objective_yaml, tokenizer, 2);
  EXPECT_EQ(a->batch(3, 5), b->batch(3, 5));
  EXPECT_EQ(a->batch(3, 5), a->batch(3, 5));
  EXPECT_NE(a->batch(3, 5), a->batch(4, 5));
  EXPECT_NE(a->batch(3, 5), a->batch(3, 6));
  EXPECT_NE(a->batch(3, 5), other->batch(3, 5));
  // No epoch of one seed is an epoch of another.
  for (int64_t epoch = 0; epoch < 8; ++epoch) EXPECT_NE(a->batch(epoch, 0), other->batch(1, 0)) << epoch;
}

}  // namespace lithe::kit
