// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP
#define BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP

#include <ballast/comm/agree.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/core/detail/thrown_by.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/result.hpp>

#include <cstdint>
#include <exception>

namespace ballast::inline v0::detail {

/// Makes a plan on every rank, and tells all of them where they have not the same one.
///
/// gather() is collective and tells all ranks what to plan; make() plans it. Both return
/// result<void>; word_of_plan() returns one word of what make() made.
///
/// Expects     an error of gather() is one on every rank.
/// Errors      those of gather(). mismatch, on a rank that has a plan, if others have a different
///             one or none; a rank that could not plan has its own error. An exception of gather()
///             or make() is thrown again after the others have been told. Also the errors of the
///             communicator.
/// Complexity  gather(), make() and one all_gather of 8 bytes a rank.
template <communicator C, class Gather, class Make, class WordOf>
[[nodiscard]] result<void> plan_together(C& comm, Gather const& gather, Make const& make,
                                         WordOf const& word_of_plan)
{
  auto const word_of = [](error const& why) {
    constexpr std::uint64_t no_plan = 0x6e6f20706c616e21U;
    auto const code = static_cast<std::uint64_t>(why.code);
    return digest{}.add(no_plan).add(code).add(why.position).value();
  };
  auto const compare = [&comm](std::uint64_t word) {
    return agree(comm, word, "the plan, or on why there is none");
  };
  result<void> made;
  result<void> gathered;
  auto const thrown = thrown_by([&] {
    gathered = gather();
    if (gathered) { made = make(); }
  });
  if (thrown) {
    // So that no rank waits for this one: the others are in this comparison too, or still in the
    // gather, where this other call is a mismatch.
    static_cast<void>(compare(word_of(error{})));
    std::rethrow_exception(thrown);
  }
  if (!gathered) { return gathered; }
  auto same = compare(made ? word_of_plan() : word_of(made.error()));
  return made ? same : made;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP
