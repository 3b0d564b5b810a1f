#include "lithe/cli/cost_table.h"

#include <cstdio>

#include "lithe/base/counted.h"
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

// One row; an encoder's has no columns of decoding and of a cache.
std::string line(const std::string& name, const std::vector<std::string>& cells, bool decodes) {
  char text[256];
  if (decodes)
    std::snprintf(text, sizeof text, "%-28s %12s %14s %14s %14s %12s\n", name.c_str(), cells[0].c_str(),
                  cells[1].c_str(), cells[2].c_str(), cells[3].c_str(), cells[4].c_str());
  else
    std::snprintf(text, sizeof text, "%-28s %12s %14s %14s\n", name.c_str(), cells[0].c_str(), cells[1].c_str(),
                  cells[3].c_str());
  return text;
}

std::string line(const CostOfPart& p, bool decodes) {
  return line(
      p.part,
      {cell(double(p.parameters), Quantity::count), cell(decodes ? p.prefill_flops : p.forward_flops, Quantity::count),
       cell(p.decode_flops, Quantity::count), cell(double(p.activation_bytes), Quantity::bytes),
       cell(double(p.cache_bytes), Quantity::bytes)},
      decodes);
}

std::string line(const PublishedCost& f, bool decodes) {
  return line("  published formula",
              {cell(f.parameters, Quantity::count), cell(f.prefill_flops, Quantity::count),
               cell(f.decode_flops, Quantity::count), cell(f.activation_bytes, Quantity::bytes),
               cell(f.cache_bytes, Quantity::bytes)},
              decodes);
}

Json json_of(const CostOfPart& p, bool decodes) {
  Json json = {{"part", p.part},
               {"parameters", p.parameters},
               {"forward_flops", p.forward_flops},
               {"forward_product_flops", p.forward_products},
               {"activation_bytes", p.activation_bytes}};
  if (decodes)
    json.update({{"prefill_flops", p.prefill_flops},
                 {"prefill_product_flops", p.prefill_products},
                 {"decode_flops", p.decode_flops},
                 {"decode_product_flops", p.decode_products},
                 {"cache_bytes", p.cache_bytes}});
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
  const bool decodes = cost.decodes;
  out +=
      line("part", {"parameters", decodes ? "prefill FLOPs" : "forward FLOPs", "decode FLOPs", "activations", "cache"},
           decodes);
  for (const CostOfPart& p : cost.parts) {
    out += line(p, decodes);
    if (p.published.any()) out += line(p.published, decodes);
  }
  out += line(cost.total, decodes);
  const std::string source =
      cost.source_length ? cat(", each with a source of ", cost.source_length, " that prefill reads first") : "";
  const auto n = [](int64_t value) { return static_cast<long long>(value); };
  const std::string texts = counted(o.batch, "text");
  if (!decodes) {
    std::snprintf(
        header, sizeof header,
        "\n%lld parameters. %s of %lld tokens, rows of %s. forward: all tokens at once; activations: "
        "kept for the backward pass of\ntraining. Matrix products are %.1f %% of the FLOPs. An encoder decodes "
        "nothing and keeps no cache.\n",
        n(cost.total.parameters), texts.c_str(), n(o.length), name_of(o.compute),
        100 * cost.total.forward_products / cost.total.forward_flops);
    return out + header;
  }
  std::snprintf(header, sizeof header,
                "\n%lld parameters. %s of %lld tokens%s, rows of %s. prefill: all tokens at once, of causal "
                "attention the pairs that are seen\n(the formulas count all pairs); decode: one more token for each "
                "text; activations: kept for the backward pass of\ntraining; cache: after the last token. Matrix "
                "products are %.1f %% of the prefill's FLOPs.\n",
                n(cost.total.parameters), texts.c_str(), n(o.length), source.c_str(), name_of(o.compute),
                100 * cost.total.prefill_products / cost.total.prefill_flops);
  return out + header;
}

Json cost_json(const analyze::ModelCost& cost, const analyze::CostOptions& o) {
  Json json = {{"batch", o.batch}, {"length", o.length}, {"compute", name_of(o.compute)}, {"parts", Json::array()}};
  if (cost.source_length) json["source_length"] = cost.source_length;
  for (const CostOfPart& p : cost.parts) json["parts"].push_back(json_of(p, cost.decodes));
  json["total"] = json_of(cost.total, cost.decodes);
  return json;
}

}  // namespace lithe
