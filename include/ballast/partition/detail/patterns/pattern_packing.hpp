// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/bounds/cheapest_cover.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>

namespace ballast::inline v0::detail {

/// A bag's fillings come in three passes.
enum class filling_pass : std::uint8_t { few_samples, more_samples, more_waste };

/// A bag that is being filled, and which of its fillings have come already.
struct filling_progress {
  cost_units room = 0;
  cost_units waste = 0;       // that may stay empty in this bag and those after it together
  cost_units fair_waste = 0;  // the share of this bag in that
  std::size_t average = 0;    // samples per bag that is left
  std::size_t from = 0;       // the first sample that it may take
  std::size_t first_pick = 0;
  bool takes_heaviest = false;  // besides its picks the bag has the heaviest sample
  bool at_start = true;
  filling_pass now = filling_pass::few_samples;
};

/// The sets of samples that fill a bag, one after the other.
///
/// A set may leave as much of the room empty as there is waste. A set is left out where another is
/// at least as good, no matter what the other bags hold:
///   where it misses a sample x although x has room, alone or in the place of one lighter sample,
///   or of all lighter ones together: the bag that has x could have those instead;
///   where it differs from an earlier set in samples of equal cost only.
/// Sets with heavier samples come first. Sets of no more samples than a bag gets on average come
/// before larger ones, since they leave light samples to the last bags, and these fit best; sets
/// that leave more than their fair share of the waste come last.
///
/// Usage       for every bag clear(), add() in descending order of cost, sum_up(); then next()
///             until it returns false. Bags nest: while the next one is filled, picks() of this one
///             stay, and its samples are listed again before its next().
/// Complexity  next() counts its steps, each O(log n). 44 n bytes of scratch.
class bag_fillings {
 public:
  /// A sample in a bag, and how the bag stood before it.
  struct pick {
    std::size_t index;  // into the samples listed
    cost_units room;
    cost_units slack;
  };

  bag_fillings(std::size_t samples, workspace::frame& scratch)
      : places_(scratch.take<std::uint32_t>(samples)),
        costs_(scratch.take<cost_units>(samples)),
        sums_(scratch.take<cost_units>(samples + 1)),
        picks_(scratch.take<pick>(samples))
  {}

  void reset() noexcept { picked_ = 0; }

  void clear() noexcept { count_ = 0; }

  void add(std::size_t place, cost_units cost) noexcept
  {
    places_[count_] = static_cast<std::uint32_t>(place);
    costs_[count_] = cost;
    ++count_;
  }

  void sum_up() noexcept
  {
    sums_[count_] = 0;
    for (std::size_t index = count_; index-- > 0;) {
      sums_[index] = sums_[index + 1] + costs_[index];
    }
  }

  /// The samples that the bag may take, heaviest first: the places that they were added with.
  [[nodiscard]] std::span<std::uint32_t const> places() const noexcept
  {
    return places_.first(count_);
  }
  [[nodiscard]] std::span<cost_units const> costs() const noexcept { return costs_.first(count_); }

  /// Goes on to the next filling. Returns false when there is none left, or no more nodes.
  ///
  /// Expects     the bag is the one filled last, or has just been given first_pick = pick_count().
  [[nodiscard]] bool next(filling_progress& bag, work_budget& nodes)
  {
    bool heavier = bag.at_start;
    if (bag.at_start) { start_pass(bag); }
    bag.at_start = false;
    for (; !nodes.spent(); nodes.spend(1)) {
      if (!heavier) {
        heavier = replace_last_pick(bag, nodes) || start_next_pass(bag);
        if (!heavier) { return false; }
        continue;
      }
      std::span<cost_units const> const left = costs().subspan(next_);
      auto const fits = std::partition_point(left.begin(), left.end(),
                                             [this](cost_units cost) { return cost > room_; });
      std::size_t const heaviest = next_ + static_cast<std::size_t>(fits - left.begin());
      if (is_worth(bag, heaviest, slack_)) {
        take(heaviest, slack_, slack_);
      } else if (heaviest == count_ && is_filling(bag)) {
        return true;
      } else {
        heavier = false;
      }
    }
    return false;
  }

  [[nodiscard]] std::size_t pick_count() const noexcept { return picked_; }

  /// What the bag filled last has been given, besides the heaviest sample where it takes that.
  [[nodiscard]] std::span<pick const> picks(filling_progress const& bag) const noexcept
  {
    return picks_.subspan(bag.first_pick, picked_ - bag.first_pick);
  }

  [[nodiscard]] cost_units left_empty() const noexcept { return room_; }

 private:
  /// Empties the bag, up to what it has to take.
  void start_pass(filling_progress const& bag) noexcept
  {
    slack_ = bag.now == filling_pass::more_waste ? bag.waste : bag.fair_waste;
    room_ = bag.room - (bag.takes_heaviest ? costs_[0] : 0);
    next_ = bag.takes_heaviest ? 1 : bag.from;
  }

  bool start_next_pass(filling_progress& bag) noexcept
  {
    if (bag.now == filling_pass::few_samples) {
      bag.now = filling_pass::more_samples;
    } else if (bag.now == filling_pass::more_samples && bag.fair_waste < bag.waste) {
      bag.now = filling_pass::more_waste;
    } else {
      return false;
    }
    start_pass(bag);
    return true;
  }

  [[nodiscard]] std::size_t samples_in(filling_progress const& bag) const noexcept
  {
    return picked_ - bag.first_pick + (bag.takes_heaviest ? 1 : 0);
  }

  [[nodiscard]] static cost_units least_empty(filling_progress const& bag) noexcept
  {
    return bag.now == filling_pass::more_waste ? bag.fair_waste + 1 : 0;
  }

  /// Whether this sample and lighter ones can leave no more than `slack` of the room empty.
  [[nodiscard]] bool is_worth(filling_progress const& bag, std::size_t index,
                              cost_units slack) const noexcept
  {
    if (index == count_ || sums_[index] < room_ - slack) { return false; }
    if (bag.now != filling_pass::few_samples) { return true; }
    std::size_t const held = samples_in(bag);
    if (held >= bag.average) { return false; }
    return room_ <= slack || static_cast<uint128>(costs_[index]) * (bag.average - held) >=
                                 static_cast<uint128>(room_ - slack);
  }

  /// Whether the bag, which has no room for another sample, is a filling of this pass.
  [[nodiscard]] bool is_filling(filling_progress const& bag) const noexcept
  {
    return room_ >= least_empty(bag) && room_ <= slack_ &&
           (bag.now != filling_pass::more_samples || samples_in(bag) > bag.average);
  }

  [[nodiscard]] std::size_t end_of_equal(std::size_t index) const noexcept
  {
    cost_units const cost = costs_[index++];
    if (index == count_ || costs_[index] < cost) { return index; }
    auto const all = costs();
    auto const end = std::upper_bound(all.begin() + static_cast<std::ptrdiff_t>(index), all.end(),
                                      cost, std::greater{});
    return static_cast<std::size_t>(end - all.begin());
  }

  void take(std::size_t index, cost_units slack_before, cost_units slack) noexcept
  {
    picks_[picked_++] = {index, room_, slack_before};
    room_ -= costs_[index];
    slack_ = slack;
    next_ = index + 1;
  }

  /// Takes the last pick out and a lighter sample in that can lead to a filling, or does so with
  /// the pick before. Returns false where there is none, and then the bag has no more picks.
  bool replace_last_pick(filling_progress const& bag, work_budget& nodes) noexcept
  {
    while (picked_ > bag.first_pick) {
      pick const last = picks_[--picked_];
      room_ = last.room;
      cost_units slack = last.slack;
      for (std::size_t index = last.index;;) {
        // This sample stays out although it has room. So the bag may not leave so much empty that
        // the sample would also have room, alone or in the place of the heaviest that comes in.
        cost_units const left_out = costs_[index];
        slack = std::min(slack, room_ - left_out - 1);
        index = end_of_equal(index);
        nodes.spend(1);
        if (slack < least_empty(bag) || !is_worth(bag, index, slack)) { break; }
        cost_units const slack_with = std::min(slack, left_out - costs_[index] - 1);
        if (slack_with >= least_empty(bag) && sums_[index] >= room_ - slack_with) {
          take(index, slack, slack_with);
          return true;
        }
      }
    }
    return false;
  }

  std::span<std::uint32_t> places_;
  std::span<cost_units> costs_;
  std::span<cost_units> sums_;  // [k]: the costs from the k-th on
  std::span<pick> picks_;       // of all bags that are being filled
  std::size_t count_ = 0;
  std::size_t picked_ = 0;
  // The bag filled last:
  std::size_t next_ = 0;  // samples before it are in the bag or stay out
  cost_units room_ = 0;
  cost_units slack_ = 0;  // the most of the room that may stay empty
};

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

  void fill()
  {
    level& bag = levels_[depth_ - 1];
    std::span<std::uint32_t const> const places = fillings_.places();
    auto const picks = fillings_.picks(bag.filling);
    for (auto const& pick : picks) { owners_[places[pick.index]] = position(); }
    if (bag.filling.takes_heaviest) { owners_[places.front()] = position(); }
    bag.first_place = picks.empty() ? samples_.size() : places[picks.front().index];
  }

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
