#include "lithe/model/packable.h"
#include "tests/conformance/checks.h"
#include "tests/support/process.h"

namespace lithe::conformance {
namespace {

using Token = std::vector<int32_t>;  // an id, or a code
using Ids = std::vector<Token>;

Ids ids(int64_t n, const Model& model, uint64_t seed) {
  const Tensor tokens = kit::random_tokens(n, model.config(), seed);
  const int32_t* at = tokens.data<int32_t>();
  Ids out;
  for (int64_t width = tokens.numel() / n, i = 0; i < n; ++i) out.emplace_back(at + i * width, at + (i + 1) * width);
  return out;
}

Tensor tensor_of(const Ids& tokens) {
  const auto n = int64_t(tokens.size()), width = int64_t(tokens.at(0).size());
  const Tensor out = empty(width == 1 ? Shape{n} : Shape{n, width}, DType::i32);
  for (int64_t i = 0; i < n; ++i)
    std::copy(tokens[size_t(i)].begin(), tokens[size_t(i)].end(), out.data<int32_t>() + i * width);
  return out;
}

// encoder_decoder: the sources of sequences that start with these tokens, of 1 to 4 tokens.
void add_sources(kit::Batch& batch, const std::vector<Token>& starts, const ModelConfig& config) {
  Ids sources;
  std::vector<int64_t> offsets{0};
  for (const Token& start : starts) {
    const Tensor source = kit::random_tokens(1 + start[0] % 4, config, uint64_t(start[0]));
    for (const double id : kit::values(source)) sources.push_back({int32_t(id)});
    offsets.push_back(int64_t(sources.size()));
  }
  batch.source = tensor_of(sources);
  batch.sources = Sequences(offsets);
}

Tensor whole(const Model& model, const Ids& sequence) {
  kit::Batch batch{tensor_of(sequence), {}, Sequences::single(int64_t(sequence.size()))};
  if (reads_source(model.config().architecture)) add_sources(batch, {sequence[0]}, model.config());
  return kit::forward(model, batch).value();
}

// Sequences that are fed to one state, and the rows that came back for each.
class Session {
 public:
  Session(const Model& model, int64_t sequences, int64_t capacity = 16)
      : model_(model), state(model.make_state(sequences, capacity)), rows(size_t(sequences)) {}
  // tokens[b]: what follows in sequence b.
  void feed(const std::vector<Ids>& tokens) {
    std::vector<int64_t> counts;
    Ids all;
    for (const Ids& t : tokens) {
      counts.push_back(int64_t(t.size()));
      all.insert(all.end(), t.begin(), t.end());
    }
    if (reads_source(model_.config().architecture) && !has_source_) {
      kit::Batch batch;
      std::vector<Token> starts;
      for (const Ids& t : tokens) starts.push_back(t.at(0));
      add_sources(batch, starts, model_.config());
      model_.read_sources(*state, {{kSource, {batch.source, batch.sources}}});
      has_source_ = true;
    }
    const Sequences sequences = model_.continue_sequences(*state, counts);
    const Tensor out = kit::forward(model_, tensor_of(all), sequences, state.get()).value();
    for (size_t b = 0; b < tokens.size(); ++b)
      for (int64_t r = sequences.offset(int64_t(b)); r < sequences.offset(int64_t(b) + 1); ++r)
        rows[b].push_back(clone(out.slice(r, r + 1)));
  }

 private:
  const Model& model_;
  bool has_source_ = false;

 public:
  std::unique_ptr<DecodeState> state;
  std::vector<std::vector<Tensor>> rows;
};

Ids part(const Ids& sequence, int64_t begin, int64_t end) { return {sequence.begin() + begin, sequence.begin() + end}; }

// The rows of whole sequences in f64, and how far rounding in `compute` may move them.
kit::Bounded bound_of(const PartCase& c, DType compute, const std::map<std::string, Ids>& sequences) {
  return kit::rounding_bound(
      [&](double relative, uint64_t seed) {
        const auto model = build(c, DType::f64, DType::f64);
        kit::jitter(model->parameters(), relative, seed);
        kit::Results out;
        for (const auto& [name, sequence] : sequences) out[name] = kit::values(whole(*model, sequence));
        return out;
      },
      kit::rounding(compute, 64));
}

DType parameters_of(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

std::string check_decoding(const PartCase& c, DType compute) {
  const auto model = build(c, parameters_of(compute), compute);
  const Ids sequence = ids(9, *model, 21);
  kit::Results got{{"whole", kit::values(whole(*model, sequence))}};
  {
    Session one(*model, 1);
    for (int64_t t = 0; t < 9; ++t) one.feed({part(sequence, t, t + 1)});
    got["one row at a time"] = kit::values(kit::concatenate(one.rows[0]));
  }
  for (int64_t n : {1, 4, 8, 9}) {
    Session prefilled(*model, 1);
    prefilled.feed({part(sequence, 0, n)});
    for (int64_t t = n; t < 9; ++t) prefilled.feed({part(sequence, t, t + 1)});
    got[cat("prefill of ", n)] = kit::values(kit::concatenate(prefilled.rows[0]));
  }
  {
    Session blocks(*model, 1);
    blocks.feed({part(sequence, 0, 3)});
    blocks.feed({part(sequence, 3, 7)});
    blocks.feed({part(sequence, 7, 9)});
    got["three blocks"] = kit::values(kit::concatenate(blocks.rows[0]));
  }
  std::map<std::string, Ids> same;
  for (const auto& [name, rows] : got) same[name] = sequence;
  return kit::compare(got, bound_of(c, compute, same));
}

std::string check_decoding_together(const PartCase& c, DType compute) {
  const auto model = build(c, parameters_of(compute), compute);
  const std::vector<Ids> sequences{ids(7, *model, 22), ids(1, *model, 23), ids(9, *model, 24)};
  // Tokens that each sequence adds, step by step: prefills of different lengths, steps in which some are idle.
  const std::vector<std::vector<int64_t>> schedule{{3, 1, 2}, {1, 0, 1}, {1, 0, 3}, {0, 0, 1}, {2, 0, 2}};
  Session together(*model, 3);
  std::vector<int64_t> at(3, 0);
  for (const auto& counts : schedule) {
    std::vector<Ids> tokens;
    for (size_t b = 0; b < 3; ++b) tokens.push_back(part(sequences[b], at[b], at[b] + counts[b])), at[b] += counts[b];
    together.feed(tokens);
  }
  kit::Results got;
  std::map<std::string, Ids> wanted;
  for (size_t b = 0; b < 3; ++b) {
    Session one(*model, 1);
    int64_t begin = 0;
    for (const auto& counts : schedule) {
      if (counts[b]) one.feed({part(sequences[b], begin, begin + counts[b])});
      begin += counts[b];
    }
    const Tensor mine = kit::concatenate(together.rows[b]);
    if (const std::string difference = kit::bit_difference(mine, kit::concatenate(one.rows[0])); !difference.empty())
      return cat("in ", compute, " sequence ", b, " with others and alone: ", difference);
    got[cat("sequence ", b)] = kit::values(mine);
    wanted[cat("sequence ", b)] = sequences[b];
  }
  return kit::compare(got, bound_of(c, compute, wanted));
}

std::string check_reordering(const PartCase& c) {
  const auto model = build(c, DType::f32, DType::f32);
  const Ids a = ids(4, *model, 25), b = ids(3, *model, 26);
  const std::vector<Ids> tails{ids(3, *model, 27), ids(3, *model, 28), ids(3, *model, 29)};
  Session session(*model, 2);
  session.feed({a, b});
  session.state->reorder({1, 0, 1});  // b is continued twice, in different ways
  if (session.state->sequences() != 3)
    return cat("after reordering to three sequences the state has ", session.state->sequences());
  session.rows.assign(3, {});
  for (size_t t = 0; t < 3; ++t) session.feed({Ids{tails[0][t]}, Ids{tails[1][t]}, Ids{tails[2][t]}});
  kit::Results got;
  std::map<std::string, Ids> wanted;
  const std::vector<Ids> heads{b, a, b};
  for (size_t i = 0; i < 3; ++i) {
    Ids sequence = heads[i];
    sequence.insert(sequence.end(), tails[i].begin(), tails[i].end());
    const std::string name = cat("continuation ", i);
    got[name] = kit::values(kit::concatenate(session.rows[i]));
    wanted[name] = sequence;
  }
  kit::Bounded bound = bound_of(c, DType::f32, wanted);
  for (size_t i = 0; i < 3; ++i) {  // only the rows after the reordering were kept
    const auto skip = int64_t(heads[i].size()) * model->config().hidden_size;
    for (auto* results : {&bound.exact, &bound.bound}) {
      auto& x = (*results)[cat("continuation ", i)];
      x.erase(x.begin(), x.begin() + skip);
    }
  }
  return kit::compare(got, bound);
}

std::string check_truncation(const PartCase& c) {
  const auto model = build(c, DType::f32, DType::f32);
  const Ids sequence = ids(8, *model, 30), other = ids(8, *model, 31);
  Session session(*model, 2);
  session.feed({part(sequence, 0, 4), part(other, 0, 5)});
  for (int64_t t = 4; t < 8; ++t)
    session.feed({part(sequence, t, t + 1), t + 1 < 8 ? part(other, t + 1, t + 2) : Ids{}});
  const std::vector<Tensor> first = session.rows[0], neighbour = session.rows[1];
  session.rows.assign(2, {});
  try {
    session.state->truncate(0, 4);
    session.state->truncate(1, 5);
  } catch (const Error& error) {
    if (session.state->truncates()) return cat("the state promises truncates(), but: ", error.what());
    return error.code() == ExitCode::failed ? ""
                                            : cat("a state that cannot forget must fail as such, got ", error.what());
  }
  if (session.state->length(0) != 4)
    return cat("after truncation to 4 tokens the length is ", session.state->length(0));
  for (int64_t t = 4; t < 8; ++t)
    session.feed({part(sequence, t, t + 1), t + 1 < 8 ? part(other, t + 1, t + 2) : Ids{}});
  if (const std::string difference =
          kit::bit_difference(kit::concatenate(session.rows[0]), kit::concatenate({first.begin() + 4, first.end()}));
      !difference.empty())
    return "replayed rows: " + difference;
  if (const std::string difference = kit::bit_difference(kit::concatenate(session.rows[1]),
                                                         kit::concatenate({neighbour.begin() + 5, neighbour.end()}));
      !difference.empty())
    return "replayed rows of the neighbour: " + difference;
  // Another end of the same beginning.
  session.state->truncate(0, 2);
  session.rows.assign(2, {});
  Ids changed = part(sequence, 0, 2);
  for (int64_t t = 0; t < 3; ++t) {
    session.feed({Ids{other[size_t(t)]}, Ids{}});
    changed.push_back(other[size_t(t)]);
  }
  kit::Bounded bound = bound_of(c, DType::f32, {{"another end", changed}});
  for (auto* results : {&bound.exact, &bound.bound}) {
    auto& x = (*results)["another end"];
    x.erase(x.begin(), x.begin() + 2 * model->config().hidden_size);
  }
  return kit::compare({{"another end", kit::values(kit::concatenate(session.rows[0]))}}, bound);
}

std::string check_packed(const PartCase& c, DType compute) {
  const auto plain = build(c, compute, compute);
  const kit::Scratch scratch;
  const Path file = scratch.path() / "model.safetensors";
  save_weights(*plain, file);
  const auto products = packed_products(plain->config());
  Model packed(plain->config(), {.dtype = compute, .compute = compute, .packed = &products, .initialised = false});
  load_weights(packed, file);
  size_t matrices = 0;
  for (const Parameter& p : packed.parameters().all()) matrices += p.master.packed() != nullptr;
  if (matrices != products.size()) return cat(matrices, " matrices are packed, not ", products.size());

  const Ids sequence = ids(9, *plain, 21);
  const kit::Batch batch = kit::random_batch({5, 3}, plain->config(), 8);
  const Tensor labels = kit::labels_for(*plain, batch);
  const auto results = [&](const Model& model) {
    Session session(model, 1);
    session.feed({part(sequence, 0, 4)});
    for (int64_t t = 4; t < 9; ++t) session.feed({part(sequence, t, t + 1)});
    Pass pass;
    const Rows rows = model.run(kit::input_of(model, batch), pass);
    return std::map<std::string, Tensor>{{"decoding", kit::concatenate(session.rows[0])},
                                         {"rows", rows.x.value()},
                                         {"logits", model.logits(rows).value()},
                                         {"loss", kit::loss(model, batch, labels, 0, 1).value()}};
  };
  const auto want = results(*plain), got = results(packed);
  for (const auto& [name, x] : want)
    if (const std::string difference = kit::bit_difference(got.at(name), x); !difference.empty())
      return name + ": " + difference;
  return "";
}

}  // namespace lithe::conformance
