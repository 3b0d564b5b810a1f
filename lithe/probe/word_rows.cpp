#include "lithe/probe/word_rows.h"

#include <algorithm>
#include <cstring>

#include "lithe/base/checksummed_blocks.h"
#include "lithe/base/fields.h"
#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/data/tree_columns.h"
#include "lithe/objective/device_batch.h"
#include "lithe/ops/basic.h"
#include "lithe/text/framing.h"

namespace lithe::probe {
namespace {

struct Framed {
  std::vector<int32_t> tokens;   // width() ints a token
  std::vector<int32_t> word_of;  // of each token; -1: a special one
  bool whole = false;            // no word without a token, nothing cut
};

Framed framed(const Tokenizer& tokenizer, const Sentence& sentence, int64_t max_tokens) {
  const WordTokens words =
      encode_words(tokenizer, sentence.words, sentence.space_after.empty() ? nullptr : &sentence.space_after);
  FramedText text = frame(tokenizer, words.tokens, {}, false, max_tokens);
  Framed out{.tokens = std::move(text.tokens),
             .whole = words.missing().empty() && text.a_tokens == int64_t(words.word_of.size())};
  out.word_of.assign(out.tokens.size() / size_t(tokenizer.width()), -1);
  std::copy_n(words.word_of.begin(), text.a_tokens, out.word_of.begin() + text.a_begin);
  return out;
}

Tensor tensor_of_tokens(const std::vector<int32_t>& tokens, int64_t width) {
  const auto n = int64_t(tokens.size()) / width;
  return tensor_of(width > 1 ? Shape{n, width} : Shape{n}, std::span<const int32_t>(tokens));
}

// Sentences one after another, with the columns of a treebank that the model reads.
struct Rowed {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets{0};
  Batch::Words words;

  void add(const Framed& text, const Sentence& sentence) {
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    offsets.push_back(offsets.back() + int64_t(text.word_of.size()));
    words.sentences.push_back(sentence.tree);
    words.word_of.insert(words.word_of.end(), text.word_of.begin(), text.word_of.end());
  }

  ModelInput input(const Probed& model) const {
    const int64_t width = model.tokenizer->width(), n = offsets.back();
    ModelInput out{tensor_of_tokens(tokens, width), Sequences(offsets)};
    const ColumnChoice choice = columns_of(*model.model);
    if (choice.empty()) return out;
    for (const auto& sentence : words.sentences)
      check_usage(sentence != nullptr, "probe", "the model reads the columns ", join(choice.names),
                  " of a treebank, which altered and plain sentences do not have; leave the task out");
    Batch batch{.tokens = tokens, .offsets = offsets, .token_width = width};
    batch.words = words;
    for (const auto& [name, column] : tree_columns(choice, batch)) {
      const int64_t each = int64_t(column.size()) / n;
      out.columns[name] = tensor_of(each > 1 ? Shape{n, each} : Shape{n}, std::span<const int32_t>(column));
    }
    return out;
  }
};

// The layer's rows of each word, where a compressor left fewer than tokens: `row_of` has the row of each token, or -1.
std::vector<std::vector<int64_t>> in_fewer_rows(const std::vector<std::vector<int64_t>>& pieces, const Tensor& row_of) {
  std::vector<std::vector<int64_t>> out(pieces.size());
  for (size_t word = 0; word < pieces.size(); ++word)
    for (const int64_t token : pieces[word])
      if (const int32_t row = row_of.data<int32_t>()[token]; row >= 0) out[word].push_back(row);
  return out;
}

// What the pieces of each word make, f32 [words, width], after `out`; 0 of a word without a row.
void pool_pieces(const Tensor& rows, const std::vector<std::vector<int64_t>>& pieces, const std::string& how,
                 std::vector<float>& out) {
  const int64_t d = rows.cols();
  const float* x = rows.data<float>();
  for (const std::vector<int64_t>& of : pieces) {
    const size_t at = out.size();
    out.resize(at + size_t(d), 0.0f);
    if (of.empty()) continue;
    if (how != "mean") {
      std::copy_n(x + (how == "first" ? of.front() : of.back()) * d, d, out.begin() + int64_t(at));
      continue;
    }
    for (const int64_t row : of)
      for (int64_t c = 0; c < d; ++c) out[at + size_t(c)] += x[row * d + c];
    for (int64_t c = 0; c < d; ++c) out[at + size_t(c)] /= float(of.size());
  }
}

// Calls take(layer, numbers) for the words of batch after batch.
template <class Take>
void each_layer(const Probed& model, const std::vector<Sentence>& sentences, const RowOptions& options, Take&& take) {
  constexpr int64_t kTokens = 2048;  // of a batch; what a sentence gets does not depend on it
  const NoGrad no_grad;
  const int64_t layers = model.layers();
  std::vector<int64_t> without(size_t(layers + 1), 0);  // words
  for (size_t next = 0; next < sentences.size();) {
    check_not_stopped("probe", "no page was written");
    Rowed rowed;
    std::vector<std::vector<int64_t>> pieces;  // rows of each word
    while (next < sentences.size() && rowed.offsets.back() < kTokens) {
      const Framed text = framed(*model.tokenizer, sentences[next], options.max_tokens);
      check(text.whole, "probe", "sentence ", next, " does not fit the model; leave it out");
      const size_t first = pieces.size();
      pieces.resize(first + sentences[next].words.size());
      for (size_t t = 0; t < text.word_of.size(); ++t)
        if (text.word_of[t] >= 0) pieces[first + size_t(text.word_of[t])].push_back(rowed.offsets.back() + int64_t(t));
      rowed.add(text, sentences[next]);
      ++next;
    }
    Pass pass;
    pass.want(Tap::Kind::rows);
    pass.want(Tap::Kind::row_of);
    const ModelInput input = rowed.input(model);
    const bool encodes = reads_source(model.model->config().architecture);
    const Rows made = encodes ? model.model->encode(input, pass) : model.model->run(input, pass);
    for (int64_t l = 0; l <= layers; ++l) {
      const Var rows = l == layers ? made.x : pass.get({Tap::Kind::rows, l - 1});
      check_usage(rows.defined(), "probe", "layer ", l, " of ", layers,
                  " leaves no rows with this stack; probe a model "
                  "whose stack is plain");
      const Var row_of = l == 0 ? Var() : pass.get({Tap::Kind::row_of, l - 1});
      const int64_t tokens = input.sequences.rows();
      check_usage(row_of.defined() ? row_of.rows() == tokens : rows.rows() == tokens, "probe", "layer ", l, " has ",
                  rows.rows(), " rows for ", tokens,
                  " tokens, and its compressor does not say which tokens a row stands for; probe a model without it");
      std::vector<float> words;
      const auto of_words = row_of.defined() ? in_fewer_rows(pieces, row_of.value()) : pieces;
      for (const auto& of : of_words) without[size_t(l)] += of.empty();
      pool_pieces(cast(rows, DType::f32).value(), of_words, options.pieces, words);
      take(l, words);
    }
  }
  for (int64_t l = 0; l <= layers; ++l)
    if (without[size_t(l)])
      log_info("probe: in layer ", l, " no row stands for ", without[size_t(l)],
               " words, whose tokens a compressor left out; theirs are 0");
}

}  // namespace

Sentence sentence_of(const TreeSentence& sentence) {
  return {sentence.words, sentence.space_after,
          std::shared_ptr<const TreeSentence>(std::shared_ptr<void>(), &sentence)};
}

WordRows::WordRows(std::vector<std::vector<float>> layers, int64_t width) : width_(width) {
  check(!layers.empty() && width > 0, "probe", "there must be numbers of at least one layer");
  words_ = int64_t(layers[0].size()) / width;
  held_ = std::make_shared<const std::vector<std::vector<float>>>(std::move(layers));
  for (const std::vector<float>& layer : *held_) {
    check(int64_t(layer.size()) == words_ * width, "probe", "a layer has ", layer.size(), " numbers for ", words_,
          " words of ", width);
    layers_.push_back(layer);
  }
}

// The files of one set of rows: the numbers of a layer, then their checksum (u64).
class RowCache {
 public:
  RowCache(const Path& directory, uint64_t key, int64_t layers, int64_t width, int64_t words)
      : directory_(directory), key_(key), layers_(layers), width_(width), words_(words) {}

  bool read(WordRows& out) const {
    const size_t bytes = size_t(words_ * width_) * sizeof(float);
    auto maps = std::make_shared<std::vector<MappedFile>>();
    WordRows rows;
    rows.width_ = width_, rows.words_ = words_;
    for (int64_t l = 0; l < layers_; ++l) {
      if (!std::filesystem::exists(file(l))) return false;
      maps->emplace_back(file(l));
      const std::string_view view = maps->back().view();
      uint64_t sum = 0;
      if (view.size() == bytes + sizeof sum) std::memcpy(&sum, view.data() + bytes, sizeof sum);
      if (view.size() != bytes + sizeof sum || chained_checksum(view.substr(0, bytes)) != sum) {
        log_warning("probe: '", file(l).string(), "' is damaged and made anew");
        return false;
      }
    }
    for (const MappedFile& map : *maps)
      rows.layers_.emplace_back(reinterpret_cast<const float*>(map.data()), size_t(words_ * width_));
    rows.mapped_ = maps;
    out = std::move(rows);
    return true;
  }

  template <class Fill>
  void write(Fill&& fill) const {
    make_directory(directory_);
    struct Layer {
      AtomicFile file;
      ChecksummedBlocks blocks;
      explicit Layer(const Path& path) : file(path), blocks([this](std::string_view bytes) { file.write(bytes); }) {}
    };
    std::vector<std::unique_ptr<Layer>> files;
    for (int64_t l = 0; l < layers_; ++l) files.push_back(std::make_unique<Layer>(file(l)));
    fill([&](int64_t layer, const std::vector<float>& words) {
      files[size_t(layer)]->blocks.put(words.data(), words.size() * sizeof(float));
    });
    for (const auto& of : files) {
      const uint64_t sum = of->blocks.finish();
      of->file.write(&sum, sizeof sum);
      of->file.commit();
    }
  }

 private:
  Path directory_;
  uint64_t key_;
  int64_t layers_, width_, words_;
  Path file(int64_t layer) const {
    char name[64];
    std::snprintf(name, sizeof name, "%016llx-%02lld.rows", static_cast<unsigned long long>(key_),
                  static_cast<long long>(layer));
    return directory_ / name;
  }
};

int64_t Probed::layers() const {
  return reads_source(model->config().architecture) ? model->config().encoder_config().num_hidden_layers
                                                    : model->config().num_hidden_layers;
}

int64_t Probed::position_limit() const {
  return reads_source(model->config().architecture) ? model->source_limit() : model->position_limit();
}

bool Probed::causal() const { return model->config().architecture == Architecture::decoder; }

Probed probed(const LoadedModel& loaded) {
  const bool encodes = reads_source(loaded.model->config().architecture);
  return {loaded.model.get(), encodes ? loaded.source_tokenizer.get() : loaded.tokenizer.get()};
}

std::vector<bool> fitting(const Probed& model, const std::vector<Sentence>& sentences, int64_t max_tokens) {
  if (const int64_t limit = model.position_limit()) max_tokens = std::min(max_tokens, limit);
  std::vector<bool> out;
  for (const Sentence& s : sentences) out.push_back(!s.words.empty() && framed(*model.tokenizer, s, max_tokens).whole);
  return out;
}

WordRows word_rows(const Probed& model, const std::vector<Sentence>& sentences, const RowOptions& options) {
  check_usage(std::find(kPiecePoolings.begin(), kPiecePoolings.end(), options.pieces) != kPiecePoolings.end(), "probe",
              "the rows of pieces are pooled by mean, first or last, got '", options.pieces, "'");
  int64_t words = 0;
  for (const Sentence& s : sentences) words += int64_t(s.words.size());
  const int64_t layers = model.layers() + 1, width = model.model->config().hidden_size;
  if (options.cache.empty()) {
    std::vector<std::vector<float>> rows(static_cast<size_t>(layers));
    each_layer(model, sentences, options, [&](int64_t l, const std::vector<float>& of) {
      rows[size_t(l)].insert(rows[size_t(l)].end(), of.begin(), of.end());
    });
    return {std::move(rows), width};
  }
  uint64_t key = checksum(options.pieces.data(), options.pieces.size(), options.fingerprint);
  const uint64_t facts[] = {model.tokenizer->fingerprint(), uint64_t(layers), uint64_t(width), uint64_t(words)};
  key = checksum(facts, sizeof facts, key);
  for (const Sentence& s : sentences)
    for (size_t w = 0; w <= s.words.size(); ++w) {  // an empty word ends a sentence
      const std::string word =
          w < s.words.size() ? s.words[w] + (w < s.space_after.size() && !s.space_after[w] ? "\n" : "") : "";
      key = checksum(word.data(), word.size(), key + 1);
    }
  if (!columns_of(*model.model).empty())  // what the treebank says is read, too
    for (const Sentence& s : sentences) {
      if (!s.tree) continue;
      key = checksum(s.tree->heads.heads.data(), s.tree->heads.heads.size() * sizeof(int32_t), key + 1);
      for (const ConstTree::Node& node : s.tree->constituents.nodes)
        key = checksum(&node.parent, sizeof node.parent, key + uint64_t(node.leaf));
      for (const HeadProbabilities& word : s.tree->parser)
        for (const auto& [head, p] : word) key = checksum(&p, sizeof p, key + uint64_t(head));
      for (const auto& [column, tags] : s.tree->tags)
        for (const std::string& tag : tags) key = checksum(tag.data(), tag.size(), key + 1);
    }
  const RowCache cache(options.cache, key, layers, width, words);
  WordRows out;
  if (cache.read(out)) return out;
  cache.write([&](auto&& take) { each_layer(model, sentences, options, take); });
  check(cache.read(out), "probe", "the rows in '", options.cache.string(), "' cannot be read again");
  return out;
}

WordMaps word_maps(const Probed& model, const Sentence& sentence) {
  const Framed text = framed(*model.tokenizer, sentence, int64_t(1) << 40);
  check(text.whole, "probe", "a word of the sentence has no token; leave it out");
  const auto tokens = int64_t(text.word_of.size()), m = int64_t(sentence.words.size());
  Pass pass;
  pass.want(Tap::Kind::map);
  const NoGrad no_grad;
  Rowed rowed;
  rowed.add(text, sentence);
  const ModelInput input = rowed.input(model);
  reads_source(model.model->config().architecture) ? model.model->encode(input, pass) : model.model->run(input, pass);
  std::vector<double> pieces(size_t(m), 0.0);
  for (const int32_t word : text.word_of)
    if (word >= 0) ++pieces[size_t(word)];
  WordMaps out;
  for (int64_t l = 0; l < model.layers(); ++l) {
    WordMaps::Layer& layer = out.layers.emplace_back();
    const Tensor map = pass.get({Tap::Kind::map, l}).value();
    if (!map.defined() || map.cols() != tokens) continue;
    layer.heads = map.rows() / tokens;
    layer.weights.assign(size_t(layer.heads * m * m), 0.0);
    const float* w = map.data<float>();
    for (int64_t h = 0; h < layer.heads; ++h)
      for (int64_t i = 0; i < tokens; ++i)
        for (int64_t j = 0; j < tokens; ++j) {
          const int32_t from = text.word_of[size_t(i)], to = text.word_of[size_t(j)];
          if (from >= 0 && to >= 0)
            layer.weights[size_t((h * m + from) * m + to)] +=
                double(w[(h * tokens + i) * tokens + j]) / pieces[size_t(from)];
        }
  }
  return out;
}

}  // namespace lithe::probe
