// Cross-attention alone: what a mixer makes of rows of another text.
#include <algorithm>

#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

// Targets of 4, 1 and 2 rows, one of them idle, and their sources of 1, 5, 2 and 3.
const Sequences& targets() {
  static const Sequences sequences({0, 4, 5, 5, 7});
  return sequences;
}
const Sequences& sources() {
  static const Sequences sequences({0, 1, 6, 8, 11});
  return sequences;
}

Tensor rows(const AloneMixer& alone, const Tensor& x, const Sequences& queries, const Tensor& source,
            const Sequences& keys) {
  const Rows memory{source, keys};
  return alone.mixer->forward({.x = x, .sequences = queries, .source = &memory}).value();
}

Tensor cut(const Tensor& x, const Sequences& sequences, int64_t b) {
  return clone(x.slice(sequences.offset(b), sequences.offset(b + 1)));
}

Tensor moved(const Tensor& x, int64_t row) {
  const Tensor out = clone(x);
  for (int64_t i = row * x.cols(); i < (row + 1) * x.cols(); ++i) set_value(out, i, value_at(x, i) + 0.5);
  return out;
}

int64_t owner(const Sequences& sequences, int64_t row) {
  int64_t b = 0;
  while (sequences.offset(b + 1) <= row) ++b;
  return b;
}

// Rows of sequence b alone.
std::vector<int64_t> range(const Sequences& sequences, int64_t b) {
  std::vector<int64_t> out;
  for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row) out.push_back(row);
  return out;
}

// A field by which a query sees some rows of a source, which depend on its own place.
bool sees_some(const PartCase& part) {
  if (part.name == "select_kv" || part.name == "retrieval" || part.options.find("retrieval") != std::string::npos)
    return true;
  return part.slot == "field" && part.name != "full" && part.name != "top_keys" && part.name != "local_prior_cross" &&
         part.name != "local_prior";
}
// Weights depend on the number of the query, beside its row.
bool reads_places(const PartCase& part) {
  return (sees_some(part) && part.slot == "field") || part.name == "local_prior";
}
// Its keys are mixtures of source rows, weighted by their places.
bool mixes_source(const PartCase& part) {
  return part.name == "linformer" || part.name == "conv_kv" || part.name == "multi_scale" ||
         part.name == "continuous" || part.options.find("continuous") != std::string::npos;
}

// `recurs`: rows of a target read those before them; `all`: they see the whole source.
std::string check_who_sees_what(const AloneMixer& alone, const Tensor& x, const Tensor& source, bool recurs, bool all) {
  const Tensor before = rows(alone, x, targets(), source, sources());
  for (int64_t row = 0; row < source.dim(0); ++row) {
    const int64_t b = owner(sources(), row);
    const auto touched = kit::changed_rows(before, rows(alone, x, targets(), moved(source, row), sources()));
    const auto own = range(targets(), b);
    if (all ? touched != own : !std::includes(own.begin(), own.end(), touched.begin(), touched.end()))
      return cat("row ", row, " of the sources changes ", touched.size(), " rows, not the ", targets().length(b),
                 " of target ", b);
  }
  for (int64_t row = 0; row < x.dim(0); ++row)
    for (const int64_t other : kit::changed_rows(before, rows(alone, moved(x, row), targets(), source, sources())))
      if (other != row && !(recurs && other > row && owner(targets(), other) == owner(targets(), row)))
        return cat("target row ", row, " changes target row ", other);
  for (int64_t b = 0; b < targets().count(); ++b) {
    if (!targets().length(b)) continue;
    const Tensor mine = rows(alone, cut(x, targets(), b), Sequences::single(targets().length(b)),
                             cut(source, sources(), b), Sequences::single(sources().length(b)));
    if (const std::string why = kit::bit_difference(mine, cut(before, targets(), b)); !why.empty())
      return cat("target ", b, " alone and packed: ", why);
  }
  return "";
}

// The state of a part whose rows read those before them: rows in order, reordered, begun again.
std::string check_recurrent_state(const AloneMixer& alone, const Tensor& x, const Tensor& source) {
  const Tensor whole = rows(alone, x, targets(), source, sources());
  const auto state = alone.mixer->make_state({targets().count(), 8, DType::f64, Device::cpu});
  const auto formula = [&](const std::vector<int64_t>& of) {
    std::vector<int64_t> tokens;
    for (const int64_t b : of) tokens.push_back(sources().length(b));
    return alone.mixer->state_bytes(tokens, DType::f64);
  };
  const auto step = [&](const std::vector<int64_t>& from, int64_t t) {  // the t-th rows, where they have one
    std::vector<int64_t> offsets{0}, past, picked;
    for (const int64_t b : from) {
      if (t < targets().length(b)) picked.push_back(targets().offset(b) + t);
      offsets.push_back(int64_t(picked.size()));
      past.push_back(std::min(t, targets().length(b)));
    }
    const Sequences sequences(offsets, past);
    const Tensor got =
        alone.mixer->forward({.x = kit::rows_of(x, picked), .sequences = sequences, .state = state.get()}).value();
    return kit::close(got, kit::rows_of(whole, picked), 64 + 8 * double(alone.width));
  };
  if (state->bytes() != alone.mixer->state_bytes({0, 0, 0, 0}, DType::f64))
    return cat("a state without a source holds ", state->bytes(), " bytes");
  alone.mixer->read_source(*state, {source, sources()});
  if (state->bytes() != formula({0, 1, 2, 3})) return cat("the state holds ", state->bytes(), " bytes");
  if (const std::string why = step({0, 1, 2, 3}, 0); !why.empty()) return "the first rows: " + why;
  state->reorder({3, 0, 0});
  if (state->bytes() != formula({3, 0, 0})) return cat("the reordered state holds ", state->bytes(), " bytes");
  if (const std::string why = step({3, 0, 0}, 1); !why.empty()) return "reordered: " + why;
  for (const int64_t b : {0, 1, 2}) state->truncate(b, 0);
  for (const int64_t t : {0, 1, 2})
    if (const std::string why = step({3, 0, 0}, t); !why.empty()) return "begun again: " + why;
  return "";
}

}  // namespace

std::string check_cross_gradients(const PartCase& part) {
  const auto alone = build_mixer(part, Sight::cross, DType::f64, DType::f64);
  const auto run = [&](const std::vector<Var>& in) {
    const Rows memory{in[1], sources()};
    return std::vector<Var>{alone->mixer->forward({.x = in[0], .sequences = targets(), .source = &memory})};
  };
  std::string where;
  const double error = kit::gradient_error(alone->bench.parameters(), run,
                                           {kit::normal({targets().rows(), alone->width}, DType::f64, 1),
                                            kit::normal({sources().rows(), alone->width}, DType::f64, 2)},
                                           &where);
  return error <= kGradientError ? "" : cat("relative error ", error, ": ", where);
}

std::string check_cross_sight(const PartCase& part) {
  if (part.name == "conv_kv" && part.options.find("stride: 3") != std::string::npos) return "";  // gaps between windows
  for (const DType compute : {DType::f64, DType::f32, DType::bf16}) {
    const auto alone = build_mixer(part, Sight::cross, compute == DType::f64 ? compute : DType::f32, compute);
    const Tensor x = kit::normal({targets().rows(), alone->width}, compute, 3),
                 source = kit::normal({sources().rows(), alone->width}, compute, 4);
    const bool recurs = part.info().recurs, all = !sees_some(part);
    if (const std::string why = check_who_sees_what(*alone, x, source, recurs, all); !why.empty())
      return cat("in ", compute, ": ", why);
    Tape tape;
    if (const std::string why = check_who_sees_what(*alone, x, source, recurs, all); !why.empty())
      return cat("in ", compute, " with a tape: ", why);
  }
  return "";
}

std::string check_cross_order(const PartCase& part) {
  if (part.name == "local_prior_cross" || part.name == "select_kv" || reads_places(part) || mixes_source(part))
    return "";  // weights by the place in the source
  const auto alone = build_mixer(part, Sight::cross, DType::f64, DType::f64);
  const Tensor x = kit::normal({5, alone->width}, DType::f64, 5),
               source = kit::normal({4, alone->width}, DType::f64, 6);
  const Sequences five = Sequences::single(5), four = Sequences::single(4);
  const Tensor before = rows(*alone, x, five, source, four);
  // Each row sums 4 terms a head, then as many as the model is wide.
  if (const std::string why = kit::close(rows(*alone, x, five, kit::rows_of(source, {2, 0, 3, 1}), four), before,
                                         4 + 2 * double(alone->width));
      !why.empty())
    return "a permuted source: " + why;
  return "";
}

std::string check_cross_identities(const PartCase& part) {
  if (part.info().recurs) return "";  // rows differ by those before them
  const auto alone = build_mixer(part, Sight::cross, DType::f64, DType::f64);
  const Sequences five = Sequences::single(5);
  const Tensor x = kit::normal({5, alone->width}, DType::f64, 9), one = kit::normal({1, alone->width}, DType::f64, 10);
  // The weights of approx have terms of either sign, whose sums are smaller than they.
  const double roundings = (5 + 2 * double(alone->width)) * (part.name == "approx" ? 16 : 1);
  const Tensor from_one = rows(*alone, x, five, one, Sequences::single(1));
  const bool continuous = part.name == "continuous" || part.options.find("continuous") != std::string::npos,
             weighs_rows = (part.name == "local_prior" && part.options.find("multiply") != std::string::npos) ||
                           part.options.find("normalise: false") != std::string::npos;  // of a sum that is not 1
  if (const std::string why = kit::close(from_one, kit::rows_of(from_one, {0, 0, 0, 0, 0}), roundings);
      part.name != "linformer" && !continuous && !weighs_rows && !sees_some(part) &&
      !why.empty())  // which makes several keys of one row, and they differ
    return "rows that read one row differ: " + why;
  if (!part.info().bidirectional) return "";
  const auto self = build_mixer(part, Sight::bidirectional, DType::f64, DType::f64);
  kit::copy_values(self->bench.parameters(), alone->bench.parameters());
  if (const std::string why = kit::close(rows(*alone, x, five, x, five),
                                         self->mixer->forward({.x = x, .sequences = five}).value(), roundings);
      !why.empty())
    return "a source that is the target, and the bidirectional form: " + why;
  return "";
}

std::string check_cross_state(const PartCase& part) {
  const auto alone = build_mixer(part, Sight::cross, DType::f64, DType::f64);
  const Tensor x = kit::normal({targets().rows(), alone->width}, DType::f64, 7),
               source = kit::normal({sources().rows(), alone->width}, DType::f64, 8);
  if (part.info().recurs) return check_recurrent_state(*alone, x, source);
  const Tensor whole = rows(*alone, x, targets(), source, sources());
  const auto state = alone->mixer->make_state({targets().count(), 8, DType::f64, Device::cpu});
  if (state->bytes() != 0) return cat("a state without a source holds ", state->bytes(), " bytes");
  alone->mixer->read_source(*state, {source, sources()});
  const auto formula = [&](const std::vector<int64_t>& sequences) {
    std::vector<int64_t> tokens;
    for (const int64_t b : sequences) tokens.push_back(sources().length(b));
    return alone->mixer->state_bytes(tokens, DType::f64);
  };
  const auto step = [&](const std::vector<int64_t>& from) {  // the first row of these targets, where they have one
    std::vector<int64_t> offsets{0}, past, picked;
    for (const int64_t b : from) {
      if (targets().length(b)) picked.push_back(targets().offset(b));
      offsets.push_back(int64_t(picked.size()));
      past.push_back(reads_places(part) ? 0 : 3);
    }
    const Tensor got =
        alone->mixer
            ->forward({.x = kit::rows_of(x, picked), .sequences = Sequences(offsets, past), .state = state.get()})
            .value();
    return kit::close(got, kit::rows_of(whole, picked), 4 + 2 * double(alone->width));
  };
  if (state->bytes() != formula({0, 1, 2, 3})) return cat("the state holds ", state->bytes(), " bytes");
  if (const std::string why = step({0, 1, 2, 3}); !why.empty()) return "one row at a time: " + why;
  state->truncate(1, 0);
  if (const std::string why = step({0, 1, 2, 3}); !why.empty()) return "after truncation: " + why;
  state->reorder({3, 1, 1});
  if (state->bytes() != formula({3, 1, 1})) return cat("the reordered state holds ", state->bytes(), " bytes");
  if (const std::string why = step({3, 1, 1}); !why.empty()) return "reordered: " + why;
  alone->mixer->read_source(
      *state, {kit::concatenate({cut(source, sources(), 0), cut(source, sources(), 3), cut(source, sources(), 1)}),
               Sequences({0, 1, 4, 9})});
  if (const std::string why = step({0, 3, 1}); !why.empty()) return "a second source: " + why;
  return "";
}

std::string check_cross_refusal(const PartCase& part) {
  std::string refusals;
  for (const std::string& model : small_models()) {
    if (part.info().causal && !refusal(placed(part, model)).empty()) continue;
    const std::string why = refusal(placed(part, model, true));
    if (why.empty()) return "";
    refusals += "\n  " + why;
    if (part.slot == Mixer::slot && part.info().cross) continue;  // refused for its sizes
    if (why.find("cross form") == std::string::npos || why.find("cross_attention") == std::string::npos)
      return cat("the refusal says no remedy: ", why);
  }
  const PartInfo info = part.info();
  if (part.slot == Mixer::slot && info.cross)
    return "says that it has a cross form, but no small model takes it:" + refusals;
  return "";
}

}  // namespace lithe::conformance
