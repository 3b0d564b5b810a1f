// The past as a function of a position in (0, 1] [TB 6.4.2(2)]: a weighted sum of Gaussian bumps, fitted to the keys
// and to the values by ridge regression. Every `refit` tokens the function so far is drawn together into [0, tau], the
// new tokens stand behind it, and one function is fitted to samples of the old one and to the new tokens. Queries see
// `points` values of it, and the tokens since the last fit, in one softmax; or (gaussian) each head of a query looks at
// the function through a Gaussian density, whose mean and variance are learned maps of the query's products with the
// keys' weights, and adds what it sees there to the attention over the tokens since the last fit [Martins et al. 2022].
// Where a text is there before it is read (encoders, cross-attention), one function is fitted to all of it.
#include <cmath>

#include "lithe/nn/registry.h"
#include "lithe/ops/heads.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/pointwise.h"
#include "lithe/parts/common/elementwise.h"
#include "lithe/parts/common/gates.h"
#include "lithe/parts/common/memory_state.h"
#include "lithe/tensor/linear_algebra.h"

namespace lithe {
namespace {

struct ContinuousConfig {
  int64_t basis = 64, refit = 64, points = 0;
  double ridge = 0.001, contraction = 0.5;
  std::vector<double> width;
  std::string reading = "grid";
  void fields(Fields& f) {
    f("basis", basis, "number N of Gaussian basis functions", between(1, 4096));
    f("refit", refit, "tokens between two fits (n_r)", at_least(1));
    f("points", points, "grid: number M of positions at which queries read the function; 0: the same as basis",
      between(0, 4096));
    f("width", width,
      "standard deviation of a basis function, for positions in (0, 1]; empty or 0: 1 / basis; several: each has an "
      "equal share of the basis functions, on a grid of its own",
      at_least(0));
    f("ridge", ridge, "ridge penalty lambda of the fit", at_least(0));
    f("reading", reading,
      "grid: a softmax over the function's values at M positions; gaussian: the function's mean under a Gaussian that "
      "each query places",
      one_of({"grid", "gaussian"}));
    f("contraction", contraction,
      "tau: at each fit the old function is contracted to [0, tau], and the new tokens follow it", between(0.01, 0.99));
  }
};

using Matrix = std::vector<double>;  // row by row

class Continuous final : public Memory {
 public:
  Continuous(const Scope& scope, const ContinuousConfig& config, const Args& args) : config_(config), args_(args) {
    const bool gaussian = config.reading == "gaussian";
    check_usage(!gaussian || config.points == 0, "continuous", "a Gaussian sees the whole function, not ",
                config.points, " points; leave out points, or reading");
    if (gaussian) {
      const auto map = [&](const char* name) {
        return Affine{(scope / name).parameter("weight", {args.query_heads(), config.basis}, InitRole::matrix),
                      (scope / name).parameter("bias", {args.query_heads()}, InitRole::zeros)};
      };
      mean_ = map("mean"), variance_ = map("variance");
    } else if (config_.points == 0) {
      config_.points = config_.basis;
    }
    if (config_.width.empty() || config_.width == std::vector<double>{0}) config_.width = {1 / double(config_.basis)};
    const auto grids = int64_t(config_.width.size()), each = config_.basis / grids;
    check_usage(each * grids == config_.basis, "continuous", "basis ", config_.basis,
                " cannot be divided equally among ", grids, " widths; give a multiple of ", grids);
    for (const double width : config_.width) {
      check_usage(width > 0, "continuous", "one of the ", grids, " widths is 0; give standard deviations above 0");
      for (int64_t b = 1; b <= each; ++b) bumps_.push_back({double(b) / double(each), width});
    }
    const int64_t n = config_.basis, r = config_.refit, m = config_.points;
    check_usage(
        args.causal || config_.ridge > 0, "continuous",
        "without a ridge bumps cannot be fitted to texts that are shorter than they are many; give ridge above 0");
    check_usage(config_.ridge > 0 || r >= n, "continuous", "without a ridge ", n, " bumps cannot be fitted to ", r,
                " tokens; give ridge above 0, or refit: ", n);
    std::vector<double> fresh, whole, grid;
    for (int64_t j = 1; j <= r; ++j) fresh.push_back(double(j) / double(r));
    for (int64_t j = 1; j <= m; ++j) grid.push_back(double(j) / double(m));
    first_ = fit(fresh);
    for (int64_t j = 1; j <= n; ++j) whole.push_back(config_.contraction * double(j) / double(n));
    for (const double t : fresh) whole.push_back(config_.contraction + (1 - config_.contraction) * t);
    const Matrix both = fit(whole);  // [N, N + r]
    std::vector<double> samples;
    for (int64_t j = 1; j <= n; ++j) samples.push_back(double(j) / double(n));
    const Matrix old = bumps(samples);  // [N, N]
    stay_.assign(size_t(n * n), 0);
    join_.assign(size_t(n * r), 0);
    for (int64_t a = 0; a < n; ++a) {
      for (int64_t s = 0; s < n; ++s)
        for (int64_t b = 0; b < n; ++b)
          stay_[size_t(a * n + b)] += both[size_t(a * (n + r) + s)] * old[size_t(s * n + b)];
      for (int64_t j = 0; j < r; ++j) join_[size_t(a * r + j)] = both[size_t(a * (n + r) + n + j)];
    }
    grid_ = bumps(grid);
  }

  // The weights of the function, then the tokens since the last fit, of keys and of values.
  std::vector<Piece> kept(int64_t tokens) const override {
    if (!args_.causal) {
      const int64_t fitted = tokens ? config_.basis : 0;
      return {{{fitted, args_.key_cols}, true}, {{0, 1}}, {{fitted, args_.value_cols}, true}, {{0, 1}}};
    }
    const int64_t open = tokens % config_.refit, fitted = tokens >= config_.refit ? config_.basis : 0;
    return {{{fitted, args_.key_cols}, true},
            {{open, args_.key_cols}},
            {{fitted, args_.value_cols}, true},
            {{open, args_.value_cols}}};
  }
  Reading read(const Stretch& in, Kept& kept) const override {
    if (!args_.causal) return read_whole(in, kept);
    const int64_t r = config_.refit, before = in.before, old = before / r, done = (before + in.k.rows()) / r,
                  open = before % r, m = config_.points;
    const Run keys = run(in.k, kept[0], kept[1], old, done), values = run(in.v, kept[2], kept[3], old, done);
    Reading out;
    out.k = keys.shown, out.v = values.shown;
    // Pairs: the points after fits `from` to `done`, then tokens from the first of the open stretch on.
    const int64_t from = std::max<int64_t>(1, old), raw = std::max<int64_t>(0, done - from + 1) * m;
    if (mean_.weight && in.q.rows()) out.context = context(in, keys, values, from);
    out.see = [=, seen = in.seen](int64_t, int64_t i, std::vector<Range>& ranges) {
      const int64_t s = seen[size_t(i)], fits = s / r;
      if (fits) ranges.push_back({(fits - from) * m, (fits - from + 1) * m});
      ranges.push_back({raw + open + fits * r - before, raw + open + s - before});
    };
    return out;
  }

 private:
  ContinuousConfig config_;
  Args args_;
  struct Bump {
    double centre, width;
  };
  std::vector<Bump> bumps_;            // by width, then by centre
  Matrix first_, stay_, join_, grid_;  // [N, r], [N, N], [N, r], [M, N]
  struct Affine {
    Parameter *weight = nullptr, *bias = nullptr;  // [heads, N], [heads]
  };
  Affine mean_, variance_;
  // The function's weights after each fit [N, cols], from the first that a query may see, and the pairs of a reading.
  struct Run {
    std::vector<Var> fits;
    Var shown;
  };

  // One fit of all tokens, or what is kept of it.
  Reading read_whole(const Stretch& in, Kept& kept) const {
    const int64_t n = in.k.rows();
    const DType dtype = in.q.dtype(), wide = wide_of(dtype);
    Matrix map;
    if (n) {
      std::vector<double> positions;
      for (int64_t j = 1; j <= n; ++j) positions.push_back(double(j) / double(n));
      map = fit(positions);
    }
    const auto fitted = [&](const Var& x, Tensor& weights) {
      if (n == 0) return Var(weights);
      const Var now = times(map, config_.basis, cast(x, wide));
      weights = kept_rows({now.value()}, x.cols(), wide, x.value().device());
      return now;
    };
    const Var keys = fitted(in.k, kept[0]), values = fitted(in.v, kept[2]);
    Reading out;
    if (keys.rows() == 0) {  // of no tokens
      out.k = in.k, out.v = in.v;
      if (mean_.weight && in.q.rows())
        out.context = zeros({in.q.rows(), args_.heads * (args_.value_cols / args_.kv_heads)}, dtype, in.q.device());
      out.see = [](int64_t, int64_t, std::vector<Range>&) {};
      return out;
    }
    if (mean_.weight) {
      out.k = zeros({0, args_.key_cols}, dtype, in.q.value().device());
      out.v = zeros({0, args_.value_cols}, dtype, in.q.value().device());
      if (in.q.rows())
        out.context = cast(head_linear(density(cast(in.q, wide), keys, in.scale),
                                       repeat_heads(values, args_.kv_heads, args_.heads), args_.heads, false),
                           dtype);
      out.see = [](int64_t, int64_t, std::vector<Range>&) {};
      return out;
    }
    const int64_t m = config_.points;
    out.k = cast(times(grid_, m, keys), dtype), out.v = cast(times(grid_, m, values), dtype);
    out.see = [m](int64_t, int64_t, std::vector<Range>& ranges) { ranges.push_back({0, m}); };
    return out;
  }

  // The bumps at positions: [positions, N].
  Matrix bumps(const std::vector<double>& positions) const {
    Matrix out;
    for (const double t : positions)
      for (const Bump& bump : bumps_) {
        const double x = (t - bump.centre) / bump.width;
        out.push_back(std::exp(-0.5 * x * x));
      }
    return out;
  }

  // (P^T P + ridge I)^-1 P^T for the bumps P at positions: [N, positions].
  Matrix fit(const std::vector<double>& positions) const {
    const auto n = size_t(config_.basis), count = positions.size();
    const Matrix p = bumps(positions);
    Matrix a(n * n), out(n * count);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        double sum = i == j ? config_.ridge : 0;
        for (size_t t = 0; t < count; ++t) sum += p[t * n + i] * p[t * n + j];
        a[i * n + j] = sum;
      }
      for (size_t t = 0; t < count; ++t) out[i * count + t] = p[t * n + i];
    }
    check_usage(solve_positive(a, out, config_.basis) > 1e-14, "continuous",
                "the bumps cannot be told apart at these positions; give a larger ridge, fewer bumps or a smaller "
                "width");
    return out;
  }

  static Var times(const Matrix& matrix, int64_t rows, const Var& x) {
    const Tensor a = empty({rows, x.rows()}, x.dtype(), x.device());
    for (int64_t i = 0; i < a.numel() && !a.is_meta(); ++i) set_value(a, i, matrix[size_t(i)]);
    return linear(a, x);
  }

  Run run(const Var& x, Tensor& weights, Tensor& open, int64_t old, int64_t done) const {
    const int64_t r = config_.refit, n = config_.basis;
    const Var tokens = joined(open, x);
    const DType wide = wide_of(x.dtype());
    std::vector<Var> parts;
    Run out;
    Var now = weights;
    const auto show = [&] {
      mean_.weight ? out.fits.push_back(now) : parts.push_back(cast(times(grid_, config_.points, now), x.dtype()));
    };
    if (old > 0) show();
    for (int64_t c = old; c < done; ++c) {
      const Var chunk = cast(slice_rows(tokens, (c - old) * r, (c - old + 1) * r), wide);
      now = c == 0 ? times(first_, n, chunk) : lithe::add(times(stay_, n, now), times(join_, n, chunk));
      show();
    }
    if (tokens.rows()) parts.push_back(tokens);
    if (done > old) weights = kept_rows({now.value()}, x.cols(), wide, x.device());
    open = kept_rows({tokens.value().slice((done - old) * r, tokens.rows())}, x.cols(), x.dtype(), x.device());
    out.shown = parts.empty() ? tokens : concatenate_rows(parts);
    return out;
  }

  // What the Gaussians of the queries see, zeros before the first fit: [T, heads*d_v]. `from`: the number of the first
  // of the runs' fits.
  Var context(const Stretch& in, const Run& keys, const Run& values, int64_t from) const {
    const int64_t rows = in.q.rows(), h = args_.heads;
    std::vector<Var> parts;
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
      const int64_t fits = in.seen[size_t(begin)] / config_.refit;
      while (end < rows && in.seen[size_t(end)] / config_.refit == fits) ++end;
      if (fits == 0) {
        parts.push_back(zeros({end - begin, h * (args_.value_cols / args_.kv_heads)}, in.q.dtype(), in.q.device()));
        continue;
      }
      const auto at = size_t(fits - from);
      const Var seen = density(cast(slice_rows(in.q, begin, end), wide_of(in.q.dtype())), keys.fits[at], in.scale);
      parts.push_back(
          cast(head_linear(seen, repeat_heads(values.fits[at], args_.kv_heads, h), h, false), in.q.dtype()));
    }
    return concatenate_rows(parts);
  }

  // E[psi_b(t)] of each bump for t ~ N(mu, s) of each query and head, with mu = sigmoid and s = softplus of an affine
  // map of the scores q.K_b: sigma_b / sqrt(s + sigma_b^2) exp(-(mu - mu_b)^2 / (2 (s + sigma_b^2))), which is
  // N(mu; mu_b, s + sigma_b^2) times the area of a bump. q [T, heads*d] -> [T, heads*N].
  Var density(const Var& q, const Var& keys, double scale_of_scores) const {
    const int64_t rows = q.rows(), h = args_.heads, n = config_.basis, d = q.cols() / h;
    const Var weights = repeat_heads(keys, args_.kv_heads, h);  // [N, heads*d]
    const auto constant = [&](const Shape& shape, double value) {
      return Var(filled(shape, value, q.dtype(), q.device()));
    };
    // The sum over bumps of weight * q.K_b is q.(the sum of weight * K_b).
    const auto affine = [&](const Affine& map) {
      const Var wide = cast(map.weight->var(), q.dtype());
      const Var direction = reshape(head_linear(reshape(wide, {1, h * n}), weights, h, false), {h * d});
      const Var dots = linear(reshape(row_affine(q, direction, {}), {rows * h, d}), constant({d, 1}, scale_of_scores));
      return row_affine(reshape(dots, {rows, h}), {}, cast(map.bias->var(), q.dtype()));
    };
    const Var mean = pointwise(kernels::Pointwise::sigmoid, affine(mean_));
    const Var variance = pointwise(kernels::Pointwise::softplus, affine(variance_));
    const auto of_bumps = [&](auto number) {
      const Tensor out = empty({n}, q.dtype(), q.device());
      for (int64_t b = 0; b < n && !out.is_meta(); ++b) set_value(out, b, number(b));
      return out;
    };
    const auto spread = [&](const Var& x, const Tensor& by) {
      return linear(reshape(x, {rows * h, 1}), reshape(by, {1, n}));
    };
    Var by;  // 1 / sqrt(s + sigma_b^2)
    const int64_t each = n / int64_t(config_.width.size());
    for (int64_t first = 0; first < n; first += each) {
      const double width = bumps_[size_t(first)].width;
      const Var of = each_number(
          "inverse_width", variance, [width](double s) { return 1 / std::sqrt(s + width * width); },
          [](double, double y) { return -0.5 * y * y * y; });
      const Var here = spread(of, of_bumps([=](int64_t b) { return double(b >= first && b < first + each); }));
      by = first == 0 ? here : lithe::add(by, here);
    }
    const Var apart = mul(row_affine(spread(mean, of_bumps([](int64_t) { return 1; })), {},
                                     of_bumps([this](int64_t b) { return -bumps_[size_t(b)].centre; })),
                          by);
    const Var bell = pointwise(kernels::Pointwise::exp, scale(mul(apart, apart), -0.5));
    const Tensor widths = of_bumps([this](int64_t b) { return bumps_[size_t(b)].width; });
    return reshape(row_affine(mul(bell, by), widths, {}), {rows, h * n});
  }
};

}  // namespace

void register_memory_continuous(Registry& registry) {
  registry.add<Memory, Continuous, ContinuousConfig>(
      "continuous",
      {.spec = "mem.continuous",
       .summary = "the past as a continuous function of position, fitted with Gaussian basis functions; constant size",
       .source = "TB 6.4.2(2); Martins et al. 2022",
       .cross = true,
       .samples = {"{basis: 3, refit: 2}", "{basis: 2, refit: 3, points: 4, ridge: 0.1}",
                   "{basis: 3, refit: 2, reading: gaussian}",
                   "{basis: 4, refit: 2, reading: gaussian, width: [0.2, 0.4]}"}});
}

}  // namespace lithe
