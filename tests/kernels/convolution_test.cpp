#include "lithe/kernels/convolution/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

std::vector<ConvolutionSegment> convolution_segments(const Tensor& state = {}) {
  return {{0, 5, {}}, {5, 1, {}}, {6, 0, {}}, {6, 70, state}};
}
std::vector<ConvolutionSegment> with_own_states(std::vector<ConvolutionSegment> s, bool f64) {
  for (auto& each : s)
    if (each.state) each.state = f64 ? exact(each.state) : clone(each.state);
  return s;
}

// A sum of `taps` products, one of rows for the taps' gradient.
TEST(Convolution, EveryImplementationAgreesWithF64) {
  const int64_t N = 76;
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& form : {std::pair<int64_t, int64_t>{1, 0}, {4, 0}, {31, 0}, {5, 2}, {31, 15}})
      for (const int64_t C : {1, 16, 37})
        for (const bool continues : {false, true}) {
          const int64_t taps = form.first, ahead = form.second;
          if (continues && ahead) continue;
          const Tensor x = random_tensor({N, C}, type, 1), w = random_tensor({taps, C}, DType::f32, 2),
                       dy = random_tensor({N, C}, type, 3), old = random_tensor({N, C}, type, 4),
                       state = continues ? random_tensor({taps - 1, C}, DType::f32, 5) : Tensor();
          ConvolutionArgs e{exact(x), exact(w), zeros({N, C}, DType::f64),
                            with_own_states(convolution_segments(state), true), ahead};
          convolution(e);
          const Tensor left = e.segments[3].state, unfolded = zeros({N, taps * C}, DType::f64);
          e.segments = with_own_states(convolution_segments(state), true);
          const Tensor dx64 = exact(old), dw64 = zeros({taps, C}, DType::f64);
          convolution_grad({e, exact(dy), dx64, dw64, continues, false});
          on_every_implementation([&](const std::string& isa) {
            const std::string what = cat(isa, " ", type, " taps ", taps, " ahead ", ahead, " C ", C);
            const Guarded y(random_tensor({N, C}, type, 6)), dx(old);
            const auto run = with_own_states(convolution_segments(state), false);
            convolution({x, w, y.tensor(), run, ahead});
            const double bound = double(taps + 4) * kF32 * double(taps) * largest_of(x) * largest_of(w);
            expect_close(
                y.tensor(), e.y, [&](int64_t i) { return bound + epsilon_of(type) * std::abs(at(e.y, i)); }, what);
            if (continues && taps > 1) expect_close(run[3].state, left, 0, what + " state");
            y.expect_untouched(what);
            const Tensor dw = random_tensor({taps, C}, DType::f32, 7);
            convolution_grad(
                {{x, w, y.tensor(), convolution_segments(state), ahead}, dy, dx.tensor(), dw, continues, false});
            expect_close(
                dx.tensor(), dx64,
                [&](int64_t i) { return bound * largest_of(dy) + epsilon_of(type) * std::abs(at(dx64, i)); },
                what + " dx");
            expect_close(dw, dw64, double(N + 4) * kF32 * double(N) * largest_of(x) * largest_of(dy), what + " dw");
            dx.expect_untouched(what);
          });
        }
}

TEST(Convolution, UnfoldedRowsTimesTapsAreTheConvolution) {
  const int64_t N = 76, taps = 4, C = 19;
  for (const DType type : kTypes)
    for (const int64_t ahead : {0, 1}) {
      const Tensor x = random_tensor({N, C}, type, 1), dy = random_tensor({N, taps * C}, type, 2);
      on_every_implementation([&](const std::string& isa) {
        const Tensor y = empty({N, taps * C}, type), dx = zeros({N, C}, type);
        unfold({x, y, taps, convolution_segments(), ahead});
        for (const ConvolutionSegment& s : convolution_segments())
          for (int64_t t = s.row; t < s.row + s.rows; ++t)
            for (int64_t r = 0; r < taps; ++r) {
              const int64_t from = t + ahead - r;
              const bool inside = from >= s.row && from < s.row + s.rows;
              for (int64_t c = 0; c < C; ++c)
                ASSERT_EQ(at(y, (t * taps + r) * C + c), inside ? at(x, from * C + c) : 0) << isa << t << " " << r;
            }
        fold({dy, dx, taps, convolution_segments(), ahead});
        double left = 0, right = 0;  // <unfold x, dy> = <x, fold dy>
        for (int64_t i = 0; i < y.numel(); ++i) left += at(y, i) * at(dy, i);
        for (int64_t i = 0; i < x.numel(); ++i) right += at(x, i) * at(dx, i);
        EXPECT_NEAR(left, right, (1e-4 + (type == DType::bf16 ? 0.02 : 0)) * double(N));
      });
    }
}

TEST(Convolution, StatesContinueToTheBit) {
  for (const DType type : kTypes)
    for (const int64_t taps : {2, 7}) {
      const int64_t N = 20, C = 18;
      const Tensor x = random_tensor({N, C}, type, 1), w = random_tensor({taps, C}, wide(type), 2);
      on_every_implementation([&](const std::string& isa) {
        const Tensor whole = empty_like(x), pieces = empty_like(x), state = zeros({taps - 1, C}, wide(type));
        convolution({x, w, whole, {{0, N, {}}}});
        int64_t begin = 0;
        for (const int64_t end : {1, 2, 5, 13, 20}) {
          convolution({x, w, pieces, {{begin, end - begin, state}}});
          begin = end;
        }
        expect_same_bits(pieces, whole, cat(isa, " ", type));
      });
    }
}

TEST(ConvolutionGrad, MatchesCentralDifferences) {
  const Tensor x = random_tensor({9, 3}, DType::f64, 1), w = random_tensor({4, 3}, DType::f64, 2),
               dy = random_tensor({9, 3}, DType::f64, 3), y = empty_like(x);
  for (const int64_t ahead : {0, 2}) {
    std::vector<ConvolutionSegment> parts{{0, 4, {}}, {4, 5, ahead ? Tensor() : random_tensor({3, 3}, DType::f64, 4)}};
    const auto value = [&] {
      convolution({x, w, y, with_own_states(parts, true), ahead});
      double sum = 0;
      for (int64_t i = 0; i < y.numel(); ++i) sum += at(y, i) * at(dy, i);
      return sum;
    };
    value();
    const Tensor dx = empty_like(x), dw = empty_like(w);
    convolution_grad({{x, w, y, parts, ahead}, dy, dx, dw});
    expect_gradient(dx, x, value, "dx");
    expect_gradient(dw, w, value, "dw");
  }
}

TEST(Convolution, ErrorsSayWhatDoesNotFit) {
  const Tensor x = zeros({4, 3}, DType::f32), y = empty_like(x), w = zeros({2, 3}, DType::f32);
  const auto error = [](const ConvolutionArgs& args) -> std::string {
    try {
      convolution(args);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error({x, zeros({2, 2}, DType::f32), y, {}}),
            "convolution: w must be f32 [taps, C] to match x [4,3], got f32[2,2]");
  EXPECT_EQ(error({x, w, y, {}, 2}), "convolution: taps must be positive and ahead in [0, taps), got 2 and 2");
  EXPECT_EQ(error({x, w, y, {{0, 4, zeros({1, 3}, DType::f32)}}, 1}),
            "convolution: a state continues causal convolutions only");
}

}  // namespace
}  // namespace lithe::kernels
