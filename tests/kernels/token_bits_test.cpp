#include "lithe/kernels/token_bits/token_bits.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

constexpr BitForm kForms[] = {BitForm::plain, BitForm::one_hot, BitForm::standardized};

bool bit(const Tensor& codes, int64_t n, int64_t j) {
  return uint32_t(codes.data<int32_t>()[n * codes.cols() + 1 + j / 32]) >> (31 - j % 32) & 1;
}

// Random payloads; code 1 is a special token, code 2 has only zeros, code 3 only ones.
Tensor some_codes(int64_t count, int64_t bits) {
  const Tensor codes = random_ints({count, code_width(bits)}, INT32_MIN, INT32_MAX, 1);
  for (int64_t n = 0; n < count; ++n) {
    int32_t* code = codes.data<int32_t>() + n * codes.cols();
    code[0] = n == 1 ? 3 : code_ordinary;
    if (n == 2 || n == 3) std::fill(code + 1, code + codes.cols(), n == 2 ? 0 : -1);
  }
  return codes;
}

TEST(TokenBits, EveryImplementationUnpacksEveryForm) {
  for (const DType type : kTypes)
    for (const BitForm form : kForms)
      for (const int64_t bits : {1, 4, 31, 32, 33, 64, 128, 420}) {
        const int64_t N = 6, columns = columns_of(form, bits);
        const Tensor codes = some_codes(N, bits), exact = zeros({N, columns}, DType::f64);
        const double scale = 0.75;
        for (int64_t n = 0; n < N; ++n) {
          if (n == 1) continue;
          double mean = 0, squares = 0;
          for (int64_t j = 0; j < bits; ++j) mean += double(bit(codes, n, j)) / double(bits);
          for (int64_t j = 0; j < bits; ++j) squares += std::pow(double(bit(codes, n, j)) - mean, 2);
          for (int64_t j = 0; j < bits; ++j) {
            const double tau = bit(codes, n, j);
            if (form == BitForm::standardized)
              set_value(exact, n * columns + j,
                        n == 2 || n == 3 || bits == 1 ? 0 : scale * (tau - mean) / std::sqrt(squares));
            else
              set_value(exact, n * columns + (form == BitForm::one_hot ? bits : 0) + j, scale * tau);
            if (form == BitForm::one_hot) set_value(exact, n * columns + j, scale * (1 - tau));
          }
        }
        on_every_implementation([&](const std::string& isa) {
          const std::string what = cat(isa, " ", type, " form ", int(form), " of ", bits, " bits");
          const Guarded out(random_tensor({N, columns}, type, 2));
          token_bits({.codes = codes, .out = out.tensor(), .bits = bits, .form = form, .scale = scale});
          // The mean of `bits` numbers and a root are exact to a few roundings in double.
          expect_close(
              out.tensor(), exact,
              [&](int64_t i) {
                return form == BitForm::standardized
                           ? (epsilon_of(type) + double(bits) * 0x1p-52) * std::abs(value_at(exact, i))
                           : 0;
              },
              what);
          out.expect_untouched(what);
        });
      }
}

TEST(TokenBits, ThreadsDoNotChangeABit) {
  const Tensor codes = some_codes(2000, 128);
  Tensor first;
  for (const int count : {1, 2, 3}) {
    const WithThreads with(count);
    const Tensor out = empty({2000, 128}, DType::f32);
    token_bits({.codes = codes, .out = out, .bits = 128, .form = BitForm::standardized});
    if (!first) first = out;
    expect_same_bits(out, first, cat(count, " threads"));
  }
}

TEST(TokenBits, RefusesWhatDoesNotFit) {
  const auto error_of = [](const TokenBitsArgs& args) -> std::string {
    try {
      token_bits(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  const Tensor codes = zeros({2, 5}, DType::i32);
  EXPECT_EQ(error_of({.codes = codes, .out = empty({2, 64}, DType::f32), .bits = 64}),
            "token_bits: codes of 64 bits must be i32 [2,3] to match the rows [2,64], got i32[2,5]");
  EXPECT_EQ(error_of({.codes = codes, .out = empty({2, 128}, DType::f32), .bits = 128, .form = BitForm::one_hot}),
            "token_bits: out must have 256 columns, got [2,128]");
  EXPECT_EQ(error_of({.codes = codes, .out = empty({2, 128}, DType::f32)}),
            "token_bits: a payload must have bits, got 0");
}

}  // namespace
}  // namespace lithe::kernels
