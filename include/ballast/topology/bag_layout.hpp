// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TOPOLOGY_BAG_LAYOUT_HPP
#define BALLAST_TOPOLOGY_BAG_LAYOUT_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// A compute bag in place: `gpus` consecutive ranks from `first`, which share each of its
/// sequences.
struct bag {
  rank_id first{};
  std::uint32_t gpus = 1;

  friend constexpr bool operator==(bag, bag) = default;
};

/// What becomes of a short sample: one that has tokens, but fewer than every bag has GPUs.
enum class short_samples : std::uint8_t {
  refused,   ///< partition() refuses the step and names the sample
  admitted,  ///< a smallest bag takes it, and its GPUs beyond the sample's tokens get none of it
};

/// Which GPUs every bag of a job has, and how fast the bag is.
///
/// The GPUs of a bag share every sequence evenly and wait for the slowest, so a bag of G GPUs is G
/// times as fast as its slowest GPU. A sequence with fewer tokens than the bag has GPUs leaves some
/// of them without work, so it belongs in a smaller bag. Where no bag is small enough, it is up to
/// the layout whether the step is refused: a job that must not lose a step admits short samples.
///
/// Shapes      gpu_speeds[gpus()], or empty where all GPUs are equally fast.
/// Units       speeds in any unit that is the same for all, for example percent of the fastest.
/// Expects     the bags given to the constructor are disjoint and cover ranks 0 to gpus() - 1; each
///             speed is at least 1, and a bag's fits 32 bits.
/// Ensures     (1) bags keep the order in which they were given
///             (2) bag_of(r) is the bag whose ranks include r
///             (3) the speed of a bag is its number of GPUs times the least of their speeds; each
///                 is 1 where gpu_speeds is empty
///             (4) short samples are refused until with_short_samples() admits them, which changes
///                 the digest, but nothing about steps without such samples
/// Complexity  construction and layouts made of others O(GPUs), digest O(bags), all else O(1).
class bag_layout {
 public:
  bag_layout() = default;

  explicit bag_layout(std::span<bag const> bags, std::span<std::uint32_t const> gpu_speeds = {})
  {
    std::size_t gpus = 0;
    for (bag const each : bags) { gpus += each.gpus; }
    constexpr auto no_bag = to_id<bag_id>(std::numeric_limits<std::uint32_t>::max());
    bag_of_.assign(gpus, no_bag);
    first_.reserve(bags.size());
    sizes_.reserve(bags.size());
    for (bag const each : bags) {
      std::size_t const first = to_index(each.first);
      BALLAST_EXPECTS(each.gpus >= 1 && first + each.gpus <= gpus, "bag ", size(), " has ",
                      detail::counted(each.gpus, "GPU"), " from rank ", first,
                      " on, and all bags have ", gpus);
      for (std::size_t rank = first; rank < first + each.gpus; ++rank) {
        // No rank twice, so every rank once.
        BALLAST_EXPECTS(bag_of_[rank] == no_bag, "rank ", rank, " is in bag ", bag_of_[rank],
                        " and in bag ", size());
        bag_of_[rank] = to_id<bag_id>(size());
      }
      first_.push_back(each.first);
      sizes_.push_back(each.gpus);
    }
    if (!sizes_.empty()) { smallest_ = *std::min_element(sizes_.begin(), sizes_.end()); }
    set_speeds(gpu_speeds);
  }

  /// The same bags on GPUs of these speeds.
  [[nodiscard]] bag_layout with_speeds(std::span<std::uint32_t const> gpu_speeds) const
  {
    bag_layout faster = *this;
    faster.set_speeds(gpu_speeds);
    return faster;
  }

  /// The same bags, where short samples are refused or admitted.
  [[nodiscard]] bag_layout with_short_samples(short_samples choice) const
  {
    bag_layout other = *this;
    other.short_samples_ = choice;
    return other;
  }

  [[nodiscard]] bool admits_short_samples() const noexcept
  {
    return short_samples_ == short_samples::admitted;
  }

  /// GPUs of the smallest bag; 0 where there is none.
  [[nodiscard]] std::uint32_t smallest_bag() const noexcept { return smallest_; }

  /// Whether a sample of so many tokens is short.
  [[nodiscard]] bool is_short(tokens length) const noexcept
  {
    return length > 0 && length < smallest_;
  }

  /// Whether a sample of so many tokens may be in a bag: if it has none, or one at least for every
  /// GPU of the bag, or if it is short, short samples are admitted and no bag is smaller.
  [[nodiscard]] bool takes(bag_id id, tokens length) const
  {
    std::uint32_t const bag_gpus = (*this)[id].gpus;
    return length == 0 || length >= bag_gpus ||
           (admits_short_samples() && is_short(length) && bag_gpus == smallest_);
  }

  /// Number of bags.
  [[nodiscard]] std::size_t size() const noexcept { return sizes_.size(); }

  /// Number of GPUs in all bags together.
  [[nodiscard]] std::size_t gpus() const noexcept { return bag_of_.size(); }

  [[nodiscard]] bag operator[](bag_id id) const
  {
    BALLAST_EXPECTS(to_index(id) < size(), "bag ", id, " of a layout of ",
                    detail::counted(size(), "bag"));
    return {first_[to_index(id)], sizes_[to_index(id)]};
  }

  [[nodiscard]] bag_id bag_of(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < gpus(), "rank ", rank, " of a layout of ",
                    detail::counted(gpus(), "GPU"));
    return bag_of_[to_index(rank)];
  }

  /// GPUs of every bag, in bag order.
  [[nodiscard]] std::span<std::uint32_t const> sizes() const noexcept
  {
    return detail::span_of(sizes_);
  }

  /// Speed of every bag, in bag order: what a partition policy balances over.
  [[nodiscard]] std::span<std::uint32_t const> speeds() const noexcept
  {
    return detail::span_of(speeds_);
  }

  /// One word that differs where any bag does, or what becomes of short samples. O(bags).
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest all;
    all.add(detail::span_of(first_)).add(detail::span_of(sizes_)).add(detail::span_of(speeds_));
    if (admits_short_samples()) { all.add(1); }
    return all.value();
  }

  friend bool operator==(bag_layout const&, bag_layout const&) = default;

 private:
  void set_speeds(std::span<std::uint32_t const> gpu_speeds)
  {
    BALLAST_EXPECTS(gpu_speeds.empty() || gpu_speeds.size() == gpus(), "there are speeds of ",
                    detail::counted(gpu_speeds.size(), "GPU"), " for a layout of ", gpus());
    speeds_ = sizes_;
    if (gpu_speeds.empty()) { return; }
    for (std::size_t index = 0; index < size(); ++index) {
      auto const of_bag = gpu_speeds.subspan(to_index(first_[index]), sizes_[index]);
      std::uint32_t const slowest = *std::min_element(of_bag.begin(), of_bag.end());
      std::uint64_t const speed = std::uint64_t{slowest} * sizes_[index];
      BALLAST_EXPECTS(speed >= 1 && speed <= std::numeric_limits<std::uint32_t>::max(), "bag ",
                      index, " has a speed of ", speed, ", which is not from 1 to ",
                      std::numeric_limits<std::uint32_t>::max());
      speeds_[index] = static_cast<std::uint32_t>(speed);
    }
  }

  std::vector<rank_id> first_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint32_t> speeds_;
  std::vector<bag_id> bag_of_;
  std::uint32_t smallest_ = 0;
  short_samples short_samples_ = short_samples::refused;
};

/// Bags of one GPU each, rank by rank: the layout of plain data parallelism. No GPUs make the
/// layout without bags, `bag_layout{}`, over which `partition` is refused: there are no bags.
[[nodiscard]] inline bag_layout one_gpu_bags(std::size_t gpus)
{
  std::vector<bag> bags(gpus);
  for (std::size_t rank = 0; rank < gpus; ++rank) { bags[rank].first = to_id<rank_id>(rank); }
  return bag_layout(detail::span_of(bags));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TOPOLOGY_BAG_LAYOUT_HPP
