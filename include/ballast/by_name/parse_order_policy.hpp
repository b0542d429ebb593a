// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP
#define BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP

#include <ballast/by_name/any_order_policy.hpp>
#include <ballast/by_name/detail/named_value.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/ascending_order.hpp>
#include <ballast/pipeline/exact_order.hpp>
#include <ballast/pipeline/given_order.hpp>
#include <ballast/pipeline/insertion.hpp>
#include <ballast/pipeline/interval_filling.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/text/detail/policy_expression.hpp>
#include <ballast/text/detail/settings_reader.hpp>

#include <array>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

namespace detail {

using named_order_policy = named_value<any_order_policy, settings_reader>;

inline constexpr std::array named_order_policies = {
    named_order_policy{"given", "", "",
                       [](settings_reader&) { return any_order_policy{given_order{}}; }},
    named_order_policy{"ascending", "", "",
                       [](settings_reader&) { return any_order_policy{ascending_order{}}; }},
    named_order_policy{"interval", "", "",
                       [](settings_reader&) { return any_order_policy{interval_filling{}}; }},
    named_order_policy{"insertion", "", "evaluations=N",
                       [](settings_reader& read) {
                         insertion policy;
                         read.number("evaluations", policy.evaluations);
                         return any_order_policy{policy};
                       }},
    named_order_policy{"search", "", "evaluations=N,seed=S",
                       [](settings_reader& read) {
                         local_search policy;
                         read.number("evaluations", policy.evaluations);
                         read.number("seed", policy.seed);
                         return any_order_policy{policy};
                       }},
    named_order_policy{"exact", "", "nodes=N",
                       [](settings_reader& read) {
                         exact_order<local_search<>> policy;  // never worse than search
                         read.number("nodes", policy.nodes);
                         return any_order_policy{policy};
                       }},
};

}  // namespace detail

/// The names that parse_order_policy knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string order_policy_names()
{
  return detail::list_names(detail::named_order_policies);
}

/// The order policy that a text names, with its parameters: `given`, `interval`,
/// `search:evaluations=5000,seed=7`, `exact:nodes=1000`. Parameters that are not written have the
/// defaults of the policy's type.
///
/// Errors      syntax, unknown_name or out_of_range with a byte offset: a name or parameter that
///             does not exist, a value that the parameter cannot have.
/// Complexity  O(bytes).
[[nodiscard]] inline result<any_order_policy> parse_order_policy(std::string_view text)
{
  auto const parsed = detail::parse_policy_expression(text, "search:evaluations=5000,seed=7");
  if (!parsed) { return tl::unexpected(parsed.error()); }
  return detail::read_named(detail::named_order_policies, *parsed, "order policy");
}

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP
