// What the suite demands of every part. Each check returns what is wrong, or nothing; suite_test.cpp shows that they
// find parts that are wrong on purpose.
#pragma once

#include "tests/conformance/cases.h"

namespace lithe::conformance {

// sharing.cpp
/// Fields and positions: the attention map of a layer that takes the one below it (map: below) is that map, to the bit.
std::string check_borrowed_map(const PartCase& part);

// gradients.cpp
/// Truncation of central differences at step 1e-5 and their cancellation in f64 leave errors of about 1e-9.
constexpr double kGradientError = 1e-6;
/// Every element of every parameter and input of the part alone, against central differences in f64.
std::string check_gradients_alone(const PartCase& part, bool causal = true);
/// The gradient of the model's loss in every parameter tensor along a random direction.
std::string check_gradients_in_model(const PartCase& c);
/// `gradient_of` each parameter agrees with differences of `value` along a random direction, in f64.
std::string check_slopes(Parameters& parameters, const std::function<double()>& value,
                         const std::function<std::vector<double>(const Parameter&)>& gradient_of);
/// Every parameter has a gradient that is not zero in one of the small models that take the part. (Not in all: a shift
/// of all keys, say, changes nothing unless positions turn them.)
std::string check_no_idle_parameters(const PartCase& part);

// integers.cpp
/// Low-rank adapters over frozen 4-bit weights: loss and gradients are those over the numbers that the integers stand
/// for, where the rows that meet them are rounded alike.
std::string check_adapters_over_integers(const PartCase& c);

// sequences.cpp
/// Changing token t changes no row before t, to the bit, while training and not; and it changes some row from t on.
std::string check_causality(const PartCase& c);
/// A sequence's rows have the same bits alone and packed with others (without a tape); with a tape, other sequences'
/// tokens change nothing.
std::string check_batch_independence(const PartCase& c);
/// Not causal: the last row changes the first one; sequences do not meet.
std::string check_bidirectional(const PartCase& part);

// decoding.cpp
/// One row at a time, and a prefill with steps after it, give the rows of the whole sequence.
std::string check_decoding(const PartCase& c, DType compute);
/// Several sequences of different lengths in one state, some of them idle: each as if alone, to the bit.
std::string check_decoding_together(const PartCase& c, DType compute);
/// Continuations of reordered and repeated sequences.
std::string check_reordering(const PartCase& c);
/// Forgetting the last tokens and feeding them again gives the same bits; feeding others gives those others' rows.
/// States that promise truncates() can.
std::string check_truncation(const PartCase& c);
// states.cpp
/// Empty when both have the same names and bits; otherwise the first that differs.
std::string difference(const NamedTensors& a, const NamedTensors& b);
/// Saved and restored into a new state, decoding goes on with the same bits.
std::string check_saved_states(const PartCase& c);
/// Rows that continue a state under a tape have the rows of decoding, and gradients that agree with differences while
/// what is kept stays constant; or the state is refused.
std::string check_states_on_tape(const PartCase& c);
/// A mixer alone: skip() leaves the state that forward() leaves, to the bit.
std::string check_skipping(const PartCase& part);
/// Packed for inference, a model from a file gives the same bits: rows, logits, loss, decoding.
std::string check_packed(const PartCase& c, DType compute);

// slices.cpp
/// By every dimension that an axis declares: a smaller model, whose parameters are slices of a larger one's, is the
/// larger one with the rest at zero, unless a part couples the dimension.
std::string check_slices(const PartCase& part);

// resources.cpp
/// DecodeState::bytes and the ledger agree with the parts' formula.
std::string check_state_bytes(const PartCase& c);
/// A training step and decoding on meta tensors have the shapes and the peaks, class by class, of the real ones.
std::string check_meta_run(const PartCase& c);
/// Weights and configuration survive their files, to the bit.
std::string check_files(const PartCase& c);
/// Options: defaults resolve to themselves, each has its line of help, unknown ones are refused by name.
std::string check_options(const PartCase& part);

// kernels.cpp
/// Two runs give the same bits; so does recomputation in the backward pass (with dropout).
std::string check_determinism(const PartCase& c);
/// The reference and every instruction set of this machine agree with f64, values and gradients, within the rounding of
/// `compute`.
std::string check_kernels(const PartCase& c, DType compute);

// cross.cpp: a mixer in its cross form, alone
/// As check_gradients_alone(), the rows that it reads among the inputs.
std::string check_cross_gradients(const PartCase& part);
/// Every row of a source changes every row of its target, and no other's; rows of targets change only themselves; a
/// target has the same bits alone and packed with others.
std::string check_cross_sight(const PartCase& part);
/// Without positions the order of the source does not matter.
std::string check_cross_order(const PartCase& part);
/// Rows that read one and the same row are equal; reading oneself is the bidirectional form.
std::string check_cross_identities(const PartCase& part);
/// With a state: the rows of the whole, the formula's bytes; reordered, truncated, and given another source.
std::string check_cross_state(const PartCase& part);
/// A part without a cross form is refused with a remedy; one that says it has one is taken somewhere.
std::string check_cross_refusal(const PartCase& part);

}  // namespace lithe::conformance
