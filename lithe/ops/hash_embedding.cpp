#include "lithe/ops/hash_embedding.h"

#include <array>

namespace lithe {
namespace {

// The first of them, by order, are the hash functions of CANINE (Clark et al. 2022, arXiv:2103.06874).
constexpr std::array<int64_t, 16> kPrimes{31, 43, 59, 61, 73, 97, 103, 113, 137, 149, 157, 173, 181, 193, 211, 223};

bool ordinary(const int32_t* code) { return code[0] == code_ordinary; }

}  // namespace

void check_codes(const char* op, const Tensor& codes, int64_t width) {
  check(codes.dtype() == DType::i32 && codes.shape() == Shape{codes.rows(), width}, op, "codes must be i32 [N,", width,
        "], got ", codes.dtype(), codes.shape());
  if (codes.is_meta()) return;
  const int32_t* code = codes.data<int32_t>();
  for (int64_t n = 0; n < codes.rows(); ++n, code += width)
    check(code[0] >= 0 && code[0] <= code_ordinary, op, "code ", n, " begins with ", code[0],
          "; it must be a special token, 0 to 4, or ", code_ordinary, " for an ordinary one");
}

Tensor special_ids(const Tensor& codes) {
  const Tensor ids = empty({codes.rows()}, DType::i32, codes.device());
  if (ids.is_meta()) return ids;
  const int32_t* code = codes.data<int32_t>();
  for (int64_t n = 0; n < codes.rows(); ++n, code += codes.cols())
    ids.data<int32_t>()[n] = ordinary(code) ? -1 : code[0];
  return ids;
}

Tensor ordinary_ids(const Tensor& codes) {
  const Tensor ids = empty({codes.rows()}, DType::i32, codes.device());
  if (ids.is_meta()) return ids;
  for (int64_t n = 0; n < codes.rows(); ++n)
    ids.data<int32_t>()[n] = ordinary(codes.data<int32_t>() + n * codes.cols()) ? 0 : -1;
  return ids;
}

Tensor payload_ids(const char* op, const Tensor& codes, int64_t bound, const char* what) {
  const Tensor ids = empty({codes.rows()}, DType::i32, codes.device());
  if (ids.is_meta()) return ids;
  const int32_t* code = codes.data<int32_t>();
  for (int64_t n = 0; n < codes.rows(); ++n, code += codes.cols()) {
    check(!ordinary(code) || (code[1] >= 0 && code[1] < bound), op, "token ", n, " has ", what, " ", code[1],
          ", outside 0 to ", bound - 1);
    ids.data<int32_t>()[n] = ordinary(code) ? code[1] : -1;
  }
  return ids;
}

int64_t code_point_hashes() { return int64_t(kPrimes.size()); }

Tensor code_point_ids(const Tensor& codes, int64_t count, int64_t buckets) {
  check(count >= 1 && count <= code_point_hashes() && buckets >= 1, "code_point_ids", "there are 1 to ",
        code_point_hashes(), " hash functions over at least one bucket, got ", count, " over ", buckets);
  const Tensor ids = empty({codes.rows() * count}, DType::i32, codes.device());
  if (ids.is_meta()) return ids;
  const int32_t* code = codes.data<int32_t>();
  int32_t* id = ids.data<int32_t>();
  for (int64_t n = 0; n < codes.rows(); ++n, code += codes.cols()) {
    check(!ordinary(code) || (code[1] >= 0 && code[1] < 0x110000), "code_point_ids", "token ", n, " is ", code[1],
          ", which is no code point (0 to 1114111)");
    for (int64_t k = 0; k < count; ++k)
      *id++ = ordinary(code) ? int32_t(k * buckets + (code[1] + 1) * kPrimes[size_t(k)] % buckets) : -1;
  }
  return ids;
}

Tensor code_numbers(const Tensor& codes, DType dtype) {
  const int64_t size = codes.cols() - 1;
  const Tensor out = empty({codes.rows(), size}, dtype, codes.device());
  if (out.is_meta()) return out;
  dispatch_float(dtype, [&]<class T>() {
    const int32_t* code = codes.data<int32_t>();
    T* to = out.data<T>();
    for (int64_t n = 0; n < codes.rows(); ++n, code += codes.cols())
      for (int64_t j = 0; j < size; ++j) *to++ = T(ordinary(code) ? code_number(code[1 + j]) : 0);
  });
  return out;
}

Tensor token_bits(const Tensor& codes, int64_t bits, kernels::BitForm form, DType dtype, double scale) {
  const Tensor out = empty({codes.rows(), kernels::columns_of(form, bits)}, dtype, codes.device());
  kernels::token_bits({.codes = codes, .out = out, .bits = bits, .form = form, .scale = scale});
  return out;
}

Var hash_pool(const Tensor& codes, const Var& table, const Var& shares, int64_t bits, int64_t group_size) {
  const Tensor out = empty({codes.rows(), table.cols()}, table.dtype(), table.device());
  kernels::hash_pool({.codes = codes,
                      .table = table.value(),
                      .weights = shares.value(),
                      .out = out,
                      .bits = bits,
                      .group_size = group_size});
  return record("hash_pool", {table, shares}, out, [=](const Tensor& dy, Grads& g) {
    kernels::hash_pool_grad({.codes = codes,
                             .table = table.value(),
                             .weights = shares.value(),
                             .dout = dy,
                             .dtable = g.into_zeroed(table),
                             .dweights = g.into_zeroed(shares),
                             .bits = bits,
                             .group_size = group_size});
  });
}

Var map_columns(kernels::ColumnMap map, const Var& x, DType dtype) {
  const Tensor y = empty(x.shape(), dtype, x.device());
  kernels::map_columns({.map = map, .x = x.value(), .y = y});
  return record("map_columns", {x}, y, [map, x](const Tensor& dy, Grads& g) {
    kernels::map_columns_grad({.map = map, .x = x.value(), .dy = dy, .dx = g.into_zeroed(x)});
  });
}

}  // namespace lithe
