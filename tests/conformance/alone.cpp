// How a part of each slot is run alone: the one place of the suite that knows the slots' interfaces.
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

using Maker = void (*)(Alone&, const std::string& name, int64_t width);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all{
      {"embedding",
       [](Alone& a, const std::string& name, int64_t d) {
         const PartInfo& info = Registry::instance().get(Embedding::slot, name, {}).info;
         auto part =
             make<Embedding>(a, choice(name), {.vocab_size = 7, .hidden_size = d, .token_width = info.token_width});
         const Tensor ids = info.token_width == 1 ? kit::ids_of({3, 0, 3, 6, 1}) : kit::random_codes(5, info, 1);
         a.run = [part, ids](const std::vector<Var>&) { return std::vector<Var>{part->forward(ids)}; };
       }},
      {"position",
       [](Alone& a, const std::string& name, int64_t d) {
         auto part = make<Position>(a, choice(name), {.hidden_size = d, .max_position_embeddings = 6});
         part->check_head_dim(d);
         a.inputs = {input(9, d, 1), input(9, 2 * d, 2)};
         a.run = [part, d](const std::vector<Var>& in) {
           return std::vector<Var>{part->add_to(in[0], nine_rows()), part->turn(in[1], nine_rows(), d)};
         };
       }},
      {"ffn",
       [](Alone& a, const std::string& name, int64_t d) {
         auto part = make<Ffn>(a, choice(name), {.hidden_size = d});
         a.inputs = {input(6, d, 1)};
         a.run = [part](const std::vector<Var>& in) { return std::vector<Var>{part->forward(in[0])}; };
       }},
      {"norm",
       [](Alone& a, const std::string& name, int64_t d) {
         auto part = make<Norm>(a, choice(name), {.hidden_size = d});
         a.inputs = {input(6, d, 1)};
         a.run = [part](const std::vector<Var>& in) { return std::vector<Var>{part->forward(in[0])}; };
       }},
      {"residual",
       [](Alone& a, const std::string& name, int64_t d) {
         auto norm = make<Norm>(a, choice("layer"), {.hidden_size = d}, "norm");
         auto dropout = std::make_shared<Dropout>();
         a.kept.push_back(dropout);
         auto part = make<Residual>(a, choice(name), {.norm = norm.get(), .dropout = dropout.get()});
         a.inputs = {input(6, d, 1), input(d, d, 2)};
         a.run = [part](const std::vector<Var>& in) {
           return std::vector<Var>{part->forward(
               in[0], [w = in[1]](const Var& x) { return activate(kernels::Activation::silu, linear(x, w)); })};
         };
       }},
      {"head", [](Alone& a, const std::string& name, int64_t d) {
         auto part = make<Head>(a, choice(name), {.vocab_size = 7, .hidden_size = d, .num_labels = 3});
         a.inputs = {input(9, d, 1)};
         const Tensor labels = kit::labels_for(part->count(nine_rows()), kit::ids_of({0, 6, -1, 3, 3, 2, 5, -1, 1}));
         a.run = [part, labels](const std::vector<Var>& in) {
           return std::vector<Var>{
               part->logits(in[0], nine_rows()),
               part->loss(in[0], {.sequences = nine_rows(), .labels = labels, .smoothing = 0.1, .scale = 0.7})};
         };
       }}};
  return all;
}

PartChoice mixer_around(const std::string& slot, const std::string& name, int64_t heads) {
  if (slot == "mixer") return choice(name);
  return choice("attention", cat("{num_attention_heads: ", heads, ", ", slot, ": ", name, "}"));
}

// Calls make(width) for each width until one is taken.
template <class Make>
auto at_first_width(const std::string& slot, const std::string& name, Make make) {
  std::string refusals;
  for (int64_t width : {5, 12, 16, 24, 32}) {
    try {
      return make(width);
    } catch (const Error& error) {
      check(error.code() == ExitCode::usage, "test", slot, " ", name, " at width ", width,
            " was refused, but not as wrong usage: ", error.what());
      refusals += cat("\n  width ", width, ": ", error.what());
    }
  }
  fail("test", slot, " ", name, " takes none of the widths that the suite tries:", refusals);
}

}  // namespace

bool mixes_tokens(const std::string& slot) {
  return slot == "mixer" || slot == "heads" || slot == "field" || slot == "output";
}

std::unique_ptr<AloneMixer> build_mixer(const std::string& slot, const std::string& name, Sight sight, DType dtype,
                                        DType compute) {
  return at_first_width(slot, name, [&](int64_t width) {
    auto out = std::make_unique<AloneMixer>(dtype, compute);
    out->width = width;
    out->mixer = Registry::instance().make<Mixer>(mixer_around(slot, name, width % 4 ? 1 : 4), out->bench.scope(),
                                                  {.hidden_size = width,
                                                   .max_position_embeddings = 16,
                                                   .causal = sight == Sight::causal,
                                                   .cross = sight == Sight::cross});
    kit::randomise(out->bench.parameters(), 11);
    return out;
  });
}

std::unique_ptr<Alone> build_alone(const std::string& slot, const std::string& name, bool causal) {
  if (mixes_tokens(slot)) {
    std::shared_ptr<AloneMixer> mixer =
        build_mixer(slot, name, causal ? Sight::causal : Sight::bidirectional, DType::f64, DType::f64);
    auto out = std::make_unique<Alone>();
    out->bench = std::shared_ptr<kit::Bench>(mixer, &mixer->bench);
    out->inputs = {input(9, mixer->width, 1)};
    out->run = [mixer](const std::vector<Var>& in) {
      return std::vector<Var>{mixer->mixer->forward({in[0], nine_rows(), nullptr})};
    };
    return out;
  }
  const auto maker = makers().find(slot);
  check(maker != makers().end(), "test", "the conformance suite does not know how to run a part of slot '", slot,
        "' alone; say so in tests/conformance/alone.cpp");
  return at_first_width(slot, name, [&](int64_t width) {
    auto out = std::make_unique<Alone>();
    maker->second(*out, name, width);
    kit::randomise(out->bench->parameters(), 11);
    return out;
  });
}

}  // namespace lithe::conformance
