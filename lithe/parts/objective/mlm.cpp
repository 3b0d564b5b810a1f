// Masked language modelling: some rows of a batch are predicted. Of these 80 % are shown as the mask token, 10 % as a
// random token, 10 % as they are; specials never are [TB 6.1.1].
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/objective/corruption.h"

namespace lithe {
namespace {

struct MlmObjectiveConfig {
  double mlm_probability = 0.15;
  bool whole_word_mask = false;
  void fields(Fields& f) {
    f("mlm_probability", mlm_probability, "share of a batch's tokens that are predicted", between(0.001, 1));
    f("whole_word_mask", whole_word_mask, "mask all tokens of a word together, if the number of predictions allows it");
  }
  int64_t predictions(int64_t rows) const { return std::max<int64_t>(1, std::llround(mlm_probability * double(rows))); }
};

class MaskedBatches final : public AlteredBatches {
 public:
  MaskedBatches(std::unique_ptr<BatchSource> plain, std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed,
                const MlmObjectiveConfig& config)
      : AlteredBatches(std::move(plain), std::move(tokenizer), seed),
        config_(config),
        random_tokens_(this->tokenizer()) {}

 protected:
  void alter(Batch& batch, int64_t epoch, int64_t index) const override {
    Draws draws(seed(), epoch, index, "mlm");
    const int64_t wanted = config_.predictions(batch.rows());
    choose_rows(batch, draws, wanted);
    const Batch before = batch;
    for (const int64_t row : batch.predicted) {
      int32_t& token = batch.tokens[size_t(row)];
      batch.labels.push_back(token);
      const double u = draws.uniform();
      if (u < 0.8)
        token = *tokenizer().specials().mask;
      else if (u < 0.9)
        random_tokens_.draw(draws, &token, before);
    }
    // Rows without a label fill up what words did not, so that every batch of a size costs the same.
    while (int64_t(batch.predicted.size()) < wanted) {
      batch.predicted.push_back(0);
      batch.labels.push_back(-1);
    }
  }

 private:
  MlmObjectiveConfig config_;
  RandomTokens random_tokens_;

  void choose_rows(Batch& batch, Draws& draws, int64_t wanted) const {
    std::vector<int64_t> begins, lengths;  // units: tokens, or the tokens of a word
    for (int64_t b = 0; b < batch.sequences(); ++b)
      for (int64_t row = batch.offsets[size_t(b)]; row < batch.offsets[size_t(b + 1)]; ++row) {
        if (special(batch, row)) continue;
        const bool goes_on = config_.whole_word_mask && !begins.empty() && begins.back() + lengths.back() == row &&
                             row > batch.offsets[size_t(b)] && tokenizer().continues_word(batch.tokens[size_t(row)]);
        if (goes_on) {
          ++lengths.back();
        } else {
          begins.push_back(row);
          lengths.push_back(1);
        }
      }
    std::vector<int64_t> order(begins.size());
    std::iota(order.begin(), order.end(), int64_t(0));
    draws.shuffle(order);
    for (const int64_t unit : order) {
      if (int64_t(batch.predicted.size()) + lengths[size_t(unit)] > wanted) continue;
      for (int64_t i = 0; i < lengths[size_t(unit)]; ++i) batch.predicted.push_back(begins[size_t(unit)] + i);
      if (int64_t(batch.predicted.size()) == wanted) break;
    }
    std::sort(batch.predicted.begin(), batch.predicted.end());
  }
};

class Mlm final : public Objective {
 public:
  Mlm(const Scope&, const MlmObjectiveConfig& config, const Args&) : config_(config) {}
  bool predicts_vocabulary() const override { return true; }
  int64_t predicted_rows(int64_t rows) const override { return config_.predictions(rows); }
  std::unique_ptr<BatchSource> batches(std::unique_ptr<BatchSource> text, std::shared_ptr<const Tokenizer> tokenizer,
                                       uint64_t seed) const override {
    return std::make_unique<MaskedBatches>(std::move(text), std::move(tokenizer), seed, config_);
  }

  void prepare(const LessonFacts& facts, ModelConfig& model) const override {
    check_usage(model.architecture == Architecture::encoder, "train",
                "objective mlm needs model.architecture encoder, not ", model.architecture);
    check_usage(facts.tokenizer.width() == 1, "train",
                "objective mlm predicts ids, but these tokens have none; choose another data.tokenizer, or objective "
                "shuffle_random");
    check_usage(facts.tokenizer.specials().mask.has_value(), "train",
                "objective mlm needs a tokenizer with a mask token, as type wordpiece has; for type bpe add "
                "specials: [<|endoftext|>, <mask>]");
    check_usage(model.head.type == "lm" || model.head.type == "mlm", "train",
                "objective mlm needs model.head mlm or lm, not ", model.head.type);
  }

 private:
  MlmObjectiveConfig config_;
};

}  // namespace

void register_objective_mlm(Registry& registry) {
  registry.add<Objective, Mlm, MlmObjectiveConfig>(
      "mlm", {.spec = "arch.encoder_only",
              .summary = "masked language modelling: predict chosen tokens, 80 % masked, 10 % random, 10 % kept",
              .source = "TB 6.1.1"});
}

}  // namespace lithe
