// Which dimensions of the model the axes of a parameter are, and the elements that a smaller or larger one shares.
#pragma once

#include <map>
#include <vector>

#include "lithe/base/dimension.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// One axis of a parameter: a product of dimensions, the outermost first. A number alone is of the part's own.
class Axis {
 public:
  struct Factor {
    Dimension of;
    int64_t count;
    bool operator==(const Factor&) const = default;
  };
  Axis() = default;
  Axis(int64_t count) : Axis(Dimension::none, count) {}
  Axis(Dimension of, int64_t count) : factors_{{of, count}} {}

  static Axis hidden(int64_t channels) { return {Dimension::hidden, channels}; }
  static Axis ffn(int64_t units) { return {Dimension::ffn, units}; }
  static Axis vocabulary(int64_t entries) { return {Dimension::vocabulary, entries}; }
  static Axis experts(int64_t count) { return {Dimension::experts, count}; }
  static Axis state(int64_t numbers) { return {Dimension::state, numbers}; }
  static Axis taps(int64_t count) { return {Dimension::taps, count}; }
  static Axis positions(int64_t count) { return {Dimension::positions, count}; }
  static Axis classes(int64_t count) { return {Dimension::classes, count}; }
  static Axis head_width(int64_t channels) { return {Dimension::head_width, channels}; }
  static Axis key_heads(int64_t count) { return {Dimension::key_heads, count}; }
  /// Heads of `width` channels that keys or values are made for.
  static Axis key_heads(int64_t count, int64_t width) { return key_heads(count) * head_width(width); }
  /// Query heads, `key_heads` groups of them side by side.
  static Axis query_heads(int64_t count, int64_t key_heads) {
    return Axis::key_heads(key_heads) * Axis(Dimension::queries, count / key_heads);
  }
  static Axis query_heads(int64_t count, int64_t key_heads, int64_t width) {
    return query_heads(count, key_heads) * head_width(width);
  }

  /// Index i of this and j of the other is i times the other's size, plus j.
  Axis operator*(const Axis& inner) const;
  /// The other factors.
  Axis without(Dimension of) const;
  int64_t size() const;
  const std::vector<Factor>& factors() const { return factors_; }
  bool operator==(const Axis&) const = default;

 private:
  std::vector<Factor> factors_;
};
using Axes = std::vector<Axis>;

Shape shape_of(const Axes& axes);
/// Of the first factor of this dimension; 0: there is none.
int64_t count_of(const Axes& axes, Dimension of);
std::ostream& operator<<(std::ostream& out, const Axis& axis);

/// Which indices of a dimension of `count` stay, in this order. In factors of another count as large a part of the
/// first ones stays.
struct Kept {
  int64_t count = 0;
  std::vector<int64_t> indices;
};
using Selection = std::map<Dimension, Kept>;

/// Elements of a tensor: for each of its axes the indices that are taken, in order, and more than once where they
/// repeat.
class Slice {
 public:
  /// Of each dimension what stays. Fails (usage) where that is not a whole number.
  static Slice of(const Axes& axes, const Selection& selection);
  /// Of each factor the first ones, as many as the same factor of `smaller` has: one, where that has none. Fails
  /// (usage) where their axes are of other dimensions, or smaller is larger.
  static Slice first(const Axes& axes, const Axes& smaller);
  /// For an axis `larger` of the same dimensions: its indices, each modulo the smaller count, so that what was taken
  /// stands side by side. Fails (usage) where a count is no multiple.
  static Slice tiled(const Axes& axes, const Axes& larger);

  Shape shape() const;
  /// The elements of x.
  Tensor taken(const Tensor& x) const;
  /// Sets those of x to the ones of `part`, of shape().
  void put(const Tensor& x, const Tensor& part) const;
  /// Sets all others of x to zero.
  void mask(const Tensor& x) const;

 private:
  Axes axes_;
  std::vector<std::vector<int64_t>> indices_;

  template <class Visit>
  void each(const Tensor& x, Visit&& visit) const;
};

/// The larger of both, factor by factor, of which one may lack some. Fails (usage) where they are of other dimensions,
/// or in another order; `name` is the tensor's.
Axes larger_of(const Axes& a, const Axes& b, const std::string& name);

}  // namespace lithe
