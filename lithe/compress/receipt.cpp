#include "lithe/compress/receipt.h"

#include <algorithm>
#include <optional>

#include "lithe/base/counted.h"
#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compress/measured_model.h"
#include "lithe/compress/quantize.h"
#include "lithe/train/plan.h"

namespace lithe {
namespace {

constexpr int64_t kMostOfBaseline = 300'000'000;  // parameters

// The steps that led to the parent.
Json chain_before(const Path& parent) {
  const Path file = parent / "receipt.json";
  if (!std::filesystem::exists(file)) return Json::array();
  return steps_of(parse_json(read_file(file), file.string()));
}

bool same_tokens(const Tokenizers& a, const Tokenizers& b) {
  const auto of = [](const std::shared_ptr<const Tokenizer>& t) { return t ? t->fingerprint() : 0; };
  return of(a.tokenizer) == of(b.tokenizer) && of(a.source) == of(b.source);
}

Json judged(MeasuredModel& model, const MeasuringData& data, const std::string& what) {
  model.judge(data);
  Json out = model.json();
  out["what"] = what;
  return out;
}

// The parent with 8 bits a weight: what a receipt's model must be better than.
Json rounded_parent(const ReceiptRequest& request, const MeasuringData& data) {
  const LoadedModel outline = outline_model(request.parent, request.parent_weights, "f32");
  if (!outline.model->config().quantization_config.is_null() || outline.model->parameters().count() > kMostOfBaseline)
    return nullptr;
  const LoadedModel loaded = load_model(request.parent, request.parent_weights, "f32", false, false);
  const Model& model = *loaded.model;
  const Path file = request.child / "baseline.safetensors";
  struct Removed {
    Path path;
    ~Removed() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  } const removed{file};
  std::vector<QuantizedLayer> layers;
  MeasuredModel rounded(quantize_model(model, {}, file, layers), file);
  return judged(rounded, data, "before, with weights of 8 bits (int8)");
}

// What the same time of training gives without the parent.
Json from_scratch(const Path& directory, const MeasuredModel& after, const MeasuringData& data) {
  const Path file = directory / "result.json";
  const auto steps = int64_t(parse_json(read_file(file), file.string())["steps"]);
  MeasuredModel model(directory, "");
  Json out = judged(model, data, cat("after's shape from scratch, ", counted(steps, "step")));
  out["loss_difference"] = loss_difference(model, after);  // how much better than it: below 0
  return out;
}

}  // namespace

Json write_receipt(const ReceiptRequest& request) {
  MeasuredModel before(request.parent, request.parent_weights, request.parent_precision),
      after(request.child, "", request.child_precision);
  std::string measured_on = "nothing";
  uint64_t fingerprint = 0;
  Json baselines = Json::array();
  try {
    const Tokenizers tokenizers = load_tokenizers(request.child);
    check(same_tokens(load_tokenizers(request.parent), tokenizers), "receipt",
          "both models have tokenizers of their own, so that their losses are not of the same tokens");
    const MeasuringData data =
        measuring_data(request.recipe, tokenizers, request.first_batch, request.batches, request.text);
    const int64_t larger = std::max(before.bytes_in_memory(), after.bytes_in_memory()), left = memory_left();
    check(!left || larger <= left, "receipt", "the larger model needs ", format_bytes(double(larger)), ", and ",
          format_bytes(double(left)), " are left");
    const bool apart = large_together({&before, &after});
    for (MeasuredModel* model : {&before, &after}) {
      model->judge(data);
      if (apart) model->rest();
    }
    time_in_turns({&before, &after}, data);
    measured_on = data.name;
    fingerprint = data.lessons.fingerprint;
    if (request.baseline)
      if (const Json rounded = rounded_parent(request, data); !rounded.is_null()) baselines.push_back(rounded);
    if (!request.from_scratch.empty()) baselines.push_back(from_scratch(request.from_scratch, after, data));
  } catch (const Error& error) {
    if (stop_signal()) throw;
    log_warning(measured_on == "nothing" ? "the receipt has no speed and no loss: " : "the receipt has no baseline: ",
                error.what());
  }
  const std::string recipe = to_yaml(resolved(request.recipe));
  Json receipt = {{"operation", request.operation},
                  {"parent", request.parent.string()},
                  {"settings", request.settings},
                  {"recipe", cat(checksum(recipe.data(), recipe.size()))},
                  {"data", cat(fingerprint)},
                  {"measured_on", measured_on},
                  {"machine", machine().cpu},
                  {"threads", threads()},
                  {"before", before.json()},
                  {"after", after.json()},
                  {"chain", chain_before(request.parent)}};
  if (!baselines.empty()) receipt["baselines"] = baselines;
  if (measured_on != "nothing") receipt["loss_difference"] = loss_difference(before, after);
  if (!receipt["chain"].empty()) receipt["origin"] = receipt["chain"].front()["before"];
  write_file(request.child / "receipt.json", dump(receipt, 2) + "\n");
  write_file(request.child / "receipt.html", receipt_page(receipt));
  return receipt;
}

Json read_receipt(const Path& directory) {
  const Path file = directory / "receipt.json";
  check_usage(std::filesystem::exists(file), "receipt", "'", directory.string(),
              "' has no receipt.json; prune, distill, quantize, convert and fit write one");
  const Json out = parse_json(read_file(file), file.string());
  check(out.is_object() && out.contains("operation") && out.contains("before") && out.contains("after") &&
            out.contains("chain") && out["chain"].is_array(),
        "receipt", "'", file.string(), "' is no receipt");
  return out;
}

std::vector<Json> steps_of(const Json& receipt) {
  std::vector<Json> out;
  if (receipt.contains("chain"))
    for (const Json& step : receipt["chain"]) out.push_back(step);
  Json own = receipt;
  own.erase("chain");
  out.push_back(own);
  return out;
}

}  // namespace lithe
