// Matrix products: bodies over Simd. Included once by each instruction set's file. Rows and columns are tiled for
// registers; every output keeps its one chain in ascending order, so tiling never shows in the bits.
#ifndef BATON_ENGINE_KERNELS_MATMUL_CPU_H_
#define BATON_ENGINE_KERNELS_MATMUL_CPU_H_

#include "engine/kernels/packed_layout.h"
#include "engine/kernels/prefetch.h"

namespace baton::engine::kernels {
namespace {

template <WeightFormat kFormat>
inline constexpr int kGroupBytes = static_cast<int>(GroupDataBytes(kFormat));

// The tail of one block of 16 weight rows.
template <WeightFormat kFormat>
struct QuantTail {
  const uint8_t* factors;
  const uint8_t* scales;
  const uint8_t* minima;

  BATON_INLINE QuantTail(const uint8_t* block, int groups) {
    const TailLayout tail = TailOf(kFormat, groups);
    factors = block + tail.factors;
    scales = block + tail.scales;
    minima = block + tail.minima;
  }
  BATON_INLINE const uint8_t* Factors(int g) const { return factors + g * 2 * kLanes; }
  BATON_INLINE Simd::F Scale(int g) const {
    if constexpr (!HasFactors(kFormat)) return Simd::LoadF16(scales + g * 2 * kLanes);
    const Simd::F scale = Simd::LoadF16(scales + g / kSuperGroups * 2 * kLanes);
    if constexpr (kFormat == WeightFormat::kQ6_K) return scale;
    return Simd::Mul(scale, Simd::LoadU8(Factors(g)));
  }
  BATON_INLINE Simd::F Minimum(int g) const {
    if constexpr (!HasFactors(kFormat)) return Simd::LoadF16(minima + g * 2 * kLanes);
    const Simd::F minimum = Simd::LoadF16(minima + g / kSuperGroups * 2 * kLanes);
    return Simd::Mul(minimum, Simd::LoadU8(Factors(g) + kLanes));
  }
};

// Bytes of a block, data and tail, for each of its groups.
template <WeightFormat kFormat>
inline constexpr int kGroupShare = static_cast<int>(TailOf(kFormat, kSuperGroups).bytes / kSuperGroups);

// The weights come from memory once per step. The processor's own prefetcher stops at every page and does not foresee a
// block's tail. So each group asks for its share of the bytes one and a half blocks ahead, where the next column blocks
// lie.
template <WeightFormat kFormat>
BATON_INLINE void PrefetchShare(const uint8_t* block, int groups, int g) {
  const uint8_t* const ahead = block + (3 * groups / 2 + g) * kGroupShare<kFormat>;
  BATON_UNROLL for (int i = 0; i < kGroupShare<kFormat>; i += kCacheLine) PrefetchToSecondLevel(ahead + i);
}

// Adds the second chain, which formats with minima have, to kRows rows of `out`.
template <WeightFormat kFormat, int kRows>
BATON_INLINE void AddMinima(const QuantGroup* acts, int first, const QuantTail<kFormat>& tail, int groups, float* out) {
  Simd::F low[kRows];
  BATON_UNROLL for (int r = 0; r < kRows; ++r) low[r] = Simd::Zero();
  for (int g = 0; g < groups; ++g) {
    const Simd::F minimum = tail.Minimum(g);
    BATON_UNROLL for (int r = 0; r < kRows; ++r) {
      low[r] = Simd::Fma(Simd::Set1(acts[g].scaled_sum[first + r]), minimum, low[r]);
    }
  }
  BATON_UNROLL for (int r = 0; r < kRows; ++r) {
    Simd::Store(out + r * kLanes, Simd::Add(Simd::Load(out + r * kLanes), low[r]));
  }
}

// kRows activation rows, from `first` of their tile, by one block of 16 weight rows.
template <WeightFormat kFormat, int kRows>
BATON_INLINE void QuantTile(const QuantGroup* acts, int first, const uint8_t* weights, int groups, float* out) {
  constexpr int kStep = kRows < Simd::kDotRows ? kRows : Simd::kDotRows;
  const QuantTail<kFormat> tail(weights, groups);
  Simd::F acc[kRows];
  BATON_UNROLL for (int r = 0; r < kRows; ++r) acc[r] = Simd::Zero();
  for (int g = 0; g < groups; ++g) {
    const uint8_t* const data = weights + static_cast<size_t>(g) * kGroupBytes<kFormat>;
    PrefetchShare<kFormat>(weights, groups, g);
    const typename Simd::template Weights<kFormat> w(data, tail.Factors(g));
    const Simd::F scale = tail.Scale(g);
    BATON_UNROLL for (int r = 0; r < kRows; r += kStep) {
      Simd::I dot[kStep];
      w.template Dot<kStep>(acts[g], first + r, dot);
      BATON_UNROLL for (int j = 0; j < kStep; ++j) {
        const Simd::F both = Simd::Mul(scale, Simd::Set1(acts[g].scale[first + r + j]));
        acc[r + j] = Simd::Fma(Simd::ToFloat(dot[j]), both, acc[r + j]);
      }
    }
  }
  BATON_UNROLL for (int r = 0; r < kRows; ++r) Simd::Store(out + r * kLanes, acc[r]);
  if constexpr (HasMinima(kFormat)) AddMinima<kFormat, kRows>(acts, first, tail, groups, out);
}

// Calls fn.operator()<kRows>(r) for tiles of at most kMost rows that cover [0, rows).
template <int kMost, typename Fn>
BATON_INLINE void TileRows(int rows, Fn fn) {
  int r = 0;
  const auto tile = [&]<int kRows>() {
    if constexpr (kRows <= kMost) {
      for (; rows - r >= kRows; r += kRows) fn.template operator()<kRows>(r);
    }
  };
  tile.template operator()<16>();
  tile.template operator()<8>();
  tile.template operator()<4>();
  tile.template operator()<3>();
  tile.template operator()<2>();
  tile.template operator()<1>();
}

// `rows` <= 16 rows of one activation tile.
template <WeightFormat kFormat>
void QuantRows(const QuantGroup* acts, int rows, const uint8_t* weights, int groups, float* out) {
  TileRows<Simd::kQuantRows>(rows, [&]<int kRows>(int r) {
    // The compiler knows these arguments: a whole tile starts at its first row.
    const int first = kRows == kLanes ? 0 : r;
    QuantTile<kFormat, kRows>(acts, first, weights, groups, out + first * kLanes);
  });
}

// Groups of a panel: 12 KiB, which leaves the first-level cache room for activations.
inline constexpr int kPanelGroups = 24;
inline constexpr int kPanelGroupBytes = kGroup * kLanes;

// Unpacked groups [from, from + groups) of a block of 16 weight rows.
template <WeightFormat kFormat>
struct Panel {
  alignas(64) uint8_t data[kPanelGroups * kPanelGroupBytes];
  int from;
  int groups;
};

// kRows rows by one panel: goes on with the chains in `out`.
template <WeightFormat kFormat, int kRows>
BATON_INLINE void PanelTile(const QuantGroup* acts, int first, const Panel<kFormat>& panel,
                            const QuantTail<kFormat>& tail, float* out) {
  using Weights = typename Simd::template Weights<kFormat>;
  Simd::F acc[kRows];
  BATON_UNROLL for (int r = 0; r < kRows; ++r) acc[r] = Simd::Load(out + r * kLanes);
  for (int i = 0; i < panel.groups; ++i) {
    const int g = panel.from + i;
    Simd::I dot[kRows];
    Weights::template DotPanel<kRows>(acts[g], first, panel.data + i * kPanelGroupBytes, tail.Factors(g), dot);
    const Simd::F scale = tail.Scale(g);
    BATON_UNROLL for (int j = 0; j < kRows; ++j) {
      const Simd::F both = Simd::Mul(scale, Simd::Set1(acts[g].scale[first + j]));
      acc[j] = Simd::Fma(Simd::ToFloat(dot[j]), both, acc[j]);
    }
  }
  BATON_UNROLL for (int r = 0; r < kRows; ++r) Simd::Store(out + r * kLanes, acc[r]);
}

// Calls fn(acts, rows, out) for each tile of up to 16 activation rows.
template <typename Fn>
BATON_INLINE void ForActivationTiles(const QuantMatmul& call, float* out, Fn fn) {
  for (int row = 0; row < call.rows; row += kLanes) {
    const int rows = call.rows - row < kLanes ? call.rows - row : kLanes;
    fn(call.acts + static_cast<size_t>(row / kLanes) * call.groups, rows, out + static_cast<size_t>(row) * kLanes);
  }
}

// One block of 16 weight rows by all activation rows, by way of unpacked weights.
template <WeightFormat kFormat>
void QuantPanels(const QuantMatmul& call, const uint8_t* weights, float* out) {
  Panel<kFormat> panel;
  const QuantTail<kFormat> tail(weights, call.groups);
  __builtin_memset(out, 0, static_cast<size_t>(call.rows) * kLanes * sizeof(float));
  for (panel.from = 0; panel.from < call.groups; panel.from += kPanelGroups) {
    panel.groups = call.groups - panel.from < kPanelGroups ? call.groups - panel.from : kPanelGroups;
    for (int g = 0; g < panel.groups; ++g) {
      Simd::template Weights<kFormat>::Unpack(weights + static_cast<size_t>(panel.from + g) * kGroupBytes<kFormat>,
                                              panel.data + g * kPanelGroupBytes);
    }
    ForActivationTiles(call, out, [&](const QuantGroup* acts, int rows, float* to) {
      TileRows<Simd::kQuantRows>(
          rows, [&]<int kRows>(int r) { PanelTile<kFormat, kRows>(acts, r, panel, tail, to + r * kLanes); });
    });
  }
  if constexpr (HasMinima(kFormat)) {
    ForActivationTiles(call, out, [&](const QuantGroup* acts, int rows, float* to) {
      TileRows<4>(rows,
                  [&]<int kRows>(int r) { AddMinima<kFormat, kRows>(acts, r, tail, call.groups, to + r * kLanes); });
    });
  }
}

template <WeightFormat kFormat>
void MatmulQuantAs(const QuantMatmul& call) {
  for (int b = 0; b < call.col_blocks; ++b) {
    const uint8_t* const weights = call.weights + b * call.block_stride;
    float* const out = call.out + static_cast<size_t>(b) * call.rows * kLanes;
    if constexpr (kFormat != WeightFormat::kQ8_0 && Simd::kPanelRows > 0) {
      if (call.rows >= Simd::kPanelRows) {
        QuantPanels<kFormat>(call, weights, out);
        continue;
      }
    }
    ForActivationTiles(call, out, [&](const QuantGroup* acts, int rows, float* to) {
      QuantRows<kFormat>(acts, rows, weights, call.groups, to);
    });
  }
}

void MatmulQuant(const QuantMatmul& call) {
  if (call.format == WeightFormat::kQ4_1) return MatmulQuantAs<WeightFormat::kQ4_1>(call);
  if (call.format == WeightFormat::kQ4_0) return MatmulQuantAs<WeightFormat::kQ4_0>(call);
  if (call.format == WeightFormat::kQ5_0) return MatmulQuantAs<WeightFormat::kQ5_0>(call);
  if (call.format == WeightFormat::kQ4_K) return MatmulQuantAs<WeightFormat::kQ4_K>(call);
  if (call.format == WeightFormat::kQ5_K) return MatmulQuantAs<WeightFormat::kQ5_K>(call);
  if (call.format == WeightFormat::kQ6_K) return MatmulQuantAs<WeightFormat::kQ6_K>(call);
  return MatmulQuantAs<WeightFormat::kQ8_0>(call);
}

template <WeightFormat kFormat>
inline constexpr int kWeightBytes = kFormat == WeightFormat::kF32 ? 4 : 2;

template <WeightFormat kFormat>
BATON_INLINE Simd::F LoadWeights(const uint8_t* p) {
  if constexpr (kFormat == WeightFormat::kF32) return Simd::AsFloat(Simd::LoadWords(p));
  if constexpr (kFormat == WeightFormat::kF16) return Simd::LoadF16(p);
  if constexpr (kFormat == WeightFormat::kBf16) return Simd::LoadBf16(p);
}

// kRows activation rows by kCols blocks of 16 weight rows. `acts` points at the first row's lane.
template <WeightFormat kFormat, int kRows, int kCols>
BATON_INLINE void FloatTile(const FloatMatmul& call, const float* acts, const uint8_t* weights, float* out) {
  Simd::F acc[kRows][kCols];
  BATON_UNROLL for (int r = 0; r < kRows; ++r) {
    BATON_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = Simd::Zero();
  }
  for (int k = 0; k < call.depth; ++k) {
    Simd::F w[kCols];
    BATON_UNROLL for (int c = 0; c < kCols; ++c) {
      w[c] = LoadWeights<kFormat>(weights + c * call.block_stride +
                                  static_cast<size_t>(k) * kLanes * kWeightBytes<kFormat>);
    }
    BATON_UNROLL for (int r = 0; r < kRows; ++r) {
      const Simd::F x = Simd::Set1(acts[static_cast<size_t>(k) * kLanes + r]);
      BATON_UNROLL for (int c = 0; c < kCols; ++c) acc[r][c] = Simd::Fma(x, w[c], acc[r][c]);
    }
  }
  BATON_UNROLL for (int r = 0; r < kRows; ++r) {
    BATON_UNROLL for (int c = 0; c < kCols; ++c) {
      Simd::Store(out + (static_cast<size_t>(c) * call.rows + r) * kLanes, acc[r][c]);
    }
  }
}

template <WeightFormat kFormat, int kCols>
void FloatRows(const FloatMatmul& call, const uint8_t* weights, float* out) {
  for (int row = 0; row < call.rows;) {
    const int lane = row % kLanes;
    const float* const acts = call.acts + static_cast<size_t>(row / kLanes) * call.depth * kLanes + lane;
    float* const to = out + static_cast<size_t>(row) * kLanes;
    const int left = call.rows - row;
    if constexpr (Simd::kFloatRows >= 8) {
      if (left >= 8 && lane % 8 == 0) {
        FloatTile<kFormat, 8, kCols>(call, acts, weights, to);
        row += 8;
        continue;
      }
    }
    if (left >= 4 && lane % 4 == 0) {
      FloatTile<kFormat, 4, kCols>(call, acts, weights, to);
      row += 4;
    } else {
      FloatTile<kFormat, 1, kCols>(call, acts, weights, to);
      row += 1;
    }
  }
}

template <WeightFormat kFormat>
void MatmulFloatAs(const FloatMatmul& call) {
  int b = 0;
  const auto columns = [&]<int kCols>() {
    for (; call.col_blocks - b >= kCols; b += kCols) {
      FloatRows<kFormat, kCols>(call, call.weights + b * call.block_stride,
                                call.out + static_cast<size_t>(b) * call.rows * kLanes);
    }
  };
  if (call.rows == 1) columns.template operator()<4>();
  columns.template operator()<Simd::kFloatCols>();
  columns.template operator()<1>();
}

void MatmulFloat(const FloatMatmul& call) {
  if (call.format == WeightFormat::kF32) return MatmulFloatAs<WeightFormat::kF32>(call);
  if (call.format == WeightFormat::kF16) return MatmulFloatAs<WeightFormat::kF16>(call);
  return MatmulFloatAs<WeightFormat::kBf16>(call);
}

}  // namespace
}  // namespace baton::engine::kernels

#endif  // BATON_ENGINE_KERNELS_MATMUL_CPU_H_
