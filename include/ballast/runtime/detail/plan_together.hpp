// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP
#define BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/random.hpp>
#include <ballast/runtime/detail/gather_alike.hpp>
#include <ballast/runtime/detail/thrown_text.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ballast::inline v0::detail {

/// Adds to what ranks are told that disagree why the first of them has nothing, if one has nothing.
/// Collective then; has(rank), the same on every rank, is read before anything is sent.
template <communicator C, class Has>
void tell_why(C& comm, error& told, Has const& has, std::string_view own)
{
  std::size_t without = 0;
  while (without < comm.size() && has(without)) { ++without; }
  if (without == comm.size()) { return; }
  auto const texts =
      gather_with_word<told_text>(comm, 0, 1, [&](std::size_t) { return told_text(own); });
  if (!texts) { return; }
  told.message += concat(". Rank ", without, " has none: ", (*texts)(without).bytes.data());
}

/// Makes a plan on every rank, and tells all of them where they have not the same one.
///
/// gather() is collective and tells all ranks what to plan; make() plans it. Both return
/// result<void>; word_of_plan() returns one word of what make() made.
///
/// Expects     an error of gather() is one on every rank.
/// Errors      those of gather(). mismatch, on a rank that has a plan, if others have a different
///             one or none, and then why; a rank that could not plan has its own error: `failed`
///             where a call threw. Only std::bad_alloc is thrown again, after the others have been
///             told. Also the errors of the communicator.
/// Complexity  gather(), make() and one all_gather of 9 bytes a rank; one more where a rank has no
///             plan and others have one, or another reason.
template <communicator C, class Gather, class Make, class WordOf>
[[nodiscard]] result<void> plan_together(C& comm, Gather const& gather, Make const& make,
                                         WordOf const& word_of_plan)
{
  result<void> made;
  bool has_gathered = false;
  std::uint64_t word = 0;
  auto const thrown = thrown_by([&] {
    made = gather();
    if (!made) { return; }
    has_gathered = true;
    made = make();
    if (made) { word = word_of_plan(); }
  });
  if (thrown) {
    made = fail(error_code::failed, 0, "planning threw on rank ", comm.rank(), ": ",
                thrown_text(thrown));
  } else if (!has_gathered) {
    return made;
  }
  if (!made) {
    auto const code = static_cast<std::uint64_t>(made.error().code);
    word = digest{}.add(code).add(made.error().position).value();
  }
  // No rank waits for one that threw: the others are here too, or still in gather(), where this
  // other call is a mismatch.
  bool const has_plan = made.has_value();
  auto const words = gather_with_word<bool>(comm, word, 1, [&](std::size_t) { return has_plan; });
  result<void> same;
  if (!words) {
    same = tl::unexpected(words.error());
  } else if (!words->all_have(word)) {
    same = comm_failure::mismatch("plan", "the plan, or on why there is none", words->differing());
    tell_why(
        comm, same.error(), [&](std::size_t rank) { return (*words)(rank); },
        made ? "" : made.error().message);
  }
  if (thrown) { rethrow_if_out_of_memory(thrown); }
  return made ? same : made;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PLAN_TOGETHER_HPP
