// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_SERVE_AS_PROXY_HPP
#define BALLAST_RUNTIME_DATA_SERVE_AS_PROXY_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_windows.hpp>
#include <ballast/runtime/data/loader_options.hpp>
#include <ballast/runtime/data/long_rounds.hpp>
#include <ballast/runtime/data/window_problem.hpp>
#include <ballast/runtime/detail/data/data_post.hpp>
#include <ballast/runtime/detail/data/planned_steps.hpp>
#include <ballast/runtime/detail/data/proxy_peers.hpp>
#include <ballast/runtime/detail/data/proxy_rank.hpp>

#include <cstddef>
#include <string_view>
#include <utility>

namespace ballast::inline v0 {

/// What the rank of a data pipeline that holds the metadata does until all trainers have finished:
/// ranks 0 to trainers - 1 are a data_trainer each, rank `trainers` is this one, and all after it
/// call serve_as_loader. They may be on the trainers' nodes or on others.
///
///     or_throw(serve_as_proxy(comm, trainers, plan, {.samples = 10'000, .step_samples = 256}));
///
/// Loaders that are too many for the measured rates are parked: they are dealt nothing, and are
/// woken when they are needed. All goes by transfers between two ranks, of which none is waited for,
/// so any loader may die or stop: over MPI under `mpirun --enable-recovery`, which does not end the
/// job then. Where a trainer or the proxy does, all ranks that are left return by the deadline of
/// comm, or a quarter of it later, and a new group goes on from the last step that was saved. So
/// every trainer calls next() at least as often, and a plan takes less than three quarters of it.
///
/// Expects     1 <= trainers and trainers + 2 <= comm.size(); only this thread uses comm.
/// Ensures     (1) those of data_proxy
///             (2) a loader that answers nothing for late_after while something is expected of it,
///                 or of which a trainer has waited so long for a payload, is lost: the news of a
///                 step name it, by its rank. It is not listened to any more
///             (3) a payload goes from its loader to the rank that computes it, once, when a step is
///                 planned
/// Errors      those of data_proxy, of restore and of the plan; infeasible: a sample was given to a
///             rank that is not there; peer_lost: all loaders are lost, or more than most_lost;
///             timed_out, with their ranks: trainers say nothing for as long as the deadline;
///             mismatch: ranks have other parts than this one was told. Trainers get these from
///             next() and loaders from serve_as_loader too. Those of comm.
/// Source      FlexRL, 2025, section 4.4; DistTrain, 2025, section 5.1: producers of their own.
template <point_to_point Communicator, detail::data_plan Plan, window_policy Policy = long_rounds,
          class Cost = total_length, class Lengths = no_lengths>
[[nodiscard]] result<void> serve_as_proxy(Communicator& comm, std::size_t trainers, Plan plan,
                                          data_setup setup, data_windows<Policy, Cost> windows = {},
                                          loader_options options = {}, std::string_view state = {},
                                          Lengths lengths_of = {})
{
  if (to_index(comm.rank()) != trainers) {
    error const why{error_code::mismatch,
                    0,
                    detail::concat("rank ", comm.rank(), " calls serve_as_proxy with ",
                                   detail::counted(trainers, "trainer"), ", whose proxy is rank ",
                                   trainers, "; give every rank the same number of trainers"),
                    {comm.rank()}};
    detail::proxy_peers<Communicator> peers(comm, to_index(comm.rank()) + 1);
    peers.part(why);
    peers.flush();
    return peers.outcome;
  }
  BALLAST_EXPECTS(trainers >= 1 && trainers + 2 <= comm.size(), "a data pipeline of ", trainers,
                  " trainers and a proxy among ", detail::counted(comm.size(), "rank"),
                  " leaves no loader; give at least one");
  detail::proxy_rank<Communicator, Plan, Policy, Cost, Lengths> proxy(
      comm, trainers, std::move(plan), std::move(setup), std::move(windows), options,
      std::move(lengths_of));
  if (!state.empty()) { proxy.restore(state); }
  detail::idle_pause pause;
  while (!proxy.all_finished()) {
    auto const busy = proxy.progress();
    if (!busy) { return tl::unexpected(busy.error()); }
    *busy ? pause.end() : pause.rest();
  }
  return proxy.outcome();
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_SERVE_AS_PROXY_HPP
