#include "bench/machine/instruction_rates.h"

#include "common/check.h"

namespace baton::bench {
namespace {

// The loops are assembly because a compiler would remove loops whose result nobody reads. Twelve independent
// accumulators hide the latency of every instruction here: it is at most five cycles, and at most two instructions
// issue per cycle.
constexpr int kChains = 12;

// The formatter would break this macro in another way each time.
// clang-format off
#define BATON_CHAINS(OP, REG)                                                    \
  OP(REG, "0") OP(REG, "1") OP(REG, "2") OP(REG, "3") OP(REG, "4") OP(REG, "5")  \
  OP(REG, "6") OP(REG, "7") OP(REG, "8") OP(REG, "9") OP(REG, "10") OP(REG, "11")
// clang-format on
#define BATON_CLOBBERS(REG)                                                                                     \
  REG "0", REG "1", REG "2", REG "3", REG "4", REG "5", REG "6", REG "7", REG "8", REG "9", REG "10", REG "11", \
      REG "12", REG "13", REG "14", REG "15"

#define BATON_ZERO(REG, I) "vpxor %%xmm" I ", %%xmm" I ", %%xmm" I "\n"
// Adds pairs of byte products to 16-bit sums, as the AVX2 kernels do.
#define BATON_MADDUBS(REG, I) "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\nvpaddw %%ymm12, %%ymm" I ", %%ymm" I "\n"
#define BATON_MADDWD(REG, I) "vpmaddwd %%ymm14, %%ymm15, %%ymm12\nvpaddd %%ymm12, %%ymm" I ", %%ymm" I "\n"
#define BATON_FMA(REG, I) "vfmadd231ps %%" REG "14, %%" REG "15, %%" REG I "\n"
#define BATON_DPBUSD(REG, I) "vpdpbusd %%zmm14, %%zmm15, %%zmm" I "\n"
#define BATON_DPBF16(REG, I) "vdpbf16ps %%zmm14, %%zmm15, %%zmm" I "\n"

#define BATON_LOOP(NAME, OP, REG)                                                                                     \
  void NAME(int64_t iterations) {                                                                                     \
    asm volatile(BATON_CHAINS(BATON_ZERO, "xmm") BATON_ZERO("xmm", "12") BATON_ZERO("xmm", "13") BATON_ZERO(          \
                     "xmm", "14") BATON_ZERO("xmm", "15") "1:\n" BATON_CHAINS(OP, REG) "dec %0\njnz 1b\nvzeroupper\n" \
                 : "+r"(iterations)                                                                                   \
                 :                                                                                                    \
                 : "cc", BATON_CLOBBERS("xmm"));                                                                      \
  }

BATON_LOOP(MaddUbs, BATON_MADDUBS, "ymm")
BATON_LOOP(MaddWd, BATON_MADDWD, "ymm")
BATON_LOOP(FmaYmm, BATON_FMA, "ymm")
BATON_LOOP(FmaZmm, BATON_FMA, "zmm")
BATON_LOOP(DpBusd, BATON_DPBUSD, "zmm")
BATON_LOOP(DpBf16, BATON_DPBF16, "zmm")

constexpr int64_t kBytesOfStep = 256;

#define BATON_LOAD_YMM(SOURCE)                                                           \
  "vmovdqa (" SOURCE "), %%ymm0\nvmovdqa 32(" SOURCE "), %%ymm1\nvmovdqa 64(" SOURCE     \
  "), %%ymm2\n"                                                                          \
  "vmovdqa 96(" SOURCE "), %%ymm3\nvmovdqa 128(" SOURCE "), %%ymm4\nvmovdqa 160(" SOURCE \
  "), %%ymm5\n"                                                                          \
  "vmovdqa 192(" SOURCE "), %%ymm6\nvmovdqa 224(" SOURCE "), %%ymm7\n"
#define BATON_LOAD_ZMM(SOURCE)                                                              \
  "vmovdqa64 (" SOURCE "), %%zmm0\nvmovdqa64 64(" SOURCE "), %%zmm1\nvmovdqa64 128(" SOURCE \
  "), "                                                                                     \
  "%%zmm2\nvmovdqa64 192(" SOURCE "), %%zmm3\n"

struct Streams {
  const uint8_t* base;
  int64_t part;
  int count;
};

#define BATON_READ(NAME, LOAD)                                                                    \
  void NAME(const Streams& streams) {                                                             \
    for (int64_t at = 0; at < streams.part; at += kBytesOfStep) {                                 \
      for (int s = 0; s < streams.count; ++s) {                                                   \
        const uint8_t* const from = streams.base + s * streams.part + at;                         \
        asm volatile(LOAD("%0")                                                                   \
                     :                                                                            \
                     : "r"(from)                                                                  \
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7"); \
      }                                                                                           \
    }                                                                                             \
    asm volatile("vzeroupper" : : : "memory");                                                    \
  }

BATON_READ(ReadYmm, BATON_LOAD_YMM)
BATON_READ(ReadZmm, BATON_LOAD_ZMM)

void ReadScalar(const Streams& streams) {
  for (int64_t at = 0; at < streams.part; at += sizeof(uint64_t)) {
    for (int s = 0; s < streams.count; ++s) {
      const auto* from = reinterpret_cast<const uint64_t*>(streams.base + s * streams.part + at);
      asm volatile("" : : "r"(*from));
    }
  }
}

bool HasAvx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

}  // namespace

std::vector<InstructionLoop> SupportedLoops() {
  __builtin_cpu_init();
  std::vector<InstructionLoop> loops;
  if (__builtin_cpu_supports("avx2")) {
    loops.push_back({"vpmaddubsw+vpaddw ymm", Arithmetic::kInt8, kChains * 32, MaddUbs});
    loops.push_back({"vpmaddwd+vpaddd ymm", Arithmetic::kInt8, kChains * 16, MaddWd});
  }
  if (__builtin_cpu_supports("fma")) loops.push_back({"vfmadd231ps ymm", Arithmetic::kFp32, kChains * 8, FmaYmm});
  if (HasAvx512()) {
    loops.push_back({"vfmadd231ps zmm", Arithmetic::kFp32, kChains * 16, FmaZmm});
    if (__builtin_cpu_supports("avx512vnni")) {
      loops.push_back({"vpdpbusd zmm", Arithmetic::kInt8, kChains * 64, DpBusd});
    }
    if (__builtin_cpu_supports("avx512bf16")) {
      loops.push_back({"vdpbf16ps zmm", Arithmetic::kBf16, kChains * 32, DpBf16});
    }
  }
  return loops;
}

void ReadMemory(const uint8_t* data, int64_t bytes, int streams) {
  BATON_CHECK(streams >= 1 && streams <= 4 && bytes % (kBytesOfStep * streams) == 0) << streams << " " << bytes;
  const Streams all{.base = data, .part = bytes / streams, .count = streams};
  if (HasAvx512()) return ReadZmm(all);
  if (__builtin_cpu_supports("avx2")) return ReadYmm(all);
  ReadScalar(all);
}

}  // namespace baton::bench
