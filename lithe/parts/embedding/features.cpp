// Rows of numbers instead of text: frames of speech, patches of an image, moments of a measurement. Each token's
// numbers pass a linear map [TB 6.5.3, 6.5.4].
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/parts/common/code_embedding.h"

namespace lithe {
namespace {

struct FeaturesConfig {
  int64_t num_features = 8;
  void fields(Fields& f) {
    f("num_features", num_features, "numbers per token; equals the tokenizer's num_features", between(1, 1 << 16));
  }
};

class Features final : public CodeEmbedding {
 public:
  Features(const Scope& scope, const FeaturesConfig& config, const Args& args)
      : CodeEmbedding(scope, args, 1 + config.num_features, "features",
                      cat("a special and ", config.num_features, " numbers"),
                      cat("{type: features, num_features: ", config.num_features, "}")),
        weight_((scope / "projection")
                    .parameter("weight", {config.num_features, Axis::hidden(args.hidden_size)}, InitRole::matrix)),
        bias_((scope / "projection").parameter("bias", {Axis::hidden(args.hidden_size)}, InitRole::zeros)) {}

 private:
  Var hash(const Tensor& codes) const override {
    const Var rows = linear(code_numbers(codes, dtype()), weight_->var());
    const Var bias = reshape(bias_->var(), {1, rows.cols()});
    return add_rows(rows, bias, ordinary_ids(codes), MissingIds::no_row);
  }
  Parameter *weight_, *bias_;
};

}  // namespace

void register_embedding_features(Registry& registry) {
  registry.add<Embedding, Features, FeaturesConfig>(
      "features", {.summary = "linear map of a token's numbers (speech features, images, measurements)",
                   .source = "TB 6.5.3, 6.5.4",
                   .token_width = 1 + FeaturesConfig().num_features,
                   .payload_below = 0x40000000});  // of the bits of [0, 2)
}

}  // namespace lithe
