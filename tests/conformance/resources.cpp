#include <filesystem>

#include "lithe/model/safetensors.h"
#include "tests/conformance/checks.h"

namespace lithe::conformance {
namespace {

constexpr MemoryClass kClasses[] = {MemoryClass::weights,     MemoryClass::gradients, MemoryClass::optimizer,
                                    MemoryClass::activations, MemoryClass::decode,    MemoryClass::workspace};

// What a run adds to the ledger of a device at its peak, class by class.
std::map<std::string, int64_t> peak_of(Device device, const std::function<void()>& run) {
  Ledger& book = ledger(device);
  std::map<std::string, int64_t> before, out;
  for (MemoryClass c : kClasses) before[name_of(c)] = book.current(c);
  book.reset_peak();
  run();
  for (MemoryClass c : kClasses) out[name_of(c)] = book.peak(c) - before[name_of(c)];
  return out;
}

std::string show(const std::map<std::string, int64_t>& bytes) {
  std::string out;
  for (const auto& [name, n] : bytes)
    if (n) out += cat(out.empty() ? "" : ", ", name, " ", n);
  return out;
}

Path scratch(const std::string& name) {
  static const Path directory = [] {
    Path made = std::filesystem::temp_directory_path() / cat("lithe_conformance_", getpid());
    std::filesystem::create_directories(made);
    return made;
  }();
  return directory / name;
}

// Whether a cache of another type means something to a model.
bool keeps_rows(const Model& model) {
  return model.state_bytes({1}, {}, DType::i8) != model.state_bytes({1}, {}, model.compute_dtype());
}

}  // namespace

std::string check_state_bytes(const PartCase& c) {
  for (const auto& [compute, cache] : {std::pair<DType, std::optional<DType>>{DType::f32, {}},
                                       {DType::bf16, {}},
                                       {DType::f32, DType::i8},
                                       {DType::bf16, DType::i8},
                                       {DType::f32, DType::u8},
                                       {DType::bf16, DType::u8}}) {
    const auto model = build(c, DType::f32, compute);
    if (cache && !keeps_rows(*model)) continue;
    const int64_t sequences = 2, capacity = 32;
    Ledger& book = ledger(Device::cpu);
    const int64_t before = book.current(MemoryClass::decode);
    const auto state = model->make_state(sequences, capacity, cache);
    std::vector<int64_t> sources;
    if (const kit::Batch two = kit::random_batch({1, 1}, model->config(), 9); two.source.defined()) {
      const bool sums = model->state_bytes({0, 0}, {0, 0}, cache) > 0;  // of constant size: the decoder's own are there
      if (!sums && state->bytes()) return cat("a state without a source holds ", state->bytes(), " bytes");
      model->read_sources(*state, kit::input_of(two).sources);
      for (int64_t b = 0; b < sequences; ++b) sources.push_back(two.sources.length(b));
    }
    // Blocks are booked in units of 64 bytes; a layer may keep a few of them for each sequence.
    const int64_t wanted = model->state_bytes(std::vector<int64_t>(sequences, capacity), sources, cache),
                  slack = 64 * 8 * sequences * model->config().num_hidden_layers;
    const auto booked = [&] { return book.current(MemoryClass::decode) - before; };
    if (booked() > wanted + slack)
      return cat("the ledger has ", booked(), " bytes for ", sequences, " sequences of ", capacity,
                 " tokens, the formula ", wanted, " in ", compute);
    int64_t counts[2] = {0, 0};
    for (const auto& [a, b] : {std::pair<int64_t, int64_t>{5, 2}, {1, 0}, {0, 4}, {1, 1}}) {
      kit::forward(*model, kit::random_tokens(a + b, model->config(), 3), model->continue_sequences(*state, {a, b}),
                   state.get());
      counts[0] += a;
      counts[1] += b;
      const int64_t formula = model->state_bytes({counts[0], counts[1]}, sources, cache);
      if (state->bytes() != formula)
        return cat("the state holds ", state->bytes(), " bytes after ", counts[0], " and ", counts[1],
                   " tokens, the formula says ", formula, " in ", compute);
      // A state may grow as it goes, up to what it holds at its capacity. Layers whose keys are the source's rows share
      // them.
      if ((booked() < formula && sources.empty()) || booked() > wanted + slack)
        return cat("the ledger has ", booked(), " bytes after ", counts[0], " and ", counts[1],
                   " tokens, the formulas say ", formula, ", and ", wanted, " at capacity, in ", compute);
    }
  }
  return "";
}

std::string check_meta_run(const PartCase& c) {
  struct Run {
    std::map<std::string, std::string> shapes;
    std::map<std::string, std::map<std::string, int64_t>> peaks;  // of each phase
  };
  const auto run = [&](Device device, DType compute, bool recompute) {
    Run out;
    std::unique_ptr<Model> model;
    out.peaks["building"] = peak_of(device, [&] { model = build(c, DType::f32, compute, device); });
    const kit::Batch batch = kit::random_batch({5, 1, 7}, model->config(), 6, device);
    out.peaks["forward"] = peak_of(device, [&] { kit::forward(*model, batch); });
    model->set_recompute(recompute);
    for (const char* step : {"first step", "second step"})  // the second meets gradients that are there
      out.peaks[step] = peak_of(device, [&] {
        Tape tape;
        tape.backward(kit::loss(*model, batch, kit::labels_for(*model, batch), 0.1, 0.1));
      });
    for (const Parameter& p : model->parameters().all())
      out.shapes[p.name] =
          cat(p.master.value().shape(), p.master.grad().defined() ? cat(p.master.grad().shape()) : " no gradient");
    out.shapes["count"] = std::to_string(model->parameters().count());
    out.peaks["decoding"] = peak_of(device, [&] {
      const auto state = model->make_state(2, 12);
      const kit::Batch two = kit::random_batch({1, 1}, model->config(), 9, device);
      if (two.source.defined()) model->read_sources(*state, kit::input_of(two).sources);
      for (int64_t n : {4, 1}) {
        const Sequences sequences = model->continue_sequences(*state, {n, n});
        const Rows rows =
            kit::run(*model, kit::random_tokens(2 * n, model->config(), 7, device), sequences, state.get());
        out.shapes[cat("rows ", n)] = cat(rows.x.shape(), model->logits(rows).shape());
      }
      out.shapes["state"] = std::to_string(state->bytes());
    });
    return out;
  };
  for (DType compute : {DType::f32, DType::bf16})
    for (bool recompute : {false, true}) {
      const Run real = run(Device::cpu, compute, recompute), meta = run(Device::meta, compute, recompute);
      for (const auto& [name, shape] : real.shapes)
        if (meta.shapes.at(name) != shape) return cat(name, ": real ", shape, ", meta ", meta.shapes.at(name));
      for (const auto& [phase, peak] : real.peaks)
        if (meta.peaks.at(phase) != peak)
          return cat(phase, " in ", compute, recompute ? " with recomputation" : "", ": real peak ", show(peak),
                     "; meta ", show(meta.peaks.at(phase)));
    }
  return "";
}

std::string check_files(const PartCase& c) {
  const auto model = build(c, DType::f32, DType::f32);
  auto& parameters = model->parameters();
  int64_t count = 0;
  for (const Parameter& p : parameters.all()) count += p.master.shape().numel();
  if (parameters.count() != count) return cat("count() is ", parameters.count(), ", the shapes have ", count);

  const Path weights = scratch("model.safetensors"), config = scratch("config.json");
  save_weights(*model, weights);
  save_config(model->config(), config);
  const SafetensorsFile file(weights);
  int64_t stored = 0;
  for (const auto& [name, entry] : file.entries()) stored += entry.shape.numel();
  if (stored != count) return cat("the file has ", stored, " numbers, the model ", count);

  Model other(load_config(config), ModelOptions{.seed = 99, .trainable = true});
  load_weights(other, weights);
  for (const Parameter& p : parameters.all()) {
    Parameter* loaded = other.parameters().find(p.name);
    if (!loaded) return p.name + " is missing in the model made from config.json";
    if (const std::string difference = kit::bit_difference(p.master.value(), loaded->master.value());
        !difference.empty())
      return p.name + ": " + difference;
  }
  const kit::Batch batch = kit::random_batch({5, 3}, model->config(), 8);
  if (const std::string difference =
          kit::bit_difference(kit::forward(*model, batch).value(), kit::forward(other, batch).value());
      !difference.empty())
    return "rows: " + difference;

  const Path again = scratch("again.safetensors"), config_again = scratch("again.json");
  save_weights(other, again);
  save_config(other.config(), config_again);
  if (read_file(weights) != read_file(again)) return "saving the loaded weights gives another file";
  if (read_file(config) != read_file(config_again)) return "saving the loaded configuration gives another file";
  return "";
}

std::string check_options(const PartCase& part) {
  const Registry::Entry& entry = Registry::instance().get(part.slot, part.name, {});
  if (entry.info.summary.empty()) return "no summary";
  const Node defaults = entry.resolve(Node(), part.name);
  if (to_yaml(entry.resolve(defaults, part.name)) != to_yaml(defaults))
    return cat("the defaults resolve to others:\n", to_yaml(defaults), "\n",
               to_yaml(entry.resolve(defaults, part.name)));
  entry.resolve(parse_yaml(part.options, "samples"), part.name);
  for (const FieldDoc& field : entry.describe()) {
    if (field.help.empty()) return field.path + " has no help";
    if (field.path.find('.') == std::string::npos && !defaults.find(field.path))
      return field.path + " is described but not among the options";
  }
  Node wrong = Node::map();
  wrong.set("no_such_option", Node::scalar("1"));
  try {
    entry.resolve(wrong, part.name);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) return cat("an unknown option must be wrong usage, got ", error.what());
    return std::string(error.what()).find("no_such_option") == std::string::npos
               ? cat("the error does not name the unknown option: ", error.what())
               : "";
  }
  return "an unknown option is accepted";
}

}  // namespace lithe::conformance
