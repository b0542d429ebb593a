// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// A subset of a few numbers in one word: its sum above, its members below. Sorting words sorts
/// subsets by sum, and those of one sum by their members, so no two are equal.
struct subset_sum {
  static constexpr std::size_t most_members = 14;
  static constexpr std::uint64_t every_member = (std::uint64_t{1} << most_members) - 1;
  /// Sums are below it, so that differences of two words keep their sign.
  static constexpr cost_units sum_limit = cost_units{1} << 47;
  /// Stands behind the last word of a list: so far above every word that no difference with it
  /// looks like one of two sums.
  static constexpr std::uint64_t end = std::uint64_t{1} << 62;

  [[nodiscard]] static constexpr std::uint64_t pack(cost_units sum, std::uint64_t members) noexcept
  {
    return static_cast<std::uint64_t>(sum) << most_members | members;
  }
  [[nodiscard]] static constexpr cost_units sum(std::uint64_t word) noexcept
  {
    return static_cast<cost_units>(word >> most_members);
  }
  [[nodiscard]] static constexpr std::uint32_t members(std::uint64_t word) noexcept
  {
    return static_cast<std::uint32_t>(word & every_member);
  }
};

/// Writes the candidates that a subset has, in their order; bit i of `members` stands for candidate
/// i. Returns how many they are.
template <class Candidate>
[[nodiscard]] constexpr std::size_t list_members(std::uint32_t members,
                                                 std::span<Candidate const> candidates,
                                                 std::span<Candidate> listed) noexcept
{
  std::size_t count = 0;
  for (std::size_t place = 0; members >> place != 0; ++place) {
    if ((members >> place & 1) != 0) { listed[count++] = candidates[place]; }
  }
  return count;
}

/// Merges and passes are cut into stretches, which a processor runs side by side.
using stretch_counts = std::array<std::uint64_t, 4>;
inline constexpr std::size_t merge_stretches = stretch_counts{}.size();

/// How many of the first `taken` words of two merged ascending lists come from the first list,
/// where `second(j)` is word j of the second and no word of one list equals one of the other.
///
/// Source      O. Green, R. McColl, D. Bader, "GPU Merge Path", ICS 2012.
template <class Second>
[[nodiscard]] std::size_t merged_from_first(std::span<std::uint64_t const> first,
                                            Second const& second, std::size_t second_size,
                                            std::size_t taken)
{
  std::size_t const least = taken > second_size ? taken - second_size : 0;
  return least_that(least, std::min(taken, first.size()), [&](std::size_t from_first) {
    return !(first[from_first] < second(taken - from_first - 1));
  });
}

/// Lists the sums of all subsets of up to 14 numbers in ascending order without sorting.
///
/// Each number doubles the list: the list merged with itself plus the number. The complement of a
/// subset makes the upper half of a list the mirror image of the lower one, so only that is merged,
/// in independent stretches and without a branch that depends on the numbers.
///
/// Shapes      costs[k], sums[2^k], half[2^(k-1)] or larger; k <= subset_sum::most_members.
/// Expects     costs are not negative and add up to less than subset_sum::sum_limit.
/// Ensures     (1) sums holds the word of every subset once, ascending; bit i stands for costs[i]
/// Complexity  O(2^k): 2^k steps of merging.
/// Source      E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack
///             Problem", J. ACM 21(2):277-292, 1974.
inline void subset_sums_into(std::span<std::uint64_t> sums, std::span<cost_units const> costs,
                             std::span<std::uint64_t> half) noexcept
{
  constexpr std::size_t stretches = merge_stretches;
  BALLAST_EXPECTS(costs.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(sums.size() == std::size_t{1} << costs.size());
  BALLAST_EXPECTS(half.size() >= sums.size() / 2);

  // The lists alternate between the two arrays, so that the last one lands in `sums`.
  std::uint64_t* from = costs.size() % 2 == 0 ? sums.data() : half.data();
  std::uint64_t* to = costs.size() % 2 == 0 ? half.data() : sums.data();
  from[0] = 0;
  std::uint64_t every = 0;
  for (std::size_t member = 0; member < costs.size(); ++member) {
    std::size_t const size = std::size_t{1} << member;
    std::uint64_t const added = subset_sum::pack(costs[member], std::uint64_t{1} << member);
    every += added;
    auto const merge_step = [from, to, added](std::size_t place, std::size_t& without) {
      std::uint64_t const a = from[without];
      std::uint64_t const b = from[place - without] + added;
      std::uint64_t const first = a < b ? 1 : 0;
      to[place] = b ^ ((a ^ b) & (0 - first));
      without += first;
    };
    if (size < 16 * stretches) {
      std::size_t without = 0;
      for (std::size_t place = 0; place < size; ++place) { merge_step(place, without); }
    } else {
      std::size_t const length = size / stretches;
      std::array<std::size_t, stretches> without{};
      for (std::size_t stretch = 1; stretch < stretches; ++stretch) {
        without[stretch] = merged_from_first(
            std::span(from, size), [from, added](std::size_t place) { return from[place] + added; },
            size, stretch * length);
      }
      for (std::size_t place = 0; place < length; ++place) {
        for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
          merge_step(stretch * length + place, without[stretch]);
        }
      }
    }
    for (std::size_t place = 0; place < size; ++place) {
      to[2 * size - 1 - place] = every - to[place];
    }
    std::swap(from, to);
  }
}

/// Finds a subset of one list and a subset of another whose sums differ by a wanted amount, in one
/// pass along both lists: as the taken sum grows, so does the first given sum that is larger by the
/// amount.
///
/// The amount, given minus taken, is best at `least`, then the nearer above it up to `most`, then
/// the nearer below it down to `fewest`; one from `least` to `enough` ends the pass.
///
/// Expects     each list is what `subset_sums_into` writes, with one word subset_sum::end before
///             and merge_stretches of them behind it.
///             fewest >= 1; amounts are below subset_sum::sum_limit, `least` and `most` not below
///             0.
/// Ensures     (1) given() and taken() are subsets of the best amount, or empty where no pair has a
///                 wanted amount
/// Complexity  one step per subset, in stretches that do not wait for each other.
/// Source      E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack
///             Problem", J. ACM 21(2):277-292, 1974.
class subset_walk {
 public:
  struct amounts {
    cost_units fewest;
    cost_units least;
    cost_units enough;
    cost_units most;
  };

  subset_walk(std::span<std::uint64_t const> given, std::span<std::uint64_t const> taken,
              amounts wanted) noexcept
      : given_(given),
        taken_(taken),
        least_(subset_sum::pack(wanted.least, 0)),
        over_(range(wanted.most - wanted.least + 1)),
        under_(range(wanted.least - wanted.fewest)),
        enough_(range(wanted.enough - wanted.least + 1))
  {}

  std::size_t operator()()
  {
    stretch_counts give{};
    stretch_counts take{};
    stretch_counts reached{};
    std::size_t const steps = given_.size() + taken_.size();
    std::size_t const length = (steps + merge_stretches - 1) / merge_stretches;
    for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
      std::size_t const start = std::min(stretch * length, steps);
      give[stretch] = merged_from_first(
          given_, [this](std::size_t place) { return target(place); }, taken_.size(), start);
      take[stretch] = start - give[stretch];
    }
    std::size_t step = 0;
    for (; step < length && !found_; ++step) {
      bool improves = false;
      for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
        std::uint64_t const* const sums = given_.data() + give[stretch];
        std::uint64_t const sum = target(take[stretch]);
        reached[stretch] = sums[0] >= sum ? 1 : 0;
        // Differences that would be negative wrap around to huge ones.
        improves |= sums[0] - sum < over_;
        improves |= ((sum - sums[-1] - 1) | (reached[stretch] - 1)) < under_;
      }
      if (improves) [[unlikely]] {
        for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
          if (reached[stretch] != 0) { improve(give[stretch], take[stretch]); }
        }
      }
      for (std::size_t stretch = 0; stretch < merge_stretches; ++stretch) {
        give[stretch] += 1 - reached[stretch];
        take[stretch] += reached[stretch];
      }
    }
    return merge_stretches * step;
  }

  [[nodiscard]] std::uint32_t given() const noexcept { return best_given_; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return best_taken_; }

 private:
  [[nodiscard]] static std::uint64_t range(cost_units amount) noexcept
  {
    return amount < 0 ? 0 : subset_sum::pack(amount, 0);
  }

  // What a given sum has to reach for the least amount; words of larger members are above it.
  [[nodiscard]] std::uint64_t target(std::size_t take) const noexcept
  {
    return (taken_.data()[take] & ~subset_sum::every_member) + least_;
  }

  // `give` is the first sum that reaches the target of `take`: the nearest lie on both sides of it.
  void improve(std::size_t give, std::size_t take)
  {
    std::uint64_t const* const sums = given_.data();
    std::uint64_t const sum = target(take);
    for (std::size_t place = give; sums[place] - sum < over_; ++place) {
      choose(place, take);
      over_ = (sums[place] - sum) & ~subset_sum::every_member;
      under_ = 0;
      found_ = over_ < enough_;
    }
    for (std::size_t place = give; sum - sums[place - 1] - 1 < under_; --place) {
      choose(place - 1, take);
      under_ = (sum - sums[place - 1] - 1) & ~subset_sum::every_member;
    }
  }

  void choose(std::size_t give, std::size_t take) noexcept
  {
    best_given_ = subset_sum::members(given_[give]);
    best_taken_ = subset_sum::members(taken_[take]);
  }

  std::span<std::uint64_t const> given_;
  std::span<std::uint64_t const> taken_;
  std::uint64_t least_;
  std::uint64_t over_;   // a sum this far above its target, or further, is of no use
  std::uint64_t under_;  // and one further below
  std::uint64_t enough_;
  bool found_ = false;
  std::uint32_t best_given_ = 0;
  std::uint32_t best_taken_ = 0;
};

/// What a bag gives to another and what it takes in return: bit i stands for candidate i of the bag
/// that the sample leaves. `net` is how much work the giving bag loses; 0 means no exchange.
struct exchange {
  std::uint32_t given = 0;
  std::uint32_t taken = 0;
  cost_units net = 0;

  friend constexpr bool operator==(exchange, exchange) = default;
};

/// Which exchanges are wanted: the least net work from `least` to `most`; one up to `enough` ends
/// the search. Where no exchange has at least `least`, the largest net work below it is taken.
struct wanted_net {
  cost_units least;
  cost_units enough;
  cost_units most;
};

/// Searches all exchanges of up to 14 candidates of one bag for up to 14 of another: 2^(g + t) of
/// them in 2^g + 2^t steps.
///
/// Costs that are too large for a word lose their lowest bits in the search; the net work returned is exact all the same.
///
/// Shapes      giving[g], taking[t]: the candidates' costs; g, t <= subset_sum::most_members.
/// Expects     costs are not negative and all of them add up to less than 2^63;
///             1 <= least <= enough, least <= most.
/// In, out     work pays for the subsets listed and the steps along the lists.
/// Ensures     (1) net is what `given` costs minus what `taken` costs, and 1 <= net <= most, or it
///                 returns exchange{}
///             (2) without lost bits: net <= enough where any exchange has
///                 least <= net <= enough; else net is the least of those with
///                 least <= net <= most; else the largest of those below least
/// Complexity  O(2^g + 2^t); 12 (2^g + 2^t) bytes of scratch.
[[nodiscard]] inline exchange find_exchange(std::span<cost_units const> giving,
                                            std::span<cost_units const> taking, wanted_net wanted,
                                            workspace& memory, work_budget& work)
{
  BALLAST_EXPECTS(giving.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(taking.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(1 <= wanted.least && wanted.least <= wanted.enough &&
                  wanted.least <= wanted.most);

  constexpr int sum_bits = std::countr_zero(static_cast<std::uint64_t>(subset_sum::sum_limit));
  cost_units const all_given = std::reduce(giving.begin(), giving.end(), cost_units{0});
  cost_units const all = std::reduce(taking.begin(), taking.end(), all_given);
  auto const all_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(all)));
  int const lost = std::max(all_bits - sum_bits, 0);

  auto frame = memory.open();
  auto const list = [&](std::span<cost_units const> costs) {
    std::array<cost_units, subset_sum::most_members> searched{};
    for (std::size_t place = 0; place < costs.size(); ++place) {
      searched[place] = costs[place] >> lost;
    }
    std::size_t const subsets = std::size_t{1} << costs.size();
    std::span<std::uint64_t> const words = frame.take<std::uint64_t>(1 + subsets + merge_stretches);
    words.front() = subset_sum::end;
    std::fill_n(words.rbegin(), merge_stretches, subset_sum::end);
    subset_sums_into(words.subspan(1, subsets), mutable_span_of(searched, 0, costs.size()),
                     frame.take<std::uint64_t>((subsets + 1) / 2));
    work.spend(subsets);
    return words.subspan(1, subsets);
  };

  // A sum in the search is short by less than one unit per member.
  cost_units const unsure = lost > 0 ? static_cast<cost_units>(subset_sum::most_members) : 0;
  cost_units const least = ((wanted.least - 1) >> lost) + 1 + unsure;
  subset_walk search(list(giving), list(taking),
                     {.fewest = 1 + unsure,
                      .least = std::min(least, (all_given >> lost) + 1),
                      .enough = (std::min(wanted.enough, all_given) >> lost) - unsure,
                      .most = (std::min(wanted.most, all_given) >> lost) - unsure});
  work.spend(search());

  exchange best{search.given(), search.taken(), 0};
  for (std::size_t place = 0; place < giving.size(); ++place) {
    best.net += (best.given >> place & 1) != 0 ? giving[place] : 0;
  }
  for (std::size_t place = 0; place < taking.size(); ++place) {
    best.net -= (best.taken >> place & 1) != 0 ? taking[place] : 0;
  }
  return 1 <= best.net && best.net <= wanted.most ? best : exchange{};
}

/// Exchanges of exactly so much, among up to 16 candidates of each of two bags: of their 2^32 subsets
/// it looks at few, and finds one where there are many.
///
/// Each bag's candidates make two halves, of at most 256 subsets each. For one residue after the
/// other it joins the pairs of subsets whose sums have it, about as many as a half has subsets, and
/// looks up those of the taking bag, with the net work added, among those of the giving one.
///
/// Shapes      giving[g], taking[t]: the candidates' costs; g, t <= most_candidates.
/// Expects     costs are not negative and all of them add up to less than 2^63.
/// In, out     work pays for what is listed, joined and looked up.
/// Complexity  O(2^(k/2)) for k candidates and each residue; 30 KB of scratch.
/// Source      D. Wagner, "A Generalized Birthday Problem", CRYPTO 2002.
class exact_exchanges {
 public:
  static constexpr std::size_t most_candidates = 16;

  exact_exchanges(std::span<cost_units const> giving, std::span<cost_units const> taking,
                  work_budget& work, workspace::frame& scratch)
      : work_(work),
        table_(scratch.take<std::uint16_t>(std::size_t{1} << table_bits)),
        joined_(scratch.take<joined>(most_joined))
  {
    BALLAST_EXPECTS(giving.size() <= most_candidates && taking.size() <= most_candidates);
    constexpr std::array<cost_units, 9> primes{2, 2, 3, 7, 13, 31, 61, 127, 251};
    prime_ = primes[std::min(giving.size(), taking.size()) / 2];
    std::span<cost_units const> const lists[] = {
        giving.first(giving.size() / 2), giving.subspan(giving.size() / 2),
        taking.first(taking.size() / 2), taking.subspan(taking.size() / 2)};
    for (std::size_t at = 0; at < halves_.size(); ++at) {
      list(halves_[at], lists[at], scratch);
      if (at % 2 == 1) { sort_by_residue(halves_[at]); }
    }
    shift_given_ = giving.size() / 2;
    shift_taken_ = taking.size() / 2;
  }

  [[nodiscard]] exchange find(cost_units net, cost_units residues)
  {
    for (cost_units residue = 0; residue < std::min(residues, prime_) && !work_.spent();
         ++residue) {
      std::fill(table_.begin(), table_.end(), nothing);
      std::uint16_t count = 0;
      join(halves_[0], halves_[1], residue, [&](cost_units sum, std::size_t one, std::size_t two) {
        if (count == most_joined) { return; }
        std::uint16_t& place = table_[place_of(sum)];
        joined_[count] = {sum, static_cast<std::uint32_t>(one | two << shift_given_), place};
        place = count++;
      });
      exchange found;
      cost_units const other = (residue + prime_ - net % prime_) % prime_;
      join(halves_[2], halves_[3], other, [&](cost_units sum, std::size_t one, std::size_t two) {
        for (std::uint16_t at = table_[place_of(sum + net)]; at != nothing; at = joined_[at].next) {
          if (joined_[at].sum != sum + net) { continue; }
          found = {joined_[at].members, static_cast<std::uint32_t>(one | two << shift_taken_), net};
        }
      });
      work_.spend(table_.size() / 4 + std::size_t{2} * count);
      if (found.net != 0) { return found; }
    }
    return {};
  }

 private:
  static constexpr unsigned table_bits = 10;
  static constexpr std::uint16_t nothing = 0xFFFF;
  static constexpr std::size_t most_joined = 1024;

  /// The subsets of a few numbers, bit i for number i, and in order of their residues.
  struct half {
    std::span<cost_units> sums;
    std::span<std::uint8_t> residues;
    std::span<std::uint8_t> by_residue;
    std::span<std::uint16_t> first;
  };
  struct joined {
    cost_units sum;
    std::uint32_t members;
    std::uint16_t next;
  };

  [[nodiscard]] static std::size_t place_of(cost_units sum) noexcept
  {
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
    return static_cast<std::size_t>((static_cast<std::uint64_t>(sum) * golden) >>
                                    (64 - table_bits));
  }

  void list(half& of, std::span<cost_units const> costs, workspace::frame& scratch)
  {
    std::size_t const subsets = std::size_t{1} << costs.size();
    auto const prime = static_cast<std::size_t>(prime_);
    of = {scratch.take<cost_units>(subsets), scratch.take<std::uint8_t>(subsets),
          scratch.take<std::uint8_t>(subsets), scratch.take<std::uint16_t>(prime + 1)};
    of.sums[0] = 0;
    of.residues[0] = 0;
    for (std::size_t member = 0; member < costs.size(); ++member) {
      std::size_t const size = std::size_t{1} << member;
      cost_units const added = costs[member] % prime_;
      for (std::size_t subset = 0; subset < size; ++subset) {
        of.sums[size + subset] = of.sums[subset] + costs[member];
        cost_units const residue = of.residues[subset] + added;
        of.residues[size + subset] =
            static_cast<std::uint8_t>(residue < prime_ ? residue : residue - prime_);
      }
    }
    work_.spend(2 * subsets);
  }

  void sort_by_residue(half& of)
  {
    std::fill(of.first.begin(), of.first.end(), 0);
    for (std::uint8_t const residue : of.residues) { ++of.first[residue]; }
    std::partial_sum(of.first.begin(), of.first.end(), of.first.begin());
    for (std::size_t subset = of.sums.size(); subset-- > 0;) {
      of.by_residue[--of.first[of.residues[subset]]] = static_cast<std::uint8_t>(subset);
    }
    work_.spend(2 * of.sums.size());
  }

  template <class Visit>
  void join(half const& one, half const& other, cost_units residue, Visit const& visit)
  {
    for (std::size_t subset = 0; subset < one.sums.size(); ++subset) {
      cost_units const rest = residue - one.residues[subset];
      auto const wanted = static_cast<std::size_t>(rest < 0 ? rest + prime_ : rest);
      for (std::size_t at = other.first[wanted]; at < other.first[wanted + 1]; ++at) {
        std::size_t const second = other.by_residue[at];
        visit(one.sums[subset] + other.sums[second], subset, second);
      }
    }
    work_.spend(2 * one.sums.size());
  }

  work_budget& work_;
  std::span<std::uint16_t> table_;  // the last of joined_ at a place
  std::span<joined> joined_;        // of the giving bag
  std::array<half, 4> halves_;      // two of each bag
  cost_units prime_ = 2;
  std::size_t shift_given_ = 0;
  std::size_t shift_taken_ = 0;
};

/// The samples of every bag in a list, lightest first, for local searches, which look at the few
/// lightest samples of a bag. Moves keep the lists in order.
///
/// A sample is named by its rank in `heaviest_first`, so the lists are ordered by rank. Samples
/// that cost nothing are in no list, since moving them changes no load; nor are samples without a
/// bag.
///
/// Complexity  O(n + m) to build, 4 (n + m) bytes of scratch.
class bag_contents {
 public:
  using rank = std::uint32_t;
  static constexpr rank none = std::numeric_limits<rank>::max();

  /// Keeps `owner` and updates it with every move.
  bag_contents(partition_problem const& problem, std::span<bag_id> owner, workspace::frame& scratch)
      : problem_(problem),
        owner_(owner),
        lightest_(scratch.take<rank>(problem.gpus.size())),
        heavier_(scratch.take<rank>(owner.size()))
  {
    std::fill(lightest_.begin(), lightest_.end(), none);
    for (std::size_t place = 0; place < problem_.heaviest_first.size(); ++place) {
      auto const [cost, sample] = problem_.heaviest_first[place];
      std::size_t const bag = to_index(owner_[to_index(sample)]);
      if (cost == 0) { break; }
      if (bag == lightest_.size()) { continue; }
      heavier_[place] = lightest_[bag];
      lightest_[bag] = static_cast<rank>(place);
    }
  }

  [[nodiscard]] rank lightest(std::size_t bag) const noexcept { return lightest_[bag]; }
  [[nodiscard]] rank heavier(rank sample) const noexcept { return heavier_[sample]; }
  [[nodiscard]] cost_units cost(rank sample) const noexcept
  {
    return problem_.heaviest_first[sample].cost;
  }
  [[nodiscard]] bool fits(rank sample, std::size_t bag) const noexcept
  {
    std::size_t const number = to_index(problem_.heaviest_first[sample].sample);
    return problem_.fits(number, bag);
  }

  /// From this sample of `from` on, the lightest that may move to bag `to`, or none. Each that may
  /// not takes a step of work.
  [[nodiscard]] rank first_movable(rank sample, std::size_t from, std::size_t to,
                                   work_budget& work) const noexcept
  {
    if (problem_.gpus[to] <= problem_.gpus[from]) { return sample; }
    std::uint64_t passed_over = 0;
    for (; sample != none && !fits(sample, to); ++passed_over) { sample = heavier_[sample]; }
    work.spend(passed_over);
    return sample;
  }

  /// Samples are given lightest first. The caller counts loads.
  void move(std::span<rank const> samples, std::size_t from, std::size_t to) noexcept
  {
    rank* link = &lightest_[from];
    for (rank const sample : samples) {
      while (*link != sample) { link = &heavier_[*link]; }
      *link = heavier_[sample];
    }
    link = &lightest_[to];
    for (rank const sample : samples) {
      while (*link != none && *link > sample) { link = &heavier_[*link]; }
      heavier_[sample] = *link;
      *link = sample;
      owner_[to_index(problem_.heaviest_first[sample].sample)] = to_id<bag_id>(to);
    }
  }

 private:
  partition_problem problem_;
  std::span<bag_id> owner_;
  std::span<rank> lightest_;
  std::span<rank> heavier_;
};

/// An exchange and its samples: bit i of `found` stands for candidate i.
struct bag_exchange {
  using candidates = std::array<bag_contents::rank, exact_exchanges::most_candidates>;

  std::size_t from = 0;
  std::size_t to = 0;
  candidates given{};
  candidates taken{};
  exchange found{};
};

/// A plan under local search: what bags hold and do, and exchanges between two of them.
///
/// Candidates are the lightest samples of a bag, whose subsets have the densest sums, and only one
/// of each cost: lengths padded to a multiple have few costs, and subsets of equals equal sums.
///
/// Units       work counts the candidates looked at, the subsets listed and the steps along them.
/// In, out     owner and the loads that it makes; the exchanges change both. work is what the
///             search may still do.
/// Ensures     (1) loads and owners always agree
///             (2) samples only go to bags that they fit
class bag_exchanges {
 public:
  bag_exchanges(partition_problem const& problem, std::span<cost_units> loads,
                std::span<bag_id> owner, work_budget& work, workspace& memory,
                workspace::frame& scratch)
      : contents_(problem, owner, scratch),
        loads_(loads),
        speeds_(problem.speeds),
        work_(work),
        memory_(memory)
  {}

  [[nodiscard]] std::size_t bags() const noexcept { return loads_.size(); }
  [[nodiscard]] std::span<cost_units const> loads() const noexcept { return loads_; }
  [[nodiscard]] cost_units load(std::size_t bag) const noexcept { return loads_[bag]; }
  [[nodiscard]] std::uint32_t speed(std::size_t bag) const noexcept { return speeds_[bag]; }
  [[nodiscard]] ratio finish(std::size_t bag) const noexcept { return {load(bag), speed(bag)}; }
  [[nodiscard]] work_budget& work() const noexcept { return work_; }

  /// How many candidates of each of two bags make it likely that some exchange has a wanted net
  /// work, give or take `tolerance`: there are 4^k exchanges of k candidates, whose net works lie
  /// around 0 and no further away than the candidates cost together. The result is above
  /// subset_sum::most_members where that many are too few.
  [[nodiscard]] std::size_t dense_candidates(std::size_t from, std::size_t to,
                                             cost_units tolerance) noexcept
  {
    auto give = first(from, to);
    auto take = first(to, from);
    cost_units spread = 0;
    std::size_t count = 0;
    do {
      if (give != bag_contents::none) { spread += next_kind(give, from, to); }
      if (take != bag_contents::none) { spread += next_kind(take, to, from); }
      ++count;
    } while (count <= subset_sum::most_members && spread / (tolerance + 1) > cost_units{2}
                                                                                 << (2 * count));
    return count;
  }

  /// The best exchange in which bag `from` loses and bag `to` gains work, among the lightest
  /// samples of `count` costs of each. Where those of `from` cost less than what is wanted, it
  /// looks at more of them, and where even the most that it can search do, at swaps of any one
  /// sample for another.
  [[nodiscard]] bag_exchange find(std::size_t from, std::size_t to, wanted_net wanted,
                                  std::size_t count)
  {
    bag_exchange best{from, to};
    std::array<cost_units, subset_sum::most_members> giving{};
    std::array<cost_units, subset_sum::most_members> taking{};
    std::size_t given = 0;
    std::size_t taken = 0;
    cost_units all_given = 0;
    auto give = first(from, to);
    while (give != bag_contents::none && given < giving.size() &&
           (given < count || all_given < wanted.least)) {
      best.given[given] = give;
      giving[given] = next_kind(give, from, to);
      all_given += giving[given++];
    }
    if (give != bag_contents::none && all_given < wanted.least) {
      nearest const swapped = swaps(from, to, wanted.least, wanted.most);
      return swapped.above.found.net != 0 ? swapped.above : swapped.below;
    }
    for (auto take = first(to, from); take != bag_contents::none && taken < count; ++taken) {
      best.taken[taken] = take;
      taking[taken] = next_kind(take, to, from);
    }
    work_.spend(16 * (given + taken));
    best.found =
        find_exchange(span_of(giving, 0, given), span_of(taking, 0, taken), wanted, memory_, work_);
    return best;
  }

  /// An exchange of exactly so much among the lightest samples of 16 costs of each, if it finds one.
  [[nodiscard]] bag_exchange find_exact(std::size_t from, std::size_t to, cost_units net)
  {
    constexpr cost_units residues = 16;
    bag_exchange best{from, to};
    std::array<cost_units, exact_exchanges::most_candidates> giving{};
    std::array<cost_units, exact_exchanges::most_candidates> taking{};
    std::size_t const given = lightest_kinds(from, to, best.given, giving);
    std::size_t const taken = lightest_kinds(to, from, best.taken, taking);
    work_.spend(16 * (given + taken));
    auto scratch = memory_.open();
    exact_exchanges exact(span_of(giving, 0, given), span_of(taking, 0, taken), work_, scratch);
    best.found = exact.find(net, residues);
    return best;
  }

  void make(bag_exchange const& chosen) noexcept
  {
    auto const pass = [this](std::uint32_t members, bag_exchange::candidates const& candidates,
                             std::size_t from, std::size_t to) {
      bag_exchange::candidates passed{};
      std::size_t const count = list_members<rank>(members, candidates, passed);
      contents_.move(span_of(passed, 0, count), from, to);
    };
    pass(chosen.found.given, chosen.given, chosen.from, chosen.to);
    pass(chosen.found.taken, chosen.taken, chosen.to, chosen.from);
    loads_[chosen.from] -= chosen.found.net;
    loads_[chosen.to] += chosen.found.net;
  }

 private:
  using rank = bag_contents::rank;

  [[nodiscard]] rank first(std::size_t from, std::size_t to) noexcept
  {
    return contents_.first_movable(contents_.lightest(from), from, to, work_);
  }
  // The cost of a sample of bag `from`, which becomes the next one that may go to bag `to`.
  [[nodiscard]] cost_units next(rank& sample, std::size_t from, std::size_t to) noexcept
  {
    cost_units const cost = contents_.cost(sample);
    sample = contents_.first_movable(contents_.heavier(sample), from, to, work_);
    return cost;
  }

  // As `next`, but also passes over the samples of the same cost.
  [[nodiscard]] cost_units next_kind(rank& sample, std::size_t from, std::size_t to) noexcept
  {
    cost_units const cost = next(sample, from, to);
    while (sample != bag_contents::none && contents_.cost(sample) == cost) {
      (void)next(sample, from, to);
    }
    return cost;
  }

  [[nodiscard]] std::size_t lightest_kinds(std::size_t from, std::size_t to,
                                           bag_exchange::candidates& chosen,
                                           std::span<cost_units> costs) noexcept
  {
    std::size_t count = 0;
    for (auto each = first(from, to); each != bag_contents::none && count < costs.size(); ++count) {
      chosen[count] = each;
      costs[count] = next_kind(each, from, to);
    }
    return count;
  }

  struct nearest {
    bag_exchange below;  // the largest net work below what is wanted
    bag_exchange above;  // the least from there on
  };

  // The heavier the given sample, the heavier the one to take: one pass along both bags. No sample
  // taken makes it a move.
  [[nodiscard]] nearest swaps(std::size_t from, std::size_t to, cost_units wanted, cost_units most)
  {
    nearest best{{from, to}, {from, to}};
    auto const consider = [&](rank given, rank taken, cost_units net) {
      bag_exchange& side = net < wanted ? best.below : best.above;
      cost_units const found = side.found.net;
      bool const better = net < wanted ? net > found : found == 0 || net < found;
      if (net < 1 || net > most || !better) { return; }
      side.given[0] = given;
      side.taken[0] = taken;
      side.found = {1, taken == bag_contents::none ? 0U : 1U, net};
    };
    rank back = bag_contents::none;  // the heaviest that still leaves enough net work: nothing yet
    cost_units back_cost = 0;
    auto take = first(to, from);
    for (auto give = first(from, to); give != bag_contents::none; work_.spend(4)) {
      rank const given = give;
      cost_units const cost = next(give, from, to);
      while (take != bag_contents::none && cost - contents_.cost(take) >= wanted) {
        back = take;
        back_cost = next(take, to, from);
        work_.spend(4);
      }
      consider(given, back, cost - back_cost);
      if (take != bag_contents::none) { consider(given, take, cost - contents_.cost(take)); }
    }
    return best;
  }

  bag_contents contents_;
  std::span<cost_units> loads_;
  std::span<std::uint32_t const> speeds_;
  work_budget& work_;
  workspace& memory_;
};

}  // namespace ballast::inline v0::detail
