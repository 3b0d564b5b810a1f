#include "tests/parts/memory/memory_kit.h"

namespace lithe {
namespace {

// oracle: mem.continuous
TEST(ContinuousMemory, AsManyBumpsAsTokensWithoutARidgeAreFullAttention) {
  AttentionAlone full;
  MemoryAlone memory("{type: continuous, basis: 5, refit: 5, ridge: 0}");
  share(memory, full);
  const Tensor x = rows(9);  // the fit is after token 4
  EXPECT_LT(kit::largest_difference(memory(x), full(x)), 1e-9);
}

TEST(ContinuousMemory, ARidgeShrinksAndTheStateStaysOfOneSize) {
  MemoryAlone exact("{type: continuous, basis: 4, refit: 4, ridge: 0}"),
      shrunk("{type: continuous, basis: 4, refit: 4, ridge: 10}");
  fill_zero(exact.bench["part.heads.k.weight"]);
  fill_zero(shrunk.bench["part.heads.k.weight"]);
  const Tensor same = kit::rows_of(rows(1), {0, 0, 0, 0, 0});
  const auto size = [](const Tensor& y) {
    double sum = 0;
    for (int64_t c = 0; c < kMemoryWidth; ++c) sum += std::abs(value_at(y, 4 * kMemoryWidth + c));
    return sum;
  };
  const Tensor constant = exact(same);
  EXPECT_LT(kit::largest_difference(constant.slice(4, 5), constant.slice(0, 1)), 1e-10);  // constants are reproduced
  EXPECT_LT(size(shrunk(same)), size(constant));
  for (const int64_t tokens : {4, 400, 100000})
    EXPECT_EQ(exact.mixer->state_bytes({tokens}, DType::f32), 2 * 4 * kMemoryWidth * 4);
}

TEST(ContinuousMemory, IsLinearInTheValues) {
  MemoryAlone memory("{type: continuous, basis: 3, refit: 2}");
  const Tensor x = rows(11), y = memory(x);
  const Tensor v = memory.bench["part.heads.v.weight"];
  for (int64_t i = 0; i < v.numel(); ++i) set_value(v, i, 2 * value_at(v, i));
  const Tensor twice = memory(x);
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(value_at(twice, i), 2 * value_at(y, i), 1e-11);
}

double gaussian_at(double t, double mean, double variance) {
  return std::exp(-(t - mean) * (t - mean) / (2 * variance)) / std::sqrt(2 * M_PI * variance);
}

// All queries of a head look at one place: its maps are biases alone.
struct Looking : MemoryAlone {
  explicit Looking(const std::string& memory) : MemoryAlone(memory) {
    fill_zero(bench["part.memory.mean.weight"]);
    fill_zero(bench["part.memory.variance.weight"]);
  }
  double mean(int64_t head) { return 1 / (1 + std::exp(-value_at(bench["part.memory.mean.bias"], head))); }
  double variance(int64_t head) { return std::log1p(std::exp(value_at(bench["part.memory.variance.bias"], head))); }
};

// Two bumps are fitted to two tokens by hand; the function's mean under the Gaussian is a sum over a fine grid.
// oracle: mem.continuous
TEST(ContinuousMemory, AGaussianSeesTheFunctionsMeanUnderIt) {
  Looking memory("{type: continuous, basis: 2, refit: 2, ridge: 0.1, width: 0.3, reading: gaussian}");
  const Tensor x = rows(3), got = memory(x);
  const Made made(memory, x);
  const auto bump = [](double t, int64_t b) {
    const double at = (t - double(b + 1) / 2) / 0.3;
    return std::exp(-at * at / 2);
  };
  double a[2][2], inverse[2][2];  // P^T P + ridge, with tokens at 1/2 and 1
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 2; ++j)
      a[i][j] = bump(0.5, i) * bump(0.5, j) + bump(1, i) * bump(1, j) + (i == j ? 0.1 : 0);
  const double determinant = a[0][0] * a[1][1] - a[0][1] * a[1][0];
  inverse[0][0] = a[1][1] / determinant, inverse[1][1] = a[0][0] / determinant;
  inverse[0][1] = -a[0][1] / determinant, inverse[1][0] = -a[1][0] / determinant;
  const Tensor context = zeros({1, kMemoryWidth}, DType::f64);
  for (int64_t c = 0; c < kMemoryWidth; ++c) {
    const int64_t head = c / (kMemoryWidth / kMemoryHeads);
    const auto v = [&](int64_t token) { return value_at(made.v, token * kMemoryWidth + c); };
    double weights[2];
    for (int64_t b = 0; b < 2; ++b) {
      weights[b] = 0;
      for (int64_t j = 0; j < 2; ++j) weights[b] += inverse[b][j] * (bump(0.5, j) * v(0) + bump(1, j) * v(1));
    }
    const double mean = memory.mean(head), variance = memory.variance(head), reach = 12 * std::sqrt(variance);
    double sum = v(2);  // the softmax sees the third token's own pair alone
    const int64_t steps = 20000;
    for (int64_t s = 0; s < steps; ++s) {
      const double t = mean - reach + 2 * reach * (double(s) + 0.5) / double(steps);
      sum += 2 * reach / double(steps) * gaussian_at(t, mean, variance) *
             (weights[0] * bump(t, 0) + weights[1] * bump(t, 1));
    }
    set_value(context, c, sum);
  }
  EXPECT_LT(kit::largest_difference(got.slice(2, 3), kit::product(context, memory.bench["part.output.weight"])), 1e-9);
}

// Two widths: a bump of each stands at 1, so that both are fitted to the one token there.
// oracle: mem.continuous
TEST(ContinuousMemory, BumpsOfTwoWidthsShareTheFunction) {
  Looking memory("{type: continuous, basis: 2, refit: 1, ridge: 0.5, width: [0.3, 0.6], reading: gaussian}");
  const Tensor x = rows(2), got = memory(x);
  const Made made(memory, x);
  const Tensor context = zeros({1, kMemoryWidth}, DType::f64);
  for (int64_t c = 0; c < kMemoryWidth; ++c) {
    const int64_t head = c / (kMemoryWidth / kMemoryHeads);
    // P = (1, 1) at the only token: (P^T P + 1/2)^-1 P^T is 1 / 2.5 for both.
    const double weight = value_at(made.v, c) / 2.5;
    double sum = value_at(made.v, kMemoryWidth + c);
    for (const double width : {0.3, 0.6})
      sum += weight * std::sqrt(2 * M_PI) * width *
             gaussian_at(memory.mean(head), 1, memory.variance(head) + width * width);
    set_value(context, c, sum);
  }
  EXPECT_LT(kit::largest_difference(got.slice(1, 2), kit::product(context, memory.bench["part.output.weight"])), 1e-12);
  EXPECT_THROW(MemoryAlone("{type: continuous, basis: 3, width: [0.3, 0.6]}"), Error);
  EXPECT_THROW(MemoryAlone("{type: continuous, basis: 4, width: [0.3, 0]}"), Error);
}

// The place of each query follows from its products with the weights of the keys.
// oracle: mem.continuous
TEST(ContinuousMemory, AQueryPlacesItsGaussianByItsScores) {
  const std::string options = "{type: continuous, basis: 1, refit: 1, ridge: 0, width: 0.5, reading: gaussian}";
  MemoryAlone memory(options);
  const Tensor x = rows(2), got = memory(x);  // one bump, at 1, as high as the token before: its key and its value
  const Made made(memory, x);
  const auto bias = [&](const char* map, const char* what, int64_t head) {
    return value_at(memory.bench[cat("part.memory.", map, ".", what)], head);
  };
  const Tensor context = zeros({1, kMemoryWidth}, DType::f64);
  for (int64_t c = 0; c < kMemoryWidth; ++c) {
    const int64_t head = c / (kMemoryWidth / kMemoryHeads);
    const double score = made.dot(1, 0, head) / std::sqrt(double(kMemoryWidth / kMemoryHeads));
    const double mean = 1 / (1 + std::exp(-bias("mean", "weight", head) * score - bias("mean", "bias", head)));
    const double variance =
        std::log1p(std::exp(bias("variance", "weight", head) * score + bias("variance", "bias", head)));
    const double area = std::sqrt(2 * M_PI) * 0.5;
    set_value(context, c,
              value_at(made.v, kMemoryWidth + c) + area * gaussian_at(mean, 1, variance + 0.25) * value_at(made.v, c));
  }
  EXPECT_LT(kit::largest_difference(got.slice(1, 2), kit::product(context, memory.bench["part.output.weight"])), 1e-12);
}

// oracle: mem.continuous
TEST(ContinuousMemory, ANarrowGaussianSeesTheTokenThere) {
  Looking memory("{type: continuous, basis: 4, refit: 4, ridge: 0, reading: gaussian}");
  const Tensor x = rows(5);
  for (int64_t token = 0; token < 4; ++token) {
    const double place = double(token + 1) / 4;
    for (int64_t head = 0; head < kMemoryHeads; ++head) {
      set_value(memory.bench["part.memory.mean.bias"], head, place == 1 ? 40 : std::log(place / (1 - place)));
      set_value(memory.bench["part.memory.variance.bias"], head, -40);
    }
    const Made made(memory, x);
    const Tensor context = clone(made.v.slice(4, 5));
    for (int64_t c = 0; c < kMemoryWidth; ++c)
      set_value(context, c, value_at(context, c) + value_at(made.v, token * kMemoryWidth + c));
    EXPECT_LT(kit::largest_difference(memory(x).slice(4, 5), kit::product(context, memory.bench["part.output.weight"])),
              1e-9)
        << token;
  }
}

TEST(ContinuousMemory, GaussiansAreLinearInTheValuesOfConstantSizeAndSeeNothingBeforeTheFirstFit) {
  MemoryAlone memory("{type: continuous, basis: 3, refit: 4, reading: gaussian}"),
      grid("{type: continuous, basis: 3, refit: 4}");
  const Tensor x = rows(11), y = memory(x);
  share(grid, memory);
  EXPECT_LT(kit::largest_difference(y.slice(0, 4), grid(x).slice(0, 4)), 1e-12);
  EXPECT_GT(kit::largest_difference(y.slice(4, 5), grid(x).slice(4, 5)), 1e-3);
  const Tensor v = memory.bench["part.heads.v.weight"];
  for (int64_t i = 0; i < v.numel(); ++i) set_value(v, i, 2 * value_at(v, i));
  const Tensor twice = memory(x);
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_NEAR(value_at(twice, i), 2 * value_at(y, i), 1e-11);
  EXPECT_EQ(memory.bench.parameters().count() - grid.bench.parameters().count(), 2 * (3 + 1) * kMemoryHeads);
  for (const int64_t tokens : {4, 400, 100000})
    EXPECT_EQ(memory.mixer->state_bytes({tokens}, DType::f32), 2 * 3 * kMemoryWidth * 4);
  kit::Bench bench;
  EXPECT_NE(kit::coded_error_of([&] {
              bench.make<Mixer>("memory_attention", {.hidden_size = 8},
                                "{num_attention_heads: 2, memory: {type: continuous, reading: gaussian, points: 3}}");
            }).find("leave out points"),
            std::string::npos);
}

// One function of the whole of another text: with as many narrow bumps as tokens and hardly a ridge its values there
// are the tokens, and the grid shows them all. A text to itself is the same. oracle: mem.continuous
TEST(Continuous, ReadsAWholeText) {
  for (const bool cross : {true, false}) {
    const auto make = [cross](const std::string& type, const std::string& options, kit::Bench& bench) {
      auto out = bench.make<Mixer>(type, {.hidden_size = kMemoryWidth, .causal = false, .cross = cross},
                                   cat("{num_attention_heads: 2, ", options, "}"));
      kit::randomise(bench.parameters(), 7);
      return out;
    };
    kit::Bench one, other, third;
    const auto memory = make("memory_attention", "memory: {type: continuous, basis: 9, ridge: 1.0e-12}", one),
               plain = make("attention", "field: full", other);
    const Tensor x = rows(9), source = rows(9, 4);
    const Rows from{Var(source), Sequences::single(9)};
    const Sequences nine = Sequences::single(9);
    const auto read = [&](const Mixer& mixer) {
      return mixer.forward({.x = Var(x), .sequences = nine, .source = cross ? &from : nullptr}).value();
    };
    EXPECT_LE(kit::largest_difference(read(*memory), read(*plain)), 1e-6);
    if (!cross) continue;
    const auto gaussian = make("memory_attention", "memory: {type: continuous, basis: 5, reading: gaussian}", third);
    for (const Mixer* mixer : {memory.get(), gaussian.get()}) {
      const auto state = mixer->make_state({1, 9, DType::f64, Device::cpu});
      mixer->read_source(*state, from);
      EXPECT_EQ(state->bytes(), mixer->state_bytes({900}, DType::f64));  // however long the text is
      EXPECT_LE(kit::largest_difference(mixer->forward({.x = Var(x), .sequences = nine, .state = state.get()}).value(),
                                        read(*mixer)),
                1e-12);
    }
  }
}

}  // namespace
}  // namespace lithe
