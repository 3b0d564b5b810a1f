#include <pybind11/stl.h>

#include "model.h"
#include "values.h"

namespace lithe::python {
namespace {

std::vector<int32_t> encode(const Tokenizer& self, const std::string& text, bool specials) {
  return long_call([&] { return specials ? self.encode_with_specials(text) : self.encode(text); });
}

std::vector<std::vector<int32_t>> encode_batch(const Tokenizer& self, const std::vector<std::string>& texts,
                                               bool specials) {
  return long_call([&] {
    std::vector<std::vector<int32_t>> out;
    for (const std::string& text : texts) out.push_back(specials ? self.encode_with_specials(text) : self.encode(text));
    return out;
  });
}

py::object special(const std::optional<int32_t>& id) { return id ? py::object(py::int_(*id)) : py::none(); }

}  // namespace

void add_tokenizer(py::module_& module) {
  py::class_<Tokenizer, std::shared_ptr<Tokenizer>> tokenizer(
      module, "Tokenizer", "Texts to tokens and back. Nothing is added around a text. Safe from several threads.");
  const auto role = [&](const char* name, std::optional<int32_t> Specials::*id) {
    tokenizer.def_property_readonly(
        name, [id](const Tokenizer& self) { return special(self.specials().*id); },
        "The id of the token with this role, or None.");
  };
  role("bos_token_id", &Specials::bos);
  role("eos_token_id", &Specials::eos);
  role("pad_token_id", &Specials::pad);
  role("unk_token_id", &Specials::unk);
  role("cls_token_id", &Specials::cls);
  role("sep_token_id", &Specials::sep);
  role("mask_token_id", &Specials::mask);
  tokenizer
      .def("encode", encode, py::arg("text"), py::arg("specials") = false,
           "Ids of a text. specials: a special token's string in it becomes that token; else it is plain text.\n"
           "Of tokenizers without a vocabulary the ints of all codes, `width` a token.")
      .def("encode_batch", encode_batch, py::arg("texts"), py::arg("specials") = false, "encode() of each text.")
      .def(
          "decode", [](const Tokenizer& self, const std::vector<int32_t>& ids) { return text_of(self.decode(ids)); },
          py::arg("ids"), "The text of ids. Bytes that are no UTF-8 become U+FFFD.")
      .def(
          "decode_bytes",
          [](const Tokenizer& self, const std::vector<int32_t>& ids) { return py::bytes(self.decode(ids)); },
          py::arg("ids"), "The text of ids, exactly the bytes that they stand for.")
      .def(
          "decode_batch",
          [](const Tokenizer& self, const std::vector<std::vector<int32_t>>& all) {
            py::list out;
            for (const auto& ids : all) out.append(text_of(self.decode(ids)));
            return out;
          },
          py::arg("ids"), "decode() of each list.")
      .def(
          "token", [](const Tokenizer& self, int32_t id) { return text_of(self.token(id)); }, py::arg("id"),
          "The vocabulary's own spelling of a token.")
      .def(
          "id", [](const Tokenizer& self, const std::string& token) { return special(self.id(token)); },
          py::arg("token"), "The id of the token spelt so, or None.")
      .def(
          "is_special", [](const Tokenizer& self, int32_t id) { return self.is_special(id); }, py::arg("id"),
          "Whether encode() never returns it.")
      .def(
          "to_json", [](const Tokenizer& self) { return text_of(self.to_json()); },
          "The text of a tokenizer.json, as Hugging Face reads it.")
      .def_property_readonly(
          "vocab_size", [](const Tokenizer& self) { return self.vocab_size(); }, "One more than the largest id.")
      .def_property_readonly(
          "width", [](const Tokenizer& self) { return self.width(); }, "Ints of a token.")
      .def("__len__", [](const Tokenizer& self) { return self.vocab_size(); });
  module.def(
      "load_tokenizer",
      [](const py::object& path) {
        const Path file = path_of(path);
        return long_call([&] { return std::shared_ptr<Tokenizer>(load_tokenizer(file)); });
      },
      py::arg("path"), "A tokenizer.json, a SentencePiece model, a vocab.txt, or a directory that holds one.");
}

}  // namespace lithe::python
