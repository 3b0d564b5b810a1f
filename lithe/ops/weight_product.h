// Products of rows with a weight, whose numbers may be integers; for the operations that make them.
#pragma once

#include <functional>
#include <map>
#include <span>

#include "lithe/autograd/var.h"

namespace lithe {

/// y = x w + bias; w is [K,M] or, transposed, [M,K]; bias may be undefined.
struct WeightProduct {
  const Var& w;
  Tensor bias, y;
  bool transposed = false;
};
/// Products of the same x. When not training() a row's result does not depend on the other rows, nor on the other
/// products, to the bit. Packed weights have no gradient of their own; that of x is InputGradient's.
void weight_products(const Tensor& x, std::span<const WeightProduct> products);

/// dx (+)= dy w^T of products of x with w. A packed w is turned into numbers once; that integer products round x does
/// not change the gradient.
class InputGradient {
 public:
  InputGradient(const Var& w, bool transposed);
  void operator()(const Tensor& dy, const Tensor& dx, bool accumulate = false) const;

 private:
  Tensor numbers_;
  bool transpose_;
};

/// Each row of x as integers of `bits` bits times its own step max|x| / (2^(bits-1) - 1), halves away from zero, as
/// quantized_product.h rounds them to 8. The gradient passes: nothing is clipped.
Var round_rows(const Var& x, int bits);
/// The rows that a product of x with w reads.
inline Var product_input(const Var& x, const Var& w) {
  return w.rounded_inputs() ? round_rows(x, w.rounded_inputs()) : x;
}

/// What is added to products with some weights, which stay as they are: y += x a b, a [K,r], b [r,M] of the rows' type.
class LowRankUpdates {
 public:
  struct Update {
    Tensor a, b;
  };
  void add(const Var& w, Tensor a, Tensor b);
  const Update* of(const Var& w) const;  // null: none

 private:
  std::map<const void*, Update> by_numbers_;  // of the weight, packed or not
};
/// While one lives, products of this thread have these updates added, or none where it is null. The innermost counts.
/// For passes that are not recorded.
class LowRankScope {
 public:
  explicit LowRankScope(const LowRankUpdates* updates);
  ~LowRankScope();
  LowRankScope(const LowRankScope&) = delete;
  LowRankScope& operator=(const LowRankScope&) = delete;
  static bool any();

 private:
  const LowRankUpdates* previous_;
};

/// While one lives, it is called after every product of this thread. The innermost counts.
class ProductObserver {
 public:
  using Seen = std::function<void(const Tensor& x, const Var& w, const Tensor& bias, const Tensor& y)>;
  explicit ProductObserver(Seen seen);
  ~ProductObserver();
  ProductObserver(const ProductObserver&) = delete;
  ProductObserver& operator=(const ProductObserver&) = delete;

 private:
  friend void weight_products(const Tensor&, std::span<const WeightProduct>);
  Seen seen_;
  ProductObserver* previous_;
};

}  // namespace lithe
