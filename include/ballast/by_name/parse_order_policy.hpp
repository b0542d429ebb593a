// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP
#define BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP

#include <ballast/by_name/any_order_policy.hpp>
#include <ballast/by_name/any_policy.hpp>
#include <ballast/by_name/policy_reader.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/exact_order.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/policy_expression.hpp>

#include <array>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

namespace detail {

/// An order policy that command lines know.
struct named_order_policy {
  std::string_view name;
  std::string_view arguments;  ///< for people; empty where it takes none
  any_order_policy (*read)(policy_reader&);
};

inline constexpr std::array named_order_policies = {
    named_order_policy{"given", "", [](policy_reader&) { return any_order_policy{given_order{}}; }},
    named_order_policy{"ascending", "",
                       [](policy_reader&) { return any_order_policy{ascending_order{}}; }},
    named_order_policy{"interval", "",
                       [](policy_reader&) { return any_order_policy{interval_filling{}}; }},
    named_order_policy{"insertion", "evaluations=N",
                       [](policy_reader& read) {
                         insertion policy;
                         read.number("evaluations", policy.evaluations);
                         return any_order_policy{policy};
                       }},
    named_order_policy{"search", "evaluations=N,seed=S",
                       [](policy_reader& read) {
                         local_search policy;
                         read.number("evaluations", policy.evaluations);
                         read.number("seed", policy.seed);
                         return any_order_policy{policy};
                       }},
    named_order_policy{"exact", "nodes=N",
                       [](policy_reader& read) {
                         exact_order policy;
                         read.number("nodes", policy.nodes);
                         return any_order_policy{policy};
                       }},
};

}  // namespace detail

/// The names that parse_order_policy knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string order_policy_names()
{
  std::string all;
  for (detail::named_order_policy const& each : detail::named_order_policies) {
    if (!all.empty()) { all += ", "; }
    all += each.name;
    if (!each.arguments.empty()) { all.append(":").append(each.arguments); }
  }
  return all;
}

/// The order policy that a text names, with its parameters: `given`, `interval`,
/// `search:evaluations=5000,seed=7`, `exact:nodes=1000`. What is not said is as in the policy's
/// type.
///
/// Errors      syntax, unknown_name or out_of_range with a byte offset: a name or parameter that
///             does not exist, a value that is none.
/// Complexity  O(bytes).
[[nodiscard]] inline result<any_order_policy> parse_order_policy(std::string_view text)
{
  auto const parsed = parse_policy_expression(text);
  if (!parsed) { return tl::unexpected(parsed.error()); }
  for (detail::named_order_policy const& each : detail::named_order_policies) {
    if (each.name != parsed->name) { continue; }
    // None of them asks for a policy to work with, so what would read it is never called.
    detail::policy_reader read(*parsed, each.arguments, nullptr);
    any_order_policy const policy = each.read(read);
    auto const finished = read.finish(any_policy{});
    if (!finished) { return tl::unexpected(finished.error()); }
    return policy;
  }
  return fail(error_code::unknown_name, parsed->position,
              "offset " + std::to_string(parsed->position) + ": there is no order policy " +
                  excerpt(parsed->name) + "; choose one of " + order_policy_names());
}

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_PARSE_ORDER_POLICY_HPP
