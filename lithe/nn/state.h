// What sub-layers remember of the tokens before.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

/// What a state is made for: `sequences` sequences of at most `capacity` tokens.
struct StateShape {
  int64_t sequences = 1, capacity = 0;
  DType dtype = DType::f32;  // of what it keeps; i8, u8: rounded to 8 and to 4 bits
  Device device = Device::cpu;
};

/// The type of what a cache keeps by its name in recipes and commands: f32, bf16, int8, or int4, which is
/// u8: two codes a byte; none: that of the rows.
std::optional<DType> cache_type_named(const std::string& name);
/// The name of such a type.
std::string cache_type_name(DType type);

using NamedTensors = std::map<std::string, Tensor>;

class State {
 public:
  virtual ~State() = default;
  /// Bytes in use for the tokens so far, as the cost model states them.
  virtual int64_t bytes() const = 0;
  /// Sequence i continues what was sequence from[i]; sequences not named are dropped.
  virtual void reorder(const std::vector<int64_t>& from) = 0;
  /// truncate() works at every length. Otherwise it may still do at some, or when nothing is kept.
  virtual bool truncates() const = 0;
  /// Forgets all but the first `tokens` tokens of sequence b. Fails where it cannot.
  virtual void truncate(int64_t sequence, int64_t tokens) = 0;
  /// Rows that continue the state may want gradients: they have them, and what is kept counts as constant. Otherwise a
  /// state under a tape is refused.
  virtual bool differentiable() const { return false; }
  /// What is kept, by name, tensors that may be read until the state changes; and back into a new state of the same
  /// shape, to the bit.
  virtual NamedTensors save() const = 0;
  virtual void restore(const NamedTensors& kept) = 0;
};

/// The tensor that save() named `name`. Fails when it is missing.
const Tensor& kept_tensor(const NamedTensors& kept, const std::string& name);
/// Copies it into `to`. Fails when shape or dtype differ.
void restore_tensor(const Tensor& to, const NamedTensors& kept, const std::string& name);
/// Counts as i32 [n], and back. Fails when there are not `n` of them.
Tensor tensor_of_counts(const std::vector<int64_t>& counts);
std::vector<int64_t> counts_of(const Tensor& saved, int64_t n);

}  // namespace lithe
