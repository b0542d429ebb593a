// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../baselines/karmarkar_karp.hpp"
#include "../baselines/quadratic_with_tolerance.hpp"
#include "any_policy.hpp"
#include "named_value.hpp"
#include "policy_expression.hpp"
#include "settings_reader.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/text/excerpt.hpp>

namespace by_name {

/// Reads the settings of a partition policy, and the policies that it works with.
class policy_reader : public settings_reader {
 public:
  using read_policy = ballast::result<any_policy>(policy_expression const&);

  policy_reader(policy_expression const& text, std::string_view arguments, read_policy* read)
      : settings_reader(text, arguments), read_(read)
  {}

  /// The policy to exchange samples of, which packs, if one is written.
  [[nodiscard]] std::optional<any_policy> packed_policy()
  {
    if (inner().size() > 1) {
      refuse(ballast::error_code::syntax, inner()[1].position,
             name() + " works with one policy; put parentheses around what belongs to that policy");
    }
    if (inner().empty()) { return {}; }
    auto const read = read_(inner().front());
    if (!read) {
      refuse(read.error());
      return {};
    }
    if (read->batches() != ballast::batching::packed) {
      refuse(ballast::error_code::out_of_range, inner().front().position,
             ballast::excerpt(inner().front().name) + " pads samples, which " + name() +
                 " exchanges; use it by itself");
    }
    return *read;
  }

 private:
  read_policy* read_;
};

using named_policy = named_value<any_policy, policy_reader>;

inline constexpr std::array named_policies = {
    named_policy{"longest_processing_time", "lpt", "",
                 [](policy_reader&) { return any_policy(ballast::longest_processing_time{}); }},
    named_policy{"karmarkar_karp", "kk", "",
                 [](policy_reader&) { return any_policy(baselines::karmarkar_karp{}); }},
    named_policy{"refine", "", "POLICY,work=N,nodes=N",
                 [](policy_reader& read) {
                   ballast::refine<> usual;
                   auto const inner = read.packed_policy();
                   read.number("work", usual.work);
                   read.number("nodes", usual.nodes);
                   if (!inner) { return any_policy(usual); }
                   return any_policy(ballast::refine<any_policy>{
                       *inner, usual.work, usual.work_per_sample, usual.nodes});
                 }},
    named_policy{"padded_batches", "", "orders=N",
                 [](policy_reader& read) {
                   ballast::padded_batches policy;
                   read.number("orders", policy.orders, std::size_t{0}, std::size_t{1} << 24);
                   return any_policy(policy);
                 }},
    named_policy{"attention_padded_batches", "", "work=N",
                 [](policy_reader& read) {
                   ballast::attention_padded_batches policy;
                   read.number("work", policy.work);
                   return any_policy(policy);
                 }},
    named_policy{"conv_transformer_batches", "", "",
                 [](policy_reader&) { return any_policy(ballast::conv_transformer_batches{}); }},
    named_policy{"quadratic_with_tolerance", "", "tolerance=N",
                 [](policy_reader& read) {
                   baselines::quadratic_with_tolerance policy;
                   read.number("tolerance", policy.tolerance, ballast::tokens{1},
                               ballast::longest_sample);
                   return any_policy(policy);
                 }},
    named_policy{"greedy_knapsack", "", "capacity=remaining|full",
                 [](policy_reader& read) {
                   bool const full = read.choice("capacity", {"remaining", "full"}) == 1;
                   return any_policy(
                       ballast::greedy_knapsack{full ? ballast::knapsack_capacity::full
                                                     : ballast::knapsack_capacity::remaining});
                 }},
    named_policy{"round_robin", "", "",
                 [](policy_reader&) { return any_policy(ballast::round_robin{}); }},
};

/// The names that parse_policy knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string policy_names()
{
  return list_names(named_policies);
}

/// What earlier versions took for policies, and what says the same.
inline constexpr std::array former_policies = {
    std::array<std::string_view, 2>{
        "capped", "give --most-per-gpu, or most_per_gpu in Python and C, to any policy"},
    std::array<std::string_view, 2>{
        "equal_count", "give --samples equal, or equal_counts in Python and C, to any policy"},
    std::array<std::string_view, 2>{
        "least_movement", "give --then fewest_moves, or then in Python and C, to any policy"},
};

[[nodiscard]] inline ballast::result<any_policy> read_policy(policy_expression const& text)
{
  std::string why;
  for (auto const& [name, instead] : former_policies) {
    if (text.name == name) {
      why = ballast::excerpt(name).append(" is no policy but a limit: ").append(instead);
    }
  }
  if (text.name == "exact") { why = "'exact' is refine with nodes: give refine:nodes=16777216"; }
  if (!why.empty()) {
    return tl::unexpected(
        text_error(ballast::error_code::unknown_name, text.text, text.position, why));
  }
  return read_named(named_policies, text, "policy", read_policy);
}

/// The policy that a text names, with its parameters and the policies that it works with: `lpt`,
/// `refine:kk,work=100000`, `refine:(refine:lpt),nodes=1000`. Parameters that are not written have
/// the defaults of the policy's type.
///
/// Errors      syntax, unknown_name or out_of_range with a byte offset: a name or parameter that
///             does not exist, a value that the parameter cannot have, a policy that cannot work
///             with another.
/// Complexity  O(bytes).
[[nodiscard]] inline ballast::result<any_policy> parse_policy(std::string_view text)
{
  auto const parsed = parse_policy_expression(text);
  if (!parsed) { return tl::unexpected(parsed.error()); }
  return read_policy(*parsed);
}

}  // namespace by_name
