// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/dissenters.hpp>

namespace ballast::inline v0 {

/// Which operation of a communicator a rank has called.
enum class collective : std::uint32_t { all_gather, all_to_all_v, broadcast, barrier, split };

/// What must be the same on every rank: the operation, the root (rank 0 for operations without
/// one), the bytes that each rank contributes (0 for operations where ranks may contribute
/// different numbers of bytes), and a content_word. For authors of communicators.
struct collective_call {
  collective operation{};
  std::uint64_t bytes = 0;
  rank_id root{};
  std::uint64_t content = 0;

  /// The name of the call, as it stands in messages.
  [[nodiscard]] constexpr char const* name() const noexcept
  {
    switch (operation) {
      case collective::all_gather: return "all_gather";
      case collective::all_to_all_v: return "all_to_all_v";
      case collective::broadcast: return "broadcast";
      case collective::barrier: return "barrier";
      case collective::split: return "split";
    }
    return "collective";
  }

  /// Of all but the content.
  [[nodiscard]] constexpr std::uint64_t word() const noexcept
  {
    return digest{}
        .add(static_cast<std::uint64_t>(operation))
        .add(bytes)
        .add(to_index(root))
        .value();
  }

  /// A rank's part of a sum, modulo 2^64, that is zero over all ranks if they all made the same call.
  /// So one reduction of 8 bytes checks every count of an all-to-all, and every rank learns of a
  /// mismatch between any two ranks.
  ///
  /// The sender of each message adds a hash of (from, to, bytes), and its receiver subtracts that
  /// hash. What all ranks must have in common is compared in the same manner, by each rank with the
  /// next.
  ///
  /// Shapes      send_bytes[P] and receive_bytes[P] for all_to_all_v, else both empty.
  /// Ensures     (1) the sum is 0 if all ranks agree
  ///             (2) if they do not, it is 0 with a probability of 2^-64 only
  /// Complexity  O(P).
  [[nodiscard]] constexpr std::uint64_t check_word(
      rank_id rank, std::size_t ranks, std::span<std::size_t const> send_bytes = {},
      std::span<std::size_t const> receive_bytes = {}) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks && send_bytes.size() == receive_bytes.size());
    auto const hash = [](std::uint64_t from, std::uint64_t to, std::uint64_t what) {
      return digest{}.add(from).add(to).add(what).value();
    };
    std::uint64_t const self = to_index(rank);
    std::uint64_t const next = (self + 1) % ranks;
    std::uint64_t const common = digest{}.add(word()).add(content).value();
    std::uint64_t sum = hash(self, ranks, common) - hash(next, ranks, common);
    for (std::size_t peer = 0; peer < send_bytes.size(); ++peer) {
      sum += hash(self, peer, send_bytes[peer]) - hash(peer, self, receive_bytes[peer]);
    }
    return sum;
  }

  // What every communicator expects of the arrays of a call, in bytes.

  /// An all_gather receives `ranks` times what each rank sends.
  static void expect_gather(std::size_t send, std::size_t receive, std::size_t ranks)
  {
    BALLAST_EXPECTS(receive == ranks * send, "all_gather: `receive` has ",
                    detail::counted(receive, "byte"), ", and each of ",
                    detail::counted(ranks, "rank"), " sends ", send);
  }

  /// An all_to_all_v has one count per rank in each direction, and arrays as long as these add up to.
  static void expect_exchange(std::size_t send, std::span<std::size_t const> send_bytes,
                              std::size_t receive, std::span<std::size_t const> receive_bytes,
                              std::size_t ranks)
  {
    BALLAST_EXPECTS(send_bytes.size() == ranks && receive_bytes.size() == ranks,
                    "all_to_all_v: `send_bytes` has ", detail::counted(send_bytes.size(), "entry"),
                    " and `receive_bytes` ", receive_bytes.size(), ", and the communicator ",
                    detail::counted(ranks, "rank"));
    std::size_t const sent = std::reduce(send_bytes.begin(), send_bytes.end());
    std::size_t const received = std::reduce(receive_bytes.begin(), receive_bytes.end());
    BALLAST_EXPECTS(send == sent, "all_to_all_v: `send` has ", detail::counted(send, "byte"),
                    ", and `send_bytes` add up to ", sent);
    BALLAST_EXPECTS(receive == received, "all_to_all_v: `receive` has ",
                    detail::counted(receive, "byte"), ", and `receive_bytes` add up to ", received);
  }

  /// The root of a broadcast is one of the ranks.
  static void expect_root(rank_id root, std::size_t ranks)
  {
    BALLAST_EXPECTS(to_index(root) < ranks, "broadcast: the root is rank ", root, " of ",
                    detail::counted(ranks, "rank"));
  }

  /// The peer of a transfer is one of the ranks.
  static void expect_peer(rank_id peer, std::size_t ranks)
  {
    BALLAST_EXPECTS(to_index(peer) < ranks, "a transfer with rank ", peer, " of ",
                    detail::counted(ranks, "rank"));
  }

  friend bool operator==(collective_call const&, collective_call const&) = default;
};

namespace detail {

/// What a rank tells another one of its call before bytes move.
struct told_call {
  std::uint64_t check = 0;  // its check_word
  std::uint64_t call = 0;   // what all ranks must have in common, and the next
  std::uint64_t content = 0;
  std::uint64_t sent = 0;      // bytes that it sends to that rank; of split its colour
  std::uint64_t received = 0;  // bytes that it expects from that rank
};

/// In what ranks differ, of which this one told[P] and heard[P]: gives what `communicator` promises
/// of a mismatch.
[[nodiscard]] inline tl::unexpected<error> disagreement(collective operation,
                                                        std::span<told_call const> told,
                                                        std::span<told_call const> heard)
{
  char const* const name = collective_call{operation}.name();
  std::vector<std::uint64_t> words;
  words.reserve(heard.size());
  for (told_call const& each : heard) { words.push_back(each.call); }
  std::vector<rank_id> differing = dissenters(words);
  if (!differing.empty()) {
    return comm_failure::mismatch(name, "the operation, its size or its root",
                                  std::move(differing));
  }
  for (std::size_t peer = 0; peer < heard.size(); ++peer) { words[peer] = heard[peer].content; }
  if (auto found = dissent_on_content(std::move(words)); !found.ranks.empty()) {
    return comm_failure::different_content(name, found.in_arrays, std::move(found.ranks));
  }
  for (std::size_t peer = 0; peer < heard.size(); ++peer) {
    if (heard[peer].sent != told[peer].received || heard[peer].received != told[peer].sent) {
      differing.push_back(to_id<rank_id>(peer));
    }
  }
  return comm_failure::mismatch(name, "the size of messages", std::move(differing));
}

}  // namespace detail

/// The words by which each rank tells each other one which call it makes, 40 bytes each. For authors
/// of communicators, which send told() and receive heard(), a word to and from each rank.
///
/// `Allocator` allocates memory that the transport reaches.
///
/// Ensures     (1) where all have been heard, are_one_call() is the same on every rank
///             (2) disagreement() gives what `communicator` promises of a mismatch
template <class Allocator = std::allocator<std::byte>>
class call_words {
 public:
  static constexpr std::size_t bytes = sizeof(detail::told_call);  ///< of a word

  explicit call_words(Allocator const& allocator = Allocator())
      : words_(typename words::allocator_type(allocator))
  {}

  /// From now on of so many ranks; allocates nothing where there were as many before.
  void resize(std::size_t ranks) { words_.resize(2 * ranks); }

  /// What rank `self` tells each rank of its call; nothing is heard any more.
  void tell(std::size_t self, collective_call const& call, std::span<std::size_t const> send_bytes,
            std::span<std::size_t const> receive_bytes, std::uint32_t colour = 0)
  {
    std::size_t const ranks = words_.size() / 2;
    auto const check = call.check_word(to_id<rank_id>(self), ranks, send_bytes, receive_bytes);
    detail::told_call word{check, call.word(), call.content, colour};
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (!send_bytes.empty()) {
        word.sent = send_bytes[peer];
        word.received = receive_bytes[peer];
      }
      words_[peer] = word;
      words_[ranks + peer].sent = not_heard;
    }
  }

  [[nodiscard]] std::span<std::byte const> told() const
  {
    return std::as_bytes(detail::span_of(words_, 0, words_.size() / 2));
  }
  [[nodiscard]] std::span<std::byte> heard()
  {
    std::size_t const ranks = words_.size() / 2;
    return std::as_writable_bytes(detail::mutable_span_of(words_, ranks, ranks));
  }

  [[nodiscard]] bool was_heard(std::size_t peer) const { return of(peer).sent != not_heard; }

  /// The colour that a rank gave, if the call was split.
  [[nodiscard]] std::uint64_t colour_of(std::size_t peer) const { return of(peer).sent; }

  /// Whether all make the same call, once all have been heard.
  [[nodiscard]] bool are_one_call() const
  {
    std::uint64_t sum = 0;
    for (std::size_t peer = 0; peer < words_.size() / 2; ++peer) { sum += of(peer).check; }
    return sum == 0;
  }

  /// In what they differ.
  [[nodiscard]] tl::unexpected<error> disagreement(collective operation) const
  {
    std::size_t const ranks = words_.size() / 2;
    return detail::disagreement(operation, detail::span_of(words_, 0, ranks),
                                detail::span_of(words_, ranks, ranks));
  }

 private:
  static constexpr std::uint64_t not_heard = ~std::uint64_t{0};  // neither bytes nor a colour

  using words = std::vector<
      detail::told_call,
      typename std::allocator_traits<Allocator>::template rebind_alloc<detail::told_call>>;

  [[nodiscard]] detail::told_call const& of(std::size_t peer) const
  {
    return words_[words_.size() / 2 + peer];
  }

  words words_;  // told to each rank, then heard from each rank
};

/// The offers of all ranks of a group, compared with each other. For authors of communicators.
///
/// Ensures     mismatch() gives what `communicator` promises of that error
/// Complexity  O(P) for put(), O(P^2) for all_agree() of an all_to_all_v.
class call_offers {
 public:
  /// The arguments of a rank's call, which its peers may read while the call lasts.
  struct rank_offer {
    collective_call call;
    std::span<std::byte const> send = {};
    std::span<std::size_t const> send_bytes = {};     // [P] for all_to_all_v, else empty
    std::span<std::size_t const> receive_bytes = {};  // [P] for all_to_all_v, else empty
    std::uint32_t colour = 0;                         // for split
  };

  explicit call_offers(std::size_t ranks) : members_(ranks)
  {
    for (member& each : members_) { each.send_offsets.resize(ranks); }
  }

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }

  void put(std::size_t rank, rank_offer const& offer)
  {
    member& own = members_[rank];
    own.offer = offer;
    std::exclusive_scan(offer.send_bytes.begin(), offer.send_bytes.end(), own.send_offsets.begin(),
                        std::size_t{0});
  }

  [[nodiscard]] rank_offer const& operator[](std::size_t rank) const
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
    auto const of = [](rank_offer const& offer, std::size_t peer) {
      bool const counts = !offer.send_bytes.empty();
      return detail::told_call{0, offer.call.word(), offer.call.content,
                               counts ? offer.send_bytes[peer] : 0,
                               counts ? offer.receive_bytes[peer] : 0};
    };
    rank_offer const& own = members_[self].offer;
    std::vector<detail::told_call> told, heard;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      told.push_back(of(own, peer));
      heard.push_back(of(members_[peer].offer, self));
    }
    return detail::disagreement(own.call.operation, told, heard);
  }

 private:
  struct member {
    rank_offer offer;
    std::vector<std::size_t> send_offsets;  // [P]
  };

  [[nodiscard]] bool counts_agree(std::size_t from, std::size_t to) const
  {
    return members_[from].offer.send_bytes[to] == members_[to].offer.receive_bytes[from];
  }

  std::vector<member> members_;
};

}  // namespace ballast::inline v0
