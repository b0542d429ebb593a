// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_DETAIL_POLICY_READER_HPP
#define BALLAST_BY_NAME_DETAIL_POLICY_READER_HPP

#include <ballast/by_name/any_policy.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/batching.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/text/detail/policy_expression.hpp>
#include <ballast/text/detail/settings_reader.hpp>
#include <ballast/text/excerpt.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

namespace ballast::inline v0::detail {

/// Reads the settings of a partition policy, and the policies that it works with.
class policy_reader : public settings_reader {
 public:
  using read_policy = result<any_policy>(policy_expression const&);

  policy_reader(policy_expression const& text, std::string_view arguments, read_policy* read)
      : settings_reader(text, arguments), read_(read)
  {}

  /// The policy to work with, or the usual one where none is written.
  [[nodiscard]] any_policy policy(any_policy const& usual = {})
  {
    std::vector<any_policy> const all = policies();
    if (all.size() > 1) {
      refuse(error_code::syntax, inner()[1].position,
             name() + " works with one policy; put parentheses around what belongs to that policy");
    }
    return all.empty() ? usual : all.front();
  }

  /// The same, where the caller moves samples freely: the policy keeps to no counts and does not
  /// pad.
  [[nodiscard]] any_policy free_policy(any_policy const& usual = {})
  {
    any_policy const inner = policy(usual);
    check_free(inner, 0);
    return inner;
  }

  /// The same, where the caller only starts from its plan: the policy does not pad.
  [[nodiscard]] any_policy packed_policy(any_policy const& usual = {})
  {
    any_policy const inner = policy(usual);
    if (batching_of(inner) != batching::packed) { check_free(inner, 0); }
    return inner;
  }

  /// At least one policy to work with, all of them free.
  [[nodiscard]] std::vector<any_policy> free_policies()
  {
    std::vector<any_policy> all = policies();
    for (std::size_t index = 0; index < all.size(); ++index) { check_free(all[index], index); }
    if (all.empty()) {
      refuse(error_code::syntax, position(),
             name() + " takes policies to choose from, as in best_of:kk,lpt");
      all.emplace_back();
    }
    return all;
  }

 private:
  [[nodiscard]] std::vector<any_policy> policies()
  {
    std::vector<any_policy> all;
    for (policy_expression const& each : inner()) {
      auto const read = read_(each);
      if (!read) { refuse(read.error()); }
      all.push_back(read ? *read : any_policy{});
    }
    return all;
  }

  void check_free(any_policy const& policy, std::size_t index)
  {
    if (!restricts_plans(policy) && batching_of(policy) == batching::packed) { return; }
    refuse(error_code::out_of_range, inner()[index].position,
           name() + " would break what " + excerpt(inner()[index].name) +
               " keeps to; use that by itself");
  }

  read_policy* read_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_BY_NAME_DETAIL_POLICY_READER_HPP
