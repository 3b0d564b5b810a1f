// What a chain is called, and whether its figures keep a budget.
#include <algorithm>
#include <cctype>

#include "lithe/fit/fit.h"
#include "lithe/train/plan.h"

namespace lithe::fit {

double Figures::excess(const Budget& budget) const {
  double out = 0;
  if (budget.latency > 0) out = std::max(out, latency / budget.latency);
  if (budget.memory) out = std::max(out, double(memory) / double(budget.memory));
  if (budget.size) out = std::max(out, double(size) / double(budget.size));
  return out;
}

Chain Chain::plain() const {
  Chain out = *this;
  out.way = {};
  return out;
}

std::vector<std::string> Chain::options(const Path& directory) const {
  std::vector<std::string> out;
  if (format == "bf16") out.insert(out.end(), {"--precision", "bf16"});
  if (!way.exit.empty()) out.insert(out.end(), {"--exit", way.exit});
  if (!way.draft.empty())
    out.insert(out.end(), {"--draft", way.draft == "pruned" ? (directory / kDrafter).string() : way.draft});
  if (way.beams) out.insert(out.end(), {"--num-beams", cat(way.beams)});
  return out;
}

std::string Chain::name() const {
  const std::string numbers = format == "mixed"     ? cat("mixed ", format_bytes(double(target)))
                              : method == "nearest" ? format
                                                    : cat(format, " ", method);
  std::vector<std::string> steps;
  if (!exchange.empty())
    steps.push_back(cat("exchange ", exchange.starts_with("model.") ? exchange.substr(6) : exchange, ", distil"));
  if (share < 1) steps.push_back(cat("prune to ", share, ", distil"));
  if (format != "f32") steps.push_back(numbers);
  if (!way.exit.empty()) steps.push_back("exit " + way.exit);
  if (way.draft == "pruned")
    steps.push_back(cat("draft by it pruned to ", way.draft_share));
  else if (!way.draft.empty())
    steps.push_back("draft by " + way.draft);
  if (way.beams) steps.push_back(way.beams == 1 ? "greedy" : cat(way.beams, " beams"));
  return steps.empty() ? "as it is" : join(steps);
}

std::string Chain::key() const {
  std::string out =
      cat("share-", share, "-", format, method == "nearest" ? "" : "-" + method, target ? cat("-", target) : "",
          exchange.empty() ? "" : "-" + exchange, way.exit.empty() ? "" : "-exit-" + way.exit,
          way.draft.empty() ? "" : "-draft-" + way.draft, way.draft_share > 0 ? cat("-", way.draft_share) : "",
          way.beams ? cat("-beams-", way.beams) : "");
  for (char& c : out)
    if (!std::isalnum(uint8_t(c)) && c != '-' && c != '.') c = '_';
  return out;
}

}  // namespace lithe::fit
