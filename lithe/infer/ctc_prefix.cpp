#include "lithe/infer/ctc_prefix.h"

#include <algorithm>

#include "lithe/infer/ctc_decode.h"
#include "lithe/infer/log_space.h"
#include "lithe/ops/linear.h"

namespace lithe {

CtcPrefixScores::CtcPrefixScores(const Tensor& logits)
    : rows_(logits.rows()), blank_(size_t(logits.cols() - 1)), log_p_(size_t(logits.numel())) {
  const size_t C = blank_ + 1;
  for (size_t t = 0; t < size_t(rows_); ++t)
    log_probabilities_of_row(logits, int64_t(t), std::span(log_p_).subspan(t * C, C));
}

double CtcPrefixScores::ends(const Alignments& at) const {
  return rows_ ? log_add(at.label.back(), at.blank.back()) : at.prefix;
}

CtcPrefixScores::Alignments CtcPrefixScores::with(const Alignments& before, std::span<const int32_t> prefix,
                                                  int32_t label) const {
  const auto T = size_t(rows_), c = size_t(label);
  Alignments out{std::vector<double>(T, kNever), std::vector<double>(T, kNever), kNever};
  const bool same = !prefix.empty() && prefix.back() == label;
  for (size_t t = 0; t < T; ++t) {
    // Before row 0 nothing was written.
    const double new_label =
        t == 0 ? (prefix.empty() ? 0 : kNever) : log_add(before.blank[t - 1], same ? kNever : before.label[t - 1]);
    out.prefix = log_add(out.prefix, new_label + log_p(int64_t(t), c));
    out.label[t] = log_add(new_label, t ? out.label[t - 1] : kNever) + log_p(int64_t(t), c);
    if (t) out.blank[t] = log_add(out.label[t - 1], out.blank[t - 1]) + log_p(int64_t(t), blank_);
  }
  return out;
}

CtcPrefixScores::Alignments CtcPrefixScores::of(std::span<const int32_t> prefix) const {
  const auto T = size_t(rows_);
  Alignments out{std::vector<double>(T, kNever), std::vector<double>(T), 0};
  for (size_t t = 0; t < T; ++t) out.blank[t] = (t ? out.blank[t - 1] : 0) + log_p(int64_t(t), blank_);
  for (size_t i = 0; i < prefix.size(); ++i) {
    check(prefix[i] >= 0 && size_t(prefix[i]) < blank_, "ctc", "label ", prefix[i], " is not below ", blank_);
    out = with(out, prefix.first(i), prefix[i]);
  }
  return out;
}

double CtcPrefixScores::prefix(std::span<const int32_t> prefix) const { return of(prefix).prefix; }
double CtcPrefixScores::whole(std::span<const int32_t> sequence) const { return ends(of(sequence)); }

std::vector<double> CtcPrefixScores::next(std::span<const int32_t> prefix) const {
  std::vector<double> out(blank_ + 1, kNever);
  const Alignments at = of(prefix);
  if (at.prefix == kNever) return out;
  // As with().prefix, of all labels at once.
  for (size_t t = 0; t < size_t(rows_); ++t) {
    const double blank = t == 0 ? (prefix.empty() ? 0 : kNever) : at.blank[t - 1],
                 any = t == 0 ? blank : log_add(blank, at.label[t - 1]);
    if (any == kNever) continue;
    for (size_t c = 0; c < blank_; ++c) {
      const bool same = !prefix.empty() && size_t(prefix.back()) == c;
      out[c] = log_add(out[c], (same ? blank : any) + log_p(int64_t(t), c));
    }
  }
  for (size_t c = 0; c < blank_; ++c) out[c] -= at.prefix;
  out[blank_] = ends(at) - at.prefix;
  return out;
}

Tensor encoder_ctc_logits(const Model& model, const ModelInput& source) {
  check_usage(reads_source(model.config().architecture), "ctc", "needs an encoder_decoder, this model is of ",
              model.config().architecture);
  const ModelConfig encoder = model.config().encoder_config();
  int64_t layer = 0;
  const auto is_ctc = [&](int64_t i) {
    const auto& compressor = encoder.layer(i).compressor;
    return compressor && compressor->type == "ctc_adapter";
  };
  while (layer < encoder.num_hidden_layers && !is_ctc(layer)) ++layer;
  check_usage(layer < encoder.num_hidden_layers, "ctc",
              "the encoder has no compressor ctc_adapter, whose head knows what stands in each row; train with one, or "
              "set --ctc-weight 0");
  check_usage(source.sequences.count() == 1, "ctc", "one source is read at a time, got ", source.sequences.count());
  const std::string name = cat("encoder.layers.", layer, ".compressor.ctc.");
  const auto& all = model.parameters().all();
  const auto weight = std::ranges::find(all, name + "weight", &Parameter::name),
             bias = std::ranges::find(all, name + "bias", &Parameter::name);
  check(weight != all.end() && bias != all.end(), "ctc", "internal: the model has no ", name, "weight");
  const NoGrad no_grad;
  Pass pass;
  pass.want({Tap::Kind::rows, layer - 1});
  model.encode(source, pass);
  return linear(pass.get({Tap::Kind::rows, layer - 1}), weight->var(), bias->var()).value();
}

// spec: app.ctc | search | joint decoding: attention's beams, scored by CTC's prefixes, too | Watanabe et al. 2017
void rescore_by_ctc(const CtcPrefixScores& scores, double weight, int32_t end, std::span<const int32_t> tokens,
                    std::span<double> log_probabilities) {
  const std::vector<double> ctc = scores.next(tokens);
  for (size_t token = 0; token < log_probabilities.size(); ++token) {
    const double said = int32_t(token) == end ? ctc.back() : token < size_t(scores.labels()) ? ctc[token] : kNever;
    double& p = log_probabilities[token];
    p = weight == 0 ? p : weight == 1 ? std::min(said, 0.0) : (1 - weight) * p + weight * std::min(said, 0.0);
  }
}

}  // namespace lithe
