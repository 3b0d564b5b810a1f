#include "lithe/model/layer_pattern.h"

#include "lithe/base/error.h"

namespace lithe {
namespace {

// Layer i from 1, of L.
struct Pattern {
  const char* name;
  bool (*keeps)(int64_t i, int64_t L);
};
const Pattern kPatterns[] = {{"uniform", [](int64_t, int64_t) { return false; }},
                             {"hybrid", [](int64_t i, int64_t) { return i % 2 == 0; }},
                             {"even", [](int64_t i, int64_t) { return i % 2 == 0; }},
                             {"odd", [](int64_t i, int64_t) { return i % 2 == 1; }},
                             {"top", [](int64_t i, int64_t L) { return i <= L / 2; }},
                             {"middle", [](int64_t i, int64_t L) { return i <= L / 4 || i > L - L / 4; }},
                             {"bottom", [](int64_t i, int64_t L) { return i > L / 2; }},
                             {"25%", [](int64_t i, int64_t) { return i % 4 == 0; }},
                             {"first", [](int64_t i, int64_t) { return i == 1; }},
                             {"last", [](int64_t i, int64_t L) { return i == L; }},
                             {"bilateral", [](int64_t i, int64_t L) { return i == 1 || i == L; }}};

}  // namespace

const std::vector<std::string>& layer_pattern_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Pattern& p : kPatterns) out.push_back(p.name);
    return out;
  }();
  return names;
}

// spec: decon.config_uniform | pattern | layer_pattern uniform: every layer's mixer is the replaced one | TH 4.4.2
// spec: decon.config_hybrid | pattern | layer_pattern hybrid: odd layers replaced, even ones standard | TH 4.4.2
// spec: decon.config_ablation | pattern | layer_pattern even, odd, top, middle, bottom, 25%, first ... | TH Table 4.11
std::vector<bool> standard_layers(const std::string& pattern, int64_t layers) {
  for (const Pattern& p : kPatterns) {
    if (p.name != pattern) continue;
    std::vector<bool> out;
    for (int64_t i = 1; i <= layers; ++i) out.push_back(p.keeps(i, layers));
    return out;
  }
  fail_usage("model", "there is no layer_pattern '", pattern, "'");
}

}  // namespace lithe
