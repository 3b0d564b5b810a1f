#include "lithe/kernels/gemm/packed_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "lithe/base/threads.h"
#include "lithe/tensor/half.h"

namespace lithe::kernels {
namespace {

constexpr int64_t kPanel = PackedMatrix::kPanel, kUnit = PackedMatrix::kUnit;
constexpr const char* kPack = "packed matrix";

void check_parts(const PackedMatrix& m, int64_t first, const QuantizedTensors& t) {
  const int64_t rows = t.values.defined() && t.values.shape().rank() ? t.values.dim(0) : 0;
  check(first % kPanel == 0 && (first + rows == m.outputs || (first + rows < m.outputs && rows % kPanel == 0)), kPack,
        "'", m.name, "': ", rows, " outputs from ", first, " on are no whole panels of ", kPanel, " of the ", m.outputs,
        " outputs");
  const auto expect = [&](const char* what, const Tensor& got, DType type, const Shape& shape) {
    check(got.defined() && got.dtype() == type && got.shape() == shape, kPack, "'", m.name, "': the ", what,
          " must be ", type, shape, " for ", name_of(m.format), " weights ", m.shape(), ", got ", got);
  };
  if (in_blocks(m.format)) {
    const BlockFormat f = block_format(m.format);
    return expect("blocks", t.values, DType::u8, {rows, m.inputs / f.inputs * f.bytes});
  }
  if (m.format == PackedFormat::int8) {
    expect("values", t.values, DType::i8, {rows, m.inputs});
    expect("scales", t.scales, DType::f32, {rows});
  } else {
    expect("values", t.values, DType::u8, {rows, m.groups() * m.group / 2});
    expect("scales", t.scales, DType::bf16, {rows, m.groups()});
  }
  dispatch_float(t.scales.dtype(), [&]<class T>() {
    const auto finite = [](T scale) { return std::isfinite(float(scale)); };
    const T *scales = t.scales.data<T>(), *end = scales + t.scales.numel(),
            *bad = std::find_if_not(scales, end, finite);
    check(bad == end, kPack, "'", m.name, "': scale ", first * m.groups() + (bad - scales),
          " is not finite; the file is damaged");
  });
}

// The panels of outputs [first, first + count).
template <class F>
void for_panels(int64_t first, int64_t count, F f) {
  const int64_t from = first / kPanel;
  parallel_for((first + count + kPanel - 1) / kPanel - from, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = from + begin; p < from + end; ++p) f(p);
  });
}

void pack_int8(const PackedMatrix& m, int64_t first, const QuantizedTensors& t) {
  const auto* values = t.values.data<int8_t>();
  const auto first_wrong = [](const int8_t* p, int64_t count) {
    return static_cast<const int8_t*>(std::memchr(p, -128, size_t(count)));
  };
  std::atomic<bool> right = true;
  auto* data = m.data.data<uint8_t>();
  for_panels(first, t.values.rows(), [&](int64_t p) {
    const int64_t n = p * kPanel, count = std::min(kPanel, m.outputs - n);
    const int8_t* rows = values + (n - first) * m.inputs;
    if (first_wrong(rows, count * m.inputs)) right = false;
    for (int64_t k = 0; k < m.inputs; k += kUnit) {
      uint32_t words[kPanel] = {};
      for (int64_t i = 0; i < count; ++i)
        if (k + kUnit <= m.inputs)
          std::memcpy(&words[i], rows + i * m.inputs + k, kUnit);
        else
          std::memcpy(&words[i], rows + i * m.inputs + k, size_t(m.inputs - k));
      for (uint32_t& word : words) word ^= 0x80808080;
      std::memcpy(data + p * m.panel_bytes() + k / kUnit * int64_t(sizeof words), words, sizeof words);
    }
    for (int64_t i = 0; i < kPanel; ++i)
      m.scales.data<float>()[n + i] = i < count ? t.scales.data<float>()[n + i - first] : 0;
  });
  if (right) return;
  fail(kPack, "'", m.name, "': value ", first * m.inputs + (first_wrong(values, t.values.numel()) - values),
       " is -128, outside [-127, 127]; the file is damaged");
}

// Four bytes of inputs k and k + 1 of an output, as four of k and k + 4.
constexpr uint32_t halves_apart(uint32_t x) {
  const auto pair = [](uint32_t halves) { return (halves | halves >> 12) & 0xff; };
  const uint32_t even = x & 0x0f0f0f0f, odd = x >> 4 & 0x0f0f0f0f;
  return pair(even) | pair(odd) << 8 | pair(even >> 8) << 16 | pair(odd >> 8) << 24;
}

void pack_int4(const PackedMatrix& m, int64_t first, const QuantizedTensors& t) {
  const int64_t row_bytes = m.groups() * m.group / 2;
  const auto* from = t.values.data<uint8_t>();
  const auto* scales = t.scales.data<bf16>();
  auto* data = m.data.data<uint8_t>();
  for_panels(first, t.values.rows(), [&](int64_t p) {
    const int64_t n = p * kPanel, count = std::min(kPanel, m.outputs - n);
    const uint8_t* rows = from + (n - first) * row_bytes;
    for (int64_t k = 0; k < m.groups() * m.group; k += 8) {
      uint32_t words[kPanel];
      std::fill(words, words + kPanel, 0x88888888);
      for (int64_t i = 0; i < count; ++i) std::memcpy(&words[i], rows + i * row_bytes + k / 2, 4);
      if (k + 8 > m.inputs)
        for (uint32_t& word : words)
          for (int64_t j = std::max<int64_t>(m.inputs - k, 0); j < 8; ++j)
            word = (word & ~(15u << 4 * j)) | 8u << 4 * j;
      for (uint32_t& word : words) word = halves_apart(word);
      std::memcpy(data + p * m.panel_bytes() + k / m.group * m.group_bytes() + k % m.group / 8 * sizeof words, words,
                  sizeof words);
    }
    for (int64_t g = 0; g < m.groups(); ++g) {
      auto* to = reinterpret_cast<bf16*>(data + p * m.panel_bytes() + (g + 1) * m.group_bytes()) - kPanel;
      for (int64_t i = 0; i < kPanel; ++i) to[i] = i < count ? scales[(n + i - first) * m.groups() + g] : bf16(0);
    }
  });
}

// A block of one output into its panel.
template <PackedFormat format>
void put_block(const IntegerBlock& block, int64_t output, uint8_t* to) {
  constexpr BlockLayout layout(format);
  constexpr BlockFormat f = layout.format;
  constexpr int64_t kWord = BlockLayout::kWord, kPiece = BlockLayout::kPiece;
  for (int64_t first = 0; first < f.inputs; first += kPiece) {
    uint8_t* piece = to + layout.pieces_at() + first / kPiece * layout.piece_bytes() + output * 4;
    const auto put = [&](int64_t word, uint64_t bits) { std::memcpy(piece + word * kWord, &bits, 4); };
    uint64_t high[2] = {};
#pragma GCC unroll 4
    for (int64_t u = 0; u < 8; u += 2) {  // two units, one in each half
      uint64_t codes;
      std::memcpy(&codes, block.codes + first + u * 4, sizeof codes);
      if (f.low == 8) {
        put(u, codes), put(u + 1, codes >> 32);
        continue;
      }
      const uint64_t low = codes & 0x0f0f0f0f0f0f0f0f, upper = codes >> 4 & 0x0303030303030303;
      put(u / 2, low | low >> 28);
      if (f.high) high[u * f.high / 8] |= (upper | upper >> (32 - f.high)) << (u * f.high % 8);
    }
    for (int64_t word = 0; word < f.high; ++word) put(4 + word, high[word]);
  }
  constexpr int64_t kPanels = BlockLayout::kPanel;
  for (int64_t g = 0; g < layout.groups(); ++g) {
    if (f.scales) to[layout.scales_at() + g * kPanels + output] = uint8_t(block.scales[g]);
    if (f.minimums) to[layout.minimums_at() + g * kPanels + output] = block.minimums[g];
  }
  std::memcpy(to + layout.d_at() + output * 2, &block.d, 2);
  if (f.minimums) std::memcpy(to + layout.least_at() + output * 2, &block.least, 2);
}

template <PackedFormat format>
void pack_blocks(const PackedMatrix& m, int64_t first, const QuantizedTensors& t) {
  constexpr BlockLayout layout(format);
  constexpr BlockFormat f = layout.format;
  const int64_t blocks = m.inputs / f.inputs;
  const auto* from = t.values.data<uint8_t>();
  auto* data = m.data.data<uint8_t>();
  std::atomic<bool> finite = true;
  for_panels(first, t.values.rows(), [&](int64_t p) {
    const auto infinite = [](uint16_t half) { return (half & 0x7c00) == 0x7c00; };
    for (int64_t b = 0; b < blocks; ++b) {  // a block of a panel stays in the first cache
      IntegerBlock block{};
      for (int64_t n = p * kPanel; n < (p + 1) * kPanel; ++n) {
        if (n < m.outputs)
          read_block(format, from + ((n - first) * blocks + b) * f.bytes, block);
        else
          block = {};
        if (infinite(block.d) || (f.minimums && infinite(block.least))) finite = false;
        put_block<format>(block, n % kPanel, data + p * m.panel_bytes() + b * layout.bytes());
      }
    }
  });
  check(finite, kPack, "'", m.name, "': the scale of a block is not finite; the file is damaged");
}

// The panel of an output at the block of an input, and the input's place in it.
struct InBlock {
  const BlockLayout layout;
  const uint8_t* block;
  int64_t output, input;
  [[gnu::always_inline]] InBlock(BlockLayout how, const uint8_t* block_of_panel, int64_t n, int64_t k)
      : layout(how), block(block_of_panel), output(n), input(k) {}
  InBlock(const PackedMatrix& m, int64_t n, int64_t k)
      : layout(m.format),
        block(m.data.data<uint8_t>() + n / kPanel * m.panel_bytes() + k / layout.format.inputs * layout.bytes()),
        output(n % kPanel),
        input(k % layout.format.inputs) {}
  [[gnu::always_inline]] int value() const {
    const int code = layout.code(block, output, input);
    return layout.format.table ? kBlockTable[code] : code - layout.format.offset;
  }
  float half(int64_t at) const {
    uint16_t bits;
    std::memcpy(&bits, block + at + output * 2, sizeof bits);
    return float_of_half(bits);
  }
  uint8_t of_group(int64_t at) const { return block[at + input / layout.format.group * kPanel + output]; }
  float scale() const {
    const float d = half(layout.d_at());
    return layout.format.scales ? d * float(int8_t(of_group(layout.scales_at()))) : d;
  }
  float minimum() const {
    return layout.format.minimums ? half(layout.least_at()) * float(of_group(layout.minimums_at())) : 0;
  }
};

}  // namespace

const char* name_of(PackedFormat format) {
  constexpr const char* names[] = {"f32", "bf16", "int8", "int4", "q4_0", "q8_0", "iq4_nl", "q4_k", "q5_k", "q6_k"};
  return names[int(format)];
}

namespace {

void allocate_integers(PackedMatrix& m, Device device) {
  if (in_blocks(m.format)) {
    const BlockFormat f = block_format(m.format);
    m.group = f.group;
    check(m.inputs % f.inputs == 0, kPack, "'", m.name, "' has ", m.inputs, " inputs, which do not fill blocks of ",
          f.inputs, " of ", name_of(m.format));
  }
  check(in_blocks(m.format) || (m.format == PackedFormat::int8 ? m.group == 0 : m.group == 32 || m.group == 64), kPack,
        "'", m.name, "': the group size must be 32 or 64 for int4 weights and 0 for int8, got ", m.group, " for ",
        name_of(m.format));
  // A sum of 127 * 127 a term must fit 32 bits.
  check(m.inputs <= 133'000, kPack, "'", m.name, "' has ", m.inputs, " inputs; at most 133000 can be summed");
  m.data = empty({m.panels() * m.panel_bytes()}, DType::u8, device);
  if (!m.group) m.scales = empty({m.panels() * kPanel}, DType::f32, device);
}

}  // namespace

void allocate(PackedMatrix& m, Device device) {
  check(m.outputs >= 1 && m.inputs >= 1, kPack, "'", m.name, "' must have outputs and inputs, got ", m.shape());
  if (integers(m.format)) return allocate_integers(m, device);
  check(!m.group, kPack, "'", m.name, "' is a matrix of ", name_of(m.format), ", which has no groups");
  const DType type = m.format == PackedFormat::f32 ? DType::f32 : DType::bf16;
  m.data = empty({m.panels() * m.panel_bytes() / size_of(type)}, type, device);
}

namespace {

// Where the number at (output, input) lies in data.
int64_t place(const PackedMatrix& m, int64_t output, int64_t input) {
  const int64_t step = m.unit_inputs();
  return ((output / kPanel * m.units() + input / step) * kPanel + output % kPanel) * step + input % step;
}

// Part of a matrix of numbers: outputs [n0, n1) and inputs [k0, k1), the strides of both in `from`.
struct Piece {
  int64_t n0, n1, n_stride, k0, k1, k_stride;
};

template <class To, class From>
void pack_piece(const PackedMatrix& m, const Piece& piece, const From* from) {
  const int64_t n0 = piece.n0, n1 = piece.n1, n_stride = piece.n_stride;
  const int64_t k0 = piece.k0, k1 = piece.k1, k_stride = piece.k_stride;
  const int64_t step = m.unit_inputs(), first_panel = n0 / kPanel;
  // What ends the matrix also fills its padding.
  const int64_t n_end = n1 == m.outputs ? m.panels() * kPanel : n1, k_end = k1 == m.inputs ? m.units() * step : k1;
  To* data = m.data.data<To>();
  parallel_for((n_end + kPanel - 1) / kPanel - first_panel, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = first_panel + begin; p < first_panel + end; ++p)
      for (int64_t k = k0; k < k_end; ++k) {
        To* to = data + place(m, p * kPanel, k);
        for (int64_t n = std::max(n0, p * kPanel); n < std::min(n_end, (p + 1) * kPanel); ++n)
          to[n % kPanel * step] =
              n < m.outputs && k < m.inputs ? To(float(from[(n - n0) * n_stride + (k - k0) * k_stride])) : To(0.0f);
      }
  });
}

}  // namespace

void pack_rows(const PackedMatrix& m, int64_t first, const Tensor& rows) {
  check(m.data && !integers(m.format) && rows.shape().rank() == 2 && rows.cols() == m.shape()[1] && first >= 0 &&
            first + rows.rows() <= m.shape()[0],
        kPack, "'", m.name, "' ", m.shape(), " has no place for rows ", rows.shape(), " at ", first);
  if (m.data.is_meta()) return;
  const int64_t end = first + rows.rows();
  const Piece piece =
      m.by_rows ? Piece{first, end, m.inputs, 0, m.inputs, 1} : Piece{0, m.outputs, 1, first, end, m.outputs};
  const auto pack = [&]<class To, class From>(To, From) { pack_piece<To>(m, piece, rows.data<From>()); };
  const bool wide = m.format == PackedFormat::f32;
  check(rows.dtype() == DType::f32 || rows.dtype() == DType::bf16, kPack, "'", m.name,
        "': rows must be f32 or bf16, got ", rows.dtype());
  if (rows.dtype() == DType::f32)
    wide ? pack(float(), float()) : pack(bf16(), float());
  else
    wide ? pack(float(), bf16()) : pack(bf16(), bf16());
}

namespace {

template <PackedFormat format, class T>
void fill_row(const uint8_t* panel, int64_t output, int64_t inputs, T* row) {
  constexpr BlockLayout kLayout(format);
  constexpr int64_t kGroup = kLayout.format.group, kInputs = kLayout.format.inputs;
  for (int64_t first = 0; first < inputs; first += kInputs, panel += kLayout.bytes(), row += kInputs)
    for (int64_t k = 0; k < kInputs; k += kGroup) {
      const InBlock group(kLayout, panel, output, k);
      const float scale = group.scale(), minimum = group.minimum();
      for (int64_t i = k; i < k + kGroup; ++i)
        row[i] = T(scale * float(InBlock(kLayout, panel, output, i).value()) - minimum);
    }
}

}  // namespace

Tensor numbers_by_outputs(const PackedMatrix& m, DType type) {
  check(type == DType::f32 || type == DType::bf16, kPack, "'", m.name, "' is turned into f32 or bf16, not ", type);
  const Tensor out = empty({m.outputs, m.inputs}, type, m.data.device());
  if (out.is_meta()) return out;
  constexpr int64_t kPanel = PackedMatrix::kPanel, kUnit = PackedMatrix::kUnit;
  const auto fill = [&]<class T>(T* to) {
    parallel_for(m.panels(), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t n = begin * kPanel; n < std::min(end * kPanel, m.outputs); ++n) {
        T* row = to + n * m.inputs;
        if (!integers(m.format)) {
          for (int64_t k = 0; k < m.inputs; ++k) row[k] = T(float(value_at(m.data, place(m, n, k))));
          continue;
        }
        if (in_blocks(m.format)) {
          const uint8_t* panel = m.data.data<uint8_t>() + n / kPanel * m.panel_bytes();
          with_block_format(m.format,
                            [&]<PackedFormat format>() { fill_row<format>(panel, n % kPanel, m.inputs, row); });
          continue;
        }
        const uint8_t* bytes = m.data.data<uint8_t>() + n / kPanel * m.panel_bytes();
        const int64_t i = n % kPanel, width = m.group ? m.group : m.inputs;
        for (int64_t first = 0; first < m.inputs; first += width) {
          const int64_t some = std::min(width, m.inputs - first);
          const uint8_t* group = bytes + (m.group ? first / m.group * m.group_bytes() : 0);
          const float scale = m.group ? float(reinterpret_cast<const bf16*>(group + kPanel * m.group / 2)[i])
                                      : m.scales.data<float>()[n];
          for (int64_t k = 0; k < some; ++k) {
            const int64_t unit = m.group ? k / (2 * kUnit) : k / kUnit;
            const int byte = group[(unit * kPanel + i) * kUnit + k % kUnit];
            const int value = !m.group ? byte - 128 : (k / kUnit % 2 ? byte >> 4 : byte & 15) - 8;
            row[first + k] = T(scale * float(value));
          }
        }
      }
    });
  };
  type == DType::f32 ? fill(out.data<float>()) : fill(out.data<bf16>());
  return out;
}

Tensor unpacked(const PackedMatrix& m) {
  const Tensor by_outputs = numbers_by_outputs(m, integers(m.format) ? DType::f32 : m.data.dtype());
  if (m.by_rows) return by_outputs;
  const Tensor out = empty(m.shape(), by_outputs.dtype(), by_outputs.device());
  if (out.is_meta()) return out;
  constexpr int64_t kBlock = 64;  // rows of both that stay in a cache
  dispatch_float(out.dtype(), [&]<class T>() {
    const T* from = by_outputs.data<T>();
    parallel_for((m.inputs + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t first = 0; first < m.outputs; first += kBlock)
        for (int64_t k = begin * kBlock; k < std::min(end * kBlock, m.inputs); ++k)
          for (int64_t n = first; n < std::min(first + kBlock, m.outputs); ++n)
            out.data<T>()[k * m.outputs + n] = from[n * m.inputs + k];
    });
  });
  return out;
}

void pack(PackedMatrix& m, const QuantizedTensors& tensors) {
  check(integers(m.format), kPack, "'", m.name, "' holds ", name_of(m.format), " numbers, not integers");
  allocate(m, tensors.values ? Device::cpu : Device::meta);
  if (tensors.values) pack_rows(m, 0, tensors);
}

void pack_rows(const PackedMatrix& m, int64_t first, const QuantizedTensors& tensors) {
  check_parts(m, first, tensors);
  if (in_blocks(m.format))
    with_block_format(m.format, [&]<PackedFormat format>() { pack_blocks<format>(m, first, tensors); });
  else if (m.format == PackedFormat::int8)
    pack_int8(m, first, tensors);
  else
    pack_int4(m, first, tensors);
}

int quantized_value(const PackedMatrix& m, int64_t output, int64_t input) {
  if (in_blocks(m.format)) return InBlock(m, output, input).value();
  const uint8_t* panel = m.data.data<uint8_t>() + output / kPanel * m.panel_bytes();
  const int64_t i = output % kPanel, j = input % kUnit;
  if (!m.group) return panel[(input / kUnit * kPanel + i) * kUnit + j] - 128;
  const int64_t in_group = input % m.group;
  const uint8_t byte = panel[input / m.group * m.group_bytes() + (in_group / 8 * kPanel + i) * kUnit + j];
  return (in_group % 8 < kUnit ? byte & 15 : byte >> 4) - 8;
}

float quantized_minimum(const PackedMatrix& m, int64_t output, int64_t input) {
  return in_blocks(m.format) ? InBlock(m, output, input).minimum() : 0;
}

float quantized_scale(const PackedMatrix& m, int64_t output, int64_t input) {
  if (in_blocks(m.format)) return InBlock(m, output, input).scale();
  if (!m.group) return m.scales.data<float>()[output];
  const uint8_t* group = m.data.data<uint8_t>() + output / kPanel * m.panel_bytes() + input / m.group * m.group_bytes();
  return reinterpret_cast<const bf16*>(group + kPanel * m.group / 2)[output % kPanel];
}

}  // namespace lithe::kernels
