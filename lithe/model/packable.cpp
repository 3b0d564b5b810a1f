#include "lithe/model/packable.h"

#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/model/model.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

Var packed_on_meta(const std::string& name, const Shape& shape, bool by_rows, DType dtype) {
  auto m = std::make_shared<kernels::PackedMatrix>();
  m->name = name;
  m->by_rows = by_rows;
  m->outputs = shape[by_rows ? 0 : 1];
  m->inputs = shape[by_rows ? 1 : 0];
  kernels::pack(*m, {});
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
  const int64_t count = std::min<int64_t>(2, config.max_position_embeddings);
  const Sequences sequences = Sequences::single(count, Device::meta);
  const auto tokens = [&](int64_t width) {
    return empty(width > 1 ? Shape{count, width} : Shape{count}, DType::i32, Device::meta);
  };
  const auto columns = [&](const std::string& source) {
    std::map<std::string, Tensor> of;
    for (const std::string& name : model.reads_columns(source)) of[name] = empty({count}, DType::i32, Device::meta);
    return of;
  };
  ModelInput input{tokens(config.token_width), sequences};
  input.columns = columns("");
  for (const std::string& name : config.source_names())
    input.sources[name] = {tokens(config.encoder_config(name).token_width), sequences, columns(name)};
  const ProductObserver observer([&](const Tensor&, const Var& w, const Tensor&, const Tensor&) {
    if (const kernels::PackedMatrix* m = w.packed()) out.at(m->name).product = true;
  });
  for (;;) {
    try {
      Pass pass;
      model.logits(model.run(input, pass));
      if (!sees_ahead(config.architecture)) decode(model, input);
      return out;
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
}

std::map<std::string, bool> packed_products(const ModelConfig& config) {
  std::map<std::string, bool> out;
  for (const auto& [name, how] : packable_matrices(config))
    if (how.product) out[name] = how.by_rows;
  return out;
}

}  // namespace lithe
