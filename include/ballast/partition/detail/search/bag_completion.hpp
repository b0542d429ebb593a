// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_SEARCH_BAG_COMPLETION_HPP
#define BALLAST_PARTITION_DETAIL_SEARCH_BAG_COMPLETION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/bounds/dual_feasible_bound.hpp>
#include <ballast/partition/detail/search/bag_fillings.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// A bag that a search is to fill: how much it can take, and how long its samples have to be.
struct open_bag {
  cost_units room;
  std::uint32_t gpus;
  std::uint32_t index;

  [[nodiscard]] constexpr bool identical_to(open_bag other) const noexcept
  {
    return room == other.room && gpus == other.gpus;
  }
};

enum class completion : std::uint8_t { found, impossible, out_of_nodes };

/// Whether all samples fit into bags of given rooms: branch and bound over what fills the next bag.
///
/// All rooms together exceed all costs by a fixed waste, and a bag may leave no more empty than the
/// bags before it have left of that. Near the optimum the waste is small, and few sets of samples
/// fill a bag so exactly: `bag_fillings`. Two more rules cut the search short. Identical bags are
/// filled in the order of the heaviest samples in them, so where all bags left are identical, the
/// next one gets the heaviest sample left. And then the search goes back as soon as `cannot_pack`
/// refutes what is left.
///
/// Expects     samples in descending order of costs above 0, each of which fits the last bag; bags
///             in decreasing number of GPUs, identical ones side by side; no room is negative, and
///             all together are less than 2^63.
/// Ensures     (1) found: owners()[place] is the position of the bag of samples[place], which it
///                 fits, and no bag holds more than its room
///             (2) impossible: no assignment does that
///             (3) out_of_nodes: nodes is spent; otherwise it is less by what the search took
/// Complexity  exponential; a node is a step of the search or a sample listed for a bag. 48 n +
///             64 m bytes of scratch.
/// Source      bin completion: R. E. Korf, "A New Algorithm for Optimal Bin Packing", AAAI 2002;
///             sets in order of their waste: E. L. Schreiber, R. E. Korf, M. D. Moffitt, "Optimal
///             Multi-Way Number Partitioning", J. ACM 65(4):24, 2018; dominance of sets: S.
///             Martello, P. Toth, "Lower Bounds and Reduction Procedures for the Bin Packing
///             Problem", Discrete Applied Mathematics 28(1):59-70, 1990.
class bag_completion {
 public:
  bag_completion(std::size_t most_samples, std::span<tokens const> lengths, std::size_t most_bags,
                 workspace::frame& scratch)
      : lengths_(lengths),
        owners_(scratch.take<std::uint32_t>(most_samples)),
        levels_(scratch.take<level>(most_bags)),
        fillings_(most_samples, scratch)
  {}

  /// Searches until `nodes` is spent, or only until the first `filled` bags are: then the samples
  /// that these leave may fit into the others or not, and have a later bag or none.
  [[nodiscard]] completion operator()(std::span<priced_sample const> samples,
                                      std::span<open_bag const> bags, work_budget& nodes,
                                      std::size_t filled = std::numeric_limits<std::size_t>::max())
  {
    samples_ = samples;
    bags_ = bags;
    most_open_ = filled < bags.size() ? filled + 1 : bags.size();
    depth_ = 0;
    fillings_.reset();
    std::fill_n(owners_.begin(), samples.size(), nobody());
    identical_from_ = bags.size() - 1;
    while (identical_from_ > 0 && bags[identical_from_ - 1].identical_to(bags.back())) {
      --identical_from_;
    }
    cost_units waste = 0;
    for (open_bag const bag : bags) { waste += bag.room; }
    for (priced_sample const sample : samples_) { waste -= sample.cost; }
    return waste < 0 ? completion::impossible : search(waste, nodes);
  }

  /// For each place in the order of the samples, the position of its bag.
  [[nodiscard]] std::span<std::uint32_t const> owners() const noexcept
  {
    return owners_.first(samples_.size());
  }

 private:
  struct level {
    filling_progress filling;
    std::size_t first_place;  // of the heaviest of its picks, once it is filled
  };

  [[nodiscard]] std::uint32_t nobody() const noexcept
  {
    return static_cast<std::uint32_t>(bags_.size());
  }

  [[nodiscard]] completion search(cost_units waste, work_budget& nodes)
  {
    if (!open(waste, nodes)) { return completion::impossible; }
    while (depth_ < most_open_) {
      filling_progress& bag = levels_[depth_ - 1].filling;
      if (fillings_.next(bag, nodes)) {
        fill();
        if (!open(bag.waste - fillings_.left_empty(), nodes)) { list_samples(nodes); }
      } else if (nodes.spent()) {
        return completion::out_of_nodes;
      } else if (depth_ == 1) {
        return completion::impossible;
      } else {
        --depth_;
        list_samples(nodes);
      }
    }
    return completion::found;
  }

  /// Opens the next bag; the last one takes all that is left. Returns false where what is left
  /// cannot be packed, and then opens nothing.
  bool open(cost_units waste, work_budget& nodes)
  {
    std::size_t const bags_left = bags_.size() - depth_;
    open_bag const bag = bags_[depth_];
    ++depth_;
    list_samples(nodes);
    std::span<std::uint32_t const> const places = fillings_.places();
    if (bags_left == 1) {
      for (std::uint32_t const place : places) { owners_[place] = position(); }
      return true;
    }
    bool const all_identical = depth_ > identical_from_;
    if (all_identical && cannot_pack(fillings_.costs(), bag.room, bags_left, 1)) {
      --depth_;
      return false;
    }
    std::size_t from = 0;
    if (depth_ > 1 && bag.identical_to(bags_[depth_ - 2])) {
      auto const later =
          std::upper_bound(places.begin(), places.end(), levels_[depth_ - 2].first_place);
      from = static_cast<std::size_t>(later - places.begin());
    }
    levels_[depth_ - 1].filling = {.room = bag.room,
                                   .waste = waste,
                                   .fair_waste = waste / static_cast<cost_units>(bags_left),
                                   .average = (places.size() + bags_left - 1) / bags_left,
                                   .from = from,
                                   .first_pick = fillings_.pick_count(),
                                   .takes_heaviest = all_identical && !places.empty()};
    return true;
  }

  /// Lists the samples that the last bag opened may take and the bags before it have left.
  void list_samples(work_budget& nodes)
  {
    std::uint32_t const gpus = bags_[position()].gpus;
    fillings_.clear();
    for (std::size_t place = 0; place < samples_.size(); ++place) {
      if (owners_[place] < position()) { continue; }
      owners_[place] = nobody();
      auto const [cost, sample] = samples_[place];
      if (partition_problem::splits(lengths_[to_index(sample)], gpus)) {
        fillings_.add(place, cost);
      }
    }
    fillings_.sum_up();
    nodes.spend(fillings_.places().size() + samples_.size() / 64);  // those that are skipped too
  }

  /// Gives the last bag opened what fills it.
  void fill()
  {
    level& bag = levels_[depth_ - 1];
    std::span<std::uint32_t const> const places = fillings_.places();
    auto const picks = fillings_.picks(bag.filling);
    for (auto const& pick : picks) { owners_[places[pick.index]] = position(); }
    if (bag.filling.takes_heaviest) { owners_[places.front()] = position(); }
    bag.first_place = picks.empty() ? samples_.size() : places[picks.front().index];
  }

  /// Of the last bag opened.
  [[nodiscard]] std::uint32_t position() const noexcept
  {
    return static_cast<std::uint32_t>(depth_ - 1);
  }

  std::span<priced_sample const> samples_;
  std::span<tokens const> lengths_;
  std::span<open_bag const> bags_;
  std::span<std::uint32_t> owners_;
  std::span<level> levels_;
  bag_fillings fillings_;
  std::size_t identical_from_ = 0;  // bags from here on are identical
  std::size_t most_open_ = 0;       // bags that are open at the end
  std::size_t depth_ = 0;           // bags that are open
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_SEARCH_BAG_COMPLETION_HPP
