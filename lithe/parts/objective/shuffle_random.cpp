// Shuffled and random tokens: every row is told apart as 0 intact, 1 shuffled or 2 random; specials have no label. A
// token becomes with shuffle_probability the one at its place of a permutation of its sequence (unless that is a
// special), else with random_probability a random one [TH 2.3.6].
#include <algorithm>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/objective/corruption.h"

namespace lithe {
namespace {

struct ShuffleRandomConfig {
  double shuffle_probability = 0.1, random_probability = 0.1;
  void fields(Fields& f) {
    f("shuffle_probability", shuffle_probability, "share of tokens that are shuffled", between(0, 1));
    f("random_probability", random_probability, "share of the other tokens that are replaced by random ones",
      between(0, 1));
  }
};

class CorruptedBatches final : public AlteredBatches {
 public:
  CorruptedBatches(std::unique_ptr<BatchSource> plain, std::shared_ptr<const Tokenizer> tokenizer, uint64_t seed,
                   const ShuffleRandomConfig& config)
      : AlteredBatches(std::move(plain), std::move(tokenizer), seed),
        config_(config),
        random_tokens_(this->tokenizer()) {}

 protected:
  void alter(Batch& batch, int64_t epoch, int64_t index) const override {
    Draws draws(seed(), epoch, index, "shuffle_random");
    const Batch before = batch;
    const auto width = size_t(batch.token_width);
    batch.labels.assign(size_t(batch.rows()), -1);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const int64_t begin = batch.offsets[size_t(b)], length = batch.offsets[size_t(b + 1)] - begin;
      std::vector<int64_t> permutation(static_cast<size_t>(length));
      std::iota(permutation.begin(), permutation.end(), begin);
      draws.shuffle(permutation);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t row = begin + i;
        if (special(before, row)) continue;
        int32_t& label = batch.labels[size_t(row)];
        label = 0;
        int32_t* token = batch.tokens.data() + size_t(row) * width;
        if (draws.uniform() < config_.shuffle_probability) {
          const int64_t other = permutation[size_t(i)];
          if (special(before, other)) continue;
          std::copy_n(before.tokens.data() + size_t(other) * width, width, token);
          label = 1;
        } else if (draws.uniform() < config_.random_probability) {
          random_tokens_.draw(draws, token, before);
          label = 2;
        }
      }
    }
  }

 private:
  ShuffleRandomConfig config_;
  RandomTokens random_tokens_;
};

class ShuffleRandom final : public Objective {
 public:
  ShuffleRandom(const Scope&, const ShuffleRandomConfig& config, const Args&) : config_(config) {}
  int64_t classes(const TaskConfig&) const override { return kClasses; }
  std::unique_ptr<BatchSource> batches(std::unique_ptr<BatchSource> text, std::shared_ptr<const Tokenizer> tokenizer,
                                       uint64_t seed) const override {
    return std::make_unique<CorruptedBatches>(std::move(text), std::move(tokenizer), seed, config_);
  }

  void prepare(const LessonFacts&, ModelConfig& model) const override {
    check_usage(model.architecture == Architecture::encoder, "train",
                "objective shuffle_random needs model.architecture encoder, not ", model.architecture);
    check_usage(model.head.type == "tag", "train", "objective shuffle_random needs model.head {type: tag}, not ",
                model.head.type);
    check_usage(model.num_labels == 0 || model.num_labels == kClasses, "train",
                "objective shuffle_random tells three classes apart, model.num_labels is ", model.num_labels,
                "; leave it out");
    model.num_labels = kClasses;
  }

 private:
  static constexpr int64_t kClasses = 3;
  ShuffleRandomConfig config_;
};

}  // namespace

void register_objective_shuffle_random(Registry& registry) {
  registry.add<Objective, ShuffleRandom, ShuffleRandomConfig>(
      "shuffle_random",
      {.spec = "train.shuffle_random",
       .summary = "token classification: each token is intact, shuffled within its sequence, or random",
       .source = "TH 2.3.6"});
}

}  // namespace lithe
