#include "lithe/eval/task_evaluation.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/stop.h"
#include "lithe/data/tree_columns.h"
#include "lithe/infer/write_answers.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/ctc.h"

namespace lithe {
namespace {

constexpr int64_t kLongestAnswer = 30;  // tokens

int32_t largest(const Tensor& logits, int64_t row) {
  int64_t best = 0;
  for (int64_t c = 1; c < logits.cols(); ++c)
    if (value_at(logits, row * logits.cols() + c) > value_at(logits, row * logits.cols() + best)) best = c;
  return int32_t(best);
}

// The best answer of one part of a context, and how much likelier it is than none.
struct Span {
  double score = -INFINITY;
  std::string text;
};

Span best_span(const TaskSequence& s, const Tensor& logits, int64_t offset, const std::string& context) {
  const auto at = [&](int64_t row, int64_t side) { return value_at(logits, 2 * (offset + row) + side); };
  Span best;
  int64_t from = 0, to = 0;
  for (int64_t i = 0; i < int64_t(s.pieces.size()); ++i)
    for (int64_t j = i; j < std::min(i + kLongestAnswer, int64_t(s.pieces.size())); ++j)
      if (const double score = at(s.row_of_word + i, 0) + at(s.row_of_word + j, 1); score > best.score)
        best.score = score, from = i, to = j;
  if (s.pieces.empty()) return best;
  best.score -= at(0, 0) + at(0, 1);
  const Answer &first = s.pieces[size_t(from)], &last = s.pieces[size_t(to)];
  best.text = context.substr(size_t(first.begin), size_t(last.begin - first.begin) + last.text.size());
  return best;
}

std::vector<Head::Parse> parse(const Model& model, const TaskBatches& batches, const Rows& rows, int64_t first) {
  std::vector<std::vector<int64_t>> words;
  for (int64_t b = 0; b < rows.sequences.count(); ++b) {
    words.emplace_back();
    for (const int64_t row : batches.sequences()[size_t(first + b)].words)
      if (row >= 0) words.back().push_back(row);
  }
  return model.parse(rows, words, false);
}

// The parse of the words that the model has seen; of others it says nothing (-1).
void take_parse(const Head::Parse& parse, const TaskSequence& s, Prediction& p) {
  std::vector<int32_t> number;  // of each word seen
  for (size_t w = 0; w < s.words.size(); ++w)
    if (s.words[w] >= 0) number.push_back(int32_t(w) + 1);
  size_t seen = 0;
  for (size_t w = 0; w < s.words.size(); ++w) {
    p.parser.emplace_back();
    if (s.words[w] < 0) {
      p.heads.push_back(-1);
      p.tags.push_back(-1);
      continue;
    }
    const int32_t head = parse.heads[seen];
    p.heads.push_back(head ? number[size_t(head - 1)] : 0);
    p.tags.push_back(parse.labels[seen]);
    std::vector<std::pair<double, int32_t>> likely;
    for (size_t h = 0; h < parse.probabilities[seen].size(); ++h)
      if (h != seen + 1)  // itself
        likely.emplace_back(-parse.probabilities[seen][h], h ? number[h - 1] : 0);
    std::sort(likely.begin(), likely.end());
    likely.resize(std::min(likely.size(), size_t(kParserHeads)));
    double sum = 0;
    for (const auto& [minus, h] : likely) sum -= minus;
    for (const auto& [minus, h] : likely) p.parser.back().emplace_back(h, float(-minus / sum));
    ++seen;
  }
}

}  // namespace

TaskAnswers answer(const Model& model, const TaskBatches& batches, const Progress& progress, ExitRun* exits) {
  check(!batches.shuffled(), "task", "answers are of examples in their order; make the batches without shuffling");
  const NoGrad no_grad;
  TaskAnswers out;
  const std::vector<Example>& examples = batches.examples();
  out.predictions.resize(examples.size());
  if (batches.type() == TaskType::classification) out.probabilities.resize(examples.size());
  std::vector<double> margins(examples.size(), 0);  // span: of the best answer so far; 0 is the one of none
  LossSums total;
  int64_t next = 0;
  for (int64_t i = 0; i < batches.batches_per_epoch() && !stop_signal(); ++i) {
    if (progress) progress(i + 1, batches.batches_per_epoch());
    const DeviceBatch batch = to_device(read_by(model, batches.batch(0, i)), model);
    Pass pass;
    pass.set_exits(exits);
    const Rows ran = model.run(batch.input, pass);  // a compressor makes them fewer
    if (batches.type() == TaskType::text) {
      LossSums sums;
      model.loss_of(ran, {}, {.labels = batch.targets.labels, .sums = &sums});
      total += sums;
      out.batches.push_back(sums);
      const DeviceBatch prompts = to_device(batches.prompts(0, i), model);
      for (const auto& tokens : write_answers(model, prompts.input, batches.end(), batches.longest_answer()))
        out.predictions[size_t(batches.sequences()[size_t(next++)].example)].text = batches.tokenizer().decode(tokens);
      continue;
    }
    const Tensor logits = batches.type() == TaskType::parsing ? Tensor() : model.logits(ran).value();
    if (batch.labelled) {
      LossSums sums;
      const bool classes = batches.type() == TaskType::classification || batches.type() == TaskType::tagging;
      if (exits && classes)  // by the heads of the exits
        cross_entropy(logits, batch.targets.labels, 0, 1, &sums);
      else
        model.loss_of(
            ran, {}, {.labels = batch.targets.labels, .sums = &sums, .label_sequences = batch.targets.label_sequences});
      total += sums;
      out.batches.push_back(sums);
    }
    Tensor probabilities;
    if (batches.type() == TaskType::classification) {
      probabilities = convert(logits, DType::f64);
      kernels::softmax({.x = probabilities, .y = probabilities});
    }
    std::vector<Head::Parse> parses;
    if (batches.type() == TaskType::parsing) parses = parse(model, batches, ran, next);
    for (int64_t b = 0; b < batch.input.sequences.count(); ++b, ++next) {
      const TaskSequence& s = batches.sequences()[size_t(next)];
      Prediction& p = out.predictions[size_t(s.example)];
      const int64_t offset = batch.input.sequences.offset(b);
      switch (batches.type()) {
        case TaskType::classification:
          p.label = largest(logits, b);
          for (int64_t c = 0; c < logits.cols(); ++c)
            out.probabilities[size_t(s.example)].push_back(value_at(probabilities, b * logits.cols() + c));
          break;
        case TaskType::regression: p.value = value_at(logits, b); break;
        case TaskType::tagging:
          for (const int64_t row : s.words) p.tags.push_back(row < 0 ? -1 : largest(logits, offset + row));
          break;
        case TaskType::span:
          if (const Span span = best_span(s, logits, offset, examples[size_t(s.example)].pair);
              span.score > margins[size_t(s.example)]) {
            margins[size_t(s.example)] = span.score;
            p.text = span.text;
          }
          break;
        case TaskType::parsing: take_parse(parses[size_t(b)], s, p); break;
        case TaskType::transcription:
          p.tags = ctc_best_path(logits, ran.sequences.offset(b), ran.sequences.offset(b + 1));
          break;
        case TaskType::text: break;  // above
      }
    }
  }
  out.loss = total.loss / double(std::max<int64_t>(total.labels, 1));
  return out;
}

HeldOut::BestBy HeldOutTask::best_by() const {
  const TaskMetric best = choose_metrics(config_, labels_).best;
  return {best.name, best.better == Better::lower};
}

double HeldOutTask::first_score(const TaskAnswers& answers) const {
  const std::vector<TaskMetric> metrics = choose_metrics(config_, labels_).metrics;
  return score_predictions({metrics[0]}, answers.predictions, batches_.examples(), labels_)[0].value;
}

std::optional<HeldOutScores> HeldOutTask::score(const Model& model, const Progress& progress) const {
  const TaskAnswers answers = answer(model, batches_, progress);
  if (stop_signal()) return std::nullopt;
  HeldOutScores out{.loss = answers.loss};
  const ChosenMetrics chosen = choose_metrics(config_, labels_);
  for (const Score& score : score_predictions(chosen.metrics, answers.predictions, batches_.examples(), labels_)) {
    out.metrics.emplace_back(score.metric.name, score.value);
    if (score.metric.name != chosen.best.name) continue;
    // An undefined score (a constant prediction's correlation) is worse than any other.
    out.best = std::isnan(score.value) ? -INFINITY : score.metric.better == Better::higher ? score.value : -score.value;
  }
  return out;
}

}  // namespace lithe
