// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_EXPERT_PROBLEM_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_EXPERT_PROBLEM_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/parallelism/detail/experts/deal_replicas.hpp>
#include <ballast/parallelism/detail/experts/replica_slots.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What place_experts() was given, and what follows from it.
struct expert_problem {
  std::span<std::int64_t const> loads;
  std::span<std::uint32_t const> slots;
  std::span<std::uint32_t const> replicas;
  std::span<std::uint32_t const> nodes;
  std::size_t most_nodes;

  std::size_t places = 0;         ///< slots of all GPUs
  std::size_t hosts = 0;          ///< GPUs with slots
  std::size_t most_replicas = 0;  ///< that an expert can have
  std::int64_t total = 0;
  std::int64_t scale = 1;  ///< a load of 1 in the units of the search
  ratio lower_bound = {};

  [[nodiscard]] result<void> check()
  {
    auto const refuse = [](std::size_t position, auto const&... pieces) {
      return fail(error_code::out_of_range, position, pieces...);
    };
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      if (loads[expert] < 0 || loads[expert] >= most_total - total) {
        return refuse(expert, "the load ", loads[expert], " of expert ", expert,
                      " is negative or brings the sum to 2^61; correct it or use a coarser unit");
      }
      total += loads[expert];
    }
    for (std::uint32_t const of_gpu : slots) {
      places += of_gpu;
      hosts += of_gpu > 0 ? 1U : 0U;
    }
    if (places < loads.size()) {
      return fail(error_code::infeasible, places, counted(slots.size(), "GPU"), " with ",
                  counted(places, "slot"), " cannot hold ", counted(loads.size(), "expert"),
                  "; give at least one slot for each");
    }
    if (auto checked = check_nodes(refuse); !checked) { return checked; }
    if (replicas.empty()) { return {}; }
    if (replicas.size() != loads.size()) {
      return refuse(replicas.size(), "replicas has ", counted(replicas.size(), "entry"), " for ",
                    counted(loads.size(), "expert"), "; give one for each, or none");
    }
    std::uint64_t asked = 0;
    for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
      if (replicas[expert] == 0 || replicas[expert] > most_replicas) {
        return fail(error_code::infeasible, expert, replicas[expert], " replicas of expert ",
                    expert, " were asked for, and it can have from 1 to ", most_replicas,
                    ", one on each GPU; correct it");
      }
      asked += replicas[expert];
    }
    if (asked > places) {
      return fail(error_code::infeasible, places, asked, " replicas do not fit ",
                  counted(places, "slot"), "; ask for fewer");
    }
    return {};
  }

  void prepare()
  {
    if (loads.empty()) { return; }
    constexpr std::int64_t of_many = 720'720;  // all numbers of replicas up to 16 divide it
    scale = most_total / std::max<std::int64_t>(total, 1);
    if (scale >= of_many) { scale -= scale % of_many; }
    std::vector<std::size_t> counts(replicas.begin(), replicas.end());
    if (counts.empty()) { counts = even_shares(loads, places, most_replicas, {}); }
    lower_bound = {total, static_cast<std::int64_t>(hosts)};
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      lower_bound =
          std::max(lower_bound, ratio{loads[expert], static_cast<std::int64_t>(counts[expert])});
    }
  }

  /// The load of a fraction in the units of the search, where shares were rounded up.
  [[nodiscard]] std::int64_t scaled(ratio load) const
  {
    auto const whole = static_cast<uint128>(static_cast<std::uint64_t>(load.numerator)) *
                       static_cast<std::uint64_t>(scale) /
                       static_cast<std::uint64_t>(load.denominator);
    std::uint32_t const most_slots = *std::max_element(slots.begin(), slots.end());
    return static_cast<std::int64_t>(whole) + most_slots + 1;
  }

  [[nodiscard]] std::uint64_t usual_work() const
  {
    return std::max(std::uint64_t{1} << 19, std::uint64_t{places} << 11);
  }

  [[nodiscard]] replica_slots empty_slots() const
  {
    std::vector<std::int64_t> scaled_loads(loads.begin(), loads.end());
    for (std::int64_t& load : scaled_loads) { load *= scale; }
    replica_nodes limits;
    if (most_nodes != 0) {
      limits.nodes = nodes.size();
      limits.most = most_nodes;
      for (std::size_t node = 0; node < nodes.size(); ++node) {
        limits.of_gpu.insert(limits.of_gpu.end(), nodes[node], node);
      }
    }
    return {std::move(scaled_loads), slots, limits};
  }

 private:
  static constexpr std::int64_t most_total = std::int64_t{1} << 61;

  template <class Refuse>
  [[nodiscard]] result<void> check_nodes(Refuse const& refuse)
  {
    most_replicas = hosts;
    if (most_nodes == 0) { return {}; }
    std::vector<std::size_t> hosts_of_nodes;
    std::size_t gpu = 0;
    for (std::uint32_t const gpus : nodes) {
      hosts_of_nodes.push_back(0);
      for (std::uint32_t each = 0; each < gpus && gpu < slots.size(); ++each) {
        hosts_of_nodes.back() += slots[gpu++] > 0 ? 1U : 0U;
      }
      if (gpus > slots.size()) { gpu = slots.size() + 1; }
    }
    std::uint64_t all = 0;
    for (std::uint32_t const gpus : nodes) { all += gpus; }
    if (all != slots.size()) {
      return refuse(nodes.size(), "the nodes have ", counted(all, "GPU"),
                    ", and slots are given for ", slots.size(), "; give the GPUs of each node");
    }
    std::sort(hosts_of_nodes.begin(), hosts_of_nodes.end(), std::greater<>());
    hosts_of_nodes.resize(std::min(most_nodes, hosts_of_nodes.size()));
    most_replicas = 0;
    for (std::size_t const of_node : hosts_of_nodes) { most_replicas += of_node; }
    return {};
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_EXPERT_PROBLEM_HPP
