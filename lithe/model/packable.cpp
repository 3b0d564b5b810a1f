#include "lithe/model/packable.h"

#include <functional>

#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/model/model.h"
#include "lithe/nn/placed_embedding.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

Var packed_on_meta(const std::string& name, const Shape& shape, bool by_rows, DType dtype) {
  auto m = std::make_shared<kernels::PackedMatrix>();
  m->name = name;
  m->by_rows = by_rows;
  m->outputs = shape[by_rows ? 0 : 1];
  m->inputs = shape[by_rows ? 1 : 0];
  kernels::allocate(*m, Device::meta);
  return Var(std::move(m), dtype);
}

// A token after another, which may read the weights in another way.
void decode(const Model& model, const ModelInput& input) {
  const auto state = model.make_state(1, 2);
  if (!input.sources.empty()) model.read_sources(*state, input.sources);
  for (int64_t i = 0; i < std::min<int64_t>(2, model.config().max_position_embeddings); ++i) {
    Pass pass;
    ModelInput one{input.tokens.slice(0, 1), model.continue_sequences(*state, {1})};
    for (const auto& [name, column] : input.columns) one.columns[name] = column.slice(0, 1);
    model.logits(model.run(one, pass, state.get()));
  }
}

// Two tokens, and with `guests` what else can stand among them: of each modality one whole, or two rows.
ModelInput input_of(const Model& model, const ModelConfig& config, const std::string& source, bool guests) {
  const int64_t texts = std::min<int64_t>(2, config.max_position_embeddings);
  int64_t rows = 0;
  std::map<std::string, ModelInput::Guests> modalities;
  if (guests)
    for (const auto& [name, embedding] : model.modalities(source)) {
      const PlacedEmbedding* const placed = embedding->placed();
      const int64_t whole = placed && placed->rows() ? placed->rows() : 2;
      ModelInput::Guests& of = modalities[name];
      of.tokens = empty({whole, embedding->width()}, DType::i32, Device::meta);
      for (int64_t r = 0; r < whole; ++r) of.rows.push_back(rows++);
    }
  // What has no room for both is read without a text.
  if (rows == 0 || rows + texts <= config.max_position_embeddings) rows += texts;
  const Shape shape = config.token_width > 1 ? Shape{rows, config.token_width} : Shape{rows};
  ModelInput input{empty(shape, DType::i32, Device::meta), Sequences::single(rows, Device::meta)};
  for (const std::string& name : model.reads_columns(source))
    input.columns[name] = empty({rows}, DType::i32, Device::meta);
  input.modalities = std::move(modalities);
  return input;
}

ModelInput input_of(const Model& model, bool guests) {
  const ModelConfig& config = model.config();
  ModelInput input = input_of(model, config, "", guests);
  for (const std::string& name : config.source_names())
    input.sources[name] = input_of(model, config.encoder_config(name), name, guests);
  return input;
}

bool reads_modalities(const Model& model) {
  bool any = !model.modalities().empty();
  for (const std::string& name : model.config().source_names()) any = any || !model.modalities(name).empty();
  return any;
}

// What the rows of every exit predict.
void leave(const Model& model, const ModelInput& input) {
  Pass pass;
  model.want_exits(pass);
  model.run(input, pass);
  for (int64_t i = 0; i < int64_t(model.exits().size()); ++i) {
    const Rows rows = model.exit_rows(pass, i, input.sequences);
    const Tensor labels = empty({model.label_count(rows.sequences).labels}, DType::i32, Device::meta);
    model.loss_of_exit(i, rows, {}, {.labels = labels});
  }
}

// Not all that a part can read is asked of every model: one that refuses the trial was not read there.
void try_trial(const std::function<void()>& trial) {
  try {
    trial();
  } catch (const PackedMismatch&) {
    throw;
  } catch (const Error&) {
  }
}

}  // namespace

std::map<std::string, Packable> packable_matrices(const ModelConfig& config) {
  const NoGrad no_grad;
  Model model(config, {.device = Device::meta});
  std::map<std::string, Var> numbers;
  std::map<std::string, Packable> out;
  const auto set = [&](Parameter& p, bool by_rows) {
    p.master = packed_on_meta(p.name, numbers.at(p.name).shape(), by_rows, numbers.at(p.name).dtype());
    out[p.name] = {by_rows};
  };
  for (Parameter& p : model.parameters().all()) {
    if (p.master.shape().rank() != 2) continue;
    numbers[p.name] = p.master;
    set(p, false);
  }
  const ModelInput input = input_of(model, false);
  const ProductObserver observer([&](const Tensor&, const Var& w, const Tensor&, const Tensor&) {
    if (const kernels::PackedMatrix* m = w.packed()) out.at(m->name).product = true;
  });
  for (;;) {
    try {
      Pass pass;
      model.logits(model.run(input, pass));
      if (!sees_ahead(config.architecture)) decode(model, input);
      if (!model.exits().empty()) try_trial([&] { leave(model, input); });
      if (reads_modalities(model))
        try_trial([&] {
          Pass of_guests;
          model.logits(model.run(input_of(model, true), of_guests));
        });
      break;
    } catch (const PackedMismatch& mismatch) {
      Parameter& p = *model.parameters().find(mismatch.matrix());
      if (mismatch.needs() == PackedMismatch::Needs::rows && !out.at(p.name).by_rows) {
        set(p, true);
      } else {  // read as numbers, or once by rows and once by columns
        p.master = numbers.at(p.name);
        out.erase(p.name);
      }
    }
  }
  // One that nothing has read, as the map of a memory that such a short text never asks, may be read as numbers.
  std::erase_if(out, [](const auto& of) { return !of.second.product && !of.second.by_rows; });
  return out;
}

std::map<std::string, bool> packed_products(const ModelConfig& config) {
  std::map<std::string, bool> out;
  for (const auto& [name, how] : packable_matrices(config))
    if (how.product) out[name] = how.by_rows;
  return out;
}

}  // namespace lithe
