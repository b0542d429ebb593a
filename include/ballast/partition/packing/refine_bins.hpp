// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/packing/detail/pattern_bins.hpp>

#include <bit>

namespace ballast::inline v0 {

namespace detail {

/// Takes some bins, those worth least first, and packs their samples into one bin less, over
/// and over: by bag completion, and where that stands still by the linear program over patterns and
/// a dive (`pattern_packing`). If the bins are all there are and one less is impossible, that is a
/// proof.
///
/// Expects     at most most_bins(capacity); of more, `bin_pool` takes those worth least
/// Complexity  that of these, within `steps`, and O(n + b log b) for each attempt; some 10 MB of
///             scratch.
class bin_emptying {
 public:
  /// So few that what they hold together fits 63 bits.
  [[nodiscard]] static constexpr std::size_t most_bins(std::int64_t capacity) noexcept
  {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(most / std::max<std::int64_t>(capacity, 1), 1, 256));
  }

  bin_emptying(packing_problem const& problem, sample_worths const& worths, workspace& memory)
      : problem_(problem), worths_(worths), memory_(memory)
  {}

  /// Returns what is the best now, whose owners are in `owner`.
  [[nodiscard]] packed_bins operator()(packed_bins best, std::span<bag_id> owner,
                                       work_budget& steps)
  {
    if (best.bins > most_bins(problem_.capacity)) { return best; }
    auto scratch = memory_.open();
    std::span<tokens> const lengths = scratch.take<tokens>(owner.size());
    std::fill(lengths.begin(), lengths.end(), 0);  // bags of one GPU take every sample
    std::span<open_bag> const bags = scratch.take<open_bag>(best.bins);
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      bags[bag] = {problem_.capacity, 1, static_cast<std::uint32_t>(bag)};
    }
    std::size_t const most = std::min(most_samples, owner.size());
    samples_ = scratch.take<priced_sample>(most);
    worth_ = scratch.take<std::int64_t>(best.bins);
    order_ = scratch.take<std::uint32_t>(best.bins);
    held_ = scratch.take<std::uint32_t>(best.bins);
    place_ = scratch.take<std::uint32_t>(best.bins);
    bag_completion complete(most, lengths, bags.size(), scratch);
    auto const rooms = static_cast<std::size_t>(std::min(problem_.capacity, most_room)) + 1;
    pattern_packing pack(most, most, std::min(table, std::bit_ceil((most + 1) * rooms)), complete,
                         scratch);
    random_source random(1);

    std::size_t chosen = first_chosen;
    int failed = 0;
    while (best.bins > best.lower_bound && !steps.spent() && failed < most_failed) {
      list_bins(best.bins, owner);
      // The cheapest, and where these failed some that are drawn.
      for (std::size_t at = chosen / 2; failed >= sizes && at < chosen && at < best.bins; ++at) {
        std::swap(order_[at], order_[at + random.below(best.bins - at)]);
      }
      std::size_t const taken = collect(chosen, best.bins, owner);
      steps.spend(owner.size() + 16 * best.bins);
      std::int64_t lacking = 0;
      for (std::uint32_t const bin : order_.first(taken)) { lacking += worths_.bin - worth_[bin]; }
      completion end = completion::out_of_nodes;
      if (taken > 1 && count_ > 0 && lacking >= worths_.bin) {
        work_budget few(std::min(steps.left(), completion_nodes));
        end = complete(samples_.first(count_), bags.first(taken - 1), few);
        steps.spend(completion_nodes - few.left());
        std::span<std::uint32_t const> owners = complete.owners();
        if (end == completion::out_of_nodes) {
          work_budget more(std::min(steps.left(), pattern_nodes));
          std::uint64_t const before = more.left();
          end = pack(samples_.first(count_), bags.first(taken - 1), more);
          owners = pack.owners();
          steps.spend(before - more.left());
        }
        if (end == completion::found) { best.bins -= replace(taken, owners, best.bins, owner); }
      }
      if (end == completion::found) {
        failed = 0;
        chosen = first_chosen;
        continue;
      }
      if (taken == best.bins) {
        if (end == completion::impossible) { best.lower_bound = best.bins; }
        break;
      }
      ++failed;
      chosen += chosen / 2;
      if (chosen > most_chosen) {
        chosen = problem_.heaviest_first.size() <= most_samples ? best.bins : most_chosen;
      }
    }
    return best;
  }

 private:
  static constexpr std::size_t most_samples = 240;
  static constexpr std::size_t table = std::size_t{1} << 21;
  static constexpr std::int64_t most_room = table;
  static constexpr std::uint64_t completion_nodes = std::uint64_t{1} << 14;
  static constexpr std::uint64_t pattern_nodes = std::uint64_t{1} << 21;
  static constexpr std::size_t first_chosen = 12;
  static constexpr std::size_t most_chosen = 64;
  static constexpr int sizes = 5;
  static constexpr int most_failed = 8;

  /// Bins by what their samples are worth, the least first.
  void list_bins(std::size_t bins, std::span<bag_id const> owner)
  {
    std::fill_n(worth_.begin(), bins, 0);
    std::fill_n(held_.begin(), bins, std::uint32_t{0});
    for (auto const [weight, sample] : problem_.heaviest_first) {
      if (weight == 0) { break; }
      worth_[to_index(owner[to_index(sample)])] += worths_.of[to_index(sample)];
      ++held_[to_index(owner[to_index(sample)])];
    }
    std::iota(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(bins), std::uint32_t{0});
    std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(bins),
              [this](std::uint32_t a, std::uint32_t b) {
                return worth_[a] < worth_[b] || (worth_[a] == worth_[b] && a < b);
              });
  }

  /// Lists the samples of the first `chosen` bins, or fewer. Returns of how many bins.
  std::size_t collect(std::size_t chosen, std::size_t bins, std::span<bag_id const> owner)
  {
    std::fill_n(place_.begin(), bins, not_taken);
    std::size_t taken = 0;
    std::size_t samples = 0;
    while (taken < bins && taken < chosen && samples + held_[order_[taken]] <= most_samples) {
      samples += held_[order_[taken]];
      place_[order_[taken]] = static_cast<std::uint32_t>(taken);
      ++taken;
    }
    count_ = 0;
    for (auto const [weight, sample] : problem_.heaviest_first) {
      if (weight == 0) { break; }
      if (place_[to_index(owner[to_index(sample)])] != not_taken) {
        samples_[count_++] = {weight, sample};
      }
    }
    return taken;
  }

  /// Gives the samples listed their bins, and bins that hold samples the first numbers. Samples of
  /// no weight that lose their bin go to the first. Returns how many bins are empty now.
  std::size_t replace(std::size_t taken, std::span<std::uint32_t const> owners, std::size_t bins,
                      std::span<bag_id> owner)
  {
    for (std::uint32_t const bin : order_.first(taken)) { held_[bin] = 0; }
    for (std::size_t at = 0; at < count_; ++at) {
      std::uint32_t const bin = order_[owners[at]];
      owner[to_index(samples_[at].sample)] = bag_id{bin};
      ++held_[bin];
    }
    std::uint32_t left = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) { place_[bin] = held_[bin] > 0 ? left++ : 0; }
    for (bag_id& bin : owner) { bin = bag_id{place_[to_index(bin)]}; }
    return bins - left;
  }

  static constexpr std::uint32_t not_taken = ~std::uint32_t{0};

  packing_problem const& problem_;
  sample_worths worths_;
  workspace& memory_;
  std::span<priced_sample> samples_;  // of the bins taken
  std::size_t count_ = 0;
  std::span<std::int64_t> worth_;  // of what is in the bins
  std::span<std::uint32_t> held_;  // how many samples each has
  std::span<std::uint32_t> order_;
  std::span<std::uint32_t> place_;  // in order_, of the bins taken
};

/// The samples of some bins as a packing problem of its own, and its packing put back.
///
/// Ensures     (1) put_back: no other sample changes its bin but for the number of that bin, which
///                 becomes that of one that is empty now
/// Complexity  O(n + bins), O(bins log bins) for the cheapest; 40 bytes of scratch per sample, 16
///             per bin.
class bin_pool {
 public:
  bin_pool(packing_problem const& problem, sample_worths const& worths, std::size_t bins,
           std::span<bag_id> owner, workspace::frame& scratch)
      : problem_(problem),
        all_worths_(worths),
        owner_(owner),
        bins_(bins),
        chosen_(scratch.take<std::uint32_t>(bins)),
        place_(scratch.take<std::uint32_t>(bins)),
        worth_(scratch.take<std::int64_t>(bins)),
        samples_(scratch.take<sample_id>(owner.size())),
        weights_(scratch.take<std::int64_t>(owner.size())),
        worths_(scratch.take<std::int64_t>(owner.size())),
        order_(scratch.take<priced_sample>(owner.size())),
        owners_(scratch.take<bag_id>(owner.size()))
  {}

  /// The bins whose samples are worth least, at most so many of them.
  void choose_cheapest(std::size_t most)
  {
    std::fill(worth_.begin(), worth_.end(), 0);
    for (std::size_t sample = 0; sample < owner_.size(); ++sample) {
      worth_[to_index(owner_[sample])] += all_worths_.of[sample];
    }
    std::iota(chosen_.begin(), chosen_.end(), std::uint32_t{0});
    count_ = std::min(most, bins_);
    std::partial_sort(chosen_.begin(), chosen_.begin() + static_cast<std::ptrdiff_t>(count_),
                      chosen_.end(), [this](std::uint32_t a, std::uint32_t b) {
                        return worth_[a] < worth_[b] || (worth_[a] == worth_[b] && a < b);
                      });
    std::fill(place_.begin(), place_.end(), not_chosen);
    for (std::uint32_t at = 0; at < count_; ++at) { place_[chosen_[at]] = at; }
    sample_count_ = 0;
    for (auto const [weight, sample] : problem_.heaviest_first) {
      std::uint32_t const at = place_[to_index(owner_[to_index(sample)])];
      if (at == not_chosen) { continue; }
      samples_[sample_count_] = sample;
      weights_[sample_count_] = weight;
      worths_[sample_count_] = all_worths_.of[to_index(sample)];
      order_[sample_count_] = {weight, to_id<sample_id>(sample_count_)};
      owners_[sample_count_] = bag_id{at};
      ++sample_count_;
    }
  }

  [[nodiscard]] packing_problem problem() const noexcept
  {
    return {weights_.first(sample_count_), order_.first(sample_count_), problem_.capacity};
  }
  [[nodiscard]] sample_worths worths() const noexcept
  {
    return {worths_.first(sample_count_), all_worths_.bin};
  }
  [[nodiscard]] std::size_t bins() const noexcept { return count_; }
  [[nodiscard]] std::span<bag_id> owner() const noexcept { return owners_.first(sample_count_); }

  /// Takes over owner(), which fills the first `filled` bins only. Returns how many bins there are
  /// then.
  [[nodiscard]] std::size_t put_back(std::size_t filled)
  {
    for (std::size_t at = 0; at < sample_count_; ++at) {
      owner_[to_index(samples_[at])] = bag_id{chosen_[to_index(owners_[at])]};
    }
    std::size_t const left = bins_ - (count_ - filled);
    // Bins above the new number move to the empty ones below it.
    std::iota(place_.begin(), place_.end(), std::uint32_t{0});
    for (std::uint32_t const empty : chosen_.subspan(filled, count_ - filled)) {
      place_[empty] = not_chosen;
    }
    std::size_t from = left;
    for (std::uint32_t const empty : chosen_.subspan(filled, count_ - filled)) {
      if (empty >= left) { continue; }
      while (place_[from] == not_chosen) { ++from; }
      place_[from++] = empty;
    }
    for (bag_id& bin : owner_) { bin = bag_id{place_[to_index(bin)]}; }
    bins_ = left;
    chosen_ = chosen_.first(left);
    place_ = place_.first(left);
    worth_ = worth_.first(left);
    return left;
  }

 private:
  static constexpr std::uint32_t not_chosen = ~std::uint32_t{0};

  packing_problem const& problem_;
  sample_worths const& all_worths_;
  std::span<bag_id> owner_;
  std::size_t bins_;
  std::span<std::uint32_t> chosen_;
  std::span<std::uint32_t> place_;  // of each bin in chosen_; then its new number
  std::span<std::int64_t> worth_;
  std::span<sample_id> samples_;  // of the bins chosen, heaviest first
  std::span<std::int64_t> weights_;
  std::span<std::int64_t> worths_;
  std::span<priced_sample> order_;
  std::span<bag_id> owners_;
  std::size_t count_ = 0;
  std::size_t sample_count_ = 0;
};

using all_packings =
    fewest_bins_of<best_fit_decreasing, fewest_bins_of<minimum_bin_slack, first_fit_decreasing>>;

}  // namespace detail

/// The packing of another policy and, where that is not proven to have the fewest bins, a better
/// bound and a search for fewer bins.
///
///     refine_bins{}
///
/// The bounds are those of dual feasible functions and of the linear program over patterns of
/// weights. The search fills bins by the patterns of that program, and then packs the bins whose
/// samples have the least prices there into one less, over and over, until the work is spent.
///
/// Ensures     (1) every sample has one bin, no bin holds more than the capacity, none is empty, if
///                 that is so for Start
///             (2) no more bins than Start; by default no more than first_fit_decreasing,
///                 best_fit_decreasing and minimum_bin_slack
///             (3) its lower bound is at least packing_lower_bound()
///             (4) the packing depends on nothing but the arguments
/// Complexity  that of Start, where it is proven; else O(n) and the steps, of which a step of at
///             most 240 samples has four times as many; some 100 bytes of scratch per sample and 12
///             MB.
/// Source      P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6):849-859, 1961; S. P. Fekete, J. Schepers, "New
///             Classes of Fast Lower Bounds for Bin Packing Problems", Mathematical Programming
///             91(1):11-31, 2001.
template <packing_policy Start = detail::all_packings>
struct refine_bins {
  [[no_unique_address]] Start start{};
  /// Steps of the search, of a few nanoseconds each.
  std::uint64_t steps = std::uint64_t{1} << 21;
  std::uint64_t steps_per_sample = 48;

  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    packed_bins best = run_policy(start, problem, owner, memory);
    best.lower_bound = std::max(best.lower_bound, packing_lower_bound(problem));
    if (best.bins == best.lower_bound) { return best; }
    auto scratch = memory.open();
    std::span<cost_units> const weights = scratch.take<cost_units>(owner.size());
    std::transform(problem.heaviest_first.begin(), problem.heaviest_first.end(), weights.begin(),
                   [](auto const& each) { return each.cost; });
    best.lower_bound =
        detail::dual_feasible_bound(weights, problem.capacity, degree, best.lower_bound);
    if (best.bins == best.lower_bound) { return best; }
    // Cut, so that no limit is one that does not overflow.
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    std::uint64_t const of_samples = std::min(steps_per_sample, most >> 32) * owner.size();
    detail::work_budget left((owner.size() <= few_samples ? 4 : 1) * std::min(steps, most) +
                             of_samples);
    detail::sample_worths worths{scratch.take<std::int64_t>(owner.size()), problem.capacity};
    std::copy(problem.weights.begin(), problem.weights.end(), worths.of.begin());
    best = detail::pattern_bins(problem, memory)(best, owner, worths, left);
    return empty_bins(problem, worths, best, owner, left, memory);
  }

  friend bool operator==(refine_bins const&, refine_bins const&) = default;

 private:
  static constexpr unsigned degree = 5;
  static constexpr std::size_t few_samples = 240;  // for which a proof of one program is in reach

  /// Of the bins worth least, makes one less as long as it can.
  static packed_bins empty_bins(packing_problem const& problem, detail::sample_worths const& worths,
                                packed_bins best, std::span<bag_id> owner,
                                detail::work_budget& left, workspace& memory)
  {
    auto scratch = memory.open();
    detail::bin_pool pool(problem, worths, best.bins, owner, scratch);
    while (best.bins > best.lower_bound && !left.spent()) {
      left.spend(8 * owner.size());
      pool.choose_cheapest(detail::bin_emptying::most_bins(problem.capacity));
      bool const has_all = pool.bins() == best.bins;
      std::size_t const most_less = best.bins - best.lower_bound;
      packed_bins const before{pool.bins(), pool.bins() - std::min(pool.bins(), most_less)};
      packing_problem const part = pool.problem();
      packed_bins const after =
          detail::bin_emptying(part, pool.worths(), memory)(before, pool.owner(), left);
      best.bins = pool.put_back(after.bins);
      if (has_all) { best.lower_bound = std::max(best.lower_bound, after.lower_bound); }
      if (has_all || after.bins == before.bins) { break; }
    }
    return best;
  }
};

}  // namespace ballast::inline v0
