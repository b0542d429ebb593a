// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_BAG_SPEC_HPP
#define BALLAST_TOPOLOGY_BAG_SPEC_HPP

#include <ballast/core/result.hpp>
#include <ballast/text/detail/text_error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ballast::inline v0 {

/// Bags of one size: the `g2n4` of a specification is four bags of two GPUs each.
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
class bag_spec {
 public:
  /// More groups or GPUs than this in one specification are refused.
  static constexpr std::size_t max_groups = 16;
  static constexpr std::size_t max_gpus = std::size_t{1} << 24;

  /// Why a group cannot be added.
  enum class fault : std::uint8_t { none, zero, too_large, too_many_groups };

  /// Adds a group after the others, unless it has a zero or the limits would be exceeded.
  [[nodiscard]] constexpr fault add(bag_group group)
  {
    if (group.gpus == 0 || group.bags == 0) { return fault::zero; }
    if (count_ == max_groups) { return fault::too_many_groups; }
    if (gpus() + std::size_t{group.gpus} * group.bags > max_gpus) { return fault::too_large; }
    groups_[count_++] = group;
    return fault::none;
  }

  [[nodiscard]] constexpr std::span<bag_group const> groups() const noexcept
  {
    return {groups_.data(), count_};
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

 private:
  std::array<bag_group, max_groups> groups_{};
  std::size_t count_ = 0;
};

namespace detail {

struct bag_parse {
  bag_spec spec;
  bool readable = false;
  bag_spec::fault fault = bag_spec::fault::none;
  std::size_t position = 0;  // of what is wrong, or the end
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
    if (!take(name)) { return false; }
    std::size_t const first = at;
    std::size_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      // Stays above the limit once it is there, so that no number of digits overflows.
      value =
          std::min(value * 10 + static_cast<std::size_t>(text[at] - '0'), bag_spec::max_gpus + 1);
    }
    number = static_cast<std::uint32_t>(value);
    return at > first;
  };

  while (true) {
    skip_spaces();
    std::size_t const start = at;
    bag_group group;
    if (!take_number('g', group.gpus) || !take_number('n', group.bags)) { return out; }
    out.fault = out.spec.add(group);
    if (out.fault != bag_spec::fault::none) {
      at = start;
      return out;
    }
    skip_spaces();
    if (at == text.size()) {
      out.readable = true;
      return out;
    }
    if (!take('+')) { return out; }
  }
}

// Not constexpr, so that reaching one in a literal is a compile error which shows its name.
inline void a_bag_specification_reads_like_g1n2_plus_g4n1() {}
inline void a_bag_specification_has_no_zero() {}
inline void a_bag_specification_has_at_most_16_groups_and_16777216_gpus() {}

}  // namespace detail

/// Reads a bag specification from text.
///
/// Errors      syntax with the byte offset where reading stopped; out_of_range with that of the
///             group that has a zero or exceeds the limits of `bag_spec`.
/// Complexity  O(text).
[[nodiscard]] inline result<bag_spec> parse_bags(std::string_view text)
{
  detail::bag_parse const parsed = detail::parse_bag_text(text);
  if (parsed.readable) { return parsed.spec; }
  auto const refuse = [&](error_code code, char const* why) -> result<bag_spec> {
    return tl::unexpected(detail::text_error(code, text, parsed.position, why));
  };
  switch (parsed.fault) {
    case bag_spec::fault::zero:
      return refuse(error_code::out_of_range,
                    "a bag needs at least one GPU and a group at least one bag; remove the group "
                    "or write a number from 1");
    case bag_spec::fault::too_large:
      return refuse(error_code::out_of_range,
                    "more than 16777216 GPUs; write the bags of one replica only");
    case bag_spec::fault::too_many_groups:
      return refuse(error_code::out_of_range,
                    "more than 16 groups; join groups of the same size into one");
    case bag_spec::fault::none: break;
  }
  return refuse(error_code::syntax,
                "expected groups such as g1n2+g4n1 (two bags of one GPU, one bag of four)");
}

inline namespace literals {

/// A bag specification checked by the compiler: `constexpr auto bags = "g1n2+g2n1"_bags;`
[[nodiscard]] consteval bag_spec operator""_bags(char const* text, std::size_t size)
{
  detail::bag_parse const parsed = detail::parse_bag_text({text, size});
  if (parsed.readable) { return parsed.spec; }
  switch (parsed.fault) {
    case bag_spec::fault::none: detail::a_bag_specification_reads_like_g1n2_plus_g4n1(); break;
    case bag_spec::fault::zero: detail::a_bag_specification_has_no_zero(); break;
    case bag_spec::fault::too_large:
    case bag_spec::fault::too_many_groups:
      detail::a_bag_specification_has_at_most_16_groups_and_16777216_gpus();
      break;
  }
  return parsed.spec;
}

}  // namespace literals

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_BAG_SPEC_HPP
