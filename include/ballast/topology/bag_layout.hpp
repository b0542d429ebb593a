// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast::inline v0 {

/// Bags of one size: the `g2n4` of a specification is four bags of two GPUs each.
struct bag_group {
  std::uint32_t gpus = 0;
  std::uint32_t bags = 0;

  friend constexpr bool operator==(bag_group, bag_group) = default;
};

/// How the GPUs of one replica are joined into compute bags: `g1n2+g2n1+g4n1` is two bags of one
/// GPU, then one of two, then one of four. The GPUs of a bag share every sequence that it is given.
///
/// The order is kept as written: bags are numbered from left to right and take consecutive ranks.
/// A literal type, so that a specification can be a constant checked by the compiler
/// (`"g1n2+g2n1"_bags`) or text checked at run time (`parse_bags`).
///
/// Source      K. Zhang et al., "KnapFormer: An Online Load Balancer for Efficient Diffusion
///             Transformers Training", arXiv 2508.06001, 2025 (its planner sorts groups by size).
class bag_spec {
 public:
  /// More groups or GPUs than this in one specification are refused.
  static constexpr std::size_t max_groups = 16;
  static constexpr std::size_t max_gpus = std::size_t{1} << 24;

  /// Why a group cannot be added.
  enum class fault : std::uint8_t { none, zero, too_large, too_many_groups };

  /// Adds a group after the others, unless it has a zero or the limits would be exceeded.
  [[nodiscard]] constexpr fault add(bag_group group)
  {
    if (group.gpus == 0 || group.bags == 0) { return fault::zero; }
    if (count_ == max_groups) { return fault::too_many_groups; }
    if (gpus() + std::size_t{group.gpus} * group.bags > max_gpus) { return fault::too_large; }
    groups_[count_++] = group;
    return fault::none;
  }

  [[nodiscard]] constexpr std::span<bag_group const> groups() const noexcept
  {
    return {groups_.data(), count_};
  }

  /// GPUs of one replica.
  [[nodiscard]] constexpr std::size_t gpus() const noexcept
  {
    std::size_t sum = 0;
    for (bag_group const group : groups()) { sum += std::size_t{group.gpus} * group.bags; }
    return sum;
  }

  /// Bags of one replica.
  [[nodiscard]] constexpr std::size_t bags() const noexcept
  {
    std::size_t sum = 0;
    for (bag_group const group : groups()) { sum += group.bags; }
    return sum;
  }

  friend constexpr bool operator==(bag_spec const&, bag_spec const&) = default;

 private:
  std::array<bag_group, max_groups> groups_{};
  std::size_t count_ = 0;
};

namespace detail {

struct bag_parse {
  bag_spec spec;
  bool readable = false;
  bag_spec::fault fault = bag_spec::fault::none;
  std::size_t position = 0;  // of what is wrong, or the end
};

/// `group ("+" group)*` where `group` is `g` digits `n` digits, with spaces around groups ignored.
[[nodiscard]] constexpr bag_parse parse_bag_text(std::string_view text)
{
  bag_parse out;
  std::size_t& at = out.position;
  auto const skip_spaces = [&] {
    while (at < text.size() && text[at] == ' ') { ++at; }
  };
  auto const take = [&](char wanted) {
    bool const found = at < text.size() && text[at] == wanted;
    at += found ? 1 : 0;
    return found;
  };
  auto const take_number = [&](char name, std::uint32_t& number) {
    if (!take(name)) { return false; }
    std::size_t const first = at;
    std::size_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      // Stays above the limit once it is there, so that no number of digits overflows.
      value =
          std::min(value * 10 + static_cast<std::size_t>(text[at] - '0'), bag_spec::max_gpus + 1);
    }
    number = static_cast<std::uint32_t>(value);
    return at > first;
  };

  while (true) {
    skip_spaces();
    std::size_t const start = at;
    bag_group group;
    if (!take_number('g', group.gpus) || !take_number('n', group.bags)) { return out; }
    out.fault = out.spec.add(group);
    if (out.fault != bag_spec::fault::none) {
      at = start;
      return out;
    }
    skip_spaces();
    if (at == text.size()) {
      out.readable = true;
      return out;
    }
    if (!take('+')) { return out; }
  }
}

// Not constexpr, so that reaching one in a literal is a compile error which shows its name.
inline void a_bag_specification_reads_like_g1n2_plus_g4n1() {}
inline void a_bag_specification_has_no_zero() {}
inline void a_bag_specification_has_at_most_16_groups_and_16777216_gpus() {}

}  // namespace detail

/// Reads a bag specification from text.
///
/// Errors      syntax with the byte offset where reading stopped; out_of_range with that of the
///             group that has a zero or exceeds the limits of `bag_spec`.
/// Complexity  O(text).
[[nodiscard]] BALLAST_ONCE result<bag_spec> parse_bags(std::string_view text);

inline namespace literals {

/// A bag specification checked by the compiler: `constexpr auto bags = "g1n2+g2n1"_bags;`
[[nodiscard]] consteval bag_spec operator""_bags(char const* text, std::size_t size)
{
  detail::bag_parse const parsed = detail::parse_bag_text({text, size});
  if (parsed.readable) { return parsed.spec; }
  switch (parsed.fault) {
    case bag_spec::fault::none: detail::a_bag_specification_reads_like_g1n2_plus_g4n1(); break;
    case bag_spec::fault::zero: detail::a_bag_specification_has_no_zero(); break;
    case bag_spec::fault::too_large:
    case bag_spec::fault::too_many_groups:
      detail::a_bag_specification_has_at_most_16_groups_and_16777216_gpus();
      break;
  }
  return parsed.spec;
}

}  // namespace literals

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

  BALLAST_ONCE explicit bag_layout(std::span<bag const> bags,
                                   std::span<std::uint32_t const> gpu_speeds = {});

#ifdef __cpp_exceptions
  /// Bags that the program wrote itself, as lay_out() lays them over so many GPUs or a cluster.
  /// Where they do not fit, throws what that says.
  ///
  ///     bag_layout const bags("g1n4+g4n1"_bags, 8);
  BALLAST_ONCE bag_layout(bag_spec const& spec, std::size_t gpus);
  BALLAST_ONCE bag_layout(bag_spec const& spec, cluster const& machines);
#endif

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
  BALLAST_ONCE void set_speeds(std::span<std::uint32_t const> gpu_speeds);

  std::vector<rank_id> first_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint32_t> speeds_;
  std::vector<bag_id> bag_of_;
  std::uint32_t smallest_ = 0;
  short_samples short_samples_ = short_samples::refused;
};

/// Bags of one GPU each, rank by rank: the layout of plain data parallelism. No GPUs make the
/// layout without bags, `bag_layout{}`, over which `partition` is refused: there are no bags.
[[nodiscard]] BALLAST_ONCE bag_layout one_gpu_bags(std::size_t gpus);

/// What to do where bags laid in the order written would straddle a node or be misaligned.
enum class misplaced_bags : std::uint8_t {
  refuse,         ///< an error that names the first such bag
  largest_first,  ///< larger bags get their ranks first, in the smallest nodes that they fit and
                  ///< there the first that fit; also where one in the order written would span
                  ///< nodes that are smaller than it, and another could hold it. Numbers stay as
                  ///< written
};

/// Lays replicas of a bag specification over a cluster until every GPU is in a bag.
///
/// Bags are numbered replica by replica, in the order written. A bag fits where its GPUs belong to
/// one node and its first rank is a multiple of its size within that node, so that its all-to-all
/// stays inside the node and nested process groups line up; a bag larger than a node must be whole
/// nodes of equal size. Where nodes differ in size, bags laid largest first go to the smallest
/// nodes that they fit.
///
/// Ensures     (1) every rank is in exactly one bag
///             (2) every bag fits in the sense above
///             (3) where all bags fit in the order written, bag b + 1 starts where bag b ends,
///                 unless the largest come first and a bag would span nodes that one node could
///                 hold
///             (4) bags whose sizes are powers of two find places largest first if there are any
///             (5) largest first, no such bag spans nodes while there is room for it inside one
///             (6) the bags are as fast as the cluster's GPUs make them (bag_layout)
/// Errors      infeasible: the GPUs are no whole number of replicas (position 0), or bag `position`
///             does not fit, or found no gap when the largest were laid first; out_of_range: the
///             speeds are not one for each GPU (position 0), that of GPU `position` is 0, or that
///             of the bag which starts there does not fit 32 bits.
/// Complexity  O(GPUs), with nodes of several sizes O(GPUs + bags log nodes); largest first O(GPUs
///             * different sizes + bags log bags + nodes log nodes).
[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(
    bag_spec const& spec, cluster const& machines,
    misplaced_bags misplaced = misplaced_bags::refuse);

/// The same over equally fast GPUs in nodes of 8, as `cluster_of(gpus)` has them.
///
/// Errors      those of cluster_of, and those above.
[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(
    bag_spec const& spec, std::size_t gpus, misplaced_bags misplaced = misplaced_bags::refuse);

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

BALLAST_ONCE bag_layout::bag_layout(std::span<bag const> bags,
                                    std::span<std::uint32_t const> gpu_speeds)
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

BALLAST_ONCE void bag_layout::set_speeds(std::span<std::uint32_t const> gpu_speeds)
{
  BALLAST_EXPECTS(gpu_speeds.empty() || gpu_speeds.size() == gpus(), "there are speeds of ",
                  detail::counted(gpu_speeds.size(), "GPU"), " for a layout of ", gpus());
  speeds_ = sizes_;
  if (gpu_speeds.empty()) { return; }
  for (std::size_t index = 0; index < size(); ++index) {
    auto const of_bag = gpu_speeds.subspan(to_index(first_[index]), sizes_[index]);
    std::uint32_t const slowest = *std::min_element(of_bag.begin(), of_bag.end());
    std::uint64_t const speed = std::uint64_t{slowest} * sizes_[index];
    BALLAST_EXPECTS(speed >= 1 && speed <= std::numeric_limits<std::uint32_t>::max(), "bag ", index,
                    " has a speed of ", speed, ", which is not from 1 to ",
                    std::numeric_limits<std::uint32_t>::max());
    speeds_[index] = static_cast<std::uint32_t>(speed);
  }
}

[[nodiscard]] BALLAST_ONCE result<bag_spec> parse_bags(std::string_view text)
{
  detail::bag_parse const parsed = detail::parse_bag_text(text);
  if (parsed.readable) { return parsed.spec; }
  auto const refuse = [&](error_code code, char const* why) -> result<bag_spec> {
    return tl::unexpected(detail::text_error(code, text, parsed.position, why));
  };
  switch (parsed.fault) {
    case bag_spec::fault::zero:
      return refuse(error_code::out_of_range,
                    "a bag needs at least one GPU and a group at least one bag; remove the group "
                    "or write a number from 1");
    case bag_spec::fault::too_large:
      return refuse(error_code::out_of_range,
                    "more than 16777216 GPUs; write the bags of one replica only");
    case bag_spec::fault::too_many_groups:
      return refuse(error_code::out_of_range,
                    "more than 16 groups; join groups of the same size into one");
    case bag_spec::fault::none: break;
  }
  return refuse(error_code::syntax,
                "expected groups such as g1n2+g4n1 (two bags of one GPU, one bag of four)");
}

[[nodiscard]] BALLAST_ONCE bag_layout one_gpu_bags(std::size_t gpus)
{
  std::vector<bag> bags(gpus);
  for (std::size_t rank = 0; rank < gpus; ++rank) { bags[rank].first = to_id<rank_id>(rank); }
  return bag_layout(detail::span_of(bags));
}

namespace detail {

/// Whether a bag may start at `first`: inside one node at a multiple of its size, or whole nodes of
/// equal size.
[[nodiscard]] inline bool bag_fits_at(node_sizes const& nodes, std::size_t first, std::size_t gpus)
{
  if (first + gpus > nodes.gpus()) { return false; }
  node_id const node = nodes.node_of(to_id<rank_id>(first));
  std::size_t const size = nodes[node];
  std::size_t const within = first - to_index(nodes.first(node));
  if (gpus <= size) { return within % gpus == 0 && within + gpus <= size; }
  if (within != 0 || gpus % size != 0) { return false; }
  if (nodes.all_equal()) { return true; }
  std::size_t const past = to_index(node) + gpus / size;
  for (std::size_t next = to_index(node) + 1; next < past; ++next) {
    if (next == nodes.size() || nodes[to_id<node_id>(next)] != size) { return false; }
  }
  return true;
}

[[nodiscard, gnu::cold]] inline std::string bag_name(std::size_t index, std::size_t gpus)
{
  return concat("bag ", index, " of ", counted(gpus, "GPU"));
}

/// What is wrong with a bag that does not fit at `first`.
[[nodiscard, gnu::cold]] inline std::string misfit_text(node_sizes const& nodes, std::size_t first,
                                                        std::size_t gpus)
{
  node_id const node = nodes.node_of(to_id<rank_id>(first));
  std::size_t const size = nodes[node];
  std::size_t const within = first - to_index(nodes.first(node));
  std::string const name = concat("node ", to_index(node));
  if (gpus > size) {
    return name + " has " + counted(size, "GPU") +
           ", and a bag larger than its node must be whole nodes of one size";
  }
  if (within % gpus != 0) {
    return concat("GPU ", within, " of ", name, " is no multiple of ", gpus);
  }
  return name + " has only " + counted(size - within, "GPU") + " from there on";
}

/// Every place of a bag of `gpus`, best first: inside the smallest nodes that it fits, so that
/// larger ones stay whole, and then those that span nodes. The order of ranks breaks ties.
///
/// Shapes      smallest_first: all nodes.
/// Complexity  O(GPUs).
[[nodiscard]] inline std::vector<std::size_t> places_of_bag(node_sizes const& nodes,
                                                            std::span<node_id const> smallest_first,
                                                            std::size_t gpus)
{
  std::vector<std::size_t> places;
  for (node_id const node : smallest_first) {
    std::size_t const first = to_index(nodes.first(node));
    for (std::size_t within = 0; within + gpus <= nodes[node]; within += gpus) {
      places.push_back(first + within);
    }
  }
  std::vector<std::size_t> alike(nodes.size(), 1);  // nodes of one size in a row, from each on
  for (std::size_t index = nodes.size() - 1; index > 0; --index) {
    bool const as_next = nodes[to_id<node_id>(index - 1)] == nodes[to_id<node_id>(index)];
    if (as_next) { alike[index - 1] += alike[index]; }
  }
  for (node_id const node : smallest_first) {
    std::size_t const size = nodes[node];
    if (gpus > size && gpus % size == 0 && gpus / size <= alike[to_index(node)]) {
      places.push_back(to_index(nodes.first(node)));
    }
  }
  return places;
}

/// Gives larger bags their ranks first: a smaller bag laid before could cut every gap that a larger
/// one fits. Returns the first bag that finds no place, or the number of bags.
[[nodiscard]] inline std::size_t lay_largest_first(std::span<bag> bags, node_sizes const& nodes)
{
  std::vector<node_id> smallest_first(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    smallest_first[node] = to_id<node_id>(node);
  }
  if (!nodes.all_equal()) {
    std::sort(smallest_first.begin(), smallest_first.end(),
              [&nodes](node_id a, node_id b) { return precedes(nodes[a], nodes[b], a, b); });
  }
  std::vector<std::size_t> largest_first(bags.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [bags](std::size_t a, std::size_t b) {
    return precedes(bags[b].gpus, bags[a].gpus, a, b);
  });

  std::vector<bool> taken(nodes.gpus());
  std::vector<std::size_t> places;
  std::size_t next = 0;  // place at which bags of one size search on
  std::uint32_t size_before = 0;
  for (std::size_t const index : largest_first) {
    std::uint32_t const size = bags[index].gpus;
    if (size != size_before) {
      places = places_of_bag(nodes, span_of(smallest_first), size);
      next = 0;
      size_before = size;
    }
    while (next < places.size()) {
      std::size_t const place = places[next];
      std::size_t past_taken = place + size;  // the last taken rank of the place, and one
      while (past_taken > place && !taken[past_taken - 1]) { --past_taken; }
      if (past_taken == place) { break; }
      // Places up to that rank hold it too.
      while (next < places.size() && places[next] >= place && places[next] < past_taken) { ++next; }
    }
    if (next == places.size()) { return index; }
    bags[index].first = to_id<rank_id>(places[next]);
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(places[next]), size, true);
  }
  return bags.size();
}

/// Whether the bags of a specification fit in the order written, but larger ones first.
[[nodiscard, gnu::cold]] inline bool fits_written_largest_first(bag_spec const& spec,
                                                                node_sizes const& nodes)
{
  std::vector<bag_group> groups(spec.groups().begin(), spec.groups().end());
  std::sort(groups.begin(), groups.end(), [](bag_group a, bag_group b) { return a.gpus > b.gpus; });
  for (std::size_t rank = 0; rank < nodes.gpus();) {
    for (bag_group const group : groups) {
      for (std::uint32_t repeat = 0; repeat < group.bags; ++repeat, rank += group.gpus) {
        if (!bag_fits_at(nodes, rank, group.gpus)) { return false; }
      }
    }
  }
  return true;
}

/// Lays out bags at the speeds of the cluster, or refuses these.
[[nodiscard]] inline result<bag_layout> layout_at_speeds(std::span<bag const> bags,
                                                         cluster const& machines)
{
  auto const& speeds = machines.gpu_speeds;
  if (speeds.empty()) { return bag_layout(bags); }
  if (speeds.size() != machines.gpus()) {
    return fail(error_code::out_of_range, 0, "a job of ", counted(machines.gpus(), "GPU"), " has ",
                counted(speeds.size(), "speed"), "; give one for each GPU in rank order, or none");
  }
  for (std::size_t index = 0; index < bags.size(); ++index) {
    auto const first = speeds.begin() + static_cast<std::ptrdiff_t>(to_index(bags[index].first));
    auto const slowest = std::min_element(first, first + bags[index].gpus);
    if (*slowest == 0) {
      auto const rank = static_cast<std::size_t>(slowest - speeds.begin());
      return fail(error_code::out_of_range, rank, "GPU ", rank,
                  " has the speed 0; give it one of at least 1, or leave the GPU out");
    }
    if (std::uint64_t{*slowest} * bags[index].gpus > std::numeric_limits<std::uint32_t>::max()) {
      return fail(error_code::out_of_range, to_index(bags[index].first),
                  bag_name(index, bags[index].gpus) +
                      " is faster than 4294967295; give speeds in a coarser unit");
    }
  }
  return bag_layout(bags, span_of(speeds));
}

}  // namespace detail

[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(bag_spec const& spec, cluster const& machines,
                                                      misplaced_bags misplaced)
{
  std::size_t const gpus = machines.gpus();
  node_sizes const& nodes = machines.nodes;
  if (spec.gpus() == 0 || gpus % spec.gpus() != 0) {
    return fail(error_code::infeasible, 0, "the bags of one replica take ",
                detail::counted(spec.gpus(), "GPU"), ", and the job's ", gpus,
                " are no whole number of replicas; change the bags or the number of GPUs");
  }

  std::vector<bag> bags;
  bags.reserve(gpus / spec.gpus() * spec.bags());
  std::size_t const largest_node = nodes.largest();
  std::size_t rank = 0;
  std::size_t misfit = gpus;  // index of the first bag that does not fit in the order written
  bool spans = false;         // whether a bag that one node could hold is in several
  while (rank < gpus) {
    for (bag_group const group : spec.groups()) {
      for (std::uint32_t repeat = 0; repeat < group.bags; ++repeat) {
        if (misfit == gpus && !detail::bag_fits_at(nodes, rank, group.gpus)) {
          misfit = bags.size();
        }
        spans = spans || (group.gpus <= largest_node &&
                          group.gpus > nodes[nodes.node_of(to_id<rank_id>(rank))]);
        bags.push_back({to_id<rank_id>(rank), group.gpus});
        rank += group.gpus;
      }
    }
  }
  if (misfit != gpus && misplaced == misplaced_bags::refuse) {
    std::size_t const first = to_index(bags[misfit].first);
    bool const helps =
        detail::lay_largest_first(detail::mutable_span_of(bags), nodes) == bags.size();
    return fail(error_code::infeasible, misfit, detail::bag_name(misfit, bags[misfit].gpus),
                " would start at rank ", first, ": ",
                detail::misfit_text(nodes, first, bags[misfit].gpus),
                !helps ? "; nor do they fit with the largest first, so "
                : detail::fits_written_largest_first(spec, nodes)
                    ? "; write larger bags first, lay the largest first, or "
                    : "; lay the largest first, or ",
                "use sizes that divide a node");
  }
  if (misplaced == misplaced_bags::largest_first && (misfit != gpus || spans)) {
    std::vector<bag> laid = bags;
    std::size_t const unlaid = detail::lay_largest_first(detail::mutable_span_of(laid), nodes);
    if (unlaid == laid.size()) { return detail::layout_at_speeds(detail::span_of(laid), machines); }
    if (misfit != gpus) {
      return fail(error_code::infeasible, unlaid,
                  detail::bag_name(unlaid, laid[unlaid].gpus) + " fits nowhere in nodes of " +
                      nodes.text() +
                      " once bags as large or larger are laid; use sizes that divide a node, or "
                      "whole nodes of one size");
    }
  }
  return detail::layout_at_speeds(detail::span_of(bags), machines);
}

[[nodiscard]] BALLAST_ONCE result<bag_layout> lay_out(bag_spec const& spec, std::size_t gpus,
                                                      misplaced_bags misplaced)
{
  auto const machines = cluster_of(gpus);
  if (!machines) { return tl::unexpected(machines.error()); }
  return lay_out(spec, *machines, misplaced);
}

#ifdef __cpp_exceptions
BALLAST_ONCE bag_layout::bag_layout(bag_spec const& spec, std::size_t gpus)
    : bag_layout(or_throw(lay_out(spec, gpus)))
{}
BALLAST_ONCE bag_layout::bag_layout(bag_spec const& spec, cluster const& machines)
    : bag_layout(or_throw(lay_out(spec, machines)))
{}
#endif

}  // namespace ballast::inline v0

#endif
