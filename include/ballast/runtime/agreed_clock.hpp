// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/plan_together.hpp>
#include <ballast/runtime/model_profiler.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast::inline v0 {

/// The clock of ranks that profile together, such as those of a tensor-parallel group: a call has
/// taken as long as on the slowest rank, and it is as late as on the latest. So all ranks have the
/// same profile, and stop at the same point when the budget is used up.
///
/// Expects     every rank uses it for the same calls in the same order; comm and clock outlive it.
/// Errors      mismatch, on every rank: one calls time() and another now(); model_profiler has
///             other settings or points left; or some rank has no time, and then why. That rank
///             gets the error of its clock, or `failed` where what is timed or the clock threw.
///             Only std::bad_alloc is thrown again, after the others have been told. Those of the
///             communicator.
template <communicator C, profiler_clock Clock = host_clock>
class agreed_clock {
 public:
  explicit agreed_clock(C& comm, Clock clock = {}) : comm_(comm), clock_(clock) {}

  /// What further calls are for, which ranks compare in each of them. For model_profiler.
  void about(model_profiler const& own, std::span<model_profiler::point const> points) noexcept
  {
    digest all;
    all.add(own.warm_up).add(own.runs).add(static_cast<std::uint64_t>(own.budget_ns));
    for (model_profiler::point const& each : points) {
      all.add(each.is_attention ? 1U : 0U).add(static_cast<std::uint64_t>(each.size));
      all.add(each.tp).add(each.sp).add(each.ep);
    }
    about_ = all.value();
  }

  template <class Work>
  [[nodiscard]] result<std::int64_t> time(Work&& work)
  {
    return latest(call::time, [&] { return clock_.time(work); });
  }

  [[nodiscard]] result<std::int64_t> now()
  {
    return latest(call::now, [&] { return clock_.now(); });
  }

 private:
  enum class call : std::uint64_t { none, time, now };

  template <class Read>
  [[nodiscard]] result<std::int64_t> latest(call which, Read const& read)
  {
    result<std::int64_t> own;
    auto const thrown = detail::thrown_by([&] { own = read(); });
    if (thrown) {
      own = fail(error_code::failed, 0, "what is timed threw on rank ", comm_.rank(), ": ",
                 detail::thrown_text(thrown));
    }
    auto agreed = exchange(which, own);
    if (thrown) { detail::rethrow_if_out_of_memory(thrown); }
    return own ? std::move(agreed) : std::move(own);
  }

  [[nodiscard]] result<std::int64_t> exchange(call which, result<std::int64_t> const& own)
  {
    auto const called = static_cast<std::uint64_t>(own ? which : call::none);
    auto const word = digest{}.add(called).add(about_).value();
    auto const all = detail::gather_with_word<std::int64_t>(comm_, word, 2, [&](std::size_t at) {
      return at == 0 ? own.value_or(0) : own ? 1 : 0;
    });
    if (!all) { return tl::unexpected(all.error()); }
    if (!all->all_have(word)) {
      auto told = comm_failure::mismatch(
          "agreed_clock", "what is timed, or one has no time", all->differing(),
          "time the same calls in the same order, of the same points with the same settings",
          "nothing was changed");
      detail::tell_why(
          comm_, told.value(), [&](std::size_t rank) { return (*all)(rank, 1) != 0; },
          own ? "" : own.error().message);
      return told;
    }
    std::int64_t time = (*all)(0);
    for (std::size_t rank = 1; rank < comm_.size(); ++rank) { time = std::max(time, (*all)(rank)); }
    return time;
  }

  C& comm_;
  Clock clock_;
  std::uint64_t about_ = 0;
};

/// What a message takes, by its size, between two ranks of a node and of two nodes.
///
/// Shapes      bytes[sizes]; seconds of each size, or none where there is no such pair.
struct measured_links {
  /// The sizes of the messages that are timed, and how often.
  struct options {
    std::vector<std::size_t> bytes = {1024, 65'536, 1'048'576, 16'777'216};  ///< increasing
    int repeats = 5;  ///< of which the shortest counts
  };

  std::vector<std::size_t> bytes;
  std::vector<double> within_node;
  std::vector<double> between_nodes;

  /// The cluster with these bandwidths and this latency; what was not measured stays.
  ///
  /// Bandwidth is that of the bytes by which the largest message is larger than the smallest;
  /// latency what the smallest takes beside its bytes, on the slower kind of links.
  [[nodiscard]] cluster apply_to(cluster machines) const
  {
    std::optional<double> latency;
    auto const fit = [&](std::vector<double> const& seconds, double& bytes_per_second) {
      if (seconds.empty()) { return; }
      double const slope =
          (seconds.back() - seconds.front()) / static_cast<double>(bytes.back() - bytes.front());
      if (slope > 0) { bytes_per_second = 1 / slope; }
      double const alone =
          seconds.front() - static_cast<double>(bytes.front()) * std::max(slope, 0.0);
      latency = std::max(latency.value_or(0), alone);
    };
    fit(within_node, machines.within_node_bytes_per_second);
    fit(between_nodes, machines.between_nodes_bytes_per_second);
    if (latency) { machines.latency_seconds = *latency; }
    return machines;
  }
};

namespace detail {

/// The rank that a rank exchanges messages with; itself if there is none.
[[nodiscard]] inline std::size_t link_partner(node_sizes const& nodes, std::size_t rank,
                                              bool same_node)
{
  node_id const node = nodes.node_of(to_id<rank_id>(rank));
  std::size_t const local = rank - to_index(nodes.first(node));
  std::size_t const other = to_index(node) ^ (same_node ? 0U : 1U);
  std::size_t const partner = local ^ (same_node ? 1U : 0U);
  if (other >= nodes.size() || partner >= nodes[to_id<node_id>(other)]) { return rank; }
  return to_index(nodes.first(to_id<node_id>(other))) + partner;
}

/// The shortest half of a message there and back, in seconds.
template <class C>
[[nodiscard]] result<double> time_link(C& comm, std::size_t partner, std::span<std::byte> memory,
                                       int repeats)
{
  bool const begins = to_index(comm.rank()) < partner;
  auto const peer = to_id<rank_id>(partner);
  auto const end = [&comm](result<transfer_id> const& begun) -> result<void> {
    if (!begun) { return tl::unexpected(begun.error()); }
    if (auto started = comm.start(); !started) { return started; }
    auto done = comm.wait_for(*begun);
    if (!done && done.error().code != error_code::mismatch) { (void)comm.cancel(*begun); }
    return done;
  };
  double shortest = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn <= repeats; ++turn) {  // the first connects
    auto const start = std::chrono::steady_clock::now();
    for (bool const sends : {begins, !begins}) {
      auto done = end(sends ? comm.send(memory, peer) : comm.receive(memory, peer));
      if (!done) { return tl::unexpected(done.error()); }
    }
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - start;
    if (turn > 0) { shortest = std::min(shortest, took.count() / 2); }
  }
  return shortest;
}

}  // namespace detail

/// Measures how long messages take inside a node and between nodes: neighbours send each other
/// messages there and back, all pairs at once, as they do in training. The median of all pairs
/// counts, so all ranks have the same numbers.
///
///     auto const machines = measure_links(comm, nodes).value().apply_to(cluster);
///
/// Expects     a rank for each GPU of the nodes; at least two sizes, increasing; repeats >= 1.
///             Every rank calls it.
/// Errors      mismatch, on every rank, before anything is timed: nodes or options differ. Those of
///             the communicator.
/// Complexity  (repeats + 1) x sizes messages there and back, of two kinds.
template <class C>
  requires communicator<C> && point_to_point<C>
[[nodiscard]] result<measured_links> measure_links(C& comm, node_sizes const& nodes,
                                                   measured_links::options const& options = {})
{
  BALLAST_EXPECTS(comm.size() == nodes.gpus(), "nodes of ", detail::counted(nodes.gpus(), "GPU"),
                  " were given a communicator of ", comm.size());
  BALLAST_EXPECTS(options.bytes.size() >= 2 && options.bytes.front() < options.bytes.back() &&
                      std::is_sorted(options.bytes.begin(), options.bytes.end()),
                  "links are measured with at least two sizes, which increase");
  BALLAST_EXPECTS(options.repeats >= 1, "links are measured ",
                  detail::counted(options.repeats, "time"));
  digest all_have;
  all_have.add(detail::span_of(options.bytes)).add(static_cast<std::uint64_t>(options.repeats));
  for (std::size_t gpu = 0; gpu < nodes.gpus(); ++gpu) {
    all_have.add(to_index(nodes.node_of(to_id<rank_id>(gpu))));
  }
  if (auto same = agree(comm, all_have.value(), "the nodes, sizes or repeats"); !same) {
    return tl::unexpected(same.error());
  }
  measured_links found;
  found.bytes = options.bytes;
  std::size_t const own = to_index(comm.rank());
  for (bool const same_node : {true, false}) {
    std::size_t const partner = detail::link_partner(nodes, own, same_node);
    auto& seconds = same_node ? found.within_node : found.between_nodes;
    for (std::size_t const bytes : options.bytes) {
      double time = 0;  // none
      if (partner != own) {
        auto const memory = comm.scratch(bytes);
        std::memset(memory.data(), 0, bytes);
        auto const timed = detail::time_link(comm, partner, memory.first(bytes), options.repeats);
        if (!timed) { return tl::unexpected(timed.error()); }
        time = *timed;
      }
      auto const all =
          detail::gather_with_word<double>(comm, 0, 1, [time](std::size_t) { return time; });
      if (!all) { return tl::unexpected(all.error()); }
      std::vector<double> times;
      for (std::size_t rank = 0; rank < comm.size(); ++rank) {
        if ((*all)(rank) > 0) { times.push_back((*all)(rank)); }
      }
      if (times.empty()) { continue; }
      std::sort(times.begin(), times.end());
      seconds.push_back(times[times.size() / 2]);
    }
  }
  return found;
}

}  // namespace ballast::inline v0
