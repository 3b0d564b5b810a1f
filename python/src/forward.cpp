#include <pybind11/stl.h>

#include "lithe/analyze/inspection.h"
#include "lithe/ops/basic.h"
#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

// One pass over one text, and what was asked of it.
struct Forward {
  std::vector<int32_t> ids;
  std::vector<std::string> tokens;
  Array rows;
  std::optional<Array> logits;
  std::vector<std::optional<Array>> hidden, attention;
};

struct Asked {
  bool hidden, attention, logits;
};

std::optional<Array> tapped(const Pass& pass, Tap::Kind kind, int64_t layer) {
  const Var var = pass.get({kind, layer});
  if (!var.value().defined()) return std::nullopt;
  const Tensor x = var.value();
  if (kind != Tap::Kind::map) return Array{.tensor = x};
  return Array{.tensor = x.reshape({x.rows() / x.cols(), x.cols(), x.cols()})};
}

Forward forward_of(const PyModel& self, Forward out, const Asked& asked) {
  const Model& model = self.model();
  const bool encodes = reads_source(model.config().architecture);
  const ModelConfig config = encodes ? model.config().encoder_config() : model.config();
  const int64_t width = self.read_tokenizer().width(), tokens = int64_t(out.ids.size()) / width;
  check_usage(tokens > 0 && tokens * width == int64_t(out.ids.size()), "forward", "a text of ", out.ids.size(),
              " ints is no text of tokens of ", width, " ints");
  const int64_t limit = encodes ? model.source_limit() : model.position_limit();
  check_usage(!limit || tokens <= limit, "forward", "the text has ", tokens, " tokens, the model has positions for ",
              limit, "; give max_length to cut it");
  for (const int32_t id : out.ids)
    check_usage(width > 1 || (id >= 0 && id < config.vocab_size), "forward", "the text has token ", id,
                ", the model has ", config.vocab_size);
  const NoGrad no_grad;
  const Tensor ids = empty(width > 1 ? Shape{tokens, width} : Shape{tokens}, DType::i32);
  std::copy(out.ids.begin(), out.ids.end(), ids.data<int32_t>());
  Pass pass;
  if (asked.hidden) pass.want(Tap::Kind::rows);
  if (asked.attention) pass.want(Tap::Kind::map);
  const ModelInput input{ids, Sequences::single(tokens)};
  const Rows rows = encodes ? model.encode(input, pass) : model.run(input, pass);
  out.rows = {.tensor = rows.x.value()};
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (asked.hidden) out.hidden.push_back(tapped(pass, Tap::Kind::rows, i));
    if (asked.attention) out.attention.push_back(tapped(pass, Tap::Kind::map, i));
  }
  if (asked.logits && !encodes) out.logits = Array{.tensor = cast(model.logits(rows), DType::f32).value()};
  return out;
}

Forward forward(const PyModel& self, const py::object& text, bool hidden, bool attention, bool logits,
                int64_t max_length) {
  const Tokenizer& tokenizer = self.read_tokenizer();
  Forward out;
  if (py::isinstance<py::str>(text)) {
    const bool encodes = reads_source(self.model().config().architecture);
    int64_t most = encodes ? self.model().source_limit() : self.model().position_limit();
    if (max_length) most = most ? std::min(most, max_length) : max_length;
    analyze::FramedText framed = analyze::framed_text(tokenizer, self.model().config().architecture, utf8_of(text),
                                                      most ? most : int64_t(1) << 30);
    check_usage(!framed.cut || max_length, "forward", "the text has more tokens than the model's ", most,
                " positions; give max_length to cut it");
    out.ids = std::move(framed.ids), out.tokens = std::move(framed.tokens);
  } else {
    out.ids = cast_of<std::vector<int32_t>>(text, "text", "a str or a list of ids");
    if (max_length && int64_t(out.ids.size()) > max_length * tokenizer.width())
      out.ids.resize(size_t(max_length * tokenizer.width()));
    for (size_t i = 0; tokenizer.width() == 1 && i < out.ids.size(); ++i)
      out.tokens.push_back(tokenizer.piece(out.ids[i], i == 0));
  }
  const Asked asked{.hidden = hidden, .attention = attention, .logits = logits};
  return self.alone([&] { return forward_of(self, std::move(out), asked); });
}

}  // namespace

void add_forward(py::module_& module, ModelClass& model) {
  py::class_<Forward>(module, "Forward", "What one pass over a text left, as arrays without copies.")
      .def_readonly("ids", &Forward::ids, "The tokens that were read.")
      .def_property_readonly(
          "tokens",
          [](const Forward& f) {
            py::list out;
            for (const std::string& token : f.tokens) out.append(text_of(token));
            return out;
          },
          "The same as texts.")
      .def_readonly("rows", &Forward::rows,
                    "[T, hidden_size]: the last layer's rows, normed where the model norms them.")
      .def_readonly("logits", &Forward::logits,
                    "f32 [T, vocab_size] (or a row a text, of heads of texts); None unless asked.")
      .def_readonly(
          "hidden", &Forward::hidden,
          "[T, hidden_size] of each layer, as they leave it; None for a layer that gives none. Empty unless asked.")
      .def_readonly(
          "attention", &Forward::attention,
          "f32 [heads, T, T] of each layer, row (h, i): what token i takes from each; None of mixers without\n"
          "maps. Empty unless asked.");
  model.def(
      "forward", forward, py::arg("text"), py::kw_only(), py::arg("hidden") = false, py::arg("attention") = false,
      py::arg("logits") = true, py::arg("max_length") = 0,
      "One pass over a text, with the special tokens around it that the model was trained with, or over a list of ids\n"
      "as they stand. hidden: rows of every layer; attention: maps of every layer; logits: of the head. max_length "
      "cuts\n"
      "longer texts. Of an encoder_decoder its encoder reads the text, and there are no logits.");
}

}  // namespace lithe::python
