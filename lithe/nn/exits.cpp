#include "lithe/nn/exits.h"

#include <algorithm>
#include <cmath>

namespace lithe {
namespace {

using Criterion = ExitRule::Criterion;

struct Named {
  const char* name;
  Criterion criterion;
  double threshold, low, high;
  const char* wants;
};
constexpr Named kCriteria[] = {
    {"layer", Criterion::layer, 0, 1, 1e6, "the layer, from 1"},
    {"entropy", Criterion::entropy, 0.5, 0, 1e6, "nats, at least 0"},
    {"maxprob", Criterion::maxprob, 0.9, 0, 1e6, "a probability"},
    {"margin", Criterion::margin, 0.8, 0, 1e6, "a difference of probabilities"},
    {"similarity", Criterion::similarity, 0.99, -1e6, 1e6, "a cosine"},
    {"divergence", Criterion::divergence, 1e-3, -1e6, 1e6, "nats"},
    {"patience", Criterion::patience, 3, 1, 1e6, "a number of exits, at least 1"},
    {"predictor", Criterion::predictor, 0, 0, 0, "no number"},
};
const Named& named(Criterion criterion) {
  for (const Named& n : kCriteria)
    if (n.criterion == criterion) return n;
  fail("exit", "unknown criterion ", int(criterion));
}

}  // namespace

std::vector<std::string> exit_criteria() {
  std::vector<std::string> out;
  for (const Named& n : kCriteria) out.emplace_back(n.name);
  return out;
}

ExitRule exit_rule_named(const std::string& text) {
  std::vector<std::string> words{""};
  for (char c : text)
    if (c == ':')
      words.emplace_back();
    else
      words.back() += c;
  std::string all;
  for (const Named& n : kCriteria) all += cat(all.empty() ? "" : ", ", n.name);
  const auto found =
      std::find_if(std::begin(kCriteria), std::end(kCriteria), [&](const Named& n) { return n.name == words[0]; });
  check_usage(found != std::end(kCriteria), "exit", "there is no rule '", text, "'; choose one of ", all,
              ", with a threshold as in entropy:0.5");
  ExitRule rule{.criterion = found->criterion, .threshold = found->threshold};
  size_t next = 1;
  const auto unit = [&](const std::string& word) {
    if (word == "token") rule.unit = ExitRule::Unit::token;
    if (word == "sentence") rule.unit = ExitRule::Unit::sentence;
    return word == "token" || word == "sentence";
  };
  if (next < words.size() && !unit(words[next])) {
    size_t read = 0;
    try {
      rule.threshold = std::stod(words[next], &read);
    } catch (const std::exception&) {
      read = 0;
    }
    check_usage(read > 0 && read == words[next].size() && found->criterion != Criterion::predictor &&
                    rule.threshold >= found->low && rule.threshold <= found->high,
                "exit", "'", text, "': ", found->name, " takes ", found->wants, ", got '", words[next], "'");
  } else {
    check_usage(found->criterion != Criterion::layer, "exit", "'", text,
                "' names no layer; give the one after which rows leave, as in layer:4");
  }
  while (++next < words.size() && unit(words[next])) continue;
  check_usage(next >= words.size(), "exit", "'", text, "' goes on with '", next < words.size() ? words[next] : "",
              "'; what may follow the threshold is :token or :sentence");
  const bool whole = rule.criterion == Criterion::layer || rule.criterion == Criterion::patience;
  check_usage(!whole || rule.threshold == std::floor(rule.threshold), "exit", "'", text, "': ", found->name, " takes ",
              found->wants, ", got ", rule.threshold);
  return rule;
}

std::string text_of(const ExitRule& rule) {
  std::string out = named(rule.criterion).name;
  if (rule.criterion != Criterion::predictor) out += cat(":", rule.threshold);
  if (rule.unit == ExitRule::Unit::token) out += ":token";
  if (rule.unit == ExitRule::Unit::sentence) out += ":sentence";
  return out;
}

void ExitRun::begin(int64_t rows, int64_t layers) {
  exit_of_row.assign(size_t(rows), -1);
  logits_of_row.assign(size_t(rows), Tensor());
  ran.resize(std::max(ran.size(), size_t(layers) + 1), 0);
}

int64_t ExitRun::counted() const {
  int64_t total = 0;
  for (int64_t n : ran) total += n;
  return total;
}

double ExitRun::mean_layers() const {
  double layers = 0;
  for (size_t l = 0; l < ran.size(); ++l) layers += double(l) * double(ran[l]);
  return layers / double(std::max<int64_t>(counted(), 1));
}

}  // namespace lithe
