// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_COLLECTIVE_SIZES_HPP
#define BALLAST_COMM_DETAIL_COLLECTIVE_SIZES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>

#include <cstddef>

/// What every communicator expects of the arrays of a call, in bytes.
namespace ballast::inline v0::detail {

inline void expect_gather_sizes(std::size_t send, std::size_t receive, std::size_t ranks)
{
  BALLAST_EXPECTS(receive == ranks * send, "all_gather: `receive` has ", receive, " bytes, and ",
                  ranks, " ranks send ", send, " each");
}

inline void expect_counts(std::size_t send_counts, std::size_t receive_counts, std::size_t ranks)
{
  BALLAST_EXPECTS(send_counts == ranks && receive_counts == ranks,
                  "all_to_all_v: `send_bytes` has ", send_counts, " entries and `receive_bytes` ",
                  receive_counts, ", and there are ", ranks, " ranks");
}

inline void expect_exchange_sizes(std::size_t send, std::size_t sent, std::size_t receive,
                                  std::size_t received)
{
  BALLAST_EXPECTS(send == sent, "all_to_all_v: `send` has ", send,
                  " bytes, and `send_bytes` add up to ", sent);
  BALLAST_EXPECTS(receive == received, "all_to_all_v: `receive` has ", receive,
                  " bytes, and `receive_bytes` add up to ", received);
}

inline void expect_root(rank_id root, std::size_t ranks)
{
  BALLAST_EXPECTS(to_index(root) < ranks, "broadcast: the root is rank ", root, " of ", ranks,
                  " ranks");
}

inline void expect_peer(rank_id peer, std::size_t ranks)
{
  BALLAST_EXPECTS(to_index(peer) < ranks, "a transfer with rank ", peer, " of ", ranks, " ranks");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_COLLECTIVE_SIZES_HPP
