// Integer weights in a safetensors file. A parameter P is stored as P.int8 (I8) or P.int4 (U8) and P.scales, or as the
// blocks of a GGUF file, P.q4_k (U8) and the like, as kernels::QuantizedTensors says; the metadata key "packed_by_rows"
// lists the parameters that are [outputs, inputs].
#pragma once

#include <set>

#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/model/safetensors.h"
#include "lithe/model/safetensors_writer.h"
#include "lithe/nn/module.h"

namespace lithe {

class QuantizedWeights {
 public:
  /// Finds the integer weights of a file, which must live as long. Everything is checked: each has values and scales of
  /// types and shapes that belong together. `origin` stands in errors.
  QuantizedWeights(const SafetensorsFile& file, const std::string& origin);

  std::set<std::string> names() const;
  bool has(const std::string& parameter) const { return matrices_.count(parameter) > 0; }
  /// The parameter that tensor `name` of the file is a part of, or "".
  std::string parameter_of(const std::string& name) const;
  /// Fails unless p has the shape, and was made for integer weights.
  void check_fits(const Parameter& p) const;
  /// Reads the parameters of these names, several at once.
  void load(Parameters& parameters, const std::set<std::string>& names) const;
  /// What load() makes of p, without contents, for a model on the meta device: its products count the bytes of
  /// integers.
  void outline(Parameter& p) const;

 private:
  const SafetensorsFile& file_;
  std::string origin_;
  std::map<std::string, kernels::PackedMatrix> matrices_;  // without contents
  std::map<std::string, std::string> parts_;               // tensor -> parameter

  kernels::PackedMatrix allocated(const Parameter& p, Device device) const;
  void load(Parameter& p) const;
};

/// Parameters of a safetensors file that are integer weights; empty for a file of numbers.
std::set<std::string> integer_weights(const Path& file);

struct ModelConfig;
/// Fails (usage) where matrices of the model `what` are integers: `operation` reads numbers.
void check_holds_numbers(const ModelConfig& config, const std::string& operation, const std::string& what);

/// Some or all of a file's integer weights; no file: none.
struct IntegerWeights {
  Path file;
  std::set<std::string> names;
};
/// Reads them alone into a model whose ModelOptions::integers named them.
void load_integers(Parameters& parameters, const IntegerWeights& integers);
/// Gives them to a model on the meta device without their contents.
void outline_integers(Parameters& parameters, const IntegerWeights& integers);

/// Writes such a file, a parameter at a time in any order.
class QuantizedWriter {
 public:
  /// `numbers`: parameters that stay as they are; `matrices`: those that come as integers, without contents.
  QuantizedWriter(const Path& file, const std::map<std::string, SafetensorsWriter::Entry>& numbers,
                  const std::vector<kernels::PackedMatrix>& matrices);
  /// The size of such a file.
  static int64_t file_bytes(std::map<std::string, SafetensorsWriter::Entry> numbers,
                            const std::vector<kernels::PackedMatrix>& matrices);
  void put(const std::string& parameter, const Tensor& numbers) { out_.put(parameter, numbers); }
  void put(const kernels::PackedMatrix& matrix, const kernels::QuantizedTensors& parts);
  void commit() { out_.commit(); }

 private:
  SafetensorsWriter out_;
};

}  // namespace lithe
