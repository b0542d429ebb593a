// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>
#include <ballast/partition/detail/search/bag_completion.hpp>

namespace ballast::inline v0::detail {

/// The samples that the first bags of a plan leave, for another search to fill the bags after them.
///
/// Shapes      samples and owners: one per place; an owner is the position of a bag, or larger.
/// Complexity  O(samples); 20 bytes of scratch for each.
class unfilled_samples {
 public:
  unfilled_samples(std::size_t most_samples, workspace::frame& scratch)
      : samples_(scratch.take<priced_sample>(most_samples)),
        places_(scratch.take<std::uint32_t>(most_samples))
  {}

  /// Those that are in none of the first `kept` bags, in their order.
  [[nodiscard]] std::span<priced_sample const> list(std::span<priced_sample const> samples,
                                                    std::span<std::uint32_t const> owners,
                                                    std::size_t kept) noexcept
  {
    kept_ = static_cast<std::uint32_t>(kept);
    count_ = 0;
    for (std::uint32_t place = 0; place < samples.size(); ++place) {
      if (owners[place] < kept_) { continue; }
      samples_[count_] = samples[place];
      places_[count_++] = place;
    }
    return samples_.first(count_);
  }

  /// Gives the samples listed last their bags; `found` counts these from the first after those
  /// kept.
  void fill(std::span<std::uint32_t const> found, std::span<std::uint32_t> owners) const noexcept
  {
    for (std::size_t at = 0; at < count_; ++at) { owners[places_[at]] = kept_ + found[at]; }
  }

 private:
  std::span<priced_sample> samples_;
  std::span<std::uint32_t> places_;
  std::size_t count_ = 0;
  std::uint32_t kept_ = 0;
};

/// Whether samples fit into identical bags, by the linear program over patterns and a dive.
///
/// Where the program needs more bags, they do not fit. Where it does not, the dive takes the
/// patterns of which the program has a whole one, or else the one of which it has most, for good,
/// and solves the program of what is left for the bags that are left, and so on. Where that becomes
/// impossible, or few bags are left, a complete search fills the bags that are left since the
/// program last fitted.
///
/// Ensures     (1) found: owners()[place] is the bag of samples[place], and no bag holds more than
///                 its room
///             (2) impossible: no assignment does that
/// Complexity  as column_generation, for each bag; 28 bytes of scratch per sample, and those of the
///             program: 8 kinds^2 + 8 of the table.
/// Source      diving: F. Vanderbeck, "Computational Study of a Column Generation Algorithm for Bin
///             Packing and Cutting Stock Problems", Mathematical Programming 86:565-594, 1999.
class pattern_packing {
 public:
  /// Searches that leave few bags to `complete`, which serves other searches in between.
  pattern_packing(std::size_t most_samples, std::size_t most_kinds, std::size_t table,
                  bag_completion& complete, workspace::frame& scratch)
      : complete_(complete),
        program_(most_samples, most_kinds, table, scratch),
        costs_(scratch.take<cost_units>(most_kinds)),
        demands_(scratch.take<std::uint32_t>(most_kinds)),
        next_(scratch.take<std::uint32_t>(most_kinds)),
        owners_(scratch.take<std::uint32_t>(most_samples)),
        rest_(most_samples, scratch)
  {}

  /// Expects     samples in descending order of costs above 0, the heaviest no larger than a room,
  ///             and each fits every bag; bags are identical
  /// Returns     out_of_nodes also where it does not know, or there is no room for the program.
  [[nodiscard]] completion operator()(std::span<priced_sample const> samples,
                                      std::span<open_bag const> bags, work_budget& nodes)
  {
    samples_ = samples;
    bags_ = bags;
    std::size_t const kinds = count_kinds();
    if (kinds > costs_.size() || !program_.has_room_for(samples.size(), kinds, bags[0].room)) {
      return completion::out_of_nodes;
    }
    std::fill_n(owners_.begin(), samples.size(), nobody());
    program_.start(costs_.first(kinds), demands_.first(kinds), bags[0].room);
    switch (program_.solve(bags.size(), nodes)) {
      case relaxation::exceeds: return completion::impossible;
      case relaxation::unknown: return completion::out_of_nodes;
      case relaxation::fits: break;
    }
    return complete_from(dive(nodes), nodes) ? completion::found : completion::out_of_nodes;
  }

  [[nodiscard]] std::span<std::uint32_t const> owners() const noexcept
  {
    return owners_.first(samples_.size());
  }

 private:
  static constexpr std::size_t few_bags = 4;     // that are left to the complete search at once
  static constexpr std::size_t enough_bags = 8;  // that it gets at least
  static constexpr std::uint64_t completion_nodes = std::uint64_t{1} << 21;
  static constexpr std::int64_t whole = simplex_number::one - simplex_number::one / 1024;

  [[nodiscard]] std::uint32_t nobody() const noexcept
  {
    return static_cast<std::uint32_t>(bags_.size());
  }

  /// Lists the kinds. Returns how many there are, or one more than there is room for.
  std::size_t count_kinds() noexcept
  {
    std::size_t kinds = 0;
    for (std::uint32_t place = 0; place < samples_.size(); ++place) {
      if (kinds == 0 || costs_[kinds - 1] != samples_[place].cost) {
        if (kinds == costs_.size()) { return kinds + 1; }
        costs_[kinds] = samples_[place].cost;
        demands_[kinds] = 0;
        next_[kinds] = place;
        ++kinds;
      }
      ++demands_[kinds - 1];
    }
    return kinds;
  }

  /// Returns how many bags it filled while the program of the others fitted.
  std::size_t dive(work_budget& nodes)
  {
    simplex_basis const& basis = program_.basis();
    std::size_t filled = 0;
    for (std::size_t fitted = 0;;) {
      if (bags_.size() - filled <= few_bags) { return filled; }
      std::size_t const before = filled;
      std::size_t most = basis.rows();
      for (std::size_t row = 0; row < basis.rows(); ++row) {
        if (!basis.has_pattern(row)) { continue; }
        while (filled < bags_.size() && basis.amounts()[row] > whole) { fill(row, filled++); }
        if (most == basis.rows() || basis.amounts()[row] > basis.amounts()[most]) { most = row; }
      }
      if (filled == before) {
        if (most == basis.rows()) { return fitted; }
        fill(most, filled++);
      }
      if (filled == bags_.size()) { return all_have_bags() ? filled : fitted; }
      if (program_.solve(bags_.size() - filled, nodes) != relaxation::fits) { return fitted; }
      fitted = filled;
    }
  }

  void fill(std::size_t row, std::size_t bag)
  {
    program_.take(row, [&](std::uint32_t kind, std::uint32_t times) {
      std::fill_n(owners_.begin() + next_[kind], times, static_cast<std::uint32_t>(bag));
      next_[kind] += times;
    });
  }

  [[nodiscard]] bool all_have_bags() const noexcept
  {
    return std::find(owners().begin(), owners().end(), nobody()) == owners().end();
  }

  /// Keeps the first `filled` bags, or fewer, and searches for a filling of all others.
  [[nodiscard]] bool complete_from(std::size_t filled, work_budget& nodes)
  {
    if (filled == bags_.size()) { return true; }
    std::size_t const open = std::min(bags_.size(), std::max(bags_.size() - filled, enough_bags));
    std::size_t const kept = bags_.size() - open;
    std::uint64_t const most = std::min(nodes.left(), completion_nodes);
    work_budget left(most);
    completion const end = complete_(rest_.list(samples_, owners(), kept), bags_.last(open), left);
    nodes.spend(most - left.left());
    if (end != completion::found) { return false; }
    rest_.fill(complete_.owners(), owners_);
    return true;
  }

  bag_completion& complete_;
  column_generation program_;
  std::span<priced_sample const> samples_;
  std::span<open_bag const> bags_;
  std::span<cost_units> costs_;  // of the kinds
  std::span<std::uint32_t> demands_;
  std::span<std::uint32_t> next_;  // [kind]: the place of the next sample without a bag
  std::span<std::uint32_t> owners_;
  unfilled_samples rest_;
};

}  // namespace ballast::inline v0::detail
