// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>

#include <bit>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail
