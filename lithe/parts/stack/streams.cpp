// Two streams into one encoder: rows of a modality (speech) run the first layers, those of the text the next ones, and
// both, one after the other, the rest, which they share [TB 6.5.3, Fig 6.18c]. What an input has decides the mode: text
// alone (mt), the modality alone (st), or both.
#include <numeric>

#include "lithe/nn/registry.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/pool.h"

namespace lithe {
namespace {

struct TwoStreamsConfig {
  int64_t speech_layers = 1, text_layers = 1;
  double alignment_loss_coef = 0;
  void fields(Fields& f) {
    f("speech_layers", speech_layers, "number of first layers, which only rows of a modality (model.modalities) run",
      at_least(0));
    f("text_layers", text_layers, "number of next layers, which only rows of the text run", at_least(0));
    f("alignment_loss_coef", alignment_loss_coef,
      "weight of an auxiliary loss: the mean squared difference between both streams' mean rows, for examples that "
      "have both",
      at_least(0));
  }
};

class TwoStreams final : public Stack {
 public:
  TwoStreams(const Scope&, const TwoStreamsConfig& config, const Args& args)
      : config_(config), depth_(args.num_hidden_layers) {
    check_usage(config.speech_layers + config.text_layers <= depth_, "streams", "speech_layers ", config.speech_layers,
                " and text_layers ", config.text_layers, " are more than the ", depth_, " layers of the model");
  }

  Rows forward(const Layers& layers, const Rows& x, const Pass& pass) const override {
    const Tensor* of = pass.given("modality");  // of each row: 0 is the text
    std::vector<char> spoken(size_t(x.sequences.rows()), 0);
    for (size_t i = 0; of && i < spoken.size(); ++i)
      spoken[i] = of->is_meta() || of->data<int32_t>()[i] != 0;  // a plan counts all as speech
    Rows speech = stream(x, spoken, 1), text = stream(x, spoken, 0);
    int64_t next = 0;
    for (; next < config_.speech_layers; ++next)
      if (speech.sequences.rows()) speech = layers.run(next, speech, pass);
    for (; next < config_.speech_layers + config_.text_layers; ++next)
      if (text.sequences.rows()) text = layers.run(next, text, pass);
    if (config_.alignment_loss_coef > 0 && training()) align(speech, text, pass);
    Rows both = joined(speech, text);
    for (; next < depth_; ++next) both = layers.run(next, both, pass);
    return both;
  }

 private:
  TwoStreamsConfig config_;
  int64_t depth_;

  // The rows of one stream, where they stand among all.
  static Rows stream(const Rows& x, const std::vector<char>& spoken, char which) {
    std::vector<int64_t> rows, offsets{0};
    std::vector<int32_t> stand;
    const Tensor& places = x.sequences.positions();
    for (int64_t b = 0; b < x.sequences.count(); ++b) {
      for (int64_t r = x.sequences.offset(b); r < x.sequences.offset(b + 1); ++r)
        if (spoken[size_t(r)] == which)
          rows.push_back(r), stand.push_back(places.is_meta() ? 0 : places.data<int32_t>()[r]);
      offsets.push_back(int64_t(rows.size()));
    }
    if (int64_t(rows.size()) == x.sequences.rows()) return x;
    const Sequences sequences(offsets, {}, x.x.device());
    if (rows.empty()) return {{}, sequences};
    const Shape shape{int64_t(rows.size())};
    return {pick_rows(x.x, rows),
            sequences.at(places.is_meta() ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, stand))};
  }

  // Each sequence's rows of the one stream, then those of the other, with the places that they have.
  static Rows joined(const Rows& speech, const Rows& text) {
    if (!text.sequences.rows()) return speech;
    if (!speech.sequences.rows()) return text;
    std::vector<int64_t> from, offsets{0};
    std::vector<int32_t> stand;
    for (int64_t b = 0; b < text.sequences.count(); ++b) {
      int64_t first = 0;
      for (const Rows* part : {&speech, &text}) {
        const Tensor& places = part->sequences.positions();
        for (int64_t r = part->sequences.offset(b); r < part->sequences.offset(b + 1); ++r)
          from.push_back(first + r), stand.push_back(places.is_meta() ? 0 : places.data<int32_t>()[r]);
        first = speech.sequences.rows();
      }
      offsets.push_back(int64_t(from.size()));
    }
    const Shape shape{int64_t(from.size())};
    const Device device = text.x.device();
    return {pick_rows(concatenate_rows({speech.x, text.x}), from),
            Sequences(offsets, {}, device)
                .at(device == Device::meta ? empty(shape, DType::i32, Device::meta) : tensor_of(shape, stand))};
  }

  void align(const Rows& speech, const Rows& text, const Pass& pass) const {
    std::vector<int64_t> both;
    for (int64_t b = 0; b < text.sequences.count(); ++b)
      if (speech.sequences.length(b) && text.sequences.length(b)) both.push_back(b);
    if (both.empty()) return;
    const auto means = [&](const Rows& of) {  // [both, D]
      std::vector<int64_t> rows, offsets{0};
      for (const int64_t b : both) {
        for (int64_t r = of.sequences.offset(b); r < of.sequences.offset(b + 1); ++r) rows.push_back(r);
        offsets.push_back(int64_t(rows.size()));
      }
      return pool(pick_rows(of.x, rows), Sequences(offsets, {}, of.x.device()), "mean");
    };
    const Var apart = add(means(speech), means(text), 1, -1);
    const double count = double(apart.rows() * apart.cols());
    pass.add_loss("alignment", scale(sum(mul(apart, apart)), config_.alignment_loss_coef / count));
  }
};

}  // namespace

// spec: app.st_two_stream | stack | speech and text layers, then shared ones; modes by what an input has; alignment |
// TB 6.5.3, Fig 6.18c
void register_stack_streams(Registry& registry) {
  registry.add<Stack, TwoStreams, TwoStreamsConfig>(
      "streams", {.spec = "app.st_two_stream",
                  .summary = "layers for a modality (speech), layers for the text, then shared layers",
                  .source = "TB 6.5.3, Fig 6.18c",
                  .causal = false});
}

}  // namespace lithe
