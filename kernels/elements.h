// SPDX-License-Identifier: Apache-2.0
// Where a tensor's numbers begin, and their type. Kernels whose operands may be float32 or bf16 take these; they
// compute in float32 either way: a bf16 number is widened when it is read, and a result is rounded when it is written
// (bf16.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace bascule {

enum class ElementType : std::uint8_t { kFloat32, kBf16 };

// Every function is inlined, even in a debug build. Kernels are compiled once for each instruction set; of a function
// that is not inlined each of them has a copy, and the linker keeps the first: a CPU without AVX-512 could be given
// code that needs it (tools/check_isa_symbols.sh).
template <bool is_const>
struct ElementsOf {
  template <typename Type>
  using Pointer = std::conditional_t<is_const, const Type*, Type*>;

  Pointer<void> data = nullptr;
  ElementType type = ElementType::kFloat32;

  [[gnu::always_inline]] constexpr ElementsOf() {}
  [[gnu::always_inline]] constexpr ElementsOf(std::nullptr_t) {}
  [[gnu::always_inline]] constexpr ElementsOf(Pointer<float> numbers) : data(numbers) {}
  [[gnu::always_inline]] constexpr ElementsOf(Pointer<std::uint16_t> numbers)
      : data(numbers), type(ElementType::kBf16) {}
  [[gnu::always_inline]] constexpr ElementsOf(Pointer<void> numbers, ElementType their_type)
      : data(numbers), type(their_type) {}
  template <bool is_other_const, typename = std::enable_if_t<is_const && !is_other_const>>
  [[gnu::always_inline]] constexpr ElementsOf(const ElementsOf<is_other_const>& other)
      : data(other.data), type(other.type) {}

  [[gnu::always_inline]] constexpr explicit operator bool() const { return data != nullptr; }
  [[gnu::always_inline]] bool is_bf16() const { return type == ElementType::kBf16; }
  [[gnu::always_inline]] Pointer<float> float32() const { return static_cast<Pointer<float>>(data); }
  [[gnu::always_inline]] Pointer<std::uint16_t> bf16() const { return static_cast<Pointer<std::uint16_t>>(data); }
  // From `elements` further on; null stays null.
  [[gnu::always_inline]] ElementsOf operator+(std::int64_t elements) const {
    if (data == nullptr) return {};
    return is_bf16() ? ElementsOf(bf16() + elements) : ElementsOf(float32() + elements);
  }
  [[gnu::always_inline]] ElementsOf& operator+=(std::int64_t elements) { return *this = *this + elements; }
};

using Elements = ElementsOf<false>;
using ConstElements = ElementsOf<true>;

}  // namespace bascule
