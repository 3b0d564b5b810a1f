#include "lithe/compress/receipt.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/machine.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/compress/importance.h"
#include "lithe/eval/held_out.h"
#include "lithe/infer/load.h"
#include "lithe/infer/weights_file.h"
#include "lithe/report/page.h"

namespace lithe {
namespace {

constexpr int64_t kTurns = 5, kNewTokens = 48;

using ReceiptClock = std::chrono::steady_clock;
double seconds_from(ReceiptClock::time_point start) {
  return std::chrono::duration<double>(ReceiptClock::now() - start).count();
}

struct Spread {
  std::vector<double> values;
  Json json() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return {{"median", sorted[sorted.size() / 2]},
            {"least", sorted.front()},
            {"most", sorted.back()},
            {"turns", sorted.size()}};
  }
};

// One of both models, as it is measured.
struct Side {
  Path directory;
  std::string weights;
  LoadedModel loaded = {};
  Spread rows_per_second = {}, tokens_per_second = {}, seconds_per_token = {};
  int64_t peak = 0;
  std::vector<double> losses = {};  // of batches
  double nll = 0;
  int64_t labels = 0;

  void load() { loaded = load_model(directory, weights, "f32"); }
  int64_t weight_bytes() const {
    int64_t out = 0;
    for (const Parameter& p : loaded.model->parameters().all()) out += p.bytes();
    return out;
  }
};

void forward(Side& side, const Objective& objective, const std::vector<DeviceBatch>& batches, bool first) {
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  int64_t rows = 0;
  const auto start = ReceiptClock::now();
  for (const DeviceBatch& batch : batches) {
    check_not_stopped("receipt", "nothing was written");
    const LossSums sums = evaluate_batch(*side.loaded.model, objective, batch);
    rows += batch.input.rows();
    if (!first) continue;
    side.losses.push_back(sums.mean_nll());
    side.nll += sums.nll;
    side.labels += sums.labels;
  }
  side.rows_per_second.values.push_back(double(rows) / seconds_from(start));
  side.peak = std::max(side.peak, side.weight_bytes() + ledger(Device::cpu).peak() - before);
}

int32_t likeliest(const Model& model, const Rows& rows) {
  const Tensor logits = model.logits(rows, {rows.sequences.rows() - 1}).value();
  int64_t best = 0;
  for (int64_t v = 1; v < logits.numel(); ++v)
    if (value_at(logits, v) > value_at(logits, best)) best = v;
  return int32_t(best);
}

// As many tokens of both models, also where one would end its text.
void decode(Side& side, const std::vector<int32_t>& prompt) {
  const Model& model = *side.loaded.model;
  const auto begun = int64_t(prompt.size()), limit = model.position_limit();
  const int64_t tokens = limit ? std::min(kNewTokens, limit - begun) : kNewTokens;
  if (tokens < 2) return;
  const NoGrad no_grad;
  const int64_t before = ledger(Device::cpu).current();
  ledger(Device::cpu).reset_peak();
  const auto state = model.make_state(1, begun + tokens);
  const auto next = [&](const std::vector<int32_t>& ids) {
    Pass pass;
    const auto count = int64_t(ids.size());
    const Rows rows =
        model.run({tensor_of({count}, ids), model.continue_sequences(*state, {count})}, pass, state.get());
    return likeliest(model, rows);
  };
  int32_t token = next(prompt);
  const auto start = ReceiptClock::now();
  for (int64_t i = 0; i < tokens; ++i) token = next({token});
  const double seconds = seconds_from(start);
  side.tokens_per_second.values.push_back(double(tokens) / seconds);
  side.seconds_per_token.values.push_back(seconds / double(tokens));
  side.peak = std::max(side.peak, side.weight_bytes() + ledger(Device::cpu).peak() - before);
}

int64_t bytes_in(const Path& directory, const std::string& weights) {
  return int64_t(std::filesystem::file_size(weights_file(directory, weights)));
}

Json json_of(const Side& side) {
  Json out = {{"parameters", side.loaded.model->parameters().count()},
              {"bytes_on_disk", bytes_in(side.directory, side.weights)},
              {"weights", cat(weights_fingerprint(side.directory, side.weights))}};
  if (side.rows_per_second.values.empty()) return out;
  const double mean = side.nll / double(std::max<int64_t>(side.labels, 1));
  double squares = 0;
  for (const double loss : side.losses) squares += (loss - mean) * (loss - mean);
  const auto n = double(side.losses.size());
  out["peak_memory_bytes"] = side.peak;
  out["forward_rows_per_second"] = side.rows_per_second.json();
  out["loss"] = {{"mean", mean}, {"labels", side.labels}};
  if (n > 1) out["loss"]["standard_error"] = std::sqrt(squares / (n - 1) / n);
  if (!side.tokens_per_second.values.empty()) {
    out["decode_tokens_per_second"] = side.tokens_per_second.json();
    out["decode_seconds_per_token"] = side.seconds_per_token.json();
  }
  return out;
}

// Batch by batch, so that what is hard for both does not count.
Json difference(const Side& before, const Side& after) {
  std::vector<double> apart;
  double mean = 0, squares = 0;
  for (size_t i = 0; i < before.losses.size(); ++i)
    apart.push_back(after.losses[i] - before.losses[i]), mean += apart.back();
  const auto n = double(apart.size());
  mean /= n;
  for (const double d : apart) squares += (d - mean) * (d - mean);
  Json out = {{"mean", mean}};
  if (n > 1) out["standard_error"] = std::sqrt(squares / (n - 1) / n);
  return out;
}

// The steps that led to the parent.
Json chain_before(const Path& parent) {
  const Path file = parent / "receipt.json";
  if (!std::filesystem::exists(file)) return Json::array();
  Json of_parent = Json::parse(read_file(file));
  Json chain = of_parent.contains("chain") ? of_parent["chain"] : Json::array();
  of_parent.erase("chain");
  chain.push_back(of_parent);
  return chain;
}

std::string receipt_page(const Json& receipt) {
  report::Page page("Receipt", std::string(receipt["operation"]), "lithe");
  report::Table table{.caption = "Before and after",
                      .columns = {{"what"}, {"before", true}, {"after", true}, {"after / before", true}}};
  const auto row = [&](const char* what, const Json& before, const Json& after, report::Quantity quantity) {
    const double a = before, b = after;
    table.rows.push_back(
        {what, report::Cell(a, quantity), report::Cell(b, quantity), report::Cell(b / a, report::Quantity::number)});
  };
  const Json &before = receipt["before"], &after = receipt["after"];
  row("parameters", before["parameters"], after["parameters"], report::Quantity::number);
  row("bytes on disk", before["bytes_on_disk"], after["bytes_on_disk"], report::Quantity::bytes);
  for (const auto& [key, what, quantity] :
       {std::tuple("peak_memory_bytes", "peak memory", report::Quantity::bytes),
        std::tuple("forward_rows_per_second", "rows a second, forward", report::Quantity::number),
        std::tuple("decode_tokens_per_second", "tokens a second, greedy, batch 1", report::Quantity::number),
        std::tuple("decode_seconds_per_token", "seconds a token", report::Quantity::number)}) {
    if (!before.contains(key) || !after.contains(key)) continue;
    const auto value = [&, of = std::string(key)](const Json& side) {
      return side[of].is_object() ? side[of]["median"] : side[of];
    };
    row(what, value(before), value(after), quantity);
  }
  if (before.contains("loss")) row("loss", before["loss"]["mean"], after["loss"]["mean"], report::Quantity::number);
  page.table(table);
  if (receipt.contains("loss_difference") && receipt["loss_difference"].contains("standard_error"))
    page.paragraph(cat("The loss changed by ", double(receipt["loss_difference"]["mean"]), " with a standard error of ",
                       double(receipt["loss_difference"]["standard_error"]), " over batches of the ",
                       std::string(receipt["measured_on"]), "."));
  if (!receipt["chain"].empty()) {
    page.section("Steps before");
    for (const Json& step : receipt["chain"])
      page.paragraph(cat(std::string(step["operation"]), ": ", int64_t(step["before"]["parameters"]), " to ",
                         int64_t(step["after"]["parameters"]), " parameters"));
  }
  return page.html();
}

}  // namespace

Json write_receipt(const ReceiptRequest& request) {
  Side before{request.parent, request.parent_weights}, after{request.child, ""};
  before.load(), after.load();
  std::string measured_on = "nothing";
  uint64_t data = 0;
  try {
    const Recipe& recipe = request.recipe;
    const TrainingData lessons = load_training_data(recipe, load_tokenizers(request.child));
    data = lessons.fingerprint;
    const BatchSource& source = lessons.held_out ? lessons.held_out->batches() : *lessons.train;
    measured_on = lessons.held_out ? "held-out part" : "training part";
    std::vector<DeviceBatch> batches;
    for (int64_t i = 0; i < std::min(request.batches, source.batches_per_epoch()); ++i)
      batches.push_back(to_device(source.batch(0, i), *after.loaded.model));
    std::vector<int32_t> prompt;
    if (lessons.objective->predicts_next() && after.loaded.tokenizer->width() == 1) {
      const Batch first = source.batch(0, 0);
      prompt.assign(first.tokens.begin(), first.tokens.begin() + std::min<int64_t>(first.offsets[1], 8));
    }
    for (int64_t turn = 0; turn < kTurns; ++turn)
      for (Side* side : {&before, &after}) {
        forward(*side, *lessons.objective, batches, turn == 0);
        if (!prompt.empty()) decode(*side, prompt);
      }
  } catch (const Error& error) {
    if (stop_signal()) throw;
    log_warning("the receipt has no speed and no loss: ", error.what());
  }
  Json receipt = {
      {"operation", request.operation},
      {"parent", request.parent.string()},
      {"settings", request.settings},
      {"recipe", cat(checksum(to_yaml(resolved(request.recipe)).data(), to_yaml(resolved(request.recipe)).size()))},
      {"data", cat(data)},
      {"measured_on", measured_on},
      {"machine", machine().cpu},
      {"threads", threads()},
      {"before", json_of(before)},
      {"after", json_of(after)},
      {"chain", chain_before(request.parent)}};
  if (!before.losses.empty()) receipt["loss_difference"] = difference(before, after);
  if (!receipt["chain"].empty()) receipt["origin"] = receipt["chain"].front()["before"];
  write_file(request.child / "receipt.json", dump(receipt, 2) + "\n");
  write_file(request.child / "receipt.html", receipt_page(receipt));
  return receipt;
}

}  // namespace lithe
