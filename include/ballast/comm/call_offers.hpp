// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_CALL_OFFERS_HPP
#define BALLAST_COMM_CALL_OFFERS_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// The arguments of a rank's call, which its peers may read while the call lasts.
struct call_offer {
  collective_call call;
  std::span<std::byte const> send = {};
  std::span<std::size_t const> send_bytes = {};     // [P] for all_to_all_v, else empty
  std::span<std::size_t const> receive_bytes = {};  // [P] for all_to_all_v, else empty
  std::uint32_t colour = 0;                         // for split
};

/// The offers of all ranks of a group, compared with each other. For authors of communicators.
///
/// Ensures     mismatch() gives what `communicator` promises of that error
/// Complexity  O(P) for put(), O(P^2) for all_agree() of an all_to_all_v.
class call_offers {
 public:
  explicit call_offers(std::size_t ranks) : members_(ranks)
  {
    for (member& each : members_) { each.send_offsets.resize(ranks); }
  }

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }

  void put(std::size_t rank, call_offer const& offer)
  {
    member& own = members_[rank];
    own.offer = offer;
    std::exclusive_scan(offer.send_bytes.begin(), offer.send_bytes.end(), own.send_offsets.begin(),
                        std::size_t{0});
  }

  [[nodiscard]] call_offer const& operator[](std::size_t rank) const
  {
    return members_[rank].offer;
  }

  /// Of an all_to_all_v: the part of what `from` sends that is for `to`.
  [[nodiscard]] std::span<std::byte const> message(std::size_t from, std::size_t to) const
  {
    member const& sender = members_[from];
    return sender.offer.send.subspan(sender.send_offsets[to], sender.offer.send_bytes[to]);
  }

  [[nodiscard]] bool all_agree() const
  {
    collective_call const& first = members_.front().offer.call;
    bool agreed = std::all_of(members_.begin(), members_.end(),
                              [&](member const& each) { return each.offer.call == first; });
    if (first.operation != collective::all_to_all_v) { return agreed; }
    for (std::size_t from = 0; from < size() && agreed; ++from) {
      for (std::size_t to = 0; to < size() && agreed; ++to) { agreed = counts_agree(from, to); }
    }
    return agreed;
  }

  /// What rank `self` is told if they do not all agree.
  [[nodiscard]] tl::unexpected<error> mismatch(std::size_t self) const
  {
    char const* const operation = name_of(members_[self].offer.call.operation);
    std::vector<std::uint64_t> calls;
    calls.reserve(size());
    for (member const& each : members_) { calls.push_back(each.offer.call.word()); }
    std::vector<rank_id> differing = detail::dissenters(detail::span_of(calls));
    if (!differing.empty()) {
      return comm_failure::different_calls(operation, std::move(differing));
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      calls[peer] = members_[peer].offer.call.content;
    }
    if (auto found = detail::dissent_on_content(std::move(calls)); !found.ranks.empty()) {
      return comm_failure::different_content(operation, found.in_arrays, std::move(found.ranks));
    }
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (!counts_agree(self, peer) || !counts_agree(peer, self)) {
        differing.push_back(to_id<rank_id>(peer));
      }
    }
    return comm_failure::different_counts(operation, std::move(differing));
  }

 private:
  struct member {
    call_offer offer;
    std::vector<std::size_t> send_offsets;  // [P]
  };

  [[nodiscard]] bool counts_agree(std::size_t from, std::size_t to) const
  {
    return members_[from].offer.send_bytes[to] == members_[to].offer.receive_bytes[from];
  }

  std::vector<member> members_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_COMM_CALL_OFFERS_HPP
