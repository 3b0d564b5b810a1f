#include "lithe/analyze/rollout.h"

#include "lithe/data/task_batches.h"
#include "lithe/model/layer_config.h"
#include "lithe/objective/device_batch.h"

namespace lithe::analyze {

std::vector<double> attention_rollout(const std::vector<LayerView>& layers, int64_t tokens) {
  const auto n = size_t(tokens);
  std::vector<double> out(n * n);
  for (size_t i = 0; i < n; ++i) out[i * n + i] = 1;
  for (const LayerView& layer : layers) {
    if (!layer.maps.heads) continue;
    const std::vector<double> map = layer.map(-1);
    check(map.size() == n * n, "inspect", "a roll-out needs maps of all ", tokens,
          " tokens in every layer; this model has layers of other rows");
    std::vector<double> next(n * n);
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < n; ++k) {
        const double share = (map[i * n + k] + (i == k ? 1 : 0)) / 2;
        for (size_t j = 0; j < n; ++j) next[i * n + j] += share * out[k * n + j];
      }
    out = std::move(next);
  }
  return out;
}

ModelView inspect_picture(const std::string& name, const LoadedModel& loaded, const Recipe& recipe,
                          const std::string& text, const std::string& picture) {
  const Model& model = *loaded.model;
  const ModelConfig& config = model.config();
  check_usage(recipe.data.image.given() && config.architecture == Architecture::encoder, "inspect",
              "--image is for encoders that learnt classes of pictures; '", name, "' is of architecture ",
              config.architecture, recipe.data.image.given() ? "" : " and reads none");
  Example example{.text = text, .label = 0};
  example.features["image"] = picture;
  const TaskBatches batches({example}, TaskType::classification, *loaded.tokenizer, recipe.data.sequence_length,
                            recipe.train.batch_tokens, 0, false, task_reading(recipe));
  const Batch batch = batches.batch(0, 0);
  const ModelInput input = to_device(batch, model.device()).input;
  const std::vector<int64_t>& rows = batch.modalities.at("image").rows;
  ModelView view;
  view.name = name;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const bool patch = row >= rows.front();
    const int32_t id = batch.tokens[size_t(row * batch.token_width)];
    view.tokens.push_back(patch                           ? cat("patch ", row - rows.front() + 1)
                          : loaded.tokenizer->width() > 1 ? cat("token ", row + 1)
                                                          : loaded.tokenizer->piece(id, row == 0));
  }
  inspect_input(model, config, input, false, view);
  const std::vector<double> rollout = attention_rollout(view.layers, batch.rows());
  const Node* pooling = config.head.options.find("pooling");
  const bool mean = pooling && pooling->text() != "cls" && pooling->text() != "auto";
  const ImageConfig& image = recipe.data.image;
  PictureView& out = view.picture.emplace();
  out.reference = picture;
  out.rows = image.height / image.patch_size;
  out.columns = image.columns() / image.patch_size;
  const int64_t asked = mean ? batch.rows() : 1;
  for (const int64_t row : rows) {
    double sum = 0;
    for (int64_t i = 0; i < asked; ++i) sum += rollout[size_t(i * batch.rows() + row)] / double(asked);
    out.weights.push_back(sum);
  }
  return view;
}

}  // namespace lithe::analyze
