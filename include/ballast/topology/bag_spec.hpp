// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_BAG_SPEC_HPP
#define BALLAST_TOPOLOGY_BAG_SPEC_HPP

#include <ballast/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

/// So many bags of so many GPUs each: the `g2n4` of a specification.
struct bag_group {
  std::uint32_t gpus = 0;
  std::uint32_t bags = 0;

  friend constexpr bool operator==(bag_group, bag_group) = default;
};

/// How the GPUs of one replica are joined into compute bags: `g1n2+g2n1+g4n1` is two bags of one
/// GPU, then one of two, then one of four. The GPUs of a bag share every sequence that it is given.
///
/// The order is kept as written: bags are numbered from left to right and take consecutive ranks.
/// A literal type, so that a specification can be a constant checked by the compiler
/// (`"g1n2+g2n1"_bags`) or text checked at run time (`parse_bags`).
///
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv 2508.06001, 2025 (its planner sorts groups by size).
struct bag_spec {
  /// More groups or GPUs than this in one specification are refused.
  static constexpr std::size_t max_groups = 16;
  static constexpr std::size_t max_gpus = std::size_t{1} << 24;

  std::array<bag_group, max_groups> storage{};
  std::size_t count = 0;

  [[nodiscard]] constexpr std::span<bag_group const> groups() const noexcept
  {
    return std::span(storage).first(count);
  }

  /// GPUs of one replica.
  [[nodiscard]] constexpr std::size_t gpus() const noexcept
  {
    std::size_t sum = 0;
    for (bag_group const group : groups()) { sum += std::size_t{group.gpus} * group.bags; }
    return sum;
  }

  /// Bags of one replica.
  [[nodiscard]] constexpr std::size_t bags() const noexcept
  {
    std::size_t sum = 0;
    for (bag_group const group : groups()) { sum += group.bags; }
    return sum;
  }

  friend constexpr bool operator==(bag_spec const&, bag_spec const&) = default;
};

namespace detail {

enum class bag_fault : std::uint8_t { none, syntax, zero, too_large, too_many_groups };

struct bag_parse {
  bag_spec spec;
  bag_fault fault = bag_fault::none;
  std::size_t position = 0;
};

/// `group ("+" group)*` where `group` is `g` digits `n` digits, with spaces around groups ignored.
[[nodiscard]] constexpr bag_parse parse_bag_text(std::string_view text)
{
  bag_parse out;
  std::size_t& at = out.position;
  auto const skip_spaces = [&] {
    while (at < text.size() && text[at] == ' ') { ++at; }
  };
  auto const take = [&](char wanted) {
    bool const found = at < text.size() && text[at] == wanted;
    at += found ? 1 : 0;
    return found;
  };
  auto const take_number = [&](char name, std::uint32_t& number) {
    if (!take(name) || at == text.size() || text[at] < '0' || text[at] > '9') {
      return bag_fault::syntax;
    }
    std::size_t const first = at;
    std::size_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = value * 10 + static_cast<std::size_t>(text[at] - '0');
      if (value > bag_spec::max_gpus) { return bag_fault::too_large; }
    }
    number = static_cast<std::uint32_t>(value);
    if (value == 0) { at = first; }  // point at the zero, not behind it
    return value == 0 ? bag_fault::zero : bag_fault::none;
  };

  while (true) {
    skip_spaces();
    std::size_t const start = at;
    bag_group group;
    out.fault = take_number('g', group.gpus);
    if (out.fault == bag_fault::none) { out.fault = take_number('n', group.bags); }
    if (out.fault != bag_fault::none) { return out; }
    if (out.spec.count == bag_spec::max_groups) {
      at = start;
      out.fault = bag_fault::too_many_groups;
      return out;
    }
    out.spec.storage[out.spec.count++] = group;
    if (out.spec.gpus() > bag_spec::max_gpus) {
      at = start;
      out.fault = bag_fault::too_large;
      return out;
    }
    skip_spaces();
    if (at == text.size()) { return out; }
    if (!take('+')) {
      out.fault = bag_fault::syntax;
      return out;
    }
  }
}

// Not constexpr, so that reaching one in a literal is a compile error which shows its name.
inline void a_bag_specification_reads_like_g1n2_plus_g4n1() {}
inline void a_bag_specification_has_no_zero() {}
inline void a_bag_specification_has_at_most_16_groups_and_16777216_gpus() {}

}  // namespace detail

/// Reads a bag specification from text.
///
/// Errors      syntax with the byte offset where reading stopped; out_of_range for a zero, more
///             than `bag_spec::max_groups` groups or more than `bag_spec::max_gpus` GPUs.
/// Complexity  O(text).
[[nodiscard]] inline result<bag_spec> parse_bags(std::string_view text)
{
  using detail::bag_fault;
  detail::bag_parse const parsed = detail::parse_bag_text(text);
  auto const refuse = [&](error_code code, char const* why) -> result<bag_spec> {
    return fail(code, parsed.position,
                "bag specification '" + std::string(text) + "', at offset " +
                    std::to_string(parsed.position) + ": " + why);
  };
  switch (parsed.fault) {
    case bag_fault::none: return parsed.spec;
    case bag_fault::zero:
      return refuse(error_code::out_of_range,
                    "a bag needs at least one GPU and a group at least one bag; remove the group "
                    "or write a number from 1");
    case bag_fault::too_large:
      return refuse(error_code::out_of_range,
                    "more than 16777216 GPUs; write the bags of one replica only");
    case bag_fault::too_many_groups:
      return refuse(error_code::out_of_range,
                    "more than 16 groups; join groups of the same size into one");
    case bag_fault::syntax: break;
  }
  return refuse(error_code::syntax,
                "expected groups such as g1n2+g4n1 (two bags of one GPU, one bag of four)");
}

inline namespace literals {

/// A bag specification checked by the compiler: `constexpr auto bags = "g1n2+g2n1"_bags;`
[[nodiscard]] consteval bag_spec operator""_bags(char const* text, std::size_t size)
{
  using detail::bag_fault;
  detail::bag_parse const parsed = detail::parse_bag_text({text, size});
  switch (parsed.fault) {
    case bag_fault::none: break;
    case bag_fault::syntax: detail::a_bag_specification_reads_like_g1n2_plus_g4n1(); break;
    case bag_fault::zero: detail::a_bag_specification_has_no_zero(); break;
    case bag_fault::too_large:
    case bag_fault::too_many_groups:
      detail::a_bag_specification_has_at_most_16_groups_and_16777216_gpus();
      break;
  }
  return parsed.spec;
}

}  // namespace literals

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_BAG_SPEC_HPP
