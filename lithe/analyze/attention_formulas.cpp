#include "lithe/analyze/attention_formulas.h"

#include <utility>

#include "lithe/base/error.h"

namespace lithe::analyze {
namespace {

constexpr std::pair<const char*, MixerKind> kMixers[] = {{"mha", MixerKind::mha},
                                                         {"gqa", MixerKind::gqa},
                                                         {"mqa", MixerKind::mqa},
                                                         {"skv", MixerKind::skv},
                                                         {"el_att", MixerKind::el_att},
                                                         {"sha", MixerKind::sha},
                                                         {"mhe_add", MixerKind::mhe_add},
                                                         {"mhe_mul", MixerKind::mhe_mul},
                                                         {"mlp", MixerKind::mlp},
                                                         {"approx", MixerKind::approx},
                                                         {"approx_full", MixerKind::approx_full},
                                                         {"nonapprox", MixerKind::nonapprox},
                                                         {"rnd_emb_qk", MixerKind::rnd_emb_qk},
                                                         {"fixed_seq_qk", MixerKind::fixed_seq_qk},
                                                         {"static_emb_qk", MixerKind::static_emb_qk}};
constexpr std::pair<const char*, OutputKind> kOutputs[] = {
    {"none", OutputKind::none}, {"dense", OutputKind::dense}, {"hadamard", OutputKind::hadamard}};

bool has_reference(MixerKind kind) { return kind == MixerKind::rnd_emb_qk || kind == MixerKind::fixed_seq_qk; }

// FLOPs of the products of one token with its queries, keys and values.
double projection_flops(MixerKind kind, const MixerShape& s) {
  return 2 * double(s.width) * double(projected_columns(kind, s));
}

// FLOPs of one pair of tokens in all heads: a logit and a weighted value.
double pair_flops(MixerKind kind, const MixerShape& s) {
  switch (kind) {
    case MixerKind::mlp:
    case MixerKind::approx:
    case MixerKind::approx_full:
    case MixerKind::nonapprox: return 0;
    case MixerKind::sha: return 4 * double(s.channels());
    default: return 4 * double(s.context());
  }
}

// FLOPs of bringing the state of the Taylor series forward by one token, as many as of reading it: every scalar of it
// is one multiply-add.
double series_flops(MixerKind kind, const MixerShape& s, Convention c) {
  const double h = double(s.heads), e = double(s.channels());
  if (kind == MixerKind::approx_full) return 2 * h * e * (1 + e + e * e);
  if (kind != MixerKind::approx) return 0;
  return 4 * (c == Convention::published ? double(s.context()) * double(s.context()) : h * e * e);
}

}  // namespace

std::optional<MixerKind> mixer_kind(const std::string& name) {
  for (const auto& [known, kind] : kMixers)
    if (name == known) return kind;
  return std::nullopt;
}

std::optional<OutputKind> output_kind(const std::string& name) {
  for (const auto& [known, kind] : kOutputs)
    if (name == known) return kind;
  return std::nullopt;
}

int64_t projected_columns(MixerKind kind, const MixerShape& s) {
  switch (kind) {
    case MixerKind::sha:
    case MixerKind::mhe_add:
    case MixerKind::mhe_mul: return 3 * s.channels();
    case MixerKind::el_att: return s.context();
    case MixerKind::mqa: return s.context() + 2 * s.channels();
    case MixerKind::gqa: return s.context() + 2 * s.kv_heads * s.channels();
    case MixerKind::skv: return 2 * s.context();
    case MixerKind::mlp: return 3 * s.width;
    default: return 3 * s.context();
  }
}

int64_t mixer_parameters(MixerKind kind, const MixerShape& s) {
  const bool embeds = kind == MixerKind::mhe_add || kind == MixerKind::mhe_mul;
  return s.width * projected_columns(kind, s) + (embeds ? 3 * s.context() : 0);
}

int64_t output_parameters(OutputKind kind, const MixerShape& s) {
  return kind == OutputKind::dense ? s.context() * s.width : kind == OutputKind::hadamard ? 2 * s.width : 0;
}

// spec: acct.flops | cost model | FLOPs of prefill and decoding by the sources' formulas | TH Table 4.6
double prefill_flops(MixerKind kind, const MixerShape& s, const Work& w, Convention c) {
  const double rows = w.batch * w.length, pairs = w.length * w.length, d = double(s.width);
  if (has_reference(kind)) {
    // Logits once, values per text; of the projections only the values are made per text.
    const double maps = (2 * pairs + 2 * w.batch * pairs) * double(s.context());
    return maps + (c == Convention::published ? 6 * rows * d * d : 2 * rows * d * d + 4 * w.length * d * d);
  }
  return rows * (projection_flops(kind, s) + 2 * series_flops(kind, s, c)) + w.batch * pairs * pair_flops(kind, s);
}

double decode_flops(MixerKind kind, const MixerShape& s, const Work& w, Convention c) {
  const double d = double(s.width);
  if (has_reference(kind)) {
    const double maps = (2 * w.length + 2 * w.batch * w.length) * double(s.context());
    return maps + (c == Convention::published ? 6 * w.batch * d * d : 2 * w.batch * d * d + 4 * d * d);
  }
  const bool reads_only = kind == MixerKind::approx && c == Convention::published;
  const double series = (reads_only ? 1 : 2) * series_flops(kind, s, c);
  return w.batch * (projection_flops(kind, s) + series + w.length * pair_flops(kind, s));
}

double output_flops(OutputKind kind, const MixerShape& s, double rows) {
  if (kind == OutputKind::dense) return 2 * rows * double(s.width) * double(s.context());
  return kind == OutputKind::hadamard ? rows * (hadamard_additions(s.width) + 2 * double(s.width)) : 0;
}

double hadamard_additions(int64_t d) {
  for (const int64_t m : {1, 12, 20, 28, 36}) {
    int64_t k = 0, order = m;
    for (; order < d; order *= 2) ++k;
    if (order == d) return double(d) * double(m - 1 + k);
  }
  fail("hadamard", "no order m 2^k with m of 1, 12, 20, 28, 36 is ", d, "; choose another width");
}

}  // namespace lithe::analyze
