// Matrix products by oneDNN. Built without oneDNN, everything is refused.
#pragma once

#include "lithe/kernels/gemm/gemm.h"

namespace lithe::kernels {

/// The reason why oneDNN cannot run this product, or null.
const char* onednn_refuses(const GemmArgs& args);
/// Runs a product that is not refused, with onednn_workspace(args) bytes of scratch memory.
void onednn_gemm(const GemmArgs& args, void* workspace);
/// Bytes of scratch memory of a product that is not refused; the tensors may be meta.
int64_t onednn_workspace(const GemmArgs& args);

/// "oneDNN 2.6.3", or nothing where it is not built in.
std::string onednn_version();

}  // namespace lithe::kernels
