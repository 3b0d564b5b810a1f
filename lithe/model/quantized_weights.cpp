#include "lithe/model/quantized_weights.h"

#include <algorithm>

#include "lithe/base/json.h"
#include "lithe/base/stop.h"
#include "lithe/base/threads.h"
#include "lithe/model/config.h"

namespace lithe {
namespace {

constexpr const char* kByRows = "packed_by_rows";
constexpr const char* kScales = ".scales";

std::set<std::string> read_list(const std::string& text, const std::string& origin) {
  const Json list = parse_json(text, origin);
  std::set<std::string> out;
  check(list.is_array(), "load", "'", origin, "': metadata '", kByRows, "' must be a list of names");
  for (const Json& name : list) {
    check(name.is_string(), "load", "'", origin, "': metadata '", kByRows, "' must be a list of names");
    out.insert(name.get<std::string>());
  }
  return out;
}

// Of formats in blocks; f32: none.
kernels::PackedFormat format_of_suffix(const std::string& suffix) {
  using kernels::PackedFormat;
  for (auto format = PackedFormat::q4_0; format <= PackedFormat::q6_k; format = PackedFormat(int(format) + 1))
    if (suffix == name_of(format)) return format;
  return PackedFormat::f32;
}

}  // namespace

QuantizedWeights::QuantizedWeights(const SafetensorsFile& file, const std::string& origin)
    : file_(file), origin_(origin) {
  using kernels::PackedFormat;
  const auto& entries = file.entries();
  for (const auto format : {PackedFormat::int8, PackedFormat::int4}) {
    const std::string suffix = cat(".", name_of(format));
    for (const auto& [name, values] : entries) {
      if (!name.ends_with(suffix)) continue;
      const std::string parameter = name.substr(0, name.size() - suffix.size());
      const auto scales = entries.find(parameter + kScales);
      if (scales == entries.end()) continue;  // another tensor that is named so: not ours
      kernels::PackedMatrix m;
      m.format = format;
      m.name = parameter;
      const Shape &v = values.shape, &s = scales->second.shape;
      const auto require = [&, &name = name, &values = values](bool rule) {  // clang 14 needs them named
        check(rule, "load", "'", origin, "': '", name, "' ", values.dtype, v, " and its scales ", scales->second.dtype,
              s, " do not belong together; the file is damaged");
      };
      require(!matrices_.count(parameter) && v.rank() == 2 && v[0] >= 1 && v[1] >= 1);
      m.outputs = v[0];
      if (format == PackedFormat::int8) {
        require(values.dtype == DType::i8 && scales->second.dtype == DType::f32 && s == Shape{v[0]});
        m.inputs = v[1];
      } else {
        require(values.dtype == DType::u8 && scales->second.dtype == DType::bf16 && s.rank() == 2 && s[0] == v[0] &&
                s[1] >= 1 && v[1] % s[1] == 0);
        m.group = v[1] / s[1] * 2;
        require(m.group == 32 || m.group == 64);
        m.inputs = v[1] * 2;  // at most: the parameter's shape says how many
      }
      matrices_[parameter] = m;
      parts_[name] = parts_[parameter + kScales] = parameter;
    }
  }
  for (const auto& [name, values] : entries) {
    const size_t dot = name.rfind('.');
    const PackedFormat format = format_of_suffix(dot == std::string::npos ? "" : name.substr(dot + 1));
    if (!in_blocks(format) || values.dtype != DType::u8) continue;  // another tensor that is named so: not ours
    const kernels::BlockFormat f = block_format(format);
    const Shape& v = values.shape;
    kernels::PackedMatrix m;
    m.format = format;
    m.name = name.substr(0, dot);
    check(!matrices_.count(m.name) && v.rank() == 2 && v[0] >= 1 && v[1] >= 1 && v[1] % f.bytes == 0, "load", "'",
          origin, "': '", name, "' ", v, " is no matrix of whole blocks of ", f.bytes, " bytes; the file is damaged");
    m.outputs = v[0], m.inputs = v[1] / f.bytes * f.inputs, m.group = f.group;
    parts_[name] = m.name;
    matrices_[m.name] = m;
  }
  const auto list = file.metadata().find(kByRows);
  const auto by_rows = list == file.metadata().end() ? std::set<std::string>{} : read_list(list->second, origin);
  for (const std::string& name : by_rows)
    check(has(name), "load", "'", origin, "': metadata '", kByRows, "' names '", name,
          "', which has no integer weights");
  for (auto& [name, m] : matrices_) {
    m.by_rows = by_rows.count(name) > 0;
    check(!entries.count(name), "load", "'", origin, "' has '", name, "' as numbers and as integers");
  }
}

std::set<std::string> QuantizedWeights::names() const {
  std::set<std::string> out;
  for (const auto& [name, m] : matrices_) out.insert(name);
  return out;
}

std::string QuantizedWeights::parameter_of(const std::string& name) const {
  const auto found = parts_.find(name);
  return found == parts_.end() ? "" : found->second;
}

void QuantizedWeights::check_fits(const Parameter& p) const {
  const kernels::PackedMatrix& m = matrices_.at(p.name);
  check((p.master.packed() && kernels::integers(p.master.packed()->format)) || p.master.device() == Device::meta,
        "load", "'", origin_, "': '", p.name, "' holds ", name_of(m.format),
        " weights, which cannot be trained or compared as numbers; use the model it was quantised from");
  const Shape& shape = p.master.shape();
  const bool matrix = shape.rank() == 2;
  const int64_t outputs = matrix ? shape[m.by_rows ? 0 : 1] : 0, inputs = matrix ? shape[m.by_rows ? 1 : 0] : 0;
  const int64_t spare = in_blocks(m.format) || !m.group ? 0 : m.group - 1;
  check(outputs == m.outputs && inputs <= m.inputs && inputs >= m.inputs - spare, "load", "'", origin_, "': '", p.name,
        "' holds ", m.outputs, " outputs of ", spare ? "up to " : "", m.inputs, " inputs, the model needs ", outputs,
        " of ", inputs);
}

kernels::PackedMatrix QuantizedWeights::allocated(const Parameter& p, Device device) const {
  check_fits(p);
  kernels::PackedMatrix m = matrices_.at(p.name);
  m.inputs = p.master.shape()[m.by_rows ? 1 : 0];
  kernels::allocate(m, device);
  return m;
}

void QuantizedWeights::outline(Parameter& p) const {
  p.master = Var(std::make_shared<kernels::PackedMatrix>(allocated(p, Device::meta)), p.master.dtype());
}

// Some rows at a time, so that what is read stays in a cache until it is packed, and stands in memory once.
void QuantizedWeights::load(Parameter& p) const {
  constexpr int64_t kPieceBytes = 1 << 20, kPanel = kernels::PackedMatrix::kPanel;
  const MemoryScope memory(MemoryClass::weights);
  kernels::PackedMatrix m = allocated(p, Device::cpu);
  const auto room = [&](const std::string& name, int64_t rows) {
    const auto& entry = file_.entries().at(name);
    const MemoryScope scratch(MemoryClass::workspace);
    return empty(rows ? Shape{rows, entry.shape[1]} : entry.shape, entry.dtype);
  };
  const std::string values = cat(p.name, ".", name_of(m.format));
  const int64_t panels = kPieceBytes / (file_.entries().at(values).shape[1] * kPanel);
  const int64_t piece = std::min(m.outputs, std::max<int64_t>(panels, 1) * kPanel);
  const Tensor rows = room(values, piece), scales = in_blocks(m.format) ? Tensor() : room(p.name + kScales, 0);
  if (scales) file_.read(p.name + kScales, scales);
  for (int64_t first = 0; first < m.outputs; first += piece) {
    const int64_t end = std::min(first + piece, m.outputs);
    const Tensor some = rows.slice(0, end - first);
    file_.read_rows(values, first, some);
    kernels::pack_rows(m, first, {some, scales ? scales.slice(first, end) : Tensor()});
  }
  p.master = Var(std::make_shared<kernels::PackedMatrix>(std::move(m)), p.master.dtype());
}

// Their checksums take as long as a thread reads them, so each thread reads others. Large ones come first: the last
// ones end at nearly the same time.
void QuantizedWeights::load(Parameters& parameters, const std::set<std::string>& names) const {
  std::vector<Parameter*> all;
  for (Parameter& p : parameters.all())
    if (names.count(p.name)) all.push_back(&p);
  const auto bytes = [&](const Parameter* p) {
    const kernels::PackedMatrix& m = matrices_.at(p->name);
    return m.panels() * m.panel_bytes();
  };
  std::stable_sort(all.begin(), all.end(), [&](auto* a, auto* b) { return bytes(a) > bytes(b); });
  parallel_tasks(int64_t(all.size()), [&](int64_t i) {
    check_not_stopped("load", "the weights were not read");
    load(*all[size_t(i)]);
  });
}

void check_holds_numbers(const ModelConfig& config, const std::string& operation, const std::string& what) {
  const Node& made = config.quantization_config;
  const Node* method = made.is_null() ? nullptr : made.find("quant_method");
  check_usage(made.is_null(), operation, what, " is quantised already; give the model it was made from",
              method && method->is_scalar() && method->text() == "gguf"
                  ? ", or import the GGUF file again with --dequantize"
                  : "");
}

std::set<std::string> integer_weights(const Path& file) {
  const SafetensorsFile in(file);
  return QuantizedWeights(in, file.string()).names();
}

void load_integers(Parameters& parameters, const IntegerWeights& integers) {
  if (integers.names.empty()) return;
  const SafetensorsFile in(integers.file);
  QuantizedWeights(in, integers.file.string()).load(parameters, integers.names);
}

void outline_integers(Parameters& parameters, const IntegerWeights& integers) {
  if (integers.names.empty()) return;
  const SafetensorsFile in(integers.file);
  const QuantizedWeights quantized(in, integers.file.string());
  for (Parameter& p : parameters.all())
    if (integers.names.count(p.name)) quantized.outline(p);
}

namespace {

std::string values_name(const kernels::PackedMatrix& m) { return cat(m.name, ".", name_of(m.format)); }

using Metadata = std::map<std::string, std::string>;

// Adds the tensors of the matrices; returns what the file says of them.
Metadata add_matrices(std::map<std::string, SafetensorsWriter::Entry>& tensors,
                      const std::vector<kernels::PackedMatrix>& matrices) {
  std::set<std::string> by_rows;
  for (const kernels::PackedMatrix& m : matrices) {
    if (m.by_rows) by_rows.insert(m.name);
    if (in_blocks(m.format)) {
      const kernels::BlockFormat f = block_format(m.format);
      tensors[values_name(m)] = {{m.outputs, m.inputs / f.inputs * f.bytes}, DType::u8};
      continue;
    }
    const bool wide = m.format == kernels::PackedFormat::int8;
    tensors[values_name(m)] = wide ? SafetensorsWriter::Entry{{m.outputs, m.inputs}, DType::i8}
                                   : SafetensorsWriter::Entry{{m.outputs, m.groups() * m.group / 2}, DType::u8};
    tensors[m.name + kScales] = wide ? SafetensorsWriter::Entry{{m.outputs}, DType::f32}
                                     : SafetensorsWriter::Entry{{m.outputs, m.groups()}, DType::bf16};
  }
  return {{"format", "lithe"}, {kByRows, dump(Json(by_rows))}};
}

SafetensorsWriter writer_of(const Path& file, std::map<std::string, SafetensorsWriter::Entry> tensors,
                            const std::vector<kernels::PackedMatrix>& matrices) {
  const Metadata metadata = add_matrices(tensors, matrices);
  return {file, tensors, metadata};
}

}  // namespace

QuantizedWriter::QuantizedWriter(const Path& file, const std::map<std::string, SafetensorsWriter::Entry>& numbers,
                                 const std::vector<kernels::PackedMatrix>& matrices)
    : out_(writer_of(file, numbers, matrices)) {}

int64_t QuantizedWriter::file_bytes(std::map<std::string, SafetensorsWriter::Entry> numbers,
                                    const std::vector<kernels::PackedMatrix>& matrices) {
  const Metadata metadata = add_matrices(numbers, matrices);
  return SafetensorsWriter::file_bytes(numbers, metadata);
}

void QuantizedWriter::put(const kernels::PackedMatrix& m, const kernels::QuantizedTensors& parts) {
  out_.put(values_name(m), parts.values);
  if (parts.scales) out_.put(m.name + kScales, parts.scales);
}

}  // namespace lithe
