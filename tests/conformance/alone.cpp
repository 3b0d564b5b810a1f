// How a part of each slot is run alone: the one place of the suite that knows the slots' interfaces.
#include "lithe/nn/combiner.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/conformance/cases.h"

namespace lithe::conformance {
namespace {

const Sequences& nine_rows() {
  static const Sequences sequences({0, 4, 5, 9});
  return sequences;
}

PartChoice choice(const std::string& type, const std::string& options = "{}") {
  return {type, parse_yaml(options, "test")};
}

Tensor input(int64_t rows, int64_t cols, uint64_t seed) { return kit::normal({rows, cols}, DType::f64, seed); }

template <class Interface>
std::shared_ptr<Interface> make(Alone& alone, const PartChoice& part, const typename Interface::Args& args,
                                const std::string& path = "part") {
  std::shared_ptr<Interface> made = Registry::instance().make<Interface>(part, alone.bench->scope(path), args);
  alone.kept.push_back(made);
  return made;
}

// The results of a part, and the auxiliary losses that it left.
std::vector<Var> with_losses(std::vector<Var> results, const Pass& pass) {
  for (const auto& [name, loss] : pass.losses()) results.push_back(loss);
  return results;
}

}  // namespace

void give_columns(Pass& pass, const lithe::Part& part, const Sequences& sequences) {
  for (const auto& [name, column] : kit::tree_columns(part.reads_columns(), sequences)) pass.give(name, column);
}

namespace {

// Layers x + silu(x W) for a stack to run.
struct TwoLayers final : Layers {
  std::vector<Var> weights;
  int64_t count() const override { return 2; }
  Rows run(int64_t layer, const Rows& x, const Pass& pass, const std::vector<double>& gains) const override {
    const Var added = change(layer, 0, x, pass.within(layer));
    return {add(x.x, added, 1, gains.empty() ? 1 : gains[0]), x.sequences};
  }
  void skip(int64_t, const Rows&, const Pass&) const override {}
  int64_t sub_layers(int64_t) const override { return 1; }
  Var change(int64_t layer, int64_t, const Rows& x, const Pass&) const override {
    return activate(kernels::Activation::silu, linear(x.x, weights[size_t(layer)]));
  }
};

using Maker = void (*)(Alone&, const PartCase& part, int64_t width);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all{
      {"embedding",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         const PartInfo& info = part_case.info();
         auto part = make<Embedding>(a, choice(part_case.name, part_case.options),
                                     {.vocab_size = 7, .hidden_size = d, .token_width = info.token_width});
         const Tensor ids = info.token_width == 1 ? kit::ids_of({3, 0, 3, 6, 1}) : kit::random_codes(5, info, 1);
         a.run = [part, ids](const std::vector<Var>&) {
           Pass pass;
           give_columns(pass, *part, Sequences::single(ids.dim(0)));
           return std::vector<Var>{part->forward(ids, pass)};
         };
       }},
      {"position",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Position>(a, choice(part_case.name, part_case.options),
                                    {.hidden_size = 2 * d, .max_position_embeddings = 6, .num_attention_heads = 2});
         part->check_head_dim(d);
         part->check_heads({.heads = 2, .key_dim = d, .value_dim = d});
         a.inputs = {input(9, 2 * d, 1), input(9, 2 * d, 2)};
         a.run = [part, d](const std::vector<Var>& in) {
           std::vector<Var> out{part->add_to(in[0], nine_rows()), part->turn(in[1], nine_rows(), d)};
           const Var turned = out[1];
           AttendOptions o{.heads = 2, .kv_heads = 2, .mask = {.causal = true}};
           if (part->biases()) {
             FieldInput pairs{turned, turned, nine_rows(), Pass::nowhere(), turned, {}, 0.5};
             for (int64_t b = 0; b < nine_rows().count(); ++b) pairs.keys.push_back({0, nine_rows().length(b)});
             o.bias = part->bias(pairs, 2);
             o.values = part->values();
           }
           if (part->biases()) out.push_back(attend(turned, turned, turned, nine_rows(), nine_rows(), o));
           return out;
         };
       }},
      {"ffn",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Ffn>(a, choice(part_case.name, part_case.options), {.hidden_size = d});
         a.inputs = {input(9, d, 1)};
         a.run = [part](const std::vector<Var>& in) {
           const Pass pass;
           return with_losses({part->forward({in[0], nine_rows(), nullptr, pass})}, pass);
         };
       }},
      {"norm",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Norm>(a, choice(part_case.name, part_case.options), {.hidden_size = d});
         a.inputs = {input(6, d, 1)};
         a.run = [part](const std::vector<Var>& in) { return std::vector<Var>{part->forward(in[0])}; };
       }},
      {"residual",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto norm = make<Norm>(a, choice("layer"), {.hidden_size = d}, "norm");
         auto dropout = std::make_shared<Dropout>();
         a.kept.push_back(dropout);
         auto part = make<Residual>(a, choice(part_case.name, part_case.options),
                                    {.hidden_size = d, .norm = norm.get(), .dropout = dropout.get()});
         a.inputs = {input(6, d, 1), input(d, d, 2)};
         a.run = [part](const std::vector<Var>& in) {
           return std::vector<Var>{part->forward(in[0], [w = in[1]](const Var& x, int64_t) {
             return activate(kernels::Activation::silu, linear(x, w));
           })};
         };
       }},
      {"compressor",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part =
             make<Compressor>(a, choice(part_case.name, part_case.options), {.hidden_size = d, .causal = false});
         a.inputs = {input(9, d, 1)};
         a.inputs.push_back(input(9, 1, 2));
         a.run = [part](const std::vector<Var>& in) {
           const Pass pass;
           pass.within(0).put(Tap::Kind::received, in[1]);
           const Rows rows = part->forward({in[0], nine_rows()}, pass.within(1)).rows;
           std::vector<Var> out{rows.x};
           if (rows.log_presence.defined()) out.push_back(rows.log_presence);
           return with_losses(out, pass);
         };
       }},
      {"combiner",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Combiner>(a, choice(part_case.name, part_case.options),
                                    {.hidden_size = d, .max_position_embeddings = 13, .encoders = 2});
         a.inputs = {input(9, d, 1), input(9, d, 2)};
         a.run = [part](const std::vector<Var>& in) {
           const Pass pass;
           return with_losses({part->forward({{in[0], nine_rows()}, {in[1], nine_rows()}}, pass).x}, pass);
         };
       }},
      {"expander",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Expander>(a, choice(part_case.name, part_case.options), {.hidden_size = d});
         a.inputs = {input(4, d, 1), input(9, d, 2)};
         a.run = [part](const std::vector<Var>& in) {
           const Pass pass;
           const Shortening from{{in[1], Sequences({0, 4, 5, 9})}, {0, 0, -1, 1, 2, 3, 3, 3, -1}};
           return with_losses({part->forward({in[0], Sequences({0, 2, 3, 4})}, from, pass)}, pass);
         };
       }},
      {"stack",
       [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part = make<Stack>(a, choice(part_case.name, part_case.options),
                                 {.hidden_size = d, .num_hidden_layers = 2, .compute = DType::f64});
         auto layers = std::make_shared<TwoLayers>();
         a.kept.push_back(layers);
         const int64_t width = part->layer_width(d);
         a.inputs = {input(9, d, 1), input(width, width, 2), input(width, width, 3)};
         a.run = [part, layers](const std::vector<Var>& in) {
           const Pass pass;
           layers->weights = {in[1], in[2]};
           return with_losses({part->forward(*layers, {in[0], nine_rows()}, pass).x}, pass);
         };
       }},
      {"head", [](Alone& a, const PartCase& part_case, int64_t d) {
         auto part =
             make<Head>(a, choice(part_case.name, part_case.options),
                        {.vocab_size = 7, .hidden_size = d, .num_labels = 3, .causal = part_case.info().causal});
         a.inputs = {input(9, d, 1)};
         const Head::LabelCount count = part->count(nine_rows());
         const Tensor labels = kit::labels_for(count, nine_rows(), kit::ids_of({0, 6, -1, 3, 3, 2, 5, -1, 1}));
         const auto read =
             std::make_shared<const ModelInput>(ModelInput{kit::ids_of({0, 6, 1, 3, 3, 2, 5, 1, 3}), nine_rows()});
         a.run = [part, labels, count, read](const std::vector<Var>& in) {
           Rows rows{in[0], nine_rows()};
           if (part->reads_tokens()) rows.read = read;
           return std::vector<Var>{part->logits(rows),
                                   part->loss(rows, kit::loss_args(count, nine_rows(), labels, 0.1, 0.7))};
         };
       }}};
  return all;
}

PartChoice mixer_around(const PartCase& part, int64_t heads) {
  if (part.slot == "mixer") return choice(part.name, part.options);
  Node inner = parse_yaml(part.options, "test");
  inner.set("type", Node::scalar(part.name));
  Node options = parse_yaml(cat("{num_attention_heads: ", heads, "}"), "test");
  options.set(part.slot, inner);
  return {part.slot == "memory" ? "memory_attention" : "attention", options};
}

// Calls make(width) for each width until one is taken.
template <class Make>
auto at_first_width(const PartCase& part, Make make) {
  std::string refusals;
  for (int64_t width : {5, 12, 16, 24, 32}) {
    try {
      return make(width);
    } catch (const Error& error) {
      check(error.code() == ExitCode::usage, "test", part, " at width ", width,
            " was refused, but not as wrong usage: ", error.what());
      refusals += cat("\n  width ", width, ": ", error.what());
    }
  }
  fail("test", part, " takes none of the widths that the suite tries:", refusals);
}

}  // namespace

bool mixes_tokens(const std::string& slot) {
  return slot == "mixer" || slot == "heads" || slot == "field" || slot == "output" || slot == "memory";
}

std::unique_ptr<AloneMixer> build_mixer(const PartCase& part, Sight sight, DType dtype, DType compute) {
  return at_first_width(part, [&](int64_t width) {
    auto out = std::make_unique<AloneMixer>(dtype, compute);
    out->width = width;
    out->mixer = Registry::instance().make<Mixer>(mixer_around(part, width % 4 ? 1 : 4), out->bench.scope(),
                                                  {.hidden_size = width,
                                                   .max_position_embeddings = 16,
                                                   .causal = sight == Sight::causal,
                                                   .cross = sight == Sight::cross});
    kit::randomise(out->bench.parameters(), 11);
    return out;
  });
}

std::unique_ptr<Alone> build_alone(const PartCase& part, bool causal) {
  if (mixes_tokens(part.slot)) {
    std::shared_ptr<AloneMixer> mixer =
        build_mixer(part, causal ? Sight::causal : Sight::bidirectional, DType::f64, DType::f64);
    auto out = std::make_unique<Alone>();
    out->bench = std::shared_ptr<kit::Bench>(mixer, &mixer->bench);
    out->inputs = {input(9, mixer->width, 1)};
    out->run = [mixer](const std::vector<Var>& in) {
      Pass pass;
      give_columns(pass, *mixer->mixer, nine_rows());
      return with_losses({mixer->mixer->forward({in[0], nine_rows(), nullptr, pass})}, pass);
    };
    return out;
  }
  const auto maker = makers().find(part.slot);
  check(maker != makers().end(), "test", "the conformance suite does not know how to run a part of slot '", part.slot,
        "' alone; say so in tests/conformance/alone.cpp");
  return at_first_width(part, [&](int64_t width) {
    auto out = std::make_unique<Alone>();
    maker->second(*out, part, width);
    kit::randomise(out->bench->parameters(), 11);
    return out;
  });
}

}  // namespace lithe::conformance
