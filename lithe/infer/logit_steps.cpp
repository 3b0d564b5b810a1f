#include "lithe/infer/logit_steps.h"

#include <algorithm>
#include <map>

#include "lithe/base/error.h"

namespace lithe {
namespace {

/// A step that is no more than a function.
template <class Function>
class Step final : public RowStep {
 public:
  explicit Step(Function function) : function_(std::move(function)) {}
  void apply(LogitRow& row) const override { function_(row); }

 private:
  Function function_;
};

template <class Function>
std::shared_ptr<const LogitStep> step(Function function) {
  return std::make_shared<Step<Function>>(std::move(function));
}

// spec: cond.early_stop | search | a classifier of the last row says where a text ends | TB Eq 6.192-6.193
class EarlyStop final : public RowStep {
 public:
  explicit EarlyStop(double margin) : margin_(margin) {}
  Needs needs() const override { return {.stop_probability = true}; }
  void apply(LogitRow& row) const override {
    if (stops_early(row.stop_probability, margin_)) row.end = Finish::early_stop;
  }

 private:
  double margin_;
};

// Logits of tokens that stand there already are divided (positive) or multiplied (negative), once each.
void penalise(LogitRow& row, double penalty) {
  const std::span<float> scores = row.choice.scores();
  std::vector<bool> done(scores.size());
  for (const int32_t id : row.tokens) {
    if (id < 0 || size_t(id) >= scores.size() || done[size_t(id)]) continue;
    done[size_t(id)] = true;
    float& s = scores[size_t(id)];
    s = float(s > 0 ? s / penalty : s * penalty);
  }
}

}  // namespace

const char* to_string(Finish finish) {
  switch (finish) {
    case Finish::end: return "end";
    case Finish::length: return "length";
    case Finish::positions: return "positions";
    case Finish::stop: return "stop";
    case Finish::early_stop: return "early_stop";
    case Finish::cancelled: return "cancelled";
    case Finish::interrupted: return "interrupted";
    case Finish::failed: return "failed";
  }
  fail("generate", "unknown finish ", int(finish));
}

bool stops_early(double probability, double margin) { return probability >= (1 + margin) / 2; }

std::shared_ptr<const LogitStep> never(std::vector<int32_t> tokens) {
  return step([tokens = std::move(tokens)](LogitRow& row) {
    for (const int32_t token : tokens) row.choice.forbid(token);
  });
}

std::shared_ptr<const LogitStep> never_before(int64_t least, std::vector<int32_t> tokens) {
  return step([least, tokens = std::move(tokens)](LogitRow& row) {
    if (int64_t(row.tokens.size()) - row.prompt_tokens >= least) return;
    for (const int32_t token : tokens) row.choice.forbid(token);
  });
}

LogitSteps logit_steps(const GenerateConfig& c, int64_t vocab_size) {
  LogitSteps out;
  if (c.early_stop) out.push_back(std::make_shared<EarlyStop>(c.early_stop_margin));
  out.push_back(step([vocab_size](LogitRow& row) { row.choice.limit(vocab_size); }));
  if (c.repetition_penalty != 1)
    out.push_back(step([penalty = c.repetition_penalty](LogitRow& row) { penalise(row, penalty); }));
  if (!c.do_sample || c.temperature == 0) return out;
  out.push_back(step([t = c.temperature](LogitRow& row) { row.choice.sample(t); }));
  if (c.top_k > 0) out.push_back(step([k = c.top_k](LogitRow& row) { row.choice.keep_likeliest(k); }));
  if (c.top_p < 1) out.push_back(step([p = c.top_p](LogitRow& row) { row.choice.keep_share(p); }));
  if (c.min_p > 0) out.push_back(step([p = c.min_p](LogitRow& row) { row.choice.keep_above(p); }));
  return out;
}

LogitStep::Needs needs_of(const LogitSteps& steps) {
  LogitStep::Needs out;
  for (const auto& one : steps) out = out | one->needs();
  return out;
}

void run_steps(std::span<LogitRow* const> rows, std::span<const LogitSteps* const> chains) {
  size_t longest = 0;
  for (const LogitSteps* chain : chains) longest = std::max(longest, chain->size());
  for (size_t place = 0; place < longest; ++place) {
    std::map<const LogitStep*, std::vector<LogitRow*>> together;
    for (size_t i = 0; i < rows.size(); ++i)
      if (place < chains[i]->size() && !rows[i]->end && !rows[i]->error)
        together[(*chains[i])[place].get()].push_back(rows[i]);
    for (const auto& [step, members] : together) {
      try {
        step->apply(members);
      } catch (...) {
        for (LogitRow* row : members) row->error = std::current_exception();
      }
    }
  }
}

}  // namespace lithe
