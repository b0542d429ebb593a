// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/unit_exchange.hpp>

namespace ballast::inline v0 {

/// Carries rows of arrays in the host's memory behind what is computed: its calls begin an exchange
/// and return, and wait() ends the oldest ones. `orchestrator` takes it.
///
///     ahead_carrier rows(comm);
///     orchestrator step(comm, rows, encoders, llm, passes);
///     ...
///     or_throw(step.to_pass(0, rows_of(x, x_0, width)));  // both travel
///     or_throw(step.to_pass(1, rows_of(x, x_1, width)));
///     compute();                                          // while this runs
///     or_throw(rows.wait(1));                             // x_0 has come; x_1 may still travel
///
/// Rows travel in pairs of ranks, so a rank waits for those from which it gets rows, and for no
/// other.
///
/// Expects     all ranks begin the same exchanges in the same order; comm outlives it. A plan and
///             `to` arrays stay as they are until wait() has ended the exchange; `from` arrays only
///             until the call returns. Before it is destroyed begin_step() ends what is under way.
/// Ensures     (1) after wait(n) all but the n newest exchanges have put every row where route()
///                 would, byte for byte
///             (2) begin_step() ends all, and what this rank has sent
///             (3) a call allocates only where more exchanges, or larger ones, are under way than
///                 ever before
///             (4) no message is taken for one of another exchange, plan or arrays: each begins
///                 with a word of these and its number
/// Errors      those of the communicator; then nothing is under way any more, `to` arrays are
///             unspecified, and the rank leaves the communicator, so that others learn it.
/// Complexity  that of route(), with a message for each pair of ranks. Memory: what is under way.
template <point_to_point C, class Allocator = std::allocator<std::byte>>
class ahead_carrier {
 public:
  explicit ahead_carrier(C& comm, Allocator const& allocator = Allocator())
      : comm_(comm), allocator_(allocator), outgoing_(allocator)
  {}

  [[nodiscard]] rank_id rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return comm_.size(); }

  [[nodiscard]] result<void> begin_step()
  {
    auto done = wait();
    if (done) { done = outgoing_.finish(comm_); }
    if (!done) { release(); }
    return done;
  }

  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(route_plan const& plan, Arrays const&... arrays)
  {
    return begin(plan, true, std::array<row_array, sizeof...(Arrays)>{arrays...});
  }
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(route_plan const& plan, Arrays const&... arrays)
  {
    return begin(plan, false, std::array<row_array, sizeof...(Arrays)>{arrays...});
  }
  [[nodiscard]] result<void> copy(row_array const& array) const
  {
    std::copy(array.from.begin(), array.from.end(), array.to.begin());
    return {};
  }

  /// Waits for the exchanges that were begun first, until no more than so many are under way.
  [[nodiscard]] result<void> wait(std::size_t left = 0)
  {
    while (under_way_.size() > left) {
      if (auto done = end(under_way_.front()); !done) {
        release();
        return done;
      }
      ended_.splice(ended_.end(), under_way_, under_way_.begin());
    }
    return {};
  }

  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_.size(); }
  /// Exchanges that were begun, and those of them whose rows had not all come when wait() wanted them.
  [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }
  [[nodiscard]] std::uint64_t late() const noexcept { return late_; }

 private:
  struct exchange {
    detail::pair_messages<Allocator> incoming;
    detail::message_head head{};
    route_table const* coming = nullptr;
    std::vector<row_array> arrays{};

    explicit exchange(Allocator const& allocator) : incoming(allocator) {}
  };

  [[nodiscard]] result<void> begin(route_plan const& plan, bool forward,
                                   std::span<row_array const> arrays)
  {
    BALLAST_EXPECTS(plan.rank == comm_.rank() && plan.ranks() == comm_.size(),
                    "the route is that of rank ", plan.rank, " of ", plan.ranks(),
                    ", and the communicator that of rank ", comm_.rank(), " of ", comm_.size());
    row_traffic const traffic{plan.rank, plan.rows_before, plan.rows_after, {}, {}};
    detail::check_rows(forward ? traffic : traffic.reversed(), arrays);
    result<void> done;
    auto const thrown = detail::thrown_by([&] {
      if (ended_.empty()) { ended_.emplace_back(allocator_); }
      exchange& own = ended_.front();
      own.arrays.assign(arrays.begin(), arrays.end());
      own.coming = forward ? &plan.received : &plan.sent;
      own.head = {++begun_,
                  content_word(forward ? plan.word : ~plan.word, detail::word_of(arrays))};
      under_way_.splice(under_way_.end(), ended_, ended_.begin());
      done = detail::begin_rows(comm_, outgoing_, own.incoming, sizes_,
                                forward ? plan.sent : plan.received, *own.coming, arrays, own.head);
      if (done) { detail::keep_rows(plan, forward, arrays); }
    });
    if (thrown || !done) { release(); }
    if (thrown) { std::rethrow_exception(thrown); }
    return done;
  }

  [[nodiscard]] result<void> end(exchange& own)
  {
    for (transfer_id const each : own.incoming.transfers()) {
      auto const done = comm_.is_done(each);
      if (!done) { return tl::unexpected(done.error()); }
      if (*done) { continue; }
      ++late_;
      break;
    }
    if (auto come = own.incoming.end(comm_, true); !come) { return come; }
    if (auto is_own = own.incoming.expect_head(own.head, rank_id{0}); !is_own) { return is_own; }
    unpack_rows(*own.coming, detail::span_of(own.arrays), own.incoming.bytes(), sizeof(own.head));
    return {};
  }

  /// After a failure: ends all transfers, the newest first.
  void release()
  {
    for (; !under_way_.empty(); ended_.splice(ended_.end(), under_way_, --under_way_.end())) {
      under_way_.back().incoming.cancel(comm_);
    }
    outgoing_.cancel(comm_);
  }

  C& comm_;
  Allocator allocator_;
  detail::outgoing_messages<Allocator> outgoing_;
  std::list<exchange> under_way_;   // in the order in which they were begun
  std::list<exchange> ended_;       // whose memory is used again
  std::vector<std::size_t> sizes_;  // of messages, by peer
  std::uint64_t begun_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace ballast::inline v0
