#include <algorithm>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/model/packable.h"

namespace lithe {
namespace {

class GgufSource final : public TensorSource {
 public:
  explicit GgufSource(const Path& path) : file_(path) {
    for (const auto& [name, e] : file_.entries())
      entries_[name] = {e.shape, e.type == GgmlType::bf16 ? DType::bf16 : DType::f32, name_of(e.type), path.string()};
  }
  const GgufFile& file() const { return file_; }
  Tensor read(const std::string& name) const override { return file_.read(name); }
  std::string place() const override { return "'" + file_.origin() + "'"; }

 private:
  GgufFile file_;
};

// Factors on the angles of pairs of channels (Llama 3), which stand in a tensor.
void set_factors(const GgufSource& source, Mapping& mapping) {
  if (!source.has("rope_freqs.weight")) return;
  const Tensor factors = source.read("rope_freqs.weight");
  Node list = Node::list();
  for (int64_t i = 0; i < factors.numel(); ++i) list.push(Node::scalar(number_text(value_at(factors, i))));
  mapping.model.position.options.set("scaling", Node::scalar("factors"));
  mapping.model.position.options.set("frequency_factors", list);
  mapping.dropped.push_back("rope_freqs.weight");
}

// The rows of a tensor of blocks that a parameter has, as its outputs.
Tensor rows_of(const GgufFile& file, const Weight& w, int64_t outputs) {
  const std::string_view from = file.stored(w.theirs);
  const int64_t bytes = int64_t(from.size()) / file.entries().at(w.theirs).shape[0];
  const Tensor out = empty({outputs, bytes}, DType::u8);
  for (int64_t n = 0; n < outputs; ++n)
    std::memcpy(out.data<uint8_t>() + n * bytes, from.data() + (w.columns.empty() ? n : w.columns[size_t(n)]) * bytes,
                size_t(bytes));
  return out;
}

// Those matrices that the model reads as integers alone, and that stand in the file's blocks output by output.
std::map<std::string, PendingIntegers> kept_integers(const GgufFile& file, const Mapping& mapping) {
  const auto able = packable_matrices(mapping.model);
  const auto shapes = parameter_shapes(mapping.model);
  std::map<std::string, PendingIntegers> out;
  for (const Weight& w : mapping.weights) {
    const kernels::PackedFormat format = packed_format(file.entries().at(w.theirs).type);
    const auto found = able.find(w.ours);
    if (!in_blocks(format) || found == able.end() || w.row || w.places || w.transposed == found->second.by_rows ||
        (found->second.by_rows && !w.columns.empty()))
      continue;
    const Shape& shape = shapes.at(w.ours);
    const bool by_rows = found->second.by_rows;
    kernels::PackedMatrix m{.format = format,
                            .outputs = shape[by_rows ? 0 : 1],
                            .inputs = shape[by_rows ? 1 : 0],
                            .group = block_format(format).group,
                            .by_rows = by_rows,
                            .name = w.ours};
    out[w.ours] = {m, [&file, &w, outputs = m.outputs] {
                     return kernels::QuantizedTensors{rows_of(file, w, outputs), {}};
                   }};
  }
  return out;
}

}  // namespace

ImportReport import_gguf(const ImportOptions& o) {
  NewDirectory out(o.out, "import", o.overwrite);
  const GgufSource source(o.from);
  const GgufFile& file = source.file();
  const auto named = file.metadata().find("general.architecture");
  const std::string* architecture = named == file.metadata().end() ? nullptr : named->second.get<std::string>();
  check_usage(architecture && is_gguf_architecture(*architecture), "import", "'", o.from.string(),
              "': general.architecture is '", architecture ? *architecture : "missing",
              "'; llama, qwen2, qwen3, olmo2 and gpt2 can be read");
  const Json written = config_of_gguf(file, *architecture);
  const HfConfig config(parse_json_node(dump(written), o.from.string()), o.from.string());
  Mapping mapping = family_of(*architecture, o.from.string()).read(config, nullptr);
  config.finish();
  rename_for_gguf(mapping, *architecture);
  set_factors(source, mapping);
  const auto parameters = parameters_of(source, mapping);
  const auto integers = o.dequantize ? std::map<std::string, PendingIntegers>() : kept_integers(file, mapping);

  Recipe recipe;
  recipe.model = mapping.model;
  constexpr int64_t kWindow = 2048;
  recipe.data.sequence_length = std::min(mapping.model.max_position_embeddings, kWindow);
  recipe.generate.do_sample = false;
  ImportReport report{.model_type = *architecture,
                      .parameters = 0,
                      .tensors = int64_t(source.entries().size()),
                      .dtype = {},
                      .dropped = {},
                      .notes = {}};
  std::set<std::string> types, formats;
  for (const auto& [name, tensor] : parameters)
    formats.insert(integers.count(name) ? name_of(integers.at(name).matrix.format) : name_of(tensor.dtype));
  report.dtype = join({formats.begin(), formats.end()});
  for (const auto& [name, entry] : source.entries()) types.insert(entry.type);
  report.notes.push_back("stored as " + join({types.begin(), types.end()}) +
                         (integers.empty() ? "" : "; integers are kept (--dequantize turns them into numbers)"));
  std::shared_ptr<const Tokenizer> tokenizer;
  if (o.tokenizer.empty()) {
    tokenizer = tokenizer_of_gguf(file, recipe.generate.add_bos_token);
  } else {
    tokenizer = load_tokenizer(o.tokenizer);
    read_generation(o.from, o.tokenizer, *tokenizer, recipe.generate, report.notes);
    keep_chat_templates(o.tokenizer, out.path(), report.notes);
  }
  for (const auto& [name, tensor] : parameters) report.parameters += tensor.shape.numel();
  write_run(out, recipe, parameters, *tokenizer,
            {{"format", "gguf"}, {"model_type", *architecture}, {"config", written}}, integers);
  out.commit();
  return report;
}

}  // namespace lithe
