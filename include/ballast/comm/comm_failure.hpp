// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_COMM_FAILURE_HPP
#define BALLAST_COMM_COMM_FAILURE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The errors of communicators, so that all of them report the same failure in the same words. For
/// authors of communicators.
///
/// `operation` is the name of the call, such as "all_to_all_v".
namespace ballast::inline v0::comm_failure {

/// Returns "rank 3", "ranks 0, 2 and 5", or of more than ten "ranks 0, 1, ..., 9 and 22 more".
[[nodiscard]] inline std::string ranks_text(std::vector<rank_id> const& ranks)
{
  constexpr std::size_t most = 10;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    if (index == most) { return detail::concat(text, " and ", ranks.size() - most, " more"); }
    bool const last = index + 1 == ranks.size();
    if (index > 0) { text += last ? " and " : ", "; }
    text += std::to_string(to_index(ranks[index]));
  }
  return text;
}

/// An error with the ranks that caused it.
[[nodiscard]] inline tl::unexpected<error> with_ranks(error_code code, std::string message,
                                                      std::vector<rank_id> ranks)
{
  return tl::unexpected<error>(error{code, 0, std::move(message), std::move(ranks)});
}

/// The same error, of which `rank` is the cause.
[[nodiscard]] inline tl::unexpected<error> of_rank(rank_id rank, tl::unexpected<error> why)
{
  why.value().ranks = {rank};
  return why;
}

/// Ranks made different calls. `differing` is empty on a rank that agrees with all its own peers.
/// `advice` goes on from "Make every rank".
[[nodiscard]] inline tl::unexpected<error> mismatch(
    std::string_view operation, std::string_view what, std::vector<rank_id> differing,
    std::string_view advice = "plan from the same gathered lengths and settings",
    std::string_view outcome = "nothing was sent")
{
  std::string message = std::string(operation).append(": ranks disagree on ").append(what);
  if (!differing.empty()) {
    // Which side is right nobody knows, and half the ranks may be on each.
    message += " (" + ranks_text(differing) + (differing.size() == 1 ? " differs" : " differ");
    message += " from the others)";
  }
  message.append("; ").append(outcome).append(". Make every rank ").append(advice);
  return with_ranks(error_code::mismatch, std::move(message), std::move(differing));
}

/// Ranks called different operations, or one operation with different sizes or roots.
[[nodiscard]] inline tl::unexpected<error> different_calls(std::string_view operation,
                                                           std::vector<rank_id> differing)
{
  return mismatch(operation, "the operation, its size or its root", std::move(differing));
}

/// Ranks gave an exchange arrays of different widths or types, or different plans.
[[nodiscard]] inline tl::unexpected<error> different_content(
    std::string_view operation, bool in_arrays, std::vector<rank_id> differing,
    std::string_view outcome = "nothing was sent")
{
  if (!in_arrays) {
    return mismatch(operation, "the plan or its direction", std::move(differing),
                    "plan from the same gathered lengths and settings", outcome);
  }
  return mismatch(operation, "the number of arrays, the type of their elements or their width",
                  std::move(differing), "give arrays of the same types and widths", outcome);
}

/// Ranks disagree on how many bytes go from one to another.
[[nodiscard]] inline tl::unexpected<error> different_counts(std::string_view operation,
                                                            std::vector<rank_id> differing)
{
  return mismatch(operation, "the size of messages", std::move(differing));
}

/// Ranks have made a communicator with different options; `option` is the first that differs.
[[nodiscard]] inline tl::unexpected<error> different_options(std::string_view operation,
                                                             std::string_view option,
                                                             std::vector<rank_id> differing)
{
  return mismatch(operation, detail::concat("the option ", option), std::move(differing),
                  "give the same options");
}

/// Of a message between two ranks, `peer` sends or expects another number of bytes than this rank.
[[nodiscard]] inline tl::unexpected<error> different_message(std::string_view operation,
                                                             rank_id peer, std::size_t bytes,
                                                             std::size_t of_peer)
{
  std::string message = std::string(operation).append(": this rank has a message of ");
  message += detail::concat(detail::counted(bytes, "byte"), ", and ", ranks_text({peer}),
                            " one of ", of_peer,
                            "; make both ranks plan from the same gathered lengths and settings, "
                            "and give arrays of the same types and widths");
  return with_ranks(error_code::mismatch, std::move(message), {peer});
}

/// Ranks ended, or gave up, before the operation was complete.
[[nodiscard]] inline tl::unexpected<error> peer_lost(std::string_view operation,
                                                     std::vector<rank_id> lost)
{
  std::string message = std::string(operation).append(": ");
  message += lost.empty() ? "a rank" : ranks_text(lost);
  message += " left before it was complete; look at the first failure there";
  return with_ranks(error_code::peer_lost, std::move(message), std::move(lost));
}

/// A call of the library below (MPI, NCCL, CUDA) failed: the call's name, that library's code and
/// text.
[[nodiscard]] inline tl::unexpected<error> transport(std::string_view call, int code,
                                                     std::string_view text)
{
  return fail(error_code::transport, static_cast<std::size_t>(code), call, " failed with code ",
              code, ": ", text);
}

}  // namespace ballast::inline v0::comm_failure

#endif  // BALLAST_COMM_COMM_FAILURE_HPP
