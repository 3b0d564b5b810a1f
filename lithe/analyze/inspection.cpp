#include "lithe/analyze/inspection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "lithe/base/fields.h"
#include "lithe/base/token_code.h"
#include "lithe/text/code_tokenizer.h"

namespace lithe::analyze {
namespace {

// "mhe_mul", "mha, hadamard output", "nonapprox"
std::string mixer_title(const PartChoice& mixer) {
  const auto part = [&](const char* key, const std::string& usual) {
    const Node* choice = mixer.options.find(key);
    const Node* type = choice && choice->is_map() ? choice->find("type") : choice;
    return type ? type->text() : usual;
  };
  const std::string output = part("output", "dense");
  return (mixer.type == "attention" ? part("heads", "mha") : mixer.type) +
         (output == "dense" ? "" : ", " + output + " output");
}

std::span<const float> numbers_of(const Tensor& x) { return {x.data<float>(), size_t(x.numel())}; }

template <class F>
void each_logit(const LayerView& layer, F&& f) {
  for (const float x : numbers_of(layer.maps.logits))
    if (std::isfinite(x)) f(double(x));
}

LogitSummary summary_of(const LayerView& layer) {
  std::vector<double> all;
  each_logit(layer, [&](double x) { all.push_back(x); });
  LogitSummary out{.pairs = int64_t(all.size())};
  if (all.empty()) return out;
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < out.quantiles.size(); ++i)
    out.quantiles[i] = all[size_t(std::llround(LogitSummary::kQuantiles[i] * double(all.size() - 1)))];
  double sum = 0, squares = 0;
  for (const double x : all) sum += x;
  out.mean = sum / double(all.size());
  for (const double x : all) squares += (x - out.mean) * (x - out.mean);
  out.deviation = std::sqrt(squares / double(all.size()));
  return out;
}

}  // namespace

std::vector<double> LayerView::map(int64_t head) const {
  const auto weights = numbers_of(maps.weights);
  const size_t size = weights.size() / size_t(maps.heads);
  std::vector<double> out(size);
  for (int64_t h = 0; h < maps.heads; ++h)
    if (head < 0 || h == head)
      for (size_t i = 0; i < size; ++i)
        out[i] += double(weights[size_t(h) * size + i]) / (head < 0 ? double(maps.heads) : 1);
  return out;
}

namespace {

std::string name_of_special(const Tokenizer& tokenizer, int32_t id) {
  if (tokenizer.width() == 1) return tokenizer.token(id);
  static const char* names[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  return id >= 0 && id < code_ordinary ? names[id] : "<?>";
}

}  // namespace

FramedText framed_text(const Tokenizer& tokenizer, Architecture architecture, const std::string& text, int64_t length) {
  const int64_t width = tokenizer.width();
  const Specials& s = tokenizer.specials();
  const auto first_of = [](std::optional<int32_t> a, std::optional<int32_t> b) { return a ? a : b; };
  const bool encoder = sees_ahead(architecture);
  const auto before = encoder                                 ? first_of(s.cls, s.bos)
                      : architecture == Architecture::decoder ? first_of(s.bos, s.eos)
                                                              : std::nullopt;
  const auto after = encoder ? first_of(s.sep, s.eos) : reads_source(architecture) ? s.eos : std::nullopt;
  const std::vector<int32_t> ids = tokenizer.encode(text);
  check_usage(!ids.empty(), "inspect", "the text has no tokens; give a longer one");
  const int64_t room = length - before.has_value() - after.has_value(), have = int64_t(ids.size()) / width;
  check_usage(room >= 1, "inspect", "--length ", length, " leaves no room beside the special tokens around a text");
  const int64_t kept = std::min(room, have);
  FramedText out{.cut = kept < have};
  const auto add_special = [&](std::optional<int32_t> id) {
    if (!id) return;
    out.ids.push_back(*id);
    out.ids.insert(out.ids.end(), size_t(width - 1), 0);
    out.tokens.push_back(name_of_special(tokenizer, *id));
  };
  add_special(before);
  out.ids.insert(out.ids.end(), ids.begin(), ids.begin() + kept * width);
  const std::vector<std::string> texts = width > 1 ? token_texts(tokenizer, text) : std::vector<std::string>();
  for (int64_t i = 0; i < kept; ++i)
    out.tokens.push_back(width > 1 ? texts[size_t(i)] : tokenizer.piece(ids[size_t(i)], i == 0));
  add_special(after);
  return out;
}

ModelView inspect_model(const std::string& name, const LoadedModel& loaded, const std::string& text, int64_t length) {
  const Model& model = *loaded.model;
  const bool translates = reads_source(model.config().architecture);
  const std::vector<std::string> columns = model.reads_columns(translates ? kSource : "");
  check_usage(columns.empty(), "inspect", "'", name, "' reads the columns ", join(columns),
              " of a treebank, which a plain text has not; `lithe probe RUN --task heads --train A.conllu --test "
              "B.conllu` looks at its attention maps of trees");
  const Tokenizer& tokenizer = translates ? *loaded.source_tokenizer : *loaded.tokenizer;
  const ModelConfig config = translates ? model.config().encoder_config() : model.config();
  if (const int64_t limit = translates ? model.source_limit() : model.position_limit())
    length = std::min(length, limit);
  ModelView view;
  view.name = name;
  FramedText framed = framed_text(tokenizer, model.config().architecture, text, length);
  view.cut = framed.cut;
  view.tokens = std::move(framed.tokens);
  const auto tokens = int64_t(view.tokens.size());
  const Tensor rows = empty(tokenizer.width() > 1 ? Shape{tokens, tokenizer.width()} : Shape{tokens}, DType::i32);
  std::copy(framed.ids.begin(), framed.ids.end(), rows.data<int32_t>());
  inspect_input(model, config, {rows, Sequences::single(tokens)}, translates, view);
  return view;
}

void inspect_input(const Model& model, const ModelConfig& config, const ModelInput& input, bool encodes,
                   ModelView& view) {
  const bool causal = model.config().architecture == Architecture::decoder;  // else these are an encoder's
  const int64_t tokens = input.sequences.rows();
  Pass pass;
  pass.want(Tap::Kind::map);
  pass.want(Tap::Kind::map_logits);
  pass.want_statistics();
  const NoGrad no_grad;
  encodes ? model.encode(input, pass) : model.run(input, pass);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    LayerView layer;
    const LayerConfig layer_config = config.layer(i);
    layer.mixer = layer_config.mixer() ? mixer_title(*layer_config.mixer()) : "no mixer";
    layer.maps.weights = pass.get({Tap::Kind::map, i}).value();
    layer.maps.logits = pass.get({Tap::Kind::map_logits, i}).value();
    if (layer.maps.weights.defined()) layer.maps.heads = layer.maps.weights.rows() / layer.maps.weights.cols();
    if (layer.maps.heads) {
      layer.numbers = indicators({layer.maps.heads, tokens, numbers_of(layer.maps.weights), causal});
    } else {
      layer.numbers.raw.fill(std::numeric_limits<double>::quiet_NaN());
      layer.numbers.normalised = layer.numbers.raw;
    }
    if (layer.maps.logits.defined()) layer.logits = summary_of(layer);
    layer.has_logits = layer.logits.pairs > 0;
    view.layers.push_back(std::move(layer));
  }
  view.statistics = pass.statistics();
}

void Inspection::count_logits() {
  logit_low = std::numeric_limits<double>::infinity(), logit_high = -logit_low;
  for (const ModelView& model : models)
    for (const LayerView& layer : model.layers)
      if (layer.has_logits) {
        logit_low = std::min(logit_low, layer.logits.quantiles[1]);
        logit_high = std::max(logit_high, layer.logits.quantiles[5]);
      }
  if (!(logit_high > logit_low)) logit_high = logit_low + 1;  // all alike
  for (ModelView& model : models)
    for (LayerView& layer : model.layers) {
      if (!layer.has_logits) continue;
      layer.logits.counts.assign(kBins, 0);
      each_logit(layer, [&](double x) {
        const double part = (x - logit_low) / (logit_high - logit_low);
        if (part >= 0 && part <= 1) ++layer.logits.counts[std::min(size_t(part * kBins), size_t(kBins - 1))];
      });
    }
}

}  // namespace lithe::analyze
