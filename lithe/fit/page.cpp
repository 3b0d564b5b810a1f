#include <algorithm>
#include <cmath>

#include "lithe/fit/fit.h"
#include "lithe/report/page.h"
#include "lithe/train/plan.h"

namespace lithe::fit {
namespace {

using report::Quantity;

double figure(const Json& chain, const char* of, const char* key) {
  return chain.contains(of) ? double(chain[of][key]) : std::nan("");
}

struct Limit {
  const char *key, *title, *label;
  Quantity quantity;
  const char* budget;
};
constexpr Limit kLimits[] = {
    {"latency_seconds", "Quality and latency", "seconds", Quantity::seconds, "latency_seconds"},
    {"memory_bytes", "Quality and memory", "memory of the process", Quantity::bytes, "memory_bytes"},
    {"size_bytes", "Quality and size", "bytes on disk", Quantity::bytes, "size_bytes"},
};

// What is timed.
std::string use_of(const Json& json) {
  const Json& use = json["use"];
  if (use["continues"])
    return cat("half of ", int64_t(use["length"]), " tokens are read, the rest is added one by one");
  if (use["translates"])
    return cat("sentences of ", int64_t(use["length"]), " tokens in the mean are translated one at a time");
  return cat("a text of ", int64_t(use["length"]), " tokens is read");
}

// Upwards is worse.
std::string quality_lost(const Json& json) {
  return json["quality"] == "loss" ? "change of the loss" : cat(std::string(json["quality"]), " lost");
}

report::ScatterChart front_chart(const Json& json, const Limit& limit) {
  report::ScatterChart out{.title = limit.title,
                           .detail = "numbers as in the table below; bars: standard errors of the change",
                           .x = {.label = limit.label, .quantity = limit.quantity, .from_zero = true},
                           .y = {.label = quality_lost(json)},
                           .groups = {"on the front", "others"}};
  double low = 0, high = 0;
  for (const Json& chain : json["chains"]) {
    const double change = chain["change"]["mean"], error = chain["change"]["standard_error"];
    const int number = chain["number"];
    low = std::min(low, change - error), high = std::max(high, change + error);
    out.points.push_back({.label = number ? std::string(chain["chain"]) : std::string(),
                          .x = figure(chain, "measured", limit.key),
                          .y = change,
                          .y_error = error,
                          .group = number ? 0 : 1,
                          .number = number});
  }
  std::stable_sort(out.points.begin(), out.points.end(),  // the last are drawn over the others
                   [](const auto& a, const auto& b) { return (a.number != 0) < (b.number != 0); });
  if (const double most = json["budget"][limit.budget]; most > 0)
    out.lines.push_back({.label = "budget", .x = {most, most}, .y = {low, high}});
  return out;
}

report::Cell change_cell(const Json& change) {
  report::Cell out(change["mean"].get<double>(), Quantity::number, 2);
  out.text += cat(" ± ", report::format(double(change["standard_error"]), Quantity::number, 1));
  return out;
}

report::Table chains_table(const Json& json) {
  report::Table out{.caption = "Chains; a number stands for one of the front, which --choose takes",
                    .columns = {{"no.", true},
                                {"chain"},
                                {"loss", true},
                                {quality_lost(json), true},
                                {"latency", true},
                                {"predicted", true},
                                {"memory", true},
                                {"predicted", true},
                                {"on disk", true},
                                {"keeps the budget"}}};
  for (const Json& c : json["chains"]) {
    const auto cell = [&](const char* of, const char* key, Quantity quantity) {
      const double value = figure(c, of, key);
      return std::isfinite(value) ? report::Cell(value, quantity) : report::Cell("-");
    };
    out.rows.push_back(
        {int(c["number"]) ? report::Cell::integer(c["number"]) : report::Cell(""), std::string(c["chain"]),
         report::Cell(double(c["loss"]), Quantity::number, 4), change_cell(c["change"]),
         cell("measured", "latency_seconds", Quantity::seconds),
         cell("predicted", "latency_seconds", Quantity::seconds), cell("measured", "memory_bytes", Quantity::bytes),
         cell("predicted", "memory_bytes", Quantity::bytes), cell("measured", "size_bytes", Quantity::bytes),
         c.contains("failed") ? std::string(c["failed"])
         : c["fits"]          ? "yes"
                              : "no"});
  }
  return out;
}

report::BarChart matrices_chart(const Json& json) {
  constexpr size_t kMost = 40;
  std::vector<Json> order(json["matrices"].begin(), json["matrices"].end());
  std::stable_sort(order.begin(), order.end(),
                   [](const Json& a, const Json& b) { return double(a["int4"]) > double(b["int4"]); });
  report::BarChart out{.title = "What rounding each matrix alone changes",
                       .detail = order.size() > kMost ? cat("the ", kMost, " most sensitive of ", order.size())
                                                      : "KL divergence of the predictions, natural log",
                       .series = {"8 bits", "4 bits"}};
  for (size_t i = 0; i < std::min(kMost, order.size()); ++i)
    out.bars.push_back({.label = std::string(order[i]["name"]),
                        .values = {double(order[i]["int8"]), double(order[i]["int4"])},
                        .marker = {}});
  return out;
}

void add_outcome(report::Page& page, const Json& json) {
  const Json& budget = json["budget"];
  const auto of = [&](const char* key, Quantity quantity) {
    const double most = budget[key];
    return most > 0 ? cat("budget ", report::format(most, quantity)) : std::string("no limit");
  };
  if (json.contains("chosen")) {
    const Json &chosen = json["chosen"], &real = chosen["real_run"];
    page.tiles(
        {{"chosen", std::string(chosen["chain"]), ""},
         {json["use"]["continues"]    ? "a token"
          : json["use"]["translates"] ? "a sentence"
                                      : "a text",
          report::format(double(real["latency_seconds"]), Quantity::seconds), of("latency_seconds", Quantity::seconds)},
         {"memory of the process", report::format(double(real["memory_bytes"]), Quantity::bytes),
          of("memory_bytes", Quantity::bytes)},
         {"on disk", report::format(double(real["size_bytes"]), Quantity::bytes), of("size_bytes", Quantity::bytes),
          chosen["kept"] ? report::Tone::good : report::Tone::bad}});
    page.paragraph(
        chosen["by_the_program"]
            ? "The figures above are of a real run of the program with the model that was written."
            : "No process could use the model: the figures above are lithe's own count, without the program.");
    if (!chosen["options"].empty())
      page.paragraph(cat("These are the figures of a use with", words_of(chosen["options"]), "."));
  } else if (json.contains("nearest")) {
    page.notice(report::Tone::bad, "No chain keeps the budget",
                {cat("Nearest: ", std::string(json["nearest"]["chain"])), std::string(json["nearest"]["why"])});
  } else {
    page.tiles({{"latency", of("latency_seconds", Quantity::seconds), ""},
                {"memory", of("memory_bytes", Quantity::bytes), ""},
                {"size", of("size_bytes", Quantity::bytes), ""}});
  }
}

}  // namespace

std::string words_of(const Json& options) {
  std::string out;
  for (const Json& word : options) out += " " + std::string(word);
  return out;
}

std::string fit_page(const Json& json) {
  report::Page page("Fitting a budget", std::string(json["run"]), "lithe fit");
  add_outcome(page, json);
  page.section("Quality against the budget");
  page.charts(front_chart(json, kLimits[0]), front_chart(json, kLimits[1]));
  page.chart(front_chart(json, kLimits[2]));
  page.table(chains_table(json));
  page.paragraph(
      cat("Measured on the ", std::string(json["measured_on"]), ", of one text at batch 1: ", use_of(json),
          ". Pruned chains were trained for ", int64_t(json["trial_steps"]),
          " steps before they were measured, and so were those with a part exchanged; the chosen chain is trained for "
          "longer. Predictions are by the cost model and this machine's rates: of exits by the layers that tokens "
          "run, of drafts by how often they would be taken."));
  page.section("Sensitivity");
  page.chart(matrices_chart(json));
  page.section("This machine");
  const Json& rates = json["rates"];
  report::Table table{.caption = cat(std::string(json["machine"]), ", threads ", int64_t(json["threads"])),
                      .columns = {{"rate"}, {"a second", true}}};
  for (const auto& [key, what, quantity] :
       {std::tuple("f32_operations", "operations in f32", Quantity::number),
        std::tuple("bf16_operations", "operations in bf16", Quantity::number),
        std::tuple("int8_operations", "operations in 8 bits", Quantity::number),
        std::tuple("bytes_from_memory", "bytes read from memory", Quantity::bytes),
        std::tuple("bytes_from_cache", "bytes read from the last cache", Quantity::bytes)})
    table.rows.push_back({what, report::Cell(double(rates[key]), quantity)});
  page.table(table);
  return page.html();
}

}  // namespace lithe::fit
