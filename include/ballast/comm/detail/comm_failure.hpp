// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

/// The sentences of failures, which communicator.hpp declares.
namespace ballast::inline v0 {

namespace comm_failure {

[[nodiscard]] BALLAST_ONCE std::string ranks_text(std::vector<rank_id> const& ranks)
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

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> mismatch(std::string_view operation,
                                                          std::string_view what,
                                                          std::vector<rank_id> differing,
                                                          std::string_view advice,
                                                          std::string_view outcome)
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

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_content(std::string_view operation,
                                                                   bool in_arrays,
                                                                   std::vector<rank_id> differing,
                                                                   std::string_view outcome)
{
  if (!in_arrays) {
    return mismatch(operation, "the plan or its direction", std::move(differing),
                    "plan from the same gathered lengths and settings", outcome);
  }
  return mismatch(operation, "the number of arrays, the type of their elements or their width",
                  std::move(differing), "give arrays of the same types and widths", outcome);
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_options(std::string_view operation,
                                                                   std::string_view option,
                                                                   std::vector<rank_id> differing)
{
  return mismatch(operation, detail::concat("the option ", option), std::move(differing),
                  "give the same options");
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> different_message(std::string_view operation,
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

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> peer_lost(std::string_view operation,
                                                           std::vector<rank_id> lost)
{
  std::string message = std::string(operation).append(": ");
  message += lost.empty() ? "a rank" : ranks_text(lost);
  message += " left before it was complete; look at the first failure there";
  return with_ranks(error_code::peer_lost, std::move(message), std::move(lost));
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> transport(std::string_view call, int code,
                                                           std::string_view text)
{
  return fail(error_code::transport, static_cast<std::size_t>(code), call, " failed with code ",
              code, ": ", text);
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> timed_out(std::string_view operation,
                                                           std::chrono::milliseconds deadline,
                                                           std::vector<rank_id> missing)
{
  std::string message = std::string(operation).append(": ");
  message += missing.empty() ? "some ranks" : ranks_text(missing);
  message += detail::concat(" did not arrive within ", deadline.count(),
                            " ms; look for what holds them up, or raise the deadline");
  return with_ranks(error_code::timed_out, std::move(message), std::move(missing));
}

}  // namespace comm_failure

namespace detail {

[[nodiscard]] BALLAST_ONCE std::vector<rank_id> ranks_that_hold_up(std::vector<bool> held,
                                                                   std::span<int const> awaited)
{
  for (bool more = true; more;) {
    more = false;
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      for (std::size_t peer = 0; peer < held.size() && held[rank]; ++peer) {
        bool const holds_up =
            std::cmp_equal(awaited[rank], peer) ||
            (awaited[rank] == waits_for::everybody && awaited[peer] != waits_for::everybody);
        more = more || (holds_up && !held[peer]);
        held[peer] = held[peer] || holds_up;
      }
    }
  }
  std::vector<rank_id> ranks;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    if (held[rank] && awaited[rank] == waits_for::nobody) { ranks.push_back(to_id<rank_id>(rank)); }
  }
  return ranks;
}

}  // namespace detail

}  // namespace ballast::inline v0
