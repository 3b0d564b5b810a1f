#include "lithe/kernels/gemm/onednn.h"

#include "lithe/base/threads.h"
#include "lithe/kernels/tile_support.h"

#ifdef LITHE_HAVE_ONEDNN

#include <list>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace lithe::kernels {
namespace {

using Memory = dnnl::memory;

// Everything that decides which code oneDNN generates and how much scratch memory it wants.
struct Key {
  int64_t m, n, k;
  DType input, output;
  bool transpose_a, transpose_b, accumulate, bias;
  int threads;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    for (const uint64_t field :
         {uint64_t(key.m), uint64_t(key.n), uint64_t(key.k), uint64_t(key.input), uint64_t(key.output),
          uint64_t(key.transpose_a) | uint64_t(key.transpose_b) << 1 | uint64_t(key.accumulate) << 2 |
              uint64_t(key.bias) << 3,
          uint64_t(key.threads)}) {
      hash = (hash ^ field) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return size_t(hash);
  }
};

Memory::data_type type_of(DType type) { return type == DType::bf16 ? Memory::data_type::bf16 : Memory::data_type::f32; }

// A product of one shape. `code` stays empty until the first run: meta tensors need the plan only.
struct Compiled {
  dnnl::matmul::primitive_desc plan;  // empty: oneDNN has no such product on this machine
  dnnl::matmul code;
  int64_t workspace = 0;
};

class Products {
 public:
  static Products& instance() {
    static Products products;
    return products;
  }

  // The instruction sets of oneDNN can be limited once, before its first use.
  bool allowed() const { return machine_isa() >= isa_; }

  // Held while a product is looked up and run.
  std::mutex& mutex() { return mutex_; }

  Compiled& get(const Key& key) {
    if (const auto found = index_.find(key); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front().second;
    }
    if (entries_.size() == kCapacity) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    entries_.emplace_front(key, make(key));
    index_[key] = entries_.begin();
    return entries_.front().second;
  }

  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }

 private:
  static constexpr size_t kCapacity = 512;
  using Entries = std::list<std::pair<Key, Compiled>>;

  std::mutex mutex_;
  Isa isa_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Entries entries_;
  std::unordered_map<Key, Entries::iterator, KeyHash> index_;

  Products() : isa_(machine_isa()) {
    if (isa_ == Isa::avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    // It would use tiles that lithe must not.
    if (isa_ == Isa::avx512bf16 && processor_has_tiles()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    if (isa_ == Isa::avx512) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
    engine_ = dnnl::engine(dnnl::engine::kind::cpu, 0);
    stream_ = dnnl::stream(engine_);
    dnnl::set_primitive_cache_capacity(0);  // ours replaces it
  }

  Compiled make(const Key& key) const {
    const auto matrix = [](int64_t rows, int64_t cols, DType type, bool transposed) {
      return Memory::desc({rows, cols}, type_of(type), transposed ? Memory::dims{1, rows} : Memory::dims{cols, 1});
    };
    const Memory::desc a = matrix(key.m, key.k, key.input, key.transpose_a);
    const Memory::desc b = matrix(key.k, key.n, key.input, key.transpose_b);
    const Memory::desc c = matrix(key.m, key.n, key.output, false);
    const dnnl::matmul::desc description =
        key.bias ? dnnl::matmul::desc(a, b, matrix(1, key.n, DType::f32, false), c) : dnnl::matmul::desc(a, b, c);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    Compiled product;
    product.plan = dnnl::matmul::primitive_desc(description, attributes, engine_, true);
    if (product.plan) product.workspace = int64_t(product.plan.scratchpad_desc().get_size());
    return product;
  }
};

Key key_of(const GemmArgs& args) {
  // oneDNN asks OpenMP how many threads to plan for.
  if (omp_get_max_threads() != threads()) omp_set_num_threads(threads());
  return {args.c.dim(0),    args.c.dim(1),   args.a.dim(args.transpose_a ? 0 : 1),
          args.a.dtype(),   args.c.dtype(),  args.transpose_a,
          args.transpose_b, args.accumulate, args.bias.defined(),
          threads()};
}

}  // namespace

const char* onednn_refuses(const GemmArgs& args) {
  if (args.c.dtype() == DType::f64) return "no f64";
  if (args.a.numel() == 0 || args.c.numel() == 0) return "an operand is empty";
  if (machine_isa() == Isa::generic) return "runs from avx2 on, on x86-64 only";
  if (omp_in_parallel()) return "called from a parallel loop";
  Products& products = Products::instance();
  if (!products.allowed()) return "was started with more instruction sets than are allowed now";
  const std::lock_guard lock(products.mutex());
  return products.get(key_of(args)).plan ? nullptr : "has no product of these types on this machine";
}

int64_t onednn_workspace(const GemmArgs& args) {
  Products& products = Products::instance();
  const std::lock_guard lock(products.mutex());
  return products.get(key_of(args)).workspace;
}

void onednn_gemm(const GemmArgs& args, void* workspace) {
  Products& products = Products::instance();
  const std::lock_guard lock(products.mutex());
  Compiled& product = products.get(key_of(args));
  if (!product.code) product.code = dnnl::matmul(product.plan);
  const auto view = [&](const Memory::desc& desc, const Tensor& x) { return Memory(desc, products.engine(), x.raw()); };
  std::unordered_map<int, Memory> operands{
      {DNNL_ARG_SRC, view(product.plan.src_desc(), args.a)},
      {DNNL_ARG_WEIGHTS, view(product.plan.weights_desc(), args.b)},
      {DNNL_ARG_DST, view(product.plan.dst_desc(), args.c)},
      {DNNL_ARG_SCRATCHPAD, Memory(product.plan.scratchpad_desc(), products.engine(), workspace)}};
  if (args.bias) operands.emplace(DNNL_ARG_BIAS, view(product.plan.bias_desc(), args.bias));
  product.code.execute(products.stream(), operands);
}

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return cat("oneDNN ", v->major, ".", v->minor, ".", v->patch);
}

}  // namespace lithe::kernels

#else

namespace lithe::kernels {

const char* onednn_refuses(const GemmArgs&) { return "not built in"; }
void onednn_gemm(const GemmArgs&, void*) {}
int64_t onednn_workspace(const GemmArgs&) { return 0; }
std::string onednn_version() { return {}; }

}  // namespace lithe::kernels

#endif
