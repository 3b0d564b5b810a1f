#include <algorithm>
#include <optional>

#include "lithe/compress/receipt.h"
#include "lithe/report/page.h"

namespace lithe {
namespace {

using ReceiptQuantity = report::Quantity;

// A number of one side, or the median of several turns; none where it was not measured.
std::optional<double> receipt_number(const Json& side, const std::string& key) {
  if (!side.contains(key)) return {};
  const Json& value = side[key];
  if (!value.is_object()) return double(value);
  return double(value.contains("median") ? value["median"] : value["mean"]);
}

struct ReceiptRow {
  const char *key, *what;
  ReceiptQuantity quantity;
};
constexpr ReceiptRow kReceiptRows[] = {
    {"parameters", "parameters", ReceiptQuantity::number},
    {"bytes_on_disk", "bytes on disk", ReceiptQuantity::bytes},
    {"peak_memory_bytes", "peak memory", ReceiptQuantity::bytes},
    {"forward_rows_per_second", "rows a second, forward", ReceiptQuantity::number},
    {"decode_tokens_per_second", "tokens a second, greedy, batch 1", ReceiptQuantity::number},
    {"decode_seconds_per_token", "seconds a token", ReceiptQuantity::number},
    {"loss", "loss", ReceiptQuantity::number},
};

report::Table before_and_after(const Json& receipt) {
  report::Table out{.caption = "Before and after",
                    .columns = {{"what"}, {"before", true}, {"after", true}, {"after / before", true}}};
  const Json &before = receipt["before"], &after = receipt["after"];
  const auto add = [&](const std::string& what, double a, double b, ReceiptQuantity quantity) {
    out.rows.push_back(
        {what, report::Cell(a, quantity), report::Cell(b, quantity), report::Cell(b / a, ReceiptQuantity::number)});
  };
  for (const ReceiptRow& row : kReceiptRows) {
    const auto a = receipt_number(before, row.key), b = receipt_number(after, row.key);
    if (a && b) add(row.what, *a, *b, row.quantity);
  }
  if (before.contains("scores") && after.contains("scores"))
    for (const auto& [name, value] : before["scores"].items())
      if (after["scores"].contains(name))
        add(name, double(value["mean"]), double(after["scores"][name]["mean"]), ReceiptQuantity::number);
  return out;
}

std::vector<report::Cell> receipt_cells(const std::string& what, const Json& side) {
  std::vector<report::Cell> out{what};
  for (const ReceiptRow& row : kReceiptRows) {
    if (std::string(row.key) == "forward_rows_per_second" || std::string(row.key) == "decode_seconds_per_token")
      continue;
    const auto value = receipt_number(side, row.key);
    out.push_back(value ? report::Cell(*value, row.quantity, 4) : report::Cell("-"));
  }
  const bool error = side.contains("loss") && side["loss"].contains("standard_error");
  out.push_back(error ? report::Cell(double(side["loss"]["standard_error"]), ReceiptQuantity::number)
                      : report::Cell("-"));
  return out;
}

std::vector<report::Column> receipt_columns() {
  return {{"model"},      {"parameters", true}, {"bytes on disk", true}, {"peak memory", true}, {"tokens/s", true},
          {"loss", true}, {"+-", true}};
}

std::string receipt_step_name(const Json& step, size_t number) {
  std::string out = cat(number, ": ", std::string(step["operation"]));
  const Json& settings = step["settings"];
  if (!settings.is_object()) return out;
  for (const char* key : {"to", "by", "weights", "method"})
    if (settings.contains(key) && (settings[key].is_string() || settings[key].is_number()))
      out += cat(" ", settings[key].is_string() ? settings[key].get<std::string>() : settings[key].dump());
  return out;
}

// A point of each step of each receipt, from what it was made of on.
template <class X>
report::ScatterChart receipt_chart(const std::vector<std::string>& names, const std::vector<Json>& receipts,
                                   const std::string& title, const report::Axis& x, const X& value) {
  report::ScatterChart out{.title = title, .x = x, .y = {"loss"}};
  for (size_t r = 0; r < receipts.size(); ++r) {
    if (receipts.size() > 1) out.groups.push_back(names[r]);
    const auto add = [&](const std::string& label, const Json& side) {
      const auto at = value(side);
      if (!at || !side.contains("loss")) return;
      const Json& loss = side["loss"];
      out.points.push_back({.label = label,
                            .x = *at,
                            .y = double(loss["mean"]),
                            .y_error = loss.contains("standard_error") ? double(loss["standard_error"]) : 0,
                            .group = receipts.size() > 1 ? int(r) : 0});
    };
    const std::vector<Json> steps = steps_of(receipts[r]);
    add("before", steps.front()["before"]);
    for (size_t i = 0; i < steps.size(); ++i) add(receipt_step_name(steps[i], i + 1), steps[i]["after"]);
  }
  return out;
}

void add_receipt_charts(report::Page& page, const std::vector<std::string>& names, const std::vector<Json>& receipts) {
  const auto size =
      receipt_chart(names, receipts, "Loss and size", {.label = "bytes on disk", .quantity = ReceiptQuantity::bytes},
                    [](const Json& side) { return receipt_number(side, "bytes_on_disk"); });
  const auto speed = receipt_chart(names, receipts, "Loss and speed", {.label = "tokens a second, greedy, batch 1"},
                                   [](const Json& side) { return receipt_number(side, "decode_tokens_per_second"); });
  if (size.points.empty()) return;
  if (speed.points.empty())
    page.chart(size);
  else
    page.charts(size, speed);
}

void add_receipt_steps(report::Page& page, const Json& receipt) {
  const std::vector<Json> steps = steps_of(receipt);
  report::Table table{.caption = "Each step as it was measured when it was made", .columns = receipt_columns()};
  table.rows.push_back(receipt_cells("before", steps.front()["before"]));
  for (size_t i = 0; i < steps.size(); ++i)
    table.rows.push_back(receipt_cells(receipt_step_name(steps[i], i + 1), steps[i]["after"]));
  if (receipt.contains("baselines"))
    for (const Json& baseline : receipt["baselines"])
      table.rows.push_back(receipt_cells(std::string(baseline["what"]), baseline));
  page.table(table);
}

}  // namespace

std::string receipt_page(const Json& receipt) {
  report::Page page("Receipt", std::string(receipt["operation"]), "lithe");
  page.table(before_and_after(receipt));
  if (receipt.contains("loss_difference") && receipt["loss_difference"].contains("standard_error"))
    page.paragraph(cat("The loss changed by ", double(receipt["loss_difference"]["mean"]), " with a standard error of ",
                       double(receipt["loss_difference"]["standard_error"]), " over batches of the ",
                       std::string(receipt["measured_on"]), "."));
  if (!receipt["chain"].empty() || receipt.contains("baselines")) {
    page.section(receipt["chain"].empty() ? "Beside a baseline" : "All steps");
    add_receipt_steps(page, receipt);
  }
  add_receipt_charts(page, {"this"}, {receipt});
  return page.html();
}

std::string receipts_page(const std::vector<std::string>& names, const std::vector<Json>& receipts) {
  report::Page page("Receipts", "what each compression gave", "lithe compare");
  report::Table table{.caption = "Where each ends", .columns = receipt_columns()};
  std::vector<std::string> origins;
  for (size_t r = 0; r < receipts.size(); ++r) {
    const Json origin = steps_of(receipts[r]).front()["before"];
    const std::string weights = origin.contains("weights") ? std::string(origin["weights"]) : "";
    if (std::find(origins.begin(), origins.end(), weights) == origins.end()) {
      origins.push_back(weights);
      table.rows.push_back(receipt_cells(origins.size() == 1 ? "before" : cat("before ", names[r]), origin));
    }
    table.rows.push_back(receipt_cells(names[r], receipts[r]["after"]));
  }
  page.table(table);
  if (origins.size() > 1)
    page.notice(report::Tone::caution, "Not all begin with the same model",
                {"Their losses are comparable only where they are of the same text and vocabulary."});
  add_receipt_charts(page, names, receipts);
  for (size_t r = 0; r < receipts.size(); ++r) {
    page.section(names[r]);
    add_receipt_steps(page, receipts[r]);
  }
  return page.html();
}

}  // namespace lithe
