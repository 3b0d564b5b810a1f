#include "tests/conformance/matrix.h"

#include <algorithm>
#include <set>

namespace lithe::conformance {
namespace {

constexpr int64_t kWidth = 16, kHeads = 4, kHeadDim = 4, kLayers = 2;

Node options_of(const std::string& yaml) {
  Node node = parse_yaml(yaml, "a choice of the matrix");
  if (node.is_map()) return node;
  Node out = Node::map();
  out.set("type", node);
  return out;
}
std::string type_of(const Node& part) { return part.find("type")->text(); }
std::string text_of(const Node& part, const char* key, const std::string& otherwise) {
  const Node* found = part.find(key);
  return found ? found->text() : otherwise;
}

std::vector<std::string> parts_of(const std::string& slot, const std::string& prefix = "") {
  std::vector<std::string> out;
  for (const PartCase& part : all_parts()) {
    if (part.slot != slot || !part.info().causal) continue;
    out.push_back(cat(prefix, "{type: ", part.name, part.options == "{}" ? "" : ", ", part.options.substr(1)));
  }
  return out;
}

bool is_memory(const Combination& c) { return c.of[Combination::place].starts_with("memory "); }
Node place_of(const Combination& c) {
  const std::string& place = c.of[Combination::place];
  return options_of(place.substr(place.find(' ') + 1));
}

// `heads` with `count` query heads of kHeadDim channels.
ModelConfig config_with(const Combination& c, const Node& heads, int64_t count, const std::string& more = "{}") {
  Node mixer = parse_yaml(more, "test");
  mixer.set("type", Node::scalar(is_memory(c) ? "memory_attention" : "attention"));
  mixer.set("num_attention_heads", Node::scalar(cat(count)));
  mixer.set("head_dim", Node::scalar(cat(kHeadDim)));
  if (type_of(heads) != "identity") mixer.set("attention_bias", Node::scalar("true"));
  mixer.set("heads", heads);
  mixer.set(is_memory(c) ? "memory" : "field", place_of(c));
  mixer.set("output", options_of(c.of[Combination::output]));
  Node position = options_of(c.of[Combination::position]);
  if (const std::string type = type_of(position); (type == "rpr" || type == "xl") && !position.find("head_dim"))
    position.set("head_dim", Node::scalar(cat(kHeadDim)));
  Node model = parse_yaml(cat("{hidden_size: ", kWidth, ", num_hidden_layers: ", kLayers,
                              ", vocab_size: 17, max_position_embeddings: 13, norm: rms, ffn: {type: relu, "
                              "intermediate_size: 9}, tie_word_embeddings: false}"),
                          "test");
  const std::string& architecture = c.of[Combination::architecture];
  model.set("architecture", Node::scalar(architecture));
  model.set("head", Node::scalar(architecture == "encoder" ? "mlm" : "lm"));
  model.set("position", position);
  model.set("mixer", mixer);
  return read_model_config(model);
}

std::unique_ptr<Model> built(const ModelConfig& config, DType dtype = DType::f64, Device device = Device::cpu) {
  auto model = std::make_unique<Model>(
      config, ModelOptions{.device = device, .dtype = dtype, .compute = dtype, .trainable = true});
  kit::randomise(model->parameters(), 3, 0.4);
  return model;
}

// ---- heads as matrices

// x W + b of one map of a layer's heads: W [kWidth, n].
struct Map {
  Tensor w, b;
};
struct Maps {
  Map q, k, v;
};
using Get = std::function<Tensor(const std::string& name)>;  // none where there is no such parameter

Map projected(const Get& get, const std::string& name) {
  const Tensor w = get(name + ".weight"), b = get(name + ".bias");
  return {w, b ? b : zeros({w.cols()}, DType::f64)};
}
Map identity() {
  const Tensor w = zeros({kWidth, kWidth}, DType::f64);
  for (int64_t i = 0; i < kWidth; ++i) set_value(w, i * kWidth + i, 1);
  return {w, zeros({kWidth}, DType::f64)};
}
// Column c of the result is f(x, source(c), c), of matrix and bias.
template <class F>
Map columns(const Map& from, int64_t count, F f) {
  const Map out{zeros({from.w.rows(), count}, DType::f64), zeros({count}, DType::f64)};
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < from.w.rows(); ++r)
      set_value(out.w, r * count + c,
                f([&](int64_t at) { return value_at(from.w, r * from.w.cols() + at); }, c, false));
    set_value(out.b, c, f([&](int64_t at) { return value_at(from.b, at); }, c, true));
  }
  return out;
}
Map repeated(const Map& from, int64_t heads) {
  const int64_t group = heads * kHeadDim / from.w.cols();
  return columns(from, heads * kHeadDim,
                 [group](auto at, int64_t c, bool) { return at(c / kHeadDim / group * kHeadDim + c % kHeadDim); });
}
Map embedded(const Map& seed, const Tensor& e, bool mul) {
  return columns(seed, kHeads * kHeadDim, [&](auto at, int64_t c, bool bias) {
    const double x = at(c % kHeadDim), by = value_at(e, c);
    return mul ? x * (1 + by) : bias ? x + by : x;
  });
}
// The first channels of each head are those of U, the others 0.
Map reduced(const Map& wide, const Tensor& u) {
  const int64_t narrow = u.cols() / kHeads;
  return columns(wide, kHeads * kHeadDim, [&](auto at, int64_t c, bool) {
    const int64_t head = c / kHeadDim, channel = c % kHeadDim;
    double sum = 0;
    for (int64_t d = 0; channel < narrow && d < kHeadDim; ++d)
      sum += at(head * kHeadDim + d) * value_at(u, d * u.cols() + head * narrow + channel);
    return sum;
  });
}

struct Kind {
  std::function<Maps(const Get&)> maps;
  int64_t heads = kHeads;
  Node mha = options_of("mha");
  std::string more = "{}";  // of the mixer
};

// What these heads are as matrices.
std::optional<Kind> kind_of(const Combination& c, const Node& heads) {
  const std::string type = type_of(heads), position = type_of(options_of(c.of[Combination::position])),
                    place = type_of(place_of(c));
  const bool turns = position == "rotary", of_pairs = position == "rpr" || position == "xl";
  if (type == "hidden_rows") {
    const Node* of = heads.find("of");
    return kind_of(c, of ? (of->is_map() ? *of : options_of(of->text())) : options_of("mha"));
  }
  if (type == "mha" || type == "gqa" || type == "mqa") {
    Kind out{[](const Get& get) {
      return Maps{projected(get, "q"), repeated(projected(get, "k"), kHeads), repeated(projected(get, "v"), kHeads)};
    }};
    for (const auto& [key, value] : heads.entries())
      if (key != "type" && key != "num_key_value_heads") out.mha.set(key, value);
    // What has a place of its own for each key head: a queue by the attention of its group.
    if (type != "mha" && is_memory(c) && text_of(place_of(c), "score", "") == "usage") return std::nullopt;
    return out;
  }
  if (type == "el_rewrite")
    return Kind{[](const Get& get) { return Maps{projected(get, "q"), projected(get, "k"), projected(get, "v")}; }};
  if (type == "el_att" || type == "identity")
    return Kind{[type](const Get& get) {
      return Maps{type == "identity" ? identity() : projected(get, "q"), identity(), identity()};
    }};
  if (type == "skv" && text_of(heads, "tie", "kv") == "kv")
    return Kind{[](const Get& get) { return Maps{projected(get, "q"), projected(get, "kv"), projected(get, "kv")}; }};
  if (type == "sha" && text_of(heads, "output", "tile") == "narrow")
    return Kind{[](const Get& get) { return Maps{projected(get, "q"), projected(get, "k"), projected(get, "v")}; }, 1};
  if (type == "mhe_add" || type == "mhe_mul") {
    if (turns && text_of(heads, "rope_order", "after") == "before") return std::nullopt;
    return Kind{[mul = type == "mhe_mul"](const Get& get) {
      const auto map = [&](const std::string& name) {
        return embedded(projected(get, name), get(name + ".head_embedding"), mul);
      };
      return Maps{map("q"), map("k"), map("v")};
    }};
  }
  if (type == "reduced") {  // narrow queries are as wide ones with zeros, but for random directions and tables
    if (is_memory(c) || turns || of_pairs || place == "lsh" || place == "sort") return std::nullopt;
    const int64_t narrow = std::stoll(text_of(heads, "reduced_dim", "1"));
    return Kind{[](const Get& get) {
                  return Maps{reduced(projected(get, "q"), get("reduce_q.weight")),
                              reduced(projected(get, "k"), get("reduce_k.weight")), projected(get, "v")};
                },
                kHeads, options_of("mha"), cat("{query_pre_attn_scalar: ", narrow, "}")};
  }
  return std::nullopt;
}

// Rows and columns of x, zeros beyond.
void pad_into(const Tensor& to, const Tensor& x) {
  for (int64_t i = 0; i < to.numel(); ++i) {
    const int64_t r = i / to.cols(), col = i % to.cols();
    set_value(to, i, r < x.numel() / x.cols() && col < x.cols() ? value_at(x, r * x.cols() + col) : 0);
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Combination& c) {
  for (const std::string& choice : c.of) out << choice << " ";
  return out;
}

const std::vector<std::string>& choices(Combination::Factor factor) {
  static const auto made = [] {
    std::array<std::vector<std::string>, Combination::kFactors> out;
    out[Combination::heads] = parts_of("heads");
    for (const char* more : {"{type: sha, output: narrow}", "{type: hidden_rows, of: mhe_mul}",
                             "{type: hidden_rows, of: {type: mhe_add, rope_order: before}}"})
      out[Combination::heads].push_back(more);
    out[Combination::place] = parts_of("field", "field ");
    const auto memories = parts_of("memory", "memory ");
    out[Combination::place].insert(out[Combination::place].end(), memories.begin(), memories.end());
    out[Combination::position] = parts_of("position");
    for (const char* more :
         {"{type: rpr, clip: 2, use_v: false, head_dim: 2}", "{type: xl, max_distance: 3, head_dim: 2}"})
      out[Combination::position].push_back(more);  // for heads that are reduced to 2 channels
    out[Combination::output] = parts_of("output");
    out[Combination::architecture] = {"decoder", "encoder"};
    return out;
  }();
  return made[size_t(factor)];
}

ModelConfig config_of(const Combination& c) { return config_with(c, options_of(c.of[Combination::heads]), kHeads); }

std::string refusal(const Combination& c) {
  try {
    const Model model(config_of(c), ModelOptions{.device = Device::meta});
  } catch (const Error& error) {
    check(error.code() == ExitCode::usage, "test", c, ": refused with exit code ", int(error.code()),
          ", not as wrong usage: ", error.what());
    return error.what();
  }
  return "";
}

namespace {

// Which choices of all factors, by number.
using Row = std::array<size_t, Combination::kFactors>;
using Pair = std::array<size_t, 4>;  // factor, choice, factor, choice

Combination named(const Row& row) {
  Combination out;
  for (size_t f = 0; f < row.size(); ++f) out.of[f] = choices(Combination::Factor(f))[row[f]];
  return out;
}

class Coverer {
 public:
  Covering run() {
    for (size_t a = 0; a < kAll; ++a)
      for (size_t b = a + 1; b < kAll; ++b)
        for (size_t i = 0; i < count(a); ++i)
          for (size_t j = 0; j < count(b); ++j) open_.insert({a, i, b, j});
    // Which places and positions exclude each other is known before others are chosen for them.
    std::vector<Pair> all(open_.begin(), open_.end());
    std::stable_partition(all.begin(), all.end(), [](const Pair& pair) {
      return pair[0] == Combination::place && pair[2] == Combination::position;
    });
    for (const Pair& pair : all)
      if (open_.contains(pair)) cover(pair);
    return std::move(out_);
  }

 private:
  static constexpr size_t kAll = Combination::kFactors;
  std::set<Pair> open_;
  std::set<Pair> closed_;             // that no combination has
  std::map<Row, std::string> tried_;  // what each of these said
  Covering out_;

  // Heads and a place meet where mha says what is right, and where no position looks at the heads, too.
  static bool is_of_place(const Pair& pair) { return pair[0] == Combination::heads && pair[2] == Combination::place; }
  static bool is_told(const Row& row) {
    const Combination c = named(row);
    const std::string position = type_of(options_of(c.of[Combination::position]));
    return position != "rotary" && position != "rpr" && position != "xl" &&
           kind_of(c, options_of(c.of[Combination::heads])).has_value();
  }

  static size_t count(size_t factor) { return choices(Combination::Factor(factor)).size(); }
  static Pair pair_of(size_t a, size_t i, size_t b, size_t j) { return a < b ? Pair{a, i, b, j} : Pair{b, j, a, i}; }

  // Other factors one after another, each by the choice with most open pairs; `turn` shifts which of equal ones.
  Row filled(const Pair& pair, size_t turn) const {
    Row row{};
    std::vector<size_t> set{pair[0], pair[2]};
    row[pair[0]] = pair[1], row[pair[2]] = pair[3];
    for (size_t f = 0; f < kAll; ++f) {
      if (f == pair[0] || f == pair[2]) continue;
      int64_t most = -1;
      for (size_t n = 0; n < count(f); ++n) {
        const size_t i = (n + turn) % count(f);
        int64_t gain = 0;
        for (const size_t g : set) {
          const Pair with = pair_of(f, i, g, row[g]);
          gain += open_.contains(with) - 10 * int64_t(closed_.contains(with));
        }
        if (turn >= 8) gain = i == turn * 7919 / (f + 1) % count(f);  // anything
        if (gain > most) most = gain, row[f] = i;
      }
      set.push_back(f);
    }
    return row;
  }
  void take(const Row& row, const Pair& pair) {
    const bool told = is_told(row);
    for (size_t a = 0; a < kAll; ++a)
      for (size_t b = a + 1; b < kAll; ++b)
        if (const Pair of{a, row[a], b, row[b]}; told || of == pair || !is_of_place(of)) open_.erase(of);
    out_.combinations.push_back(named(row));
  }
  void cover(const Pair& pair) {
    std::map<std::string, size_t> reasons;  // and how often each was given: others than the pair's own are rare
    std::optional<Row> untold;
    for (size_t turn = 0; turn < 32; ++turn) {
      const Row row = filled(pair, turn);
      const auto [tried, first] = tried_.try_emplace(row);
      if (first) tried->second = refusal(named(row));
      if (const std::string& why = tried->second; !why.empty())
        ++reasons[why];
      else if (!is_of_place(pair) || is_told(row))
        return take(row, pair);
      else if (!untold)
        untold = row;
    }
    if (untold) return take(*untold, pair);
    const auto most = std::max_element(reasons.begin(), reasons.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    open_.erase(pair), closed_.insert(pair);
    out_.refused[cat(choices(Combination::Factor(pair[0]))[pair[1]], " with ",
                     choices(Combination::Factor(pair[2]))[pair[3]])] = most->first;
  }
};

}  // namespace

const Covering& covering() {
  static const Covering made = Coverer().run();
  return made;
}

std::optional<WrittenOut> written_out(const Combination& c) {
  const std::optional<Kind> kind = kind_of(c, options_of(c.of[Combination::heads]));
  if (!kind) return std::nullopt;
  WrittenOut out{config_with(c, kind->mha, kind->heads, is_memory(c) ? "{}" : kind->more), {}};
  out.copy = [maps = kind->maps](const Parameters& from, Parameters& to) {
    const auto find = [&](const std::string& name) {
      for (const Parameter& p : from.all())
        if (p.name == name) return p.master.value();
      return Tensor();
    };
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string path = cat("layers.", layer, ".mixer.heads.");
      const Maps made = maps([&](const std::string& name) { return find(path + name); });
      for (const auto& [name, map] : {std::pair<std::string, const Map&>{"q", made.q}, {"k", made.k}, {"v", made.v}}) {
        copy_into(to.find(path + name + ".weight")->master.value(), map.w);
        copy_into(to.find(path + name + ".bias")->master.value(), map.b);
      }
    }
    for (Parameter& p : to.all()) {
      const bool of_heads = p.name.find(".mixer.heads.") != std::string::npos;
      if (of_heads && !p.name.ends_with("_norm.weight")) continue;
      const Tensor x = find(p.name);
      check(x.defined(), "test", "the first model has no ", p.name);
      pad_into(p.master.value(), x);
    }
  };
  // A network of all key heads at once is of other numbers where there are fewer of them.
  const Model first(config_of(c), kit::kMeta), second(out.config, kit::kMeta);
  for (const Parameter& p : second.parameters().all())
    for (const Parameter& q : first.parameters().all())
      if (p.name == q.name && p.name.find(".memory.") != std::string::npos &&
          p.master.value().shape() != q.master.value().shape())
        return std::nullopt;
  return out;
}

namespace {

// Sequences in which no token comes twice: the first two of one text, if they are alike, stay alike but for rounding,
// and rounding would decide what is sorted or dropped first.
kit::Batch batch_of(const std::vector<int64_t>& lengths, const Model& model, int64_t seed) {
  kit::Batch out = kit::random_batch(lengths, model.config(), uint64_t(seed));
  for (int64_t b = 0; b < out.sequences.count(); ++b)
    for (int64_t i = 0; i < out.sequences.length(b); ++i)
      out.ids.data<int32_t>()[out.sequences.offset(b) + i] = int32_t((7 * i + 3 * b + seed) % 17);
  return out;
}

std::string far_apart(const std::string& what, const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return cat(what, ": ", got.size(), " numbers, not ", want.size());
  double largest = 1, error = 0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    if (!(std::abs(got[i] - want[i]) <= error)) error = std::abs(got[i] - want[i]), at = i;
  }
  // Sums of f64 of a few hundred terms, through two layers.
  return error <= 1e-10 * largest ? "" : cat(what, " ", at, ": ", got[at], ", not ", want[at]);
}

double product(const std::vector<double>& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * value_at(b, int64_t(i));
  return sum;
}

}  // namespace

std::string check_written_out(const Combination& c) {
  const std::optional<WrittenOut> other = written_out(c);
  if (!other) return "";
  const auto model = built(config_of(c)), plain = built(other->config), moved = built(other->config);
  other->copy(model->parameters(), plain->parameters());
  const kit::Batch batch = batch_of({9, 1, 12}, *model, 5);
  const kit::Results got = kit::run_training(*model, batch), want = kit::run_training(*plain, batch);
  for (const char* what : {"rows", "logits", "loss"})
    if (const std::string why = far_apart(what, got.at(what), want.at(what)); !why.empty()) return why;
  // Each written-out number is of first degree in one parameter alone, so that differences are exact.
  for (Parameter& p : model->parameters().all()) {
    const Tensor old = clone(p.master.value()), direction = kit::normal(old.shape(), DType::f64, 9);
    double slope = 0, size = 1;
    for (const double step : {0.5, -0.5}) {
      for (int64_t i = 0; i < old.numel(); ++i)
        set_value(p.master.value(), i, value_at(old, i) + step * value_at(direction, i));
      other->copy(model->parameters(), moved->parameters());
      for (const Parameter& q : moved->parameters().all())
        slope += product(want.at("gradient of " + q.name), q.master.value()) * (step > 0 ? 1 : -1);
    }
    copy_into(p.master.value(), old);
    for (const double g : got.at("gradient of " + p.name)) size += std::abs(g);
    const double mine = product(got.at("gradient of " + p.name), direction);
    if (!(std::abs(mine - slope) <= 1e-9 * size)) return cat("slope of ", p.name, ": ", mine, ", not ", slope);
  }
  return "";
}

std::string check_rows_alone(const Combination& c) {
  const auto model = built(config_of(c), DType::f32);
  const kit::Batch batch = batch_of({5, 1, 7}, *model, 4);
  const NoGrad no_grad;
  const Tensor packed = kit::forward(*model, batch).value();
  for (int64_t b = 0; b < 3; ++b) {
    const Tensor mine = clone(packed.slice(batch.sequences.offset(b), batch.sequences.offset(b + 1)));
    if (const std::string why = kit::bit_difference(kit::forward(*model, kit::alone(batch, b)).value(), mine);
        !why.empty())
      return cat("sequence ", b, " alone and packed: ", why);
  }
  return "";
}

std::string check_rows_decoded(const Combination& c) {
  if (c.of[Combination::architecture] != "decoder") return "";
  const auto model = built(config_of(c));
  const std::optional<WrittenOut> other = written_out(c);
  const auto plain = built(other ? other->config : config_of(c));
  if (other) other->copy(model->parameters(), plain->parameters());
  const kit::Batch batch = batch_of({11}, *model, 6);
  const NoGrad no_grad;
  const Tensor want = kit::forward(*plain, batch).value();
  const auto state = model->make_state(1, 11);
  for (int64_t at = 0; at < 11;) {
    const int64_t n = at == 0 ? 4 : 1;
    const Tensor got =
        kit::forward(*model, batch.ids.slice(at, at + n), model->continue_sequences(*state, {n}), state.get()).value();
    if (const std::string why =
            far_apart(cat("rows from ", at), kit::values(got), kit::values(clone(want.slice(at, at + n))));
        !why.empty())
      return why;
    at += n;
  }
  return "";
}

std::string check_planned(const Combination& c) {
  const auto model = built(config_of(c), DType::f32, Device::meta);
  const kit::Batch batch = kit::random_batch({5, 1, 7}, model->config(), 4, Device::meta);
  Tape tape;
  tape.backward(kit::loss(*model, batch, kit::labels_for(*model, batch), 0, 0.1));
  return "";
}

}  // namespace lithe::conformance
