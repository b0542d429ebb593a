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
#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/conv_transformer_batches.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/least_movement.hpp>
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

  /// The policy to work with, or the usual one where none is written.
  [[nodiscard]] any_policy policy(any_policy const& usual = {})
  {
    if (inner().size() > 1) {
      refuse(ballast::error_code::syntax, inner()[1].position,
             name() + " works with one policy; put parentheses around what belongs to that policy");
    }
    if (inner().empty()) { return usual; }
    auto const read = read_(inner().front());
    if (!read) { refuse(read.error()); }
    return read ? *read : any_policy{};
  }

  /// The same, where the caller moves samples freely: the policy keeps to no counts and does not
  /// pad, nor keep homes if the caller does not.
  [[nodiscard]] any_policy free_policy(any_policy const& usual = {}, bool keeps_homes = false)
  {
    any_policy const given = policy(usual);
    bool const loses_homes = given.keeps_homes() && !keeps_homes;
    if (given.batches() != ballast::batching::packed || given.restricts() || loses_homes) {
      refuse(ballast::error_code::out_of_range, inner().front().position,
             name() + " would break what " + ballast::excerpt(inner().front().name) +
                 " keeps to; use that by itself" + (loses_homes ? ", or around " + name() : ""));
    }
    return given;
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
    named_policy{"refine", "", "POLICY,work=N",
                 [](policy_reader& read) {
                   ballast::refine<any_policy> policy;
                   policy.inner = read.free_policy();
                   read.number("work", policy.work);
                   return any_policy(policy);
                 }},
    named_policy{"exact", "", "POLICY,nodes=N",
                 [](policy_reader& read) {
                   ballast::exact<any_policy> policy;
                   policy.inner = read.free_policy(any_policy(ballast::refine<any_policy>{}));
                   read.number("nodes", policy.nodes);
                   return any_policy(policy);
                 }},
    named_policy{"least_movement", "", "POLICY,eps=X,work=N",
                 [](policy_reader& read) {
                   ballast::least_movement<any_policy> policy;
                   policy.inner = read.free_policy(any_policy(ballast::refine<any_policy>{}), true);
                   read.per_million("eps", policy.tolerance_per_million);
                   read.number("work", policy.work);
                   return any_policy(policy);
                 }},
    named_policy{"capped", "", "POLICY,work=N",
                 [](policy_reader& read) {
                   ballast::capped<any_policy> policy;
                   policy.inner = read.policy();
                   read.number("work", policy.work);
                   return any_policy(policy);
                 }},
    named_policy{"equal_count", "", "multiple=N,work=N",
                 [](policy_reader& read) {
                   ballast::equal_count policy;
                   read.number("multiple", policy.multiple, 1U);
                   read.number("work", policy.work);
                   return any_policy(policy);
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

[[nodiscard]] inline ballast::result<any_policy> read_policy(policy_expression const& text)
{
  return read_named(named_policies, text, "policy", read_policy);
}

/// The policy that a text names, with its parameters and the policies that it works with:
/// `lpt`, `equal_count:multiple=4`, `refine:kk,work=100000`, `capped:refine:lpt`,
/// `least_movement:(exact:nodes=1000),eps=0.01`. Parameters that are not written have the
/// defaults of the policy's type.
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
