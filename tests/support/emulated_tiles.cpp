// SPDX-License-Identifier: Apache-2.0
// The instructions of tiles (AMX) that our kernels use, executed by a program, for tests on a CPU that lacks them:
// LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED, TDPBF16PS. Source: Intel's Instruction Set Reference.
//
// Preloaded (LD_PRELOAD), this library answers that the CPU has tiles and that the system grants them. As neither was
// asked, the instructions end in SIGILL on every CPU. The handler executes them and steps over them.
#include <cpuid.h>
#include <dlfcn.h>
#include <immintrin.h>
#include <signal.h>
#if defined(__clang__)
#define _Bool bool  // of C, which the C library's header says in C++ too
#endif
#include <sys/platform/x86.h>
#undef _Bool
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace bascule::test {
namespace {

constexpr int kMostRows = 16, kRowBytes = 64;

struct Tile {
  alignas(64) std::uint8_t bytes[kMostRows][kRowBytes];
};
struct Tiles {
  Tile tile[8];
  std::uint16_t row_bytes[8];
  std::uint8_t rows[8];
};
// In the thread's own memory from its start: a handler may not allocate.
__attribute__((tls_model("initial-exec"))) thread_local Tiles tiles;

// An instruction of the map 0F38 with a VEX prefix of three bytes.
struct Instruction {
  const std::uint8_t* at;
  std::uint8_t opcode, prefix, modrm;
  int vvvv;
  bool index_high, base_high;
};

constexpr int kPlain = 0, k66 = 1, kF3 = 2, kF2 = 3;

// By the number of an instruction's field.
std::int64_t register_of(const ucontext_t& context, int number) {
  constexpr int kPlaces[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number]];
}

// What a ModRM byte that names memory means, and how many bytes it has with what follows.
struct Place {
  std::uint8_t* base;
  std::int64_t stride;  // index times scale
  int length;
};
Place place_of(const Instruction& in, const ucontext_t& context) {
  const int mode = in.modrm >> 6, low = in.modrm & 7;
  const std::uint8_t* next = in.at + 5;
  std::int64_t base = 0, stride = 0;
  bool has_wide_offset = mode == 2;
  if (low == 4) {
    const std::uint8_t sib = *next++;
    const int index = (sib >> 3 & 7) | (in.index_high ? 8 : 0), base_number = sib & 7;
    if (index != 4) stride = register_of(context, index) * (1 << (sib >> 6));
    if (mode == 0 && base_number == 5) {
      has_wide_offset = true;
    } else {
      base = register_of(context, base_number | (in.base_high ? 8 : 0));
    }
  } else {
    base = register_of(context, low | (in.base_high ? 8 : 0));
  }
  if (has_wide_offset) {
    std::int32_t offset = 0;
    std::memcpy(&offset, next, sizeof offset);
    base += offset;
    next += 4;
  } else if (mode == 1) {
    base += static_cast<std::int8_t>(*next++);
  }
  return {reinterpret_cast<std::uint8_t*>(base), stride, static_cast<int>(next - in.at)};
}

void configure(const std::uint8_t* from) {
  tiles = {};
  if (from[0] == 0) return;
  std::memcpy(tiles.row_bytes, from + 16, sizeof tiles.row_bytes);
  std::memcpy(tiles.rows, from + 48, sizeof tiles.rows);
}

void load_tile(int number, const Place& place) {
  Tile& tile = tiles.tile[number];
  tile = {};
  for (int row = 0; row < tiles.rows[number]; ++row)
    std::memcpy(tile.bytes[row], place.base + row * place.stride, tiles.row_bytes[number]);
}

void store_tile(int number, const Place& place) {
  for (int row = 0; row < tiles.rows[number]; ++row)
    std::memcpy(place.base + row * place.stride, tiles.tile[number].bytes[row], tiles.row_bytes[number]);
}

__m256 eight(const std::uint8_t* bytes) {
  return _mm256_castsi256_ps(_mm256_load_si256(static_cast<const __m256i*>(static_cast<const void*>(bytes))));
}
__m256 even_numbers(__m256 pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16)); }
__m256 odd_numbers(__m256 pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(pairs), _mm256_set1_epi32(-0x10000)));
}

void multiply_tiles(int c_number, int a_number, int b_number) {
  constexpr unsigned kToNearestWithZerosForSubnormals = 0x9fc0;
  _mm_setcsr(kToNearestWithZerosForSubnormals);
  Tile& c = tiles.tile[c_number];
  const Tile &a = tiles.tile[a_number], &b = tiles.tile[b_number];
  const int pairs = tiles.row_bytes[a_number] / 4, bytes = tiles.row_bytes[c_number];
  for (int row = 0; row < tiles.rows[c_number]; ++row) {
    for (int col = 0; col < bytes; col += 32) {
      __m256 even = _mm256_setzero_ps(), odd = even;
      for (int pair = 0; pair < pairs; ++pair) {
        std::int32_t both = 0;
        std::memcpy(&both, a.bytes[row] + 4 * pair, sizeof both);
        const __m256 of_a = _mm256_castsi256_ps(_mm256_set1_epi32(both)), of_b = eight(b.bytes[pair] + col);
        even = _mm256_fmadd_ps(even_numbers(of_a), even_numbers(of_b), even);
        odd = _mm256_fmadd_ps(odd_numbers(of_a), odd_numbers(of_b), odd);
      }
      alignas(32) float sums[8];
      _mm256_store_ps(sums, _mm256_add_ps(eight(c.bytes[row] + col), _mm256_add_ps(even, odd)));
      const int count = bytes - col < 32 ? bytes - col : 32;
      std::memcpy(c.bytes[row] + col, sums, static_cast<std::size_t>(count));
    }
  }
}

// The instruction where `context` stands; false: it is another one.
bool execute_tile_instruction(ucontext_t* context) {
  greg_t& rip = context->uc_mcontext.gregs[REG_RIP];
  const std::uint8_t* const at = reinterpret_cast<const std::uint8_t*>(rip);
  if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0) return false;  // not VEX.128.0F38.W0
  const Instruction in{at,
                       at[3],
                       static_cast<std::uint8_t>(at[2] & 3),
                       at[4],
                       ~at[2] >> 3 & 15,
                       (at[1] & 0x40) == 0,
                       (at[1] & 0x20) == 0};
  const int tile = in.modrm >> 3 & 7;
  const bool is_memory = in.modrm >> 6 != 3;
  int length = 5;
  if (in.opcode == 0x49 && in.prefix == kPlain && is_memory && tile == 0) {
    const Place place = place_of(in, *context);
    configure(place.base);
    length = place.length;
  } else if (in.opcode == 0x49 && in.prefix == kPlain && in.modrm == 0xc0) {
    tiles = {};
  } else if (in.opcode == 0x49 && in.prefix == kF2 && !is_memory) {
    tiles.tile[tile] = {};
  } else if (in.opcode == 0x4b && (in.prefix == kF2 || in.prefix == k66) && is_memory) {
    const Place place = place_of(in, *context);
    load_tile(tile, place);
    length = place.length;
  } else if (in.opcode == 0x4b && in.prefix == kF3 && is_memory) {
    const Place place = place_of(in, *context);
    store_tile(tile, place);
    length = place.length;
  } else if (in.opcode == 0x5c && in.prefix == kF3 && !is_memory) {
    multiply_tiles(tile, in.modrm & 7, in.vvvv & 7);
  } else {
    return false;
  }
  rip += length;
  return true;
}

// A CPU that has tiles executes LDTILECFG by itself: what it configured is in the saved state (XSAVE, component 17).
void take_configuration(const ucontext_t& context) {
  constexpr unsigned kComponent = 17, kHeader = 512, kLeafOfState = 0xd;
  const std::uint8_t* const state = reinterpret_cast<const std::uint8_t*>(context.uc_mcontext.fpregs);
  std::uint64_t components = 0;
  std::memcpy(&components, state + kHeader, sizeof components);
  unsigned size = 0, offset = 0, c = 0, d = 0;
  if ((components >> kComponent & 1) == 0 || !__get_cpuid_count(kLeafOfState, kComponent, &size, &offset, &c, &d))
    return;
  std::memcpy(tiles.row_bytes, state + offset + 16, sizeof tiles.row_bytes);
  std::memcpy(tiles.rows, state + offset + 48, sizeof tiles.rows);
}

void on_illegal_instruction(int number, siginfo_t*, void* context) {
  take_configuration(*static_cast<const ucontext_t*>(context));
  if (execute_tile_instruction(static_cast<ucontext_t*>(context))) return;
  signal(number, SIG_DFL);  // it is executed again, and ends the process
}

[[gnu::constructor]] void emulate_tiles() {
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
}

}  // namespace
}  // namespace bascule::test

// In place of the C library's answers.

extern "C" const struct cpuid_feature* __x86_get_cpuid_feature_leaf(unsigned leaf) {
  using Function = const struct cpuid_feature* (*)(unsigned);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "__x86_get_cpuid_feature_leaf"));
  constexpr unsigned kLeafOfTiles = x86_cpu_AMX_TILE / 128, kEdx = 3;
  if (leaf != kLeafOfTiles) return real(leaf);
  static struct cpuid_feature with_tiles;
  with_tiles = *real(leaf);
  for (const unsigned flag : {x86_cpu_AMX_TILE, x86_cpu_AMX_BF16}) {
    with_tiles.cpuid_array[kEdx] |= 1u << flag % 32;
    with_tiles.active_array[kEdx] |= 1u << flag % 32;
  }
  return &with_tiles;
}

// The system is not asked for the permission to use tiles, so that it refuses them where the CPU has them: every
// instruction ends in the handler.
extern "C" long syscall(long number, ...) noexcept {
  constexpr long kRequestPermission = 0x1023;
  long words[6];
  va_list list;
  va_start(list, number);
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  if (number == SYS_arch_prctl && words[0] == kRequestPermission) return 0;
  using Function = long (*)(long, ...);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
