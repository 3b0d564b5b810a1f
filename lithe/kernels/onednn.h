// Matrix products by oneDNN. Built without oneDNN, everything is refused.
#pragma once

#include "lithe/kernels/gemm.h"

namespace lithe::kernels {

/// The reason why oneDNN cannot run this product, or null.
const char* onednn_refuses(const GemmArgs& args);
/// Runs a product that is not refused. Takes onednn_workspace(args) bytes of MemoryClass::workspace.
void onednn_gemm(const GemmArgs& args);
/// Bytes of workspace of a product that is not refused; the tensors may be meta.
int64_t onednn_workspace(const GemmArgs& args);

/// "oneDNN 2.6.3", or "built-in kernels".
std::string gemm_library();

}  // namespace lithe::kernels
