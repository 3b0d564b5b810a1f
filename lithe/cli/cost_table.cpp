#include "lithe/cli/cost_table.h"

#include <cstdio>

#include "lithe/report/format.h"

namespace lithe {
namespace {

using analyze::CostOfPart;
using analyze::PublishedCost;
using report::Quantity;

std::string cell(std::optional<double> value, Quantity quantity) {
  if (!value) return "-";
  return *value == 0 ? "0" : report::format(*value, quantity, 4);
}

std::string line(const std::string& name, std::optional<double> parameters, std::optional<double> prefill,
                 std::optional<double> decode, std::optional<double> activations, std::optional<double> cache) {
  char text[256];
  std::snprintf(text, sizeof text, "%-28s %12s %14s %14s %14s %12s\n", name.c_str(),
                cell(parameters, Quantity::count).c_str(), cell(prefill, Quantity::count).c_str(),
                cell(decode, Quantity::count).c_str(), cell(activations, Quantity::bytes).c_str(),
                cell(cache, Quantity::bytes).c_str());
  return text;
}

std::string line(const CostOfPart& p) {
  return line(p.part, double(p.parameters), p.prefill_flops, p.decode_flops, double(p.activation_bytes),
              double(p.cache_bytes));
}

Json json_of(const CostOfPart& p) {
  Json json = {{"part", p.part},
               {"parameters", p.parameters},
               {"forward_flops", p.forward_flops},
               {"forward_product_flops", p.forward_products},
               {"prefill_flops", p.prefill_flops},
               {"prefill_product_flops", p.prefill_products},
               {"decode_flops", p.decode_flops},
               {"decode_product_flops", p.decode_products},
               {"activation_bytes", p.activation_bytes},
               {"cache_bytes", p.cache_bytes}};
  const PublishedCost& f = p.published;
  if (!f.any()) return json;
  const auto set = [&](const char* key, const std::optional<double>& value) {
    if (value) json["published"][key] = *value;
  };
  set("parameters", f.parameters);
  set("prefill_flops", f.prefill_flops);
  set("decode_flops", f.decode_flops);
  set("activation_bytes", f.activation_bytes);
  set("cache_bytes", f.cache_bytes);
  return json;
}

}  // namespace

std::string cost_table(const analyze::ModelCost& cost, const analyze::CostOptions& o) {
  std::string out;
  char header[512];
  std::snprintf(header, sizeof header, "%-28s %12s %14s %14s %14s %12s\n", "part", "parameters", "prefill FLOPs",
                "decode FLOPs", "activations", "cache");
  out += header;
  for (const CostOfPart& p : cost.parts) {
    out += line(p);
    const PublishedCost& f = p.published;
    if (f.any())
      out +=
          line("  published formula", f.parameters, f.prefill_flops, f.decode_flops, f.activation_bytes, f.cache_bytes);
  }
  out += line(cost.total);
  const std::string source =
      cost.source_length ? cat(", each with a source of ", cost.source_length, " that prefill reads first") : "";
  const auto n = [](int64_t value) { return static_cast<long long>(value); };
  std::snprintf(header, sizeof header,
                "\n%lld parameters. %lld text(s) of %lld tokens%s, rows of %s. prefill: all tokens at once, of causal "
                "attention the pairs that are seen\n(the formulas count all pairs); decode: one more token for each "
                "text; activations: kept for the backward pass of\ntraining; cache: after the last token. Matrix "
                "products are %.1f %% of the prefill's FLOPs.\n",
                n(cost.total.parameters), n(o.batch), n(o.length), source.c_str(), name_of(o.compute),
                100 * cost.total.prefill_products / cost.total.prefill_flops);
  return out + header;
}

Json cost_json(const analyze::ModelCost& cost, const analyze::CostOptions& o) {
  Json json = {{"batch", o.batch}, {"length", o.length}, {"compute", name_of(o.compute)}, {"parts", Json::array()}};
  if (cost.source_length) json["source_length"] = cost.source_length;
  for (const CostOfPart& p : cost.parts) json["parts"].push_back(json_of(p));
  json["total"] = json_of(cost.total);
  return json;
}

}  // namespace lithe
