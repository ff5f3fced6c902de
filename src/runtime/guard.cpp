// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/guard.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BASCULE_GUARDED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define BASCULE_GUARDED 0
#else
#define BASCULE_GUARDED 1
#endif
#else
#define BASCULE_GUARDED 1
#endif

namespace bascule {
namespace {

constexpr std::size_t kMaxLibraries = 64;

struct Library {
  std::uintptr_t begin = 0, end = 0;
  char name[64] = {};
  bool ours = false;
  std::atomic<std::uint64_t> calls{0}, bytes{0};
};

// The loaded images, listed at the seal: nothing is loaded after it. Static storage, as the allocator itself asks.
Library libraries[kMaxLibraries];
std::size_t library_count = 0;
std::atomic<bool> sealed{false};

int add_library(dl_phdr_info* info, std::size_t, void*) {
  if (library_count == kMaxLibraries) return 1;
  Library& library = libraries[library_count];
  std::uintptr_t begin = ~std::uintptr_t{0}, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const std::uintptr_t from = info->dlpi_addr + header.p_vaddr;
    begin = from < begin ? from : begin;
    end = from + header.p_memsz > end ? from + header.p_memsz : end;
  }
  if (end == 0) return 0;
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* name = slash != nullptr ? slash + 1 : info->dlpi_name;
  const bool program = library_count == 0;  // the loader lists the program itself first
  library.ours = program || std::strncmp(name, "libstdc++", 9) == 0;
  std::snprintf(library.name, sizeof library.name, "%s", program ? "bascule" : name);
  library.begin = begin;
  library.end = end;
  ++library_count;
  return 0;
}

}  // namespace

void seal_memory() noexcept {
  if (library_count == 0) dl_iterate_phdr(add_library, nullptr);
  sealed.store(true, std::memory_order_release);
}

void open_memory() noexcept { sealed.store(false, std::memory_order_release); }

bool is_sealed() noexcept { return sealed.load(std::memory_order_acquire); }

bool guard_is_active() noexcept { return BASCULE_GUARDED != 0; }

std::size_t foreign_allocations(ForeignAllocations* out, std::size_t capacity) noexcept {
  std::size_t written = 0;
  for (std::size_t i = 0; i < library_count && written < capacity; ++i) {
    const std::uint64_t calls = libraries[i].calls.load(std::memory_order_relaxed);
    if (calls > 0) out[written++] = {libraries[i].name, calls, libraries[i].bytes.load(std::memory_order_relaxed)};
  }
  return written;
}

#if BASCULE_GUARDED
namespace {

[[noreturn]] void refuse(const void* caller, std::size_t bytes) {
  open_memory();
  Dl_info info{};
  const char* symbol = dladdr(caller, &info) != 0 && info.dli_sname != nullptr ? info.dli_sname : "?";
  char line[512];
  const int length = std::snprintf(
      line, sizeof line,
      "bascule: bug: %zu bytes allocated after the seal by %p (%s); addr2line -Cfe build/bascule %#zx\n", bytes, caller,
      symbol, static_cast<std::size_t>(static_cast<const char*>(caller) - static_cast<const char*>(info.dli_fbase)));
  if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) std::_Exit(1);
  std::abort();
}

void note(const void* caller, std::size_t bytes) {
  if (!is_sealed()) return;
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(caller);
  for (std::size_t i = 0; i < library_count; ++i) {
    Library& library = libraries[i];
    if (address < library.begin || address >= library.end) continue;
    if (library.ours) refuse(caller, bytes);
    library.calls.fetch_add(1, std::memory_order_relaxed);
    library.bytes.fetch_add(bytes, std::memory_order_relaxed);
    return;
  }
}

}  // namespace
#endif

}  // namespace bascule

#if BASCULE_GUARDED

// glibc's own entry points, under the names by which a replacement may call them.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  bascule::note(__builtin_return_address(0), count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? 12 : 0;  // ENOMEM
}
}

void* operator new(std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  void* memory = __libc_malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) {
  bascule::note(__builtin_return_address(0), bytes);
  void* memory = __libc_malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  bascule::note(__builtin_return_address(0), bytes);
  void* memory = __libc_memalign(static_cast<std::size_t>(alignment), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
