// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/share_experts.hpp>

#include <functional>
#include <iterator>
#include <set>

namespace ballast::inline v0::detail {

/// Nodes of GPUs, and on how many of them the replicas of an expert may lie. No nodes: no limit.
struct replica_nodes {
  std::vector<std::size_t> of_gpu = {};
  std::size_t nodes = 0;
  std::size_t most = 0;
};

/// Slots of GPUs with the replicas in them: loads of GPUs where each expert's load is split evenly
/// over its replicas, rounded up.
///
/// Ensures     (1) no GPU has two replicas of one expert, if none was put where admits() is false
class replica_slots {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  replica_slots(std::vector<std::int64_t> expert_loads, std::span<std::uint32_t const> slots,
                replica_nodes const& nodes)
      : expert_loads_(std::move(expert_loads)),
        nodes_(nodes),
        first_(1, 0),
        share_(expert_loads_.size(), 0),
        gpus_of_(expert_loads_.size()),
        load_(slots.size(), 0),
        has_(expert_loads_.size() * slots.size(), 0),
        on_node_(expert_loads_.size() * nodes.nodes, 0),
        spread_(expert_loads_.size(), 0)
  {
    for (std::uint32_t const of_gpu : slots) {
      gpu_of_.insert(gpu_of_.end(), of_gpu, first_.size() - 1);
      first_.push_back(first_.back() + of_gpu);
    }
    at_.assign(first_.back(), none);
  }

  [[nodiscard]] std::size_t experts() const noexcept { return expert_loads_.size(); }
  [[nodiscard]] std::size_t gpus() const noexcept { return load_.size(); }
  [[nodiscard]] std::size_t slots() const noexcept { return at_.size(); }
  [[nodiscard]] std::size_t filled() const
  {
    return at_.size() - static_cast<std::size_t>(std::count(at_.begin(), at_.end(), none));
  }
  [[nodiscard]] std::size_t first_slot(std::size_t gpu) const { return first_[gpu]; }
  [[nodiscard]] std::size_t gpu_of(std::size_t slot) const { return gpu_of_[slot]; }
  [[nodiscard]] std::size_t expert_at(std::size_t slot) const { return at_[slot]; }
  [[nodiscard]] std::vector<std::size_t> const& all() const noexcept { return at_; }
  [[nodiscard]] std::int64_t load(std::size_t gpu) const { return load_[gpu]; }
  [[nodiscard]] std::size_t replicas(std::size_t expert) const { return gpus_of_[expert].size(); }
  [[nodiscard]] std::vector<std::size_t> const& gpus_of(std::size_t expert) const
  {
    return gpus_of_[expert];
  }
  [[nodiscard]] std::int64_t share(std::size_t expert) const { return share_[expert]; }
  [[nodiscard]] std::int64_t share_of(std::size_t expert, std::size_t replicas) const
  {
    auto const count = static_cast<std::int64_t>(replicas);
    return expert_loads_[expert] / count + (expert_loads_[expert] % count != 0 ? 1 : 0);
  }
  [[nodiscard]] bool has(std::size_t expert, std::size_t gpu) const
  {
    return has_[expert * gpus() + gpu] != 0;
  }

  /// Wants the replicas of a placement on their GPUs, and counts those that are there.
  void want(jagged<rank_id, expert_id> const& now)
  {
    wanted_.assign(has_.size(), 0);
    for (std::size_t gpu = 0; gpu < std::min(now.size(), gpus()); ++gpu) {
      for (expert_id const id : now[to_id<rank_id>(gpu)]) {
        if (to_index(id) < experts()) { wanted_[to_index(id) * gpus() + gpu] = 1; }
      }
    }
    all_wanted_ = static_cast<std::size_t>(std::count(wanted_.begin(), wanted_.end(), 1));
    kept_ = 0;
    for (std::size_t slot = 0; slot < slots(); ++slot) { kept_ += wants(at_[slot], gpu_of_[slot]); }
  }
  [[nodiscard]] bool wants_some() const noexcept { return all_wanted_ > 0; }
  [[nodiscard]] std::size_t all_wanted() const noexcept { return all_wanted_; }
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }
  /// 1 where the replica of an expert is wanted on a GPU; none is wanted of `none`.
  [[nodiscard]] std::uint8_t wants(std::size_t expert, std::size_t gpu) const
  {
    return wants_some() && expert != none ? wanted_[expert * gpus() + gpu] : std::uint8_t{0};
  }

  /// Whether a replica of the expert may come to a GPU, also in exchange for its replica on the GPU
  /// `left`, if there is one.
  [[nodiscard]] bool admits(std::size_t expert, std::size_t gpu, std::size_t left = none) const
  {
    if (has(expert, gpu)) { return false; }
    if (nodes_.nodes == 0) { return true; }
    std::size_t const node = nodes_.of_gpu[gpu];
    if (on_node_[expert * nodes_.nodes + node] > 0) { return true; }
    bool const leaves_node =
        left != none && on_node_[expert * nodes_.nodes + nodes_.of_gpu[left]] == 1;
    return spread_[expert] - (leaves_node ? 1 : 0) < nodes_.most;
  }

  [[nodiscard]] std::size_t busiest() const
  {
    return static_cast<std::size_t>(std::max_element(load_.begin(), load_.end()) - load_.begin());
  }

  /// Makes a replica in an empty slot.
  void add(std::size_t slot, std::size_t expert)
  {
    change_share(expert, replicas(expert) + 1);
    put(slot, expert);
  }

  /// Takes a replica away. It may be the last one.
  void remove(std::size_t slot)
  {
    std::size_t const expert = at_[slot];
    take(slot);
    change_share(expert, replicas(expert));
  }

  /// Exchanges what two slots have, of which one may be empty.
  void swap(std::size_t a, std::size_t b)
  {
    std::size_t const of_a = at_[a];
    std::size_t const of_b = at_[b];
    if (of_a != none) { take(a); }
    if (of_b != none) { take(b); }
    if (of_a != none) { put(b, of_a); }
    if (of_b != none) { put(a, of_b); }
  }

  /// Empties all slots, and fills them again.
  void assign(std::vector<std::size_t> const& experts)
  {
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (at_[slot] != none) { take(slot); }
    }
    std::fill(load_.begin(), load_.end(), 0);
    std::vector<std::size_t> counts(share_.size(), 0);
    for (std::size_t const expert : experts) {
      if (expert != none) { ++counts[expert]; }
    }
    for (std::size_t expert = 0; expert < counts.size(); ++expert) {
      share_[expert] = counts[expert] == 0 ? 0 : share_of(expert, counts[expert]);
    }
    for (std::size_t slot = 0; slot < slots(); ++slot) {
      if (experts[slot] != none) { put(slot, experts[slot]); }
    }
  }

 private:
  void put(std::size_t slot, std::size_t expert)
  {
    std::size_t const gpu = gpu_of_[slot];
    at_[slot] = expert;
    has_[expert * gpus() + gpu] = 1;
    kept_ += wants(expert, gpu);
    gpus_of_[expert].push_back(gpu);
    load_[gpu] += share_[expert];
    if (nodes_.nodes != 0 && on_node_[expert * nodes_.nodes + nodes_.of_gpu[gpu]]++ == 0) {
      ++spread_[expert];
    }
  }

  void take(std::size_t slot)
  {
    std::size_t const expert = at_[slot];
    std::size_t const gpu = gpu_of_[slot];
    at_[slot] = none;
    has_[expert * gpus() + gpu] = 0;
    kept_ -= wants(expert, gpu);
    auto& all_gpus = gpus_of_[expert];
    *std::find(all_gpus.begin(), all_gpus.end(), gpu) = all_gpus.back();
    all_gpus.pop_back();
    load_[gpu] -= share_[expert];
    if (nodes_.nodes != 0 && --on_node_[expert * nodes_.nodes + nodes_.of_gpu[gpu]] == 0) {
      --spread_[expert];
    }
  }

  void change_share(std::size_t expert, std::size_t replicas)
  {
    std::int64_t const share = replicas == 0 ? 0 : share_of(expert, replicas);
    for (std::size_t const gpu : gpus_of_[expert]) { load_[gpu] += share - share_[expert]; }
    share_[expert] = share;
  }

  std::vector<std::int64_t> expert_loads_;
  replica_nodes nodes_;
  std::vector<std::size_t> first_;   ///< slot of each GPU
  std::vector<std::size_t> gpu_of_;  ///< each slot
  std::vector<std::size_t> at_;      ///< the expert in each slot
  std::vector<std::int64_t> share_;
  std::vector<std::vector<std::size_t>> gpus_of_;  ///< each expert, in no order
  std::vector<std::int64_t> load_;
  std::vector<std::uint8_t> has_;
  std::vector<std::uint8_t> wanted_;  ///< as has_
  std::size_t all_wanted_ = 0;
  std::size_t kept_ = 0;
  std::vector<std::uint32_t> on_node_;
  std::vector<std::size_t> spread_;
};

/// Numbers of replicas with which the largest share of an expert is least: one more for the expert
/// of the largest share, until there is no slot or the largest share is `enough`.
///
/// Expects     slots >= loads.size(); most >= 1.
/// Complexity  O(slots log experts).
[[nodiscard]] inline std::vector<std::size_t> even_shares(std::span<std::int64_t const> loads,
                                                          std::size_t slots, std::size_t most,
                                                          ratio enough)
{
  struct shared {
    ratio share;
    std::size_t expert;
  };
  auto const is_less = [](shared const& a, shared const& b) {
    return a.share < b.share || (a.share == b.share && b.expert < a.expert);
  };
  std::vector<std::size_t> replicas(loads.size(), 1);
  std::vector<shared> heap;
  heap.reserve(loads.size());
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    heap.push_back({{loads[expert], 1}, expert});
  }
  std::make_heap(heap.begin(), heap.end(), is_less);
  for (std::size_t left = slots - loads.size(); left > 0 && !heap.empty(); --left) {
    std::pop_heap(heap.begin(), heap.end(), is_less);
    auto& [share, expert] = heap.back();
    // The largest share is that of an expert that cannot have more: others gain nothing any more,
    // but their shares become easier to place.
    while (replicas[expert] == most && heap.size() > 1) {
      heap.pop_back();
      std::pop_heap(heap.begin(), heap.end(), is_less);
    }
    shared& largest = heap.back();
    if (largest.share <= enough || replicas[largest.expert] == most) { break; }
    largest.share.denominator = static_cast<std::int64_t>(++replicas[largest.expert]);
    std::push_heap(heap.begin(), heap.end(), is_less);
  }
  return replicas;
}

/// Puts replicas into empty slots, largest share first, each on the GPU of the most load that stays
/// within `full` with it, or else on the GPU of the least load. A replica that no GPU takes is left
/// out, but none of the experts is.
///
/// Complexity  O(slots log gpus), and more GPUs to look at where one has the expert.
inline void deal_replicas(replica_slots& slots, std::vector<std::size_t> const& replicas,
                          std::int64_t full)
{
  std::vector<std::pair<std::int64_t, std::size_t>> shares;
  for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
    shares.insert(shares.end(), replicas[expert],
                  {-slots.share_of(expert, replicas[expert]), expert});
  }
  std::sort(shares.begin(), shares.end());
  std::set<std::pair<std::int64_t, std::size_t>> gpus;  // those with empty slots, by load
  for (std::size_t gpu = 0; gpu < slots.gpus(); ++gpu) {
    if (slots.first_slot(gpu) < slots.first_slot(gpu + 1)) { gpus.emplace(0, gpu); }
  }
  std::vector<std::size_t> filled(slots.gpus(), 0);
  for (auto const& dealt : shares) {
    std::int64_t const share = -dealt.first;
    std::size_t const expert = dealt.second;
    auto const takes = [&slots, expert](auto const& each) {
      return slots.admits(expert, each.second);
    };
    auto const end = gpus.upper_bound({full - share, slots.gpus()});
    auto const fullest = std::find_if(std::make_reverse_iterator(end), gpus.rend(), takes);
    auto const chosen =
        fullest != gpus.rend() ? std::prev(fullest.base()) : std::find_if(end, gpus.end(), takes);
    if (chosen == gpus.end()) { continue; }
    auto const [load, gpu] = *chosen;
    gpus.erase(chosen);
    slots.add(slots.first_slot(gpu) + filled[gpu]++, expert);
    if (slots.first_slot(gpu) + filled[gpu] < slots.first_slot(gpu + 1)) {
      gpus.emplace(load + share, gpu);
    }
  }
}

/// What place_experts() was given, and what follows from it.
struct expert_problem {
  std::span<std::int64_t const> loads;
  std::span<std::uint32_t const> slots;
  std::span<std::uint32_t const> replicas;
  std::span<std::uint32_t const> nodes;
  std::size_t most_nodes;
  std::int64_t shared = 0;  ///< that any GPU takes

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
    if (shared < 0 || shared >= most_total - total) {
      return refuse(loads.size(), "the shared work ", shared,
                    " is negative or brings the sum to 2^61; correct it or use a coarser unit");
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
    lower_bound = mean();
    for (std::size_t expert = 0; expert < loads.size(); ++expert) {
      lower_bound =
          std::max(lower_bound, ratio{loads[expert], static_cast<std::int64_t>(counts[expert])});
    }
  }

  [[nodiscard]] ratio mean() const
  {
    return {total + shared, static_cast<std::int64_t>(hosts == 0 ? 1 : hosts)};
  }

  /// Whether loads times GPUs, which shares are parts of, are small enough.
  [[nodiscard]] bool has_parts() const
  {
    return hosts > 0 && total + shared < most_total / static_cast<std::int64_t>(hosts);
  }

  /// A load of the search, and more by the tolerance: at most twice.
  [[nodiscard]] static std::int64_t above(std::int64_t load, ratio tolerance)
  {
    uint128 const more = static_cast<uint128>(load) * static_cast<uint128>(tolerance.numerator) /
                         static_cast<uint128>(tolerance.denominator);
    return load + static_cast<std::int64_t>(std::min(more, static_cast<uint128>(load)));
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
