#include "lithe/nn/axis.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace lithe {
namespace {

using Indices = std::vector<int64_t>;

// Indices of an axis, outermost factor first, from those of each factor.
Indices combined(const Axis& axis, const std::function<Indices(size_t factor)>& of) {
  Indices out{0};
  for (size_t f = 0; f < axis.factors().size(); ++f) {
    const Indices inner = of(f);
    Indices next;
    for (const int64_t outer : out)
      for (const int64_t i : inner) next.push_back(outer * axis.factors()[f].count + i);
    out = std::move(next);
  }
  return out;
}

Indices counted(int64_t count, int64_t modulo) {
  Indices out;
  for (int64_t i = 0; i < count; ++i) out.push_back(i % modulo);
  return out;
}

// The axis with a factor of 1 for each that only `other` has; none where their orders differ.
std::optional<Axis> aligned(const Axis& axis, const Axis& other) {
  Axis out;
  size_t at = 0;
  for (const Axis::Factor& f : other.factors()) {
    const bool has = at < axis.factors().size() && axis.factors()[at].of == f.of;
    out = out * Axis(f.of, has ? axis.factors()[at].count : 1);
    at += has;
  }
  if (at == axis.factors().size()) return out;
  return {};
}

// Both axes with the factors of both.
std::pair<Axes, Axes> aligned(const Axes& a, const Axes& b, const std::string& what) {
  check_usage(a.size() == b.size(), "slice", what, " have ", a.size(), " axes and ", b.size(),
              "; choose the same parts for both");
  std::pair<Axes, Axes> out;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto first = aligned(a[i], b[i]), second = aligned(b[i], a[i]);
    check_usage(first || second, "slice", what, " are of other dimensions, ", a[i], " and ", b[i],
                "; choose the same parts for both");
    out.first.push_back(first.value_or(a[i]));
    out.second.push_back(second.value_or(b[i]));
  }
  return out;
}

}  // namespace

Axis Axis::operator*(const Axis& inner) const {
  Axis out = *this;
  out.factors_.insert(out.factors_.end(), inner.factors_.begin(), inner.factors_.end());
  return out;
}

Axis Axis::without(Dimension of) const {
  Axis out = *this;
  std::erase_if(out.factors_, [&](const Factor& f) { return f.of == of; });
  return out;
}

int64_t Axis::size() const {
  int64_t size = 1;
  for (const Factor& f : factors_) size *= f.count;
  return size;
}

Shape shape_of(const Axes& axes) {
  std::vector<int64_t> sizes;
  for (const Axis& axis : axes) sizes.push_back(axis.size());
  return Shape(std::span<const int64_t>(sizes));
}

int64_t count_of(const Axes& axes, Dimension of) {
  for (const Axis& axis : axes)
    for (const Axis::Factor& f : axis.factors())
      if (f.of == of) return f.count;
  return 0;
}

std::ostream& operator<<(std::ostream& out, const Axis& axis) {
  bool first = true;
  for (const Axis::Factor& f : axis.factors()) {
    out << (first ? "" : " x ") << f.count;
    if (f.of != Dimension::none) out << ' ' << to_string(f.of);
    first = false;
  }
  return out;
}

Slice Slice::of(const Axes& axes, const Selection& selection) {
  Slice out;
  out.axes_ = axes;
  for (const Axis& axis : axes)
    out.indices_.push_back(combined(axis, [&](size_t f) {
      const Dimension of = axis.factors()[f].of;
      const int64_t count = axis.factors()[f].count;
      const auto kept = selection.find(of);
      if (kept == selection.end()) return counted(count, count);
      const auto& [whole, indices] = kept->second;
      if (count == whole) return indices;
      const int64_t left = count * int64_t(indices.size());
      check_usage(left % whole == 0, "slice", count, " ", to_string(of), " do not divide as ", whole, " to ",
                  indices.size(), " do; keep another number");
      return counted(left / whole, count);
    }));
  return out;
}

Slice Slice::first(const Axes& of, const Axes& smaller_axes) {
  const auto both = aligned(of, smaller_axes, "a tensor and its slice");
  const Axes &axes = both.first, &smaller = both.second;
  Slice out;
  out.axes_ = axes;
  for (size_t a = 0; a < axes.size(); ++a)
    out.indices_.push_back(combined(axes[a], [&](size_t f) {
      const int64_t most = axes[a].factors()[f].count, count = smaller[a].factors()[f].count;
      check_usage(count <= most, "slice", count, " ", to_string(axes[a].factors()[f].of), " are no slice of ", most,
                  "; choose fewer");
      return counted(count, most);
    }));
  return out;
}

Slice Slice::tiled(const Axes& of, const Axes& larger_axes) {
  const auto both = aligned(of, larger_axes, "a tensor and its tiles");
  const Axes &axes = both.first, &larger = both.second;
  Slice out;
  out.axes_ = axes;
  for (size_t a = 0; a < axes.size(); ++a)
    out.indices_.push_back(combined(axes[a], [&](size_t f) {
      const int64_t count = axes[a].factors()[f].count, all = larger[a].factors()[f].count;
      check_usage(all % count == 0, "slice", count, " ", to_string(axes[a].factors()[f].of), " do not tile to ", all,
                  "; choose a multiple");
      return counted(all, count);
    }));
  return out;
}

Shape Slice::shape() const {
  std::vector<int64_t> sizes;
  for (const Indices& indices : indices_) sizes.push_back(int64_t(indices.size()));
  return Shape(std::span<const int64_t>(sizes));
}

// visit(element of x, element of the slice), in the slice's order.
template <class Visit>
void Slice::each(const Tensor& x, Visit&& visit) const {
  check(x.shape() == shape_of(axes_), "slice", "a tensor of ", x.shape(), " is not one of ", shape_of(axes_));
  const Shape part = shape();
  for (int64_t i = 0; i < part.numel(); ++i) {
    int64_t at = 0, left = i, below = part.numel();
    for (size_t a = 0; a < indices_.size(); ++a) {
      below /= part[int(a)];
      at = at * x.dim(int(a)) + indices_[a][size_t(left / below)];
      left %= below;
    }
    visit(at, i);
  }
}

Tensor Slice::taken(const Tensor& x) const {
  const Tensor out = empty(shape(), x.dtype(), x.device());
  if (!x.is_meta()) each(x, [&](int64_t from, int64_t to) { set_value(out, to, value_at(x, from)); });
  return out;
}

void Slice::put(const Tensor& x, const Tensor& part) const {
  check(part.shape() == shape(), "slice", "a slice of ", shape(), " is not set by ", part.shape());
  if (!x.is_meta()) each(x, [&](int64_t to, int64_t from) { set_value(x, to, value_at(part, from)); });
}

void Slice::mask(const Tensor& x) const {
  std::vector<char> stays(size_t(x.numel()), 0);
  each(x, [&](int64_t at, int64_t) { stays[size_t(at)] = 1; });
  for (int64_t i = 0; i < x.numel(); ++i)
    if (!stays[size_t(i)]) set_value(x, i, 0);
}

Axes larger_of(const Axes& first, const Axes& second, const std::string& name) {
  const auto [a, b] = aligned(first, second, "two tensors '" + name + "'");
  Axes out;
  for (size_t i = 0; i < a.size(); ++i) {
    Axis axis;
    for (size_t f = 0; f < a[i].factors().size(); ++f)
      axis = axis * Axis(a[i].factors()[f].of, std::max(a[i].factors()[f].count, b[i].factors()[f].count));
    out.push_back(axis);
  }
  return out;
}

}  // namespace lithe
