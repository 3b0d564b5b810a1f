#include "lithe/kernels/token_bits/token_bits.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/token_bits/reference.h"

LITHE_DECLARE_CPU(token_bits, TokenBitsArgs)

namespace lithe::kernels {
namespace {

void token_bits_ref(const TokenBitsArgs& a) {
  dispatch_float(a.out.dtype(), [&]<class T>() { ref::token_bits<T>(a); });
}
const char* refuse(const TokenBitsArgs& a) { return refuse_f64(a.out); }

}  // namespace

void check_codes(const char* op, const Tensor& codes, int64_t bits, const Tensor& rows) {
  check(bits > 0, op, "a payload must have bits, got ", bits);
  check(codes.dtype() == DType::i32 && codes.shape() == Shape{rows.rows(), code_width(bits)} &&
            codes.device() == rows.device(),
        op, "codes of ", bits, " bits must be i32 [", rows.rows(), ",", code_width(bits), "] to match the rows ",
        rows.shape(), ", got ", codes.dtype(), codes.shape());
}

Cost cost(const TokenBitsArgs& a) {
  return {a.form == BitForm::standardized ? 4 * double(a.codes.rows()) : 0, bytes_of({a.codes, a.out})};
}

void token_bits(const TokenBitsArgs& a) {
  const char* op = "token_bits";
  check_rows(op, {"out", a.out});
  check_codes(op, a.codes, a.bits, a.out);
  check(a.out.cols() == columns_of(a.form, a.bits), op, "out must have ", columns_of(a.form, a.bits), " columns, got ",
        a.out.shape());
  run_kernel<TokenBitsArgs>(op, a.out.is_meta(),
                            {LITHE_CPU_STREAMS(token_bits, refuse), {"ref", Isa::generic, nullptr, token_bits_ref}}, a);
}

}  // namespace lithe::kernels
