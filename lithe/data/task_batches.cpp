#include "lithe/data/task_batches.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/log.h"
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

// An example in errors: where it stands, if that is known, and what it has beside its text.
std::string shown(const Example& example, int64_t index) {
  std::string out = example.tree             ? example.tree->place
                    : !example.place.empty() ? example.place
                                             : cat("example ", index + 1);
  for (const auto& [modality, reference] : example.features) out += cat(" ('", reference, "')");
  return out;
}

// Of Whisper's tokens, those by which `lithe transcribe` asks for a text without times; none: the tokenizer has others.
std::vector<int32_t> instructions(const Tokenizer& tokenizer, const AnswerLayout& layout) {
  const auto begin = tokenizer.width() == 1 ? tokenizer.id("<|startoftranscript|>") : std::nullopt;
  if (!begin) {
    check_usage(layout.language.empty() && !layout.translates, "task",
                "language and translates are of Whisper's tokens, and the tokenizer has no <|startoftranscript|>; "
                "leave them out");
    return {};
  }
  check_usage(tokenizer.specials().bos == begin, "task", "the tokenizer has <|startoftranscript|>, and begins texts ",
              "with another token; take the tokenizer of an imported Whisper");
  check_usage(layout.reads_source && layout.prompt_in_source, "task",
              "the tokenizer has <|startoftranscript|>, behind ",
              "which Whisper's instructions stand before an answer, and no prompt; take an encoder_decoder and set ",
              "task.prompt: none");
  check_usage(!layout.language.empty(), "task", "the tokenizer has Whisper's tokens, and `lithe transcribe` asks for ",
              "an answer by its language; set task.language: en (or de, ...), of a model of English alone none");
  std::vector<int32_t> out;
  const auto add = [&](const std::string& name, const char* remedy) {
    const auto id = tokenizer.id(name);
    check_usage(id.has_value(), "task", "the tokenizer has no ", name, "; ", remedy);
    out.push_back(*id);
  };
  if (layout.language != "none") {
    add("<|" + layout.language + "|>", "set task.language to one that it has");
    add(layout.translates ? "<|translate|>" : "<|transcribe|>", "set task.language: none");
  }
  check_usage(layout.language != "none" || !layout.translates, "task",
              "translates needs a language to translate from; set task.language");
  if (const auto no_times = tokenizer.id("<|notimestamps|>")) out.push_back(*no_times);
  return out;
}

}  // namespace

TaskBatches::TaskBatches(std::vector<Example> examples, TaskType type, const Tokenizer& tokenizer,
                         int64_t sequence_length, int64_t batch_tokens, uint64_t seed, bool shuffle,
                         TaskReading reading)
    : type_(type),
      token_width_(tokenizer.width()),
      sequence_length_(sequence_length),
      batch_size_(std::max<int64_t>(1, batch_tokens / sequence_length)),
      seed_(seed),
      shuffle_(shuffle),
      tokenizer_(&tokenizer),
      examples_(std::move(examples)),
      reading_(std::move(reading)) {
  check_usage(!examples_.empty(), "task", "there are no examples to make batches of");
  if (type == TaskType::text) instructions_ = instructions(tokenizer, reading_.answers);
  for (size_t i = 0; i < examples_.size(); ++i) {
    const Example& example = examples_[i];
    const int64_t features = most_features(example, int64_t(i), sequence_length);
    int64_t length = sequence_length - features;  // for the text: none takes the places of what it lacks
    for (const auto& [modality, reader] : reading_.features)
      if (!example.features.count(modality)) length -= reader->rows();
    const size_t before = sequences_.size();
    if (type == TaskType::tagging || type == TaskType::parsing || example.tree)
      add_words(example, int64_t(i), tokenizer, length);
    else if (type == TaskType::span)
      add_question(example, int64_t(i), tokenizer, length);
    else if (type == TaskType::text)
      add_answer(example, int64_t(i), tokenizer, length);
    else
      add_text(example, int64_t(i), tokenizer, length);
    for (size_t s = before; s < sequences_.size(); ++s) sequences_[s].most_features = features;
    check(sequences_.back().rows + features > 0, "task", shown(example, int64_t(i)),
          example.features.empty() ? " has neither text nor features; leave it out"
                                   : " has no text, and its sound is too short for a frame; leave it out");
  }
  std::vector<int64_t> rows, source_rows;
  const bool apart = type == TaskType::text && reading_.answers.reads_source;  // features are the source's
  for (const TaskSequence& s : sequences_) {
    rows.push_back(s.rows + (apart ? 0 : s.most_features));
    source_rows.push_back(apart ? int64_t(s.source.size()) + s.most_features : 0);
    fingerprint_ = checksum(s.source.data(), s.source.size() * sizeof(int32_t), fingerprint_);
    const Example& e = examples_[size_t(s.example)];
    const std::vector<int32_t>& tags = e.tags;
    const int64_t facts[] = {s.example, s.begin_row, s.end_row, e.label, std::bit_cast<int64_t>(e.value)};
    fingerprint_ = checksum(s.tokens.data(), s.tokens.size() * sizeof(int32_t), fingerprint_);
    fingerprint_ = checksum(tags.data(), tags.size() * sizeof(int32_t), fingerprint_);
    fingerprint_ = checksum(facts, sizeof facts, fingerprint_);
    for (const auto& [modality, reference] : e.features)
      fingerprint_ = checksum(reference.data(), reference.size(), fingerprint_);
    fingerprint_ = checksum(e.transcript.data(), e.transcript.size(), fingerprint_);
    for (const auto& [name, own] : s.sources)
      fingerprint_ = checksum(own.data(), own.size() * sizeof(int32_t), fingerprint_);
  }
  for (const auto& [modality, reader] : reading_.features) {
    const uint64_t own = reader->fingerprint();
    fingerprint_ = checksum(&own, sizeof own, fingerprint_);
  }
  const auto largest = [&](std::vector<int64_t>& of) {
    std::sort(of.rbegin(), of.rend());
    of.resize(std::min<size_t>(of.size(), size_t(batch_size_)));
    return std::accumulate(of.begin(), of.end(), int64_t(0));
  };
  largest_ = largest(rows);
  largest_source_ = largest(source_rows);
}

void TaskBatches::warn_of_cut() const {
  if (cut_)
    log_warning(cut_, " of ", examples_.size(), " examples are longer than data.sequence_length ", sequence_length_,
                " and were cut");
}

void TaskBatches::add_answer(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const Specials& roles = tokenizer.specials();
  check_usage(tokenizer.width() == 1 && roles.eos, "task",
              "answers in text need a tokenizer with a vocabulary and an end of texts (eos)");
  const int32_t end = end_ = *roles.eos, begin = roles.bos.value_or(end);
  std::vector<int32_t> prompt = tokenizer.encode(example.text);
  const std::vector<int32_t> answer = tokenizer.encode(example.answers.at(0).text);
  const AnswerLayout& layout = reading_.answers;
  max_tokens -= int64_t(instructions_.size());
  TaskSequence sequence{.example = index};
  // What stands beside the prompt: in the source its end; else begin, its end, and the answer.
  const int64_t room = max_tokens - (layout.prompt_in_source ? 1 : 2 + int64_t(answer.size()));
  check_usage(room >= 0 && int64_t(answer.size()) < max_tokens, "task", "the answer of ", shown(example, index),
              " has ", answer.size(), " tokens, for which data.sequence_length leaves no room; raise it");
  cut_ += int64_t(prompt.size()) > room;
  prompt.resize(std::min(prompt.size(), size_t(room)));
  if (layout.reads_source) {
    if (layout.prompt_in_source) sequence.source = prompt;
    check_usage(layout.ends_source || prompt.empty(), "task", shown(example, index),
                " has text, and task.prompt none has no place for it; leave task.text out, or set task.prompt: source");
    if (layout.ends_source) sequence.source.push_back(end);
  }
  sequence.tokens.push_back(begin);
  sequence.tokens.insert(sequence.tokens.end(), instructions_.begin(), instructions_.end());
  if (!layout.prompt_in_source && !prompt.empty()) {
    sequence.tokens.insert(sequence.tokens.end(), prompt.begin(), prompt.end());
    sequence.tokens.push_back(end);
  }
  sequence.answer = int64_t(sequence.tokens.size()) - 1;
  sequence.tokens.insert(sequence.tokens.end(), answer.begin(), answer.end());
  sequence.rows = sequence.first_rows = int64_t(sequence.tokens.size());
  sequences_.push_back(std::move(sequence));
}

// It has tokens beside special ones.
static bool reads_text(const Tokenizer& tokenizer) {
  if (tokenizer.width() > 1) return true;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    if (!tokenizer.is_special(int32_t(id))) return true;
  return false;
}

void TaskBatches::add_text(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const std::vector<int32_t> a = tokenizer.encode(example.text),
                             b = example.has_pair ? tokenizer.encode(example.pair) : std::vector<int32_t>();
  check_usage(a.empty() || reads_text(tokenizer), "task", shown(example, index),
              " has text, and the tokenizer has no tokens for text; leave task.text out, or choose another type");
  FramedText framed = frame(tokenizer, a, b, example.has_pair, max_tokens, reading_.truncation);
  cut_ += (framed.a_tokens + framed.b_tokens) * token_width_ < int64_t(a.size() + b.size());
  TaskSequence sequence{.example = index, .tokens = std::move(framed.tokens)};
  sequence.rows = int64_t(sequence.tokens.size()) / token_width_;
  sequence.first_rows = example.has_pair ? framed.b_begin : sequence.rows;
  for (const auto& [name, text] : example.sources) {
    const std::vector<int32_t> tokens = tokenizer.encode(text);
    FramedText further = frame(tokenizer, tokens, {}, false, max_tokens);
    cut_ += further.a_tokens * token_width_ < int64_t(tokens.size());
    sequence.sources[name] = std::move(further.tokens);
  }
  sequences_.push_back(std::move(sequence));
}

void TaskBatches::add_words(const Example& example, int64_t index, const Tokenizer& tokenizer, int64_t max_tokens) {
  const WordTokens words = encode_words(tokenizer, example.words);
  const std::vector<int32_t>& tokens = words.tokens;
  std::vector<int64_t> first(example.words.size(), -1);  // token of each word, -1 for a word without tokens
  for (size_t t = words.word_of.size(); t-- > 0;) first[size_t(words.word_of[t])] = int64_t(t);
  FramedText framed = frame(tokenizer, tokens, {}, false, max_tokens, reading_.truncation);
  TaskSequence sequence{.example = index, .tokens = std::move(framed.tokens)};
  sequence.rows = sequence.first_rows = int64_t(sequence.tokens.size()) / token_width_;
  sequence.word_of.assign(size_t(sequence.rows), -1);
  const auto all = int64_t(words.word_of.size());
  const auto row_of = [&](int64_t token) {
    const int64_t place = token < 0 ? -1 : reading_.truncation.place(token, all, framed.a_tokens);
    return place < 0 ? -1 : framed.a_begin + place;
  };
  for (int64_t t = 0; t < all; ++t)
    if (const int64_t row = row_of(t); row >= 0) sequence.word_of[size_t(row)] = words.word_of[size_t(t)];
  for (const int64_t token : first) sequence.words.push_back(row_of(token));
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

int64_t TaskBatches::most_features(const Example& example, int64_t index, int64_t max_tokens) const {
  int64_t rows = 0;
  for (const auto& [modality, reference] : example.features) {
    const auto reader = reading_.features.find(modality);
    check_usage(reader != reading_.features.end(), "task", "'", reference, "' is of modality ", modality,
                ", which no section of the recipe says how to read; give data.", modality);
    check_usage(reader->second->mix_up() == 0 || (type_ == TaskType::classification && example.text.empty()), "task",
                "data.", modality, ".mix_up mixes examples of classes without text; set it to 0");
    rows += reader->second->most_rows(reference);
  }
  check_usage(rows <= max_tokens, "task", "the features of ", shown(example, index), " are ", rows,
              " rows, data.sequence_length is ", max_tokens, "; raise it (with room for the text), or read fewer");
  return rows;
}

namespace {

// Beta(alpha, alpha), alpha in (0, 1], by Joehnk's method from element `next` of the stream on.
double draw_share(const RandomKey& key, uint64_t next, double alpha) {
  for (;; next += 2) {
    const double x = std::pow(random_uniform(key, next), 1 / alpha),
                 y = std::pow(random_uniform(key, next + 1), 1 / alpha);
    if (x + y > 0 && x + y <= 1) return x / (x + y);
  }
}

}  // namespace

TaskBatches::Mixed TaskBatches::mixed(int64_t example, int64_t epoch) const {
  double alpha = 0;
  for (const auto& [modality, reference] : examples_[size_t(example)].features)
    alpha = std::max(alpha, reading_.features.at(modality)->mix_up());
  if (!shuffle_ || alpha == 0) return {};
  const RandomKey key{seed_, uint64_t(epoch), uint32_t(example), purpose_of("task.mix_up")};
  const auto with = int64_t(random_below(key, 0, examples_.size()));
  if (examples_[size_t(with)].features.size() != examples_[size_t(example)].features.size()) return {};
  const double share = draw_share(key, 2, alpha);
  return {.with = with, .share = share, .own_label = random_uniform(key, 1) < share};
}

int32_t TaskBatches::label_of(int64_t example, int64_t epoch) const {
  const Mixed mix = mixed(example, epoch);
  return examples_[size_t(mix.own_label ? example : mix.with)].label;
}

// Behind the rows of the sequence that `batch` ends with.
void TaskBatches::add_features(Batch& batch, int64_t index, int64_t epoch) const {
  const Mixed mix = mixed(index, epoch);
  const auto read = [&](const FeatureReader& reader, const std::string& modality, int64_t of, std::vector<float>& out) {
    const FeatureDraw draw{.augment = shuffle_, .seed = seed_, .epoch = epoch, .example = of};
    return reader.read(examples_[size_t(of)].features.at(modality), draw, out);
  };
  for (const auto& [modality, reference] : examples_[size_t(index)].features) {
    const FeatureReader& reader = *reading_.features.at(modality);
    std::vector<float> numbers;
    const int64_t rows = read(reader, modality, index, numbers);
    if (mix.with >= 0) {
      std::vector<float> others;
      read(reader, modality, mix.with, others);
      if (others.size() == numbers.size())
        for (size_t i = 0; i < numbers.size(); ++i)
          numbers[i] = float(mix.share * double(numbers[i]) + (1 - mix.share) * double(others[i]));
    }
    add_feature_rows(batch, modality, rows, reader.width(), numbers);
  }
}

std::map<std::string, int64_t> TaskBatches::largest_sources() const {
  std::map<std::string, std::vector<int64_t>> rows;
  for (const TaskSequence& s : sequences_)
    for (const auto& [name, tokens] : s.sources) rows[name].push_back(int64_t(tokens.size()) / token_width_);
  std::map<std::string, int64_t> out;
  if (largest_source_) out["source"] = largest_source_;
  for (auto& [name, of] : rows) {
    std::sort(of.rbegin(), of.rend());
    of.resize(std::min<size_t>(of.size(), size_t(batch_size_)));
    out[name] = std::accumulate(of.begin(), of.end(), int64_t(0));
  }
  return out;
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

Streams TaskBatches::streams_of(const Example& example, int64_t index, int64_t epoch) const {
  if (example.text.empty() || example.features.empty()) return Streams::both;  // of what there is
  if (!shuffle_ || reading_.streams.empty()) return shuffle_ ? Streams::both : reading_.eval_stream;
  const RandomKey key{seed_, uint64_t(epoch), uint32_t(index), purpose_of("task.streams")};
  return reading_.streams[size_t(random_below(key, 0, reading_.streams.size()))];
}

// Of the sequence that `batch` ends with: its tokens from the first row on, and -1 behind them.
void TaskBatches::add_transcript(Batch& batch, const Example& example) const {
  if (example.transcript.empty() && !batch.columns.count("transcript")) return;
  const std::vector<int32_t> tokens = tokenizer_->encode(example.transcript);
  const int64_t begin = batch.offsets[batch.offsets.size() - 2], rows = batch.offsets.back() - begin;
  check(int64_t(tokens.size()) <= rows, "task", "the transcript '", example.transcript, "' has ", tokens.size(),
        " tokens, its sound ", rows, " rows; read fewer frames a row, or take longer tokens");
  std::vector<int32_t>& column = batch.columns["transcript"];
  column.resize(size_t(begin), -1);
  column.insert(column.end(), tokens.begin(), tokens.end());
  column.resize(size_t(batch.offsets.back()), -1);
}

// Ends `batch` with what an example's answer is written as.
void TaskBatches::write_answer(Batch& batch, const TaskSequence& s, int64_t epoch, bool prompt) const {
  if (reading_.answers.reads_source) {
    Batch& source = batch.sources["source"];
    if (source.offsets.empty()) source.offsets.push_back(0);
    const Streams reads = streams_of(examples_[size_t(s.example)], s.example, epoch);
    if (reads != Streams::st) source.tokens.insert(source.tokens.end(), s.source.begin(), s.source.end());
    source.offsets.push_back(source.rows());
    if (reads != Streams::mt) {
      add_features(source, s.example, epoch);
      add_transcript(source, examples_[size_t(s.example)]);
    }
  }
  batch.offsets.push_back(batch.rows());
  if (!reading_.answers.reads_source) add_features(batch, s.example, epoch);
  const int64_t kept = prompt ? s.answer + 1 : int64_t(s.tokens.size());
  batch.labels.resize(size_t(batch.rows()), -1);
  for (int64_t i = 0; i < kept; ++i) {
    batch.tokens.push_back(s.tokens[size_t(i)]);
    const bool learnt = !prompt && (i >= s.answer || reading_.answers.learns_prompt);
    batch.labels.push_back(!learnt ? -1 : i + 1 < kept ? s.tokens[size_t(i) + 1] : end_);
  }
  batch.offsets.back() = batch.rows();
}

Batch TaskBatches::make(int64_t epoch, int64_t index, bool prompts) const {
  check(epoch >= 0 && index >= 0 && index < batches_per_epoch(), "task", "batch ", index, " of epoch ", epoch,
        " does not exist; an epoch has ", batches_per_epoch());
  const auto count = int64_t(sequences_.size());
  const auto order = shuffle_ ? order_of(epoch) : nullptr;
  Batch batch{.offsets = {0}, .token_width = token_width_};
  std::vector<int32_t> ends;
  for (int64_t i = index * batch_size_; i < std::min(count, (index + 1) * batch_size_); ++i) {
    const TaskSequence& s = sequences_[size_t(order ? (*order)[size_t(i)] : i)];
    const Example& example = examples_[size_t(s.example)];
    if (type_ == TaskType::text) {
      write_answer(batch, s, epoch, prompts);
      continue;
    }
    batch.tokens.insert(batch.tokens.end(), s.tokens.begin(), s.tokens.end());
    batch.offsets.push_back(batch.offsets.back() + s.rows);
    const int64_t first_row = batch.offsets[batch.offsets.size() - 2];
    for (const auto& [name, tokens] : s.sources) {
      Batch& source = batch.sources[name];
      source.token_width = token_width_;
      if (source.offsets.empty()) source.offsets = {0};
      source.tokens.insert(source.tokens.end(), tokens.begin(), tokens.end());
      source.offsets.push_back(source.rows());
    }
    if (s.first_rows < s.rows) {
      std::vector<int32_t>& segments = batch.columns["token_type_ids"];  // 0: of the first text, 1: of the second
      segments.resize(size_t(batch.offsets.back()), 0);
      std::fill(segments.end() - (s.rows - s.first_rows), segments.end(), 1);
    }
    if (example.tree) {
      batch.words.sentences.push_back(example.tree);
      batch.words.word_of.insert(batch.words.word_of.end(), s.word_of.begin(), s.word_of.end());
    }
    if (!example.features.empty()) add_features(batch, s.example, epoch);
    switch (type_) {
      case TaskType::classification: batch.labels.push_back(label_of(s.example, epoch)); break;
      case TaskType::regression: batch.values.push_back(float(example.value)); break;
      case TaskType::tagging:
        batch.labels.resize(size_t(batch.offsets.back()), -1);
        for (size_t w = 0; w < s.words.size(); ++w)
          if (s.words[w] >= 0) batch.labels[size_t(first_row + s.words[w])] = example.tags[w];
        break;
      case TaskType::parsing: {  // the root or 1 + the row of the head, and the labels of arcs apart
        batch.labels.resize(size_t(batch.offsets.back()), -1);
        ends.resize(size_t(batch.offsets.back()), -1);
        const auto begin = size_t(batch.offsets[batch.offsets.size() - 2]);
        const std::vector<int32_t>* heads = example.tree ? &example.tree->heads.heads : nullptr;
        for (size_t w = 0; w < s.words.size() && heads && !heads->empty(); ++w) {
          const int32_t head = (*heads)[w];
          const int64_t row = head ? s.words[size_t(head - 1)] : -1;
          if (s.words[w] < 0) continue;  // cut off
          if (head && row < 0) {         // its head is
            batch.labels[begin + size_t(s.words[w])] = -2;
            continue;
          }
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
      case TaskType::text: break;  // above
    }
  }
  if (auto source = batch.sources.find("source"); source != batch.sources.end())
    for (auto& [name, column] : source->second.columns) column.resize(size_t(source->second.rows()), -1);
  batch.labels.insert(batch.labels.end(), ends.begin(), ends.end());
  for (auto& [name, column] : batch.columns) column.resize(size_t(batch.rows()), 0);
  return batch;
}

}  // namespace lithe
