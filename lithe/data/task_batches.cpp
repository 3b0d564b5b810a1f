#include "lithe/data/task_batches.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/data/permutation.h"
#include "lithe/data/tree_columns.h"
#include "lithe/text/framing.h"

namespace lithe {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// The words between white space, with their places.
std::vector<Answer> words_of(const std::string& text) {
  std::vector<Answer> out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !is_space(text[end])) ++end;
    if (end > i) out.push_back({text.substr(i, end - i), int64_t(i)});
    i = end + 1;
  }
  return out;
}

// Tokens of words that stand in a sentence: all but the first follow a space.
std::vector<int32_t> encode_word(const Tokenizer& tokenizer, const std::string& word, bool first) {
  return tokenizer.encode(first ? word : " " + word);
}

}  // namespace

TaskBatches::TaskBatches(std::vector<Example> examples, TaskType type, const Tokenizer& tokenizer,
                         int64_t sequence_length, int64_t batch_tokens, uint64_t seed, bool shuffle)
    : type_(type),
      token_width_(tokenizer.width()),
      batch_size_(std::max<int64_t>(1, batch_tokens / sequence_length)),
      seed_(seed),
      shuffle_(shuffle),
      examples_(std::move(examples)) {
  check_usage(!examples_.empty(), "task", "there are no examples to make batches of");
  for (size_t i = 0; i < examples_.size(); ++i) {
    const Example& example = examples_[i];
    if (type == TaskType::tagging || type == TaskType::parsing || example.tree)
      add_words(example, int64_t(i), tokenizer, sequence_length);
    else if (type == TaskType::span)
      add_question(example, int64_t(i), tokenizer, sequence_length);
    else
      add_text(example, int64_t(i), tokenizer, sequence_length);
  }
  std::vector<int64_t> rows;
  for (const TaskSequence& s : sequences_) {
    rows.push_back(s.rows);
    const Example& e = examples_[size_t(s.example)];
    const std::vector<int32_t>& tags = e.tags;
    const int64_t facts[] = {s.example, s.begin_row, s.end_row, e.label, std::bit_cast<int64_t>(e.value)};
    fingerprint_ = checksum(s.tokens.data(), s.tokens.size() * sizeof(int32_t), fingerprint_);
    fingerprint_ = checksum(tags.data(), tags.size() * sizeof(int32_t), fingerprint_);
    fingerprint_ = checksum(facts, sizeof facts, fingerprint_);
  }
  std::sort(rows.rbegin(), rows.rend());
  rows.resize(std::min<size_t>(rows.size(), size_t(batch_size_)));
  largest_ = std::accumulate(rows.begin(), rows.end(), int64_t(0));
}

void TaskBatches::add_text(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const std::vector<int32_t> a = tokenizer.encode(example.text),
                             b = example.has_pair ? tokenizer.encode(example.pair) : std::vector<int32_t>();
  FramedText framed = frame(tokenizer, a, b, example.has_pair, max_tokens);
  cut_ += (framed.a_tokens + framed.b_tokens) * token_width_ < int64_t(a.size() + b.size());
  TaskSequence sequence{.example = index, .tokens = std::move(framed.tokens)};
  sequence.rows = int64_t(sequence.tokens.size()) / token_width_;
  sequence.first_rows = example.has_pair ? framed.b_begin : sequence.rows;
  sequences_.push_back(std::move(sequence));
}

void TaskBatches::add_words(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const WordTokens words = encode_words(tokenizer, example.words);
  const std::vector<int32_t>& tokens = words.tokens;
  std::vector<int64_t> first(example.words.size(), -1);  // token of each word, -1 for a word without tokens
  for (size_t t = words.word_of.size(); t-- > 0;) first[size_t(words.word_of[t])] = int64_t(t);
  FramedText framed = frame(tokenizer, tokens, {}, false, max_tokens);
  TaskSequence sequence{.example = index, .tokens = std::move(framed.tokens)};
  sequence.rows = sequence.first_rows = int64_t(sequence.tokens.size()) / token_width_;
  sequence.word_of.assign(size_t(sequence.rows), -1);
  std::copy_n(words.word_of.begin(), framed.a_tokens, sequence.word_of.begin() + framed.a_begin);
  for (const int64_t token : first)
    sequence.words.push_back(token >= 0 && token < framed.a_tokens ? framed.a_begin + token : -1);
  cut_ += framed.a_tokens * token_width_ < int64_t(tokens.size());
  sequences_.push_back(std::move(sequence));
}

void TaskBatches::add_question(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const std::vector<int32_t> question = tokenizer.encode(example.text);
  const std::vector<Answer> words = words_of(example.pair);
  std::vector<int32_t> context;
  std::vector<int64_t> word_of;  // of each token
  for (size_t w = 0; w < words.size(); ++w) {
    const std::vector<int32_t> word = encode_word(tokenizer, words[w].text, w == 0);
    context.insert(context.end(), word.begin(), word.end());
    word_of.insert(word_of.end(), word.size() / size_t(token_width_), int64_t(w));
  }
  const auto asked = int64_t(question.size()) / token_width_, all = int64_t(word_of.size()),
             room = max_tokens - frame_specials(tokenizer, true) - asked;
  check_usage(room >= 2, "task", "a question of ", asked, " tokens leaves no room for its context in ", max_tokens,
              " tokens; raise data.sequence_length");
  // The first right answer, from the word it begins in to the one it ends in.
  int64_t begin = -1, end = -1;
  if (!example.answers.empty()) {
    const Answer& answer = example.answers[0];
    for (int64_t t = 0; t < all; ++t) {
      const Answer& word = words[size_t(word_of[size_t(t)])];
      const int64_t word_end = word.begin + int64_t(word.text.size());
      if (word_end <= answer.begin || word.begin >= answer.begin + int64_t(answer.text.size())) continue;
      if (begin < 0) begin = t;
      end = t;
    }
  }
  const int64_t step = std::max<int64_t>(1, room / 2);
  for (int64_t from = 0;; from += step) {
    const int64_t to = std::min(all, from + room);
    FramedText framed = frame(
        tokenizer, question,
        std::span(context).subspan(size_t(from * token_width_), size_t((to - from) * token_width_)), true, max_tokens);
    TaskSequence sequence{.example = index, .tokens = std::move(framed.tokens), .row_of_word = framed.b_begin};
    sequence.rows = int64_t(sequence.tokens.size()) / token_width_;
    sequence.first_rows = framed.b_begin;
    for (int64_t t = from; t < to; ++t) sequence.pieces.push_back(words[size_t(word_of[size_t(t)])]);
    if (begin >= from && end < to && begin >= 0) {
      sequence.begin_row = framed.b_begin + begin - from;
      sequence.end_row = framed.b_begin + end - from;
    }
    sequences_.push_back(std::move(sequence));
    if (to == all) break;
  }
}

int64_t TaskBatches::batches_per_epoch() const { return (int64_t(sequences_.size()) + batch_size_ - 1) / batch_size_; }

std::shared_ptr<const std::vector<int64_t>> TaskBatches::order_of(int64_t epoch) const {
  const std::lock_guard lock(order_->mutex);
  if (order_->epoch != epoch) {
    const RandomKey key{seed_, uint64_t(epoch), 0, purpose_of("task.order")};
    order_->order = std::make_shared<const std::vector<int64_t>>(permutation(key, int64_t(sequences_.size())));
    order_->epoch = epoch;
  }
  return order_->order;
}

Batch TaskBatches::batch(int64_t epoch, int64_t index) const {
  check(epoch >= 0 && index >= 0 && index < batches_per_epoch(), "task", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_per_epoch());
  const auto count = int64_t(sequences_.size());
  const auto order = shuffle_ ? order_of(epoch) : nullptr;
  Batch batch{.offsets = {0}, .token_width = token_width_};
  std::vector<int32_t> ends;
  for (int64_t i = index * batch_size_; i < std::min(count, (index + 1) * batch_size_); ++i) {
    const TaskSequence& s = sequences_[size_t(order ? (*order)[size_t(i)] : i)];
    const Example& example = examples_[size_t(s.example)];
    batch.tokens.insert(batch.tokens.end(), s.tokens.begin(), s.tokens.end());
    batch.offsets.push_back(batch.offsets.back() + s.rows);
    if (s.first_rows < s.rows) {
      std::vector<int32_t>& segments = batch.columns["token_type_ids"];  // 0: of the first text, 1: of the second
      segments.resize(size_t(batch.offsets.back()), 0);
      std::fill(segments.end() - (s.rows - s.first_rows), segments.end(), 1);
    }
    if (example.tree) {
      batch.words.sentences.push_back(example.tree);
      batch.words.word_of.insert(batch.words.word_of.end(), s.word_of.begin(), s.word_of.end());
    }
    switch (type_) {
      case TaskType::classification: batch.labels.push_back(example.label); break;
      case TaskType::regression: batch.values.push_back(float(example.value)); break;
      case TaskType::tagging:
        batch.labels.resize(size_t(batch.offsets.back()), -1);
        for (size_t w = 0; w < s.words.size(); ++w)
          if (s.words[w] >= 0)
            batch.labels[size_t(batch.offsets[batch.offsets.size() - 2] + s.words[w])] = example.tags[w];
        break;
      case TaskType::parsing: {  // the root or 1 + the row of the head, and the labels of arcs apart
        batch.labels.resize(size_t(batch.offsets.back()), -1);
        ends.resize(size_t(batch.offsets.back()), -1);
        const auto begin = size_t(batch.offsets[batch.offsets.size() - 2]);
        const std::vector<int32_t>* heads = example.tree ? &example.tree->heads.heads : nullptr;
        for (size_t w = 0; w < s.words.size() && heads && !heads->empty(); ++w) {
          const int32_t head = (*heads)[w];
          const int64_t row = head ? s.words[size_t(head - 1)] : -1;
          if (s.words[w] < 0 || (head && row < 0)) continue;  // cut off
          batch.labels[begin + size_t(s.words[w])] = head ? int32_t(row) + 1 : 0;
          ends[begin + size_t(s.words[w])] = example.tags[w];
        }
        break;
      }
      case TaskType::span:
        batch.labels.push_back(int32_t(s.begin_row));
        ends.push_back(int32_t(s.end_row));
        break;
      case TaskType::transcription:
        batch.labels.insert(batch.labels.end(), example.tags.begin(), example.tags.end());
        batch.label_offsets.resize(std::max<size_t>(1, batch.label_offsets.size()));
        batch.label_offsets.push_back(int64_t(batch.labels.size()));
        break;
    }
  }
  batch.labels.insert(batch.labels.end(), ends.begin(), ends.end());
  for (auto& [name, column] : batch.columns) column.resize(size_t(batch.rows()), 0);
  return batch;
}

}  // namespace lithe
