#include "tests/support/model_kit.h"

#include <cmath>
#include <cstring>

#include "lithe/ops/basic.h"

namespace lithe::kit {

Bench::Bench(DType dtype, DType compute, Device device, uint64_t seed)
    : context_{.parameters = &parameters_,
               .device = device,
               .dtype = dtype,
               .compute = compute,
               .seed = seed,
               .layers = 1,
               .trainable = true} {}

Tensor Bench::operator[](const std::string& name) {
  Parameter* p = parameters_.find(name);
  check(p, "test", "no parameter '", name, "'");
  return p->master.value();
}

void randomise(Parameters& parameters, uint64_t seed, double matrix_deviation) {
  for (Parameter& p : parameters.all()) {
    const Tensor x = p.master.value();
    if (x.is_meta()) continue;
    const RandomKey key{.seed = seed, .purpose = purpose_of(p.name)};
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double u = random_normal(key, uint64_t(i));
      set_value(x, i, p.decay ? matrix_deviation * u : value_at(x, i) + 0.2 * u);
    }
  }
  parameters.refresh_views();
}

void jitter(Parameters& parameters, double relative, uint64_t seed) {
  if (relative == 0) return;
  for (Parameter& p : parameters.all()) {
    const Tensor x = p.master.value();
    const RandomKey key{.seed = seed, .purpose = purpose_of("jitter." + p.name)};
    for (int64_t i = 0; i < x.numel(); ++i)
      set_value(x, i, value_at(x, i) * (1 + relative * (2 * random_uniform(key, uint64_t(i)) - 1)));
  }
  parameters.refresh_views();
}

void copy_values(Parameters& to, const Parameters& from) {
  for (const Parameter& p : from.all()) {
    Parameter* other = to.find(p.name);
    check(other, "test", "no parameter '", p.name, "'");
    const Tensor x = other->master.value();
    for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value_at(p.master.value(), i));
  }
  to.refresh_views();
}

double gradient_error(Parameters& parameters, const std::function<std::vector<Var>(const std::vector<Var>&)>& f,
                      const std::vector<Tensor>& inputs, std::string* where) {
  constexpr double kStep = 1e-5;
  const auto weights_of = [](const Tensor& y, size_t output) {
    const Tensor w = normal(y.shape(), DType::f64, 7 + output);
    if (y.numel() == 1) set_value(w, 0, 1);
    return w;
  };
  std::vector<Var> vars;
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    vars.push_back(Var::leaf(clone(inputs[i])));
    names.push_back(cat("input ", i));
  }
  const std::vector<Var> in = vars;
  for (Parameter& p : parameters.all()) {
    if (p.master.ref()) p.master.ref()->grad = Tensor();  // else it follows means
    vars.push_back(p.master);
    names.push_back(p.name);
  }
  const auto weighted = [&] {
    const Rehearsal training;  // what is differentiated is the training pass
    const std::vector<Var> ys = f(in);
    double sum = 0;
    for (size_t o = 0; o < ys.size(); ++o) {
      const Tensor w = weights_of(ys[o].value(), o);
      for (int64_t i = 0; i < w.numel(); ++i) sum += value_at(w, i) * value_at(ys[o].value(), i);
    }
    return sum;
  };
  {
    Tape tape;
    const std::vector<Var> ys = f(in);
    std::vector<GradRef> refs;
    for (const Var& y : ys) refs.push_back(y.ref());
    const Var total = record_many("total", refs, {tensor_f64({1}, {0})}, [&](const std::vector<Tensor>&, Grads& g) {
      for (size_t o = 0; o < ys.size(); ++o) g.give(refs[o], weights_of(ys[o].value(), o));
    })[0];
    tape.backward(total);
  }
  double worst = 0;
  for (size_t v = 0; v < vars.size(); ++v) {
    const Tensor x = vars[v].value(), grad = vars[v].grad();
    std::vector<double> numeric;
    double largest = 1;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double old = value_at(x, i), exact = grad.defined() ? value_at(grad, i) : 0;
      const auto difference = [&](double step) {
        set_value(x, i, old + step);
        const double up = weighted();
        set_value(x, i, old - step);
        const double down = weighted();
        set_value(x, i, old);
        return (up - down) / (2 * step);
      };
      numeric.push_back(difference(kStep));
      // Where f bends so much that the difference is rough, a second one takes its leading error away (Richardson).
      if (std::abs(exact - numeric.back()) > 1e-7 * std::max(1.0, std::abs(exact)))
        numeric.back() = (4 * difference(kStep / 2) - numeric.back()) / 3;
      largest = std::max(largest, std::abs(numeric.back()));
    }
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double exact = grad.defined() ? value_at(grad, i) : 0;
      const double error = std::abs(exact - numeric[size_t(i)]) / largest;
      if (error <= worst) continue;
      worst = std::isnan(error) ? INFINITY : error;
      if (where)
        *where = cat(names[v], " element ", i, " of ", x.shape(), ": gradient ", exact, ", differences ",
                     numeric[size_t(i)]);
    }
  }
  return worst;
}

ModelConfig model_config(const std::string& yaml, const std::string& more) {
  Node node = parse_yaml(yaml, "test");
  const Node changes = parse_yaml("{" + more + "}", "test");
  for (const auto& [key, value] : changes.entries()) node.set(key, value);
  return read_model_config(node);
}

Batch random_batch(const std::vector<int64_t>& lengths, int64_t vocab, uint64_t seed, Device device) {
  std::vector<int64_t> offsets{0};
  for (int64_t n : lengths) offsets.push_back(offsets.back() + n);
  Batch batch{random_ids(offsets.back(), vocab, seed, device), empty({offsets.back()}, DType::i32, device),
              Sequences(offsets, {}, device)};
  if (device == Device::meta) return batch;
  int32_t* labels = batch.labels.data<int32_t>();
  for (size_t b = 0; b + 1 < offsets.size(); ++b)
    for (int64_t i = offsets[b]; i < offsets[b + 1]; ++i)
      labels[i] = i + 1 < offsets[b + 1] ? batch.ids.data<int32_t>()[i + 1] : -1;
  return batch;
}

namespace {

Sequences label_sequences(const Head::LabelCount& count, const Sequences& sequences) {
  if (!count.own_lengths) return {};
  std::vector<int64_t> offsets{0};
  for (int64_t b = 0; b < sequences.count(); ++b) offsets.push_back(offsets.back() + sequences.length(b) / 2);
  return Sequences(offsets);
}

}  // namespace

Tensor labels_for(const Head::LabelCount& count, const Sequences& sequences, const Tensor& labels) {
  const int64_t wanted = count.own_lengths ? label_sequences(count, sequences).rows() : count.labels;
  const Tensor out = empty({wanted}, DType::i32, labels.device());
  if (out.is_meta()) return out;
  for (int64_t i = 0; i < wanted; ++i) out.data<int32_t>()[i] = labels.data<int32_t>()[i % labels.numel()];
  for (int64_t i = 0; i < out.numel(); ++i) {
    int32_t& label = out.data<int32_t>()[i];
    if (label >= 0) label %= int32_t(count.classes);
    if (count.own_lengths) label = std::max(label, 0);
  }
  return out;
}

LossArgs loss_args(const Head::LabelCount& count, const Sequences& sequences, const Tensor& labels, double smoothing,
                   double scale, LossSums* sums) {
  return {.labels = labels,
          .smoothing = count.own_lengths ? 0 : smoothing,
          .scale = scale,
          .sums = sums,
          .label_sequences = label_sequences(count, sequences)};
}

Batch random_batch(const std::vector<int64_t>& lengths, const ModelConfig& config, uint64_t seed, Device device) {
  Batch batch = random_batch(lengths, config.vocab_size, seed, device);
  batch.ids = random_tokens(batch.ids.numel(), config, seed, device);
  if (reads_source(config.architecture)) add_sources(batch, config, seed + 1, device);
  return batch;
}

void add_sources(Batch& batch, const ModelConfig& config, uint64_t seed, Device device) {
  std::vector<int64_t> offsets{0};
  for (int64_t b = 0; b < batch.sequences.count(); ++b)
    offsets.push_back(offsets.back() + std::vector<int64_t>{3, 6, 1}[size_t(b % 3)]);
  batch.sources = Sequences(offsets, {}, device);
  batch.source = random_tokens(offsets.back(), config, seed, device);
}

ModelInput input_of(const Batch& batch) {
  ModelInput input{batch.ids, batch.sequences};
  if (batch.source.defined()) input.sources[kSource] = {batch.source, batch.sources};
  return input;
}

std::map<std::string, Tensor> tree_columns(const std::vector<std::string>& names, const Sequences& sequences) {
  std::map<std::string, Tensor> out;
  const int64_t rows = sequences.rows();
  for (const std::string& name : names) {
    const bool parser = name == "head_probabilities";
    const Tensor column = empty(parser ? Shape{rows, 4} : Shape{rows}, DType::i32, sequences.positions().device());
    out[name] = column;
    if (column.is_meta()) continue;
    for (int64_t b = 0; b < sequences.count(); ++b)
      for (int64_t i = 0; i < sequences.length(b); ++i) {
        const auto word = int32_t(sequences.past(b) + i), head = (word + 1) / 2;
        const int64_t n = sequences.offset(b) + i;
        int32_t* to = column.data<int32_t>() + n * (parser ? 4 : 1);
        if (parser) {
          const float sure = word ? 0.75f : 1.0f, rest = 1 - sure;
          to[0] = head, to[2] = word ? 0 : -1;
          std::memcpy(to + 1, &sure, 4), std::memcpy(to + 3, &rest, 4);
        } else if (name == "word" || name == "span") {
          *to = word;
        } else if (name == "chunk") {
          *to = word == 2 ? -1 : word / 5;
        } else if (name == "head") {
          *to = head;
        } else if (name == "depth") {
          *to = 3 + word % 2;
        } else if (name == "common") {
          *to = 1 + word % 3 % 2;
        } else {
          *to = word % 3;  // a tag, or none
        }
      }
  }
  return out;
}

ModelInput input_of(const Model& model, const Batch& batch) {
  ModelInput input = input_of(batch);
  input.columns = tree_columns(model.reads_columns(), batch.sequences);
  if (batch.source.defined())
    input.sources.at(kSource).columns = tree_columns(model.reads_columns(kSource), batch.sources);
  return input;
}

namespace {

ModelInput input_of(const Model& model, const Tensor& ids, const Sequences& sequences) {
  return {.tokens = ids, .sequences = sequences, .columns = tree_columns(model.reads_columns(), sequences)};
}

}  // namespace

Rows run(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state) {
  Pass pass;
  return model.run(input_of(model, ids, sequences), pass, state);
}

Var logits(const Model& model, const Tensor& ids, const Sequences& sequences, DecodeState* state) {
  return model.logits(run(model, ids, sequences, state));
}

Var loss(const Model& model, const Tensor& ids, const Tensor& labels, const Sequences& sequences, double smoothing,
         double scale, LossSums* sums, Tensor row_nll, const std::vector<int64_t>& predicted) {
  Pass pass;
  const Rows rows = model.run(input_of(model, ids, sequences), pass);
  return Model::with_losses(
      model.loss_of(
          rows, predicted,
          {.labels = labels, .smoothing = smoothing, .scale = scale, .sums = sums, .row_nll = std::move(row_nll)}),
      pass);
}

namespace {

Rows run(const Model& model, const Batch& batch, Pass& pass) {
  ModelInput input = input_of(model, batch);
  if (batch.jitter != 0 && input.sources.count(kSource)) {
    Pass of_source;
    Rows source = model.encode(input.sources.at(kSource), of_source);
    for (const auto& [name, loss] : of_source.losses()) pass.add_loss(name, loss);
    source.x = mul(source.x, normal(source.x.shape(), DType::f64, batch.jitter_seed, batch.jitter, 1));
    pass.set_source(kSource, source);
    input.sources.clear();
  }
  return model.run(input, pass);
}

}  // namespace

Var forward(const Model& model, const Batch& batch) {
  Pass pass;
  return run(model, batch, pass).x;
}

Var loss(const Model& model, const Batch& batch, const Tensor& labels, double smoothing, double scale, LossSums* sums) {
  Pass pass;
  const Rows rows = run(model, batch, pass);
  return Model::with_losses(
      model.loss_of(rows, {},
                    loss_args(model.label_count(rows.sequences), batch.sequences, labels, smoothing, scale, sums)),
      pass);
}

Tensor random_tokens(int64_t n, const ModelConfig& config, uint64_t seed, Device device) {
  const PartInfo& info = Registry::instance().get(Embedding::slot, config.embedding.type, {}).info;
  return info.token_width == 1 ? random_ids(n, config.vocab_size, seed, device) : random_codes(n, info, seed, device);
}

Tensor random_codes(int64_t n, const PartInfo& embedding, uint64_t seed, Device device) {
  const int64_t width = embedding.token_width;
  const Tensor out = empty({n, width}, DType::i32, device), types = random_ids(n, 12, seed);
  if (out.is_meta()) return out;
  const RandomKey key{.seed = 1, .purpose = purpose_of("kit.codes")};
  for (int64_t i = 0; i < n; ++i) {
    const int32_t type = types.data<int32_t>()[i];
    int32_t* code = out.data<int32_t>() + i * width;
    std::fill(code, code + width, 0);
    code[0] = std::min(type, 5);
    if (type < 5) continue;
    for (int64_t j = 1; j < width; ++j)
      code[j] = int32_t(uint32_t(random_below(
          key, uint64_t(type * width + j), embedding.payload_below ? uint64_t(embedding.payload_below) : 1ull << 32)));
  }
  return out;
}

std::vector<MixerMaps> maps(const Model& model, const Tensor& ids) {
  const NoGrad no_grad;
  Pass pass;
  pass.want(Tap::Kind::map);
  pass.want(Tap::Kind::map_logits);
  ModelInput one{ids, Sequences::single(ids.dim(0))};
  one.columns =
      tree_columns(model.reads_columns(reads_source(model.config().architecture) ? kSource : ""), one.sequences);
  reads_source(model.config().architecture) ? model.encode(one, pass) : model.run(one, pass);
  std::vector<MixerMaps> out;
  for (int64_t i = 0; i < model.config().num_hidden_layers; ++i) {
    const Tensor weights = pass.get({Tap::Kind::map, i}).value();
    out.push_back({.heads = weights.defined() ? weights.rows() / weights.cols() : 0,
                   .weights = weights,
                   .logits = pass.get({Tap::Kind::map_logits, i}).value()});
  }
  return out;
}

Batch alone(const Batch& batch, int64_t b) {
  const int64_t begin = batch.sequences.offset(b), end = batch.sequences.offset(b + 1);
  Batch one{clone(batch.ids.slice(begin, end)), clone(batch.labels.slice(begin, end)), Sequences::single(end - begin)};
  if (batch.source.defined()) {
    one.source = clone(batch.source.slice(batch.sources.offset(b), batch.sources.offset(b + 1)));
    one.sources = Sequences::single(one.source.dim(0));
  }
  return one;
}

Results run_training(Model& model, const Batch& batch, double smoothing) {
  const Tensor labels = labels_for(model, batch);
  int64_t labelled = 0;
  for (double label : values(labels)) labelled += label >= 0;
  Results out;
  for (Parameter& p : model.parameters().all())
    if (p.master.ref()) p.master.ref()->grad = Tensor();
  {
    Tape tape;
    Pass pass;
    const Rows rows = run(model, batch, pass);
    out["rows"] = values(rows.x.value());
    out["logits"] = values(model.logits(rows).value());
  }
  LossSums sums;
  {
    Tape tape;
    const Var loss = kit::loss(model, batch, labels, smoothing, 1.0 / double(labelled), &sums);
    out["loss"] = {sums.loss / double(labelled)};
    out["nll"] = {sums.nll / double(labelled)};
    tape.backward(loss);
  }
  for (Parameter& p : model.parameters().all()) {
    const Tensor grad = p.master.grad();
    out["gradient of " + p.name] =
        grad.defined() ? values(grad) : std::vector<double>(size_t(p.master.value().numel()), 0.0);
  }
  return out;
}

Bounded rounding_bound(const std::function<Results(double, uint64_t)>& run, double relative, double safety) {
  Bounded out{run(0, 0), {}};
  for (const auto& [name, exact] : out.exact) out.bound[name].assign(exact.size(), 0);
  for (uint64_t draw = 1; draw <= 8; ++draw) {  // of fewer, the largest is itself too uncertain
    const Results moved = run(relative, draw);
    for (const auto& [name, exact] : out.exact)
      for (size_t i = 0; i < exact.size(); ++i)
        out.bound[name][i] = std::max(out.bound[name][i], std::abs(moved.at(name)[i] - exact[i]));
  }
  for (auto& [name, bound] : out.bound) {
    double squares = 0;
    for (double b : bound) squares += b * b;
    const double rms = bound.empty() ? 0 : std::sqrt(squares / double(bound.size()));
    for (double& b : bound) b = safety * (b + rms);
  }
  return out;
}

double rounding(DType dtype, int64_t length) {
  const double sums = epsilon_of(dtype == DType::f64 ? DType::f64 : DType::f32) * std::sqrt(double(length));
  return 2 * epsilon_of(dtype) + sums;
}

std::string compare(const Results& got, const Bounded& want, double* closest) {
  double worst = 0;
  std::string message;
  for (const auto& [name, exact] : want.exact) {
    const auto found = got.find(name);
    if (found == got.end() || found->second.size() != exact.size()) return "no " + name + " of the same size";
    const auto& bound = want.bound.at(name);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double error = std::abs(found->second[i] - exact[i]);
      if (error == 0) continue;
      const double ratio = std::isnan(error) ? INFINITY : error / bound[i];
      if (ratio <= worst) continue;
      worst = ratio;
      std::ostringstream text;
      text.precision(17);
      text << name << "[" << i << "]: got " << found->second[i] << ", want " << exact[i] << ", apart by " << error
           << ", bound " << bound[i];
      message = text.str();
    }
  }
  if (closest) *closest = worst;
  return worst <= 1 ? "" : message;
}

}  // namespace lithe::kit
