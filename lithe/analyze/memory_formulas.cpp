#include "lithe/analyze/memory_formulas.h"

namespace lithe::analyze {

// spec: metric.train_memory | cost model | bytes of training an attention block | TH 3.10, Table 3.13
TrainMemory train_memory(int64_t parameters, const Work& w, int64_t width) {
  const double p = double(parameters);
  return {6 * p, 6 * p, 8 * p, 2 * w.batch * w.length * double(width)};
}

// spec: acct.activation | cost model | activation bytes by the sources' table and by its items | TH Table 4.7
std::optional<double> activation_bytes(MixerKind kind, const MixerShape& s, const Work& w, Convention c, double ways) {
  const double rows = w.batch * w.length, L = w.length, d = double(s.width), h = double(s.heads);
  const bool published = c == Convention::published;
  const auto bytes = [&]() -> std::optional<double> {
    switch (kind) {
      case MixerKind::mha:
      case MixerKind::static_emb_qk: return 8 * rows * d + 2 * rows * L * h;
      case MixerKind::mlp: return 8 * rows * d;
      case MixerKind::nonapprox: return 8 * rows * d + 4 * rows * h;
      case MixerKind::rnd_emb_qk:
      case MixerKind::fixed_seq_qk: return 4 * rows * d + (published ? 8 : 6) * L * d + 2 * L * L * h;
      case MixerKind::approx:
        return published ? 11 * rows * d + 3 * w.batch * d * d / h : 12 * rows * d + 4 * w.batch * d * d / h;
      default: return std::nullopt;
    }
  }();
  return bytes ? std::optional(*bytes / ways) : std::nullopt;
}

// spec: acct.cache | cost model | bytes of the decode cache, growing or constant | TH Table 4.8
double cache_bytes(MixerKind kind, const MixerShape& s, const Work& w, double item) {
  const double B = w.batch, L = w.length, h = double(s.heads), e = double(s.channels()), d = double(s.context());
  const double scalars = [&] {
    switch (kind) {
      case MixerKind::mlp: return 0.0;
      case MixerKind::sha:
      case MixerKind::mqa:
      case MixerKind::mhe_add:
      case MixerKind::mhe_mul: return 2 * B * L * e;
      case MixerKind::gqa: return 2 * B * L * double(s.kv_heads) * e;
      case MixerKind::skv: return B * L * d;
      case MixerKind::el_att: return B * L * double(s.width);
      case MixerKind::approx_full: return B * h * (e + 1) * (1 + e + e * e);
      case MixerKind::approx: return B * (3 * d + 2 * d * e);
      case MixerKind::nonapprox: return B * (d + 2 * h);
      case MixerKind::rnd_emb_qk:
      case MixerKind::fixed_seq_qk: return (B + 1) * L * d;
      default: return 2 * B * L * d;
    }
  }();
  return scalars * item;
}

}  // namespace lithe::analyze
