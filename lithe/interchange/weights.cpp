#include "lithe/interchange/weights.h"

#include <algorithm>
#include <cstring>

namespace lithe {
namespace {

// Theirs with as many axes as ours has.
Shape like_ours(const Weight& w, const Shape& theirs) {
  return w.row && theirs.rank() == 2 && theirs[0] == 1 ? Shape{theirs[1]} : theirs;
}

int64_t outputs_of(const Weight& w, const Shape& theirs) { return w.transposed ? theirs[0] : theirs[-1]; }

// The shape that a tensor must have for a parameter, its outputs left open (-1) where it holds more.
std::string wanted(const Weight& w, const Shape& ours) {
  if (w.places) return cat(w.shape);
  const int64_t out = w.columns.empty() ? ours[-1] : -1;
  const std::string outputs = out < 0 ? "more than " + cat(ours[-1]) : cat(out);
  if (ours.rank() == 1) return cat(w.row ? "[1," : "[", outputs, "]");
  return w.transposed ? cat("[", outputs, ",", ours[0], "]") : cat("[", ours[0], ",", outputs, "]");
}

bool fits(const Weight& w, const Shape& ours, const Shape& theirs) {
  if (w.places) return theirs == w.shape && int64_t(w.places().size()) == ours.numel();
  if (theirs.rank() != ours.rank()) return false;
  const int64_t out = outputs_of(w, theirs);
  if (ours.rank() == 2 && ours[0] != (w.transposed ? theirs[1] : theirs[0])) return false;
  if (w.columns.empty()) return out == ours[-1];
  return int64_t(w.columns.size()) == ours[-1] && *std::max_element(w.columns.begin(), w.columns.end()) < out;
}

// Calls f(index in ours, index in theirs) for each number; in blocks, so that both sides stay in the caches.
template <class F>
void each_number(const Weight& w, const Shape& ours, const Shape& theirs, F f) {
  if (w.places) {
    const std::vector<int64_t> places = w.places();
    for (size_t i = 0; i < places.size(); ++i) f(int64_t(i), places[i]);
    return;
  }
  const int64_t rows = ours.rank() == 2 ? ours[0] : 1, cols = ours[-1], out = outputs_of(w, theirs);
  constexpr int64_t kBlock = 64;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < cols; c0 += kBlock)
      for (int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r)
        for (int64_t c = c0; c < std::min(cols, c0 + kBlock); ++c) {
          const int64_t column = w.columns.empty() ? c : w.columns[size_t(c)];
          f(r * cols + c, ours.rank() == 2 && w.transposed ? column * rows + r : r * out + column);
        }
}

template <class F>
void by_size(int64_t size, F f) {
  if (size == 2)
    f(uint16_t());
  else if (size == 4)
    f(uint32_t());
  else
    f(uint64_t());
}

Tensor read_parameter(const TensorSource& source, const Weight& w, const Shape& shape) {
  const Tensor theirs = source.read(w.theirs);
  Tensor ours = theirs;
  if (w.transposed || !w.columns.empty() || w.row || w.places) {
    ours = empty(shape, theirs.dtype());
    by_size(size_of(theirs.dtype()), [&]<class T>(T) {
      auto* to = static_cast<T*>(ours.raw());
      const auto* from = static_cast<const T*>(theirs.raw());
      each_number(w, shape, like_ours(w, theirs.shape()), [&](int64_t a, int64_t b) { to[a] = from[b]; });
    });
  }
  return ours.dtype() == DType::f64 ? convert(ours, DType::f32) : ours;
}

// The tensor of the other format that these parameters make up.
Tensor join_parameters(const std::map<std::string, PendingTensor>& parameters, const std::string& name,
                       const std::vector<const Weight*>& weights, const Shape& shape) {
  const Tensor theirs = zeros(shape, parameters.at(weights[0]->ours).dtype);
  std::vector<bool> written(size_t(theirs.numel()));
  for (const Weight* w : weights) {
    const Tensor ours = parameters.at(w->ours).read();
    bool same = true;
    by_size(size_of(ours.dtype()), [&]<class T>(T) {
      const auto* from = static_cast<const T*>(ours.raw());
      auto* to = static_cast<T*>(theirs.raw());
      each_number(*w, ours.shape(), like_ours(*w, shape), [&](int64_t a, int64_t b) {
        same = same && (!written[size_t(b)] || to[b] == from[a]);
        to[b] = from[a];
        written[size_t(b)] = true;
      });
    });
    check(same, "export", "'", w->ours, "' and '", weights[0]->ours, "' are one tensor in this format ('", name,
          "'), and differ here");
  }
  return theirs;
}

}  // namespace

bool matches(const std::string& text, const std::string& pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return text == pattern;
  if (text.compare(0, star, pattern, 0, star) != 0) return false;
  const std::string rest = pattern.substr(star + 1);
  for (size_t at = star; at <= text.size(); ++at)
    if (matches(text.substr(at), rest)) return true;
  return false;
}

std::map<std::string, Shape> parameter_shapes(const ModelConfig& config) {
  const Model model(config, {.device = Device::meta});
  std::map<std::string, Shape> out;
  for (const Parameter& p : model.parameters().all()) out[p.name] = p.master.shape();
  return out;
}

std::map<std::string, PendingTensor> parameters_of(const TensorSource& source, const Mapping& mapping) {
  const auto shapes = parameter_shapes(mapping.model);
  std::set<std::string> used, filled;
  for (const Weight& w : mapping.weights) {
    const auto shape = shapes.find(w.ours);
    check(shape != shapes.end(), "import", "internal: the mapping fills '", w.ours, "', which the model has not");
    const TensorSource::Entry& e = source.entry(w.theirs);
    check(e.dtype == DType::f32 || e.dtype == DType::bf16 || e.dtype == DType::f64, "import", source.place(),
          ": tensor '", w.theirs, "' is of type ", e.type, ", a weight must be of a floating type (F32, BF16, F16)");
    check(fits(w, shape->second, like_ours(w, e.shape)), "import", source.place(), ": tensor '", w.theirs, "' is ",
          e.shape, ", config.json calls for ", wanted(w, shape->second));
    used.insert(w.theirs);
    check(filled.insert(w.ours).second, "import", "internal: the mapping fills '", w.ours, "' twice");
  }
  for (const auto& [name, shape] : shapes)
    check(filled.count(name), "import", "internal: the mapping leaves '", name, "' ", shape, " without a tensor");
  std::vector<std::string> left;
  for (const auto& [name, entry] : source.entries())
    if (!used.count(name) && std::none_of(mapping.dropped.begin(), mapping.dropped.end(),
                                          [&, &n = name](const std::string& p) { return matches(n, p); }))
      left.push_back(name);
  check(left.empty(), "import", source.place(), " has ", left.size(), left.size() == 1 ? " tensor" : " tensors",
        " without a place in this model, '", left.empty() ? "" : left[0], "'",
        left.size() > 1 ? " the first of them" : "", "; config.json must be the one that the weights were saved with");
  std::map<std::string, PendingTensor> out;
  for (const Weight& w : mapping.weights) {
    const Shape& shape = shapes.at(w.ours);
    const DType stored = source.entry(w.theirs).dtype;
    out[w.ours] = {shape, stored == DType::f64 ? DType::f32 : stored,
                   [&source, &w, shape] { return read_parameter(source, w, shape); }};
  }
  return out;
}

std::map<std::string, PendingTensor> write_parameters(const std::map<std::string, PendingTensor>& parameters,
                                                      const Mapping& mapping) {
  std::map<std::string, std::vector<const Weight*>> by_tensor;
  std::map<std::string, PendingTensor> out;
  for (const auto& [name, size] : mapping.zeros) out[name] = pending(zeros({size}, DType::f32));
  for (const Weight& w : mapping.weights)
    if (parameters.count(w.ours) || !out.count(w.theirs)) by_tensor[w.theirs].push_back(&w);
  for (const auto& [name, weights] : by_tensor) {
    const PendingTensor& first = parameters.at(weights[0]->ours);
    int64_t columns = 0;
    for (const Weight* w : weights) {
      const PendingTensor& ours = parameters.at(w->ours);
      check(ours.dtype == first.dtype, "export", "'", w->ours, "' is ", ours.dtype, ", '", weights[0]->ours, "' ",
            first.dtype, ", and both stand in '", name, "'");
      columns = std::max(
          columns, w->columns.empty() ? ours.shape[-1] : 1 + *std::max_element(w->columns.begin(), w->columns.end()));
    }
    const Shape shape = weights[0]->places        ? weights[0]->shape
                        : weights[0]->row         ? Shape{1, columns}
                        : first.shape.rank() == 1 ? Shape{columns}
                        : weights[0]->transposed  ? Shape{columns, first.shape[0]}
                                                  : Shape{first.shape[0], columns};
    out[name] = {shape, first.dtype, [&parameters, name = name, weights = weights, shape] {
                   return join_parameters(parameters, name, weights, shape);
                 }};
  }
  return out;
}

}  // namespace lithe
