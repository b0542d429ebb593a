// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/detail/node_assignment.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Calls visit(node, kept) for every node that has tokens of a batch, in node order.
template <class Visit>
void for_each_node_of(node_volumes const& volumes, std::size_t batch, Visit const& visit)
{
  auto const all = volumes.of_batch(batch);
  for (std::size_t at = 0; at < all.size();) {
    std::uint32_t const node = volumes.node_of_rank(all[at].peer);
    tokens kept = 0;
    for (; at < all.size() && volumes.node_of_rank(all[at].peer) == node; ++at) {
      kept += all[at].count;
    }
    visit(node, kept);
  }
}

/// Places all batches: the rank that would send most gets, on its node, the batch to which it would
/// send most, and so on. If every batch had tokens of one rank of a node only, nothing would be
/// better for that node by itself: each step takes what the largest row can lose at most.
///
/// Complexity  O((E + ranks + batches) log ranks) for E pairs of a rank and a batch.
inline void place_for_worst(node_assignment& where, workspace& memory)
{
  node_volumes const& volumes = where.volumes();
  auto scratch = memory.open();
  std::span<std::size_t> const next = scratch.take<std::size_t>(volumes.ranks());
  std::fill(next.begin(), next.end(), 0);

  auto const place_for_rank = [&](std::size_t rank) {
    std::uint32_t const node = volumes.node_of_rank(rank);
    auto const list = volumes.of_rank(rank);
    for (std::size_t& at = next[rank]; at < list.size(); ++at) {
      std::uint32_t const batch = list[at].peer;
      if (where.node_of(batch) == node_assignment::nowhere &&
          where.has_room(node, volumes.kind_of(batch))) {
        where.place(batch, node);
        return true;
      }
    }
    return false;
  };
  auto const place_where_most_stays = [&](std::size_t batch) {
    if (where.node_of(batch) != node_assignment::nowhere) { return false; }
    std::uint32_t best = node_assignment::nowhere;
    tokens most = 0;
    for_each_node_of(volumes, batch, [&](std::uint32_t node, tokens kept) {
      if (kept > most && where.has_room(node, volumes.kind_of(batch))) {
        most = kept;
        best = node;
      }
    });
    if (best != node_assignment::nowhere) { where.place(batch, best); }
    return best != node_assignment::nowhere;
  };
  while (where.largest() != largest_row::least) {
    std::size_t const row = where.worst_row();
    bool const placed =
        row < volumes.ranks() ? place_for_rank(row) : place_where_most_stays(row - volumes.ranks());
    if (!placed) { where.retire(row); }
  }

  for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {  // from which nobody gains
    if (where.node_of(batch) == node_assignment::nowhere &&
        where.has_room(volumes.home_of(batch), volumes.kind_of(batch))) {
      where.place(batch, volumes.home_of(batch));
    }
  }
  std::span<std::size_t> const room = scratch.take<std::size_t>(volumes.kinds());  // node, by kind
  std::fill(room.begin(), room.end(), 0);
  for (std::size_t batch = 0; batch < volumes.batches(); ++batch) {
    if (where.node_of(batch) != node_assignment::nowhere) { continue; }
    std::uint32_t const kind = volumes.kind_of(batch);
    while (!where.has_room(room[kind], kind)) { ++room[kind]; }
    where.place(batch, room[kind]);
  }
  where.compare_all_rows();
}

/// Exchanges batches of two nodes while that makes the largest row smaller: of all exchanges that
/// bring a batch to the node where it helps that row, the one that leaves the rows that it changes
/// lowest.
///
/// In, out     left: one step is an exchange that was looked at.
inline void exchange_for_worst(node_assignment& where, work_budget& left)
{
  node_volumes const& volumes = where.volumes();
  while (!left.spent()) {
    tokens best = where.largest();
    std::size_t brought = volumes.batches();
    std::size_t replaced = volumes.batches();
    auto const try_all = [&](std::size_t batch, std::size_t node) {
      for (std::uint32_t const other : where.batches_on(node, volumes.kind_of(batch))) {
        if (left.spent()) { return; }
        left.spend(1);
        tokens const after = where.largest_after_swap(batch, other);
        if (after < best) {
          best = after;
          brought = batch;
          replaced = other;
        }
      }
    };
    std::size_t const row = where.worst_row();
    if (row < volumes.ranks()) {
      tokens const before = where.largest();
      std::uint32_t const node = volumes.node_of_rank(row);
      for (batch_volume const& each : volumes.of_rank(row)) {
        if (before - each.count >= best) { break; }  // nor do those of which it has less
        if (where.node_of(each.peer) != node) { try_all(each.peer, node); }
      }
    } else {
      std::size_t const batch = row - volumes.ranks();
      if (volumes.kind_of(batch) == node_volumes::none) { return; }
      for_each_node_of(volumes, batch, [&](std::uint32_t node, tokens) {
        if (where.node_of(batch) != node) { try_all(batch, node); }
      });
    }
    if (brought == volumes.batches()) { return; }
    where.swap(brought, replaced);
  }
}

/// Looks for a placement whose rows are all at most `target`, from where exchanges of the largest
/// row stand still: exchanges drawn at random, half of them to relieve that row. A row costs the
/// square of what it has above 31/32 of the target, so that rows near it count too; an exchange may
/// raise the sum by a part of it that shrinks to nothing.
///
/// In, out     left: one step is an exchange that was drawn.
/// Returns     whether it found one; where it did not, `where` is anything.
/// Source      the acceptance is that of G. Dueck, T. Scheuer, "Threshold Accepting", Journal of
///             Computational Physics 90, 1990.
[[nodiscard]] inline bool settle_below(node_assignment& where, tokens target, random_source& random,
                                       work_budget& left)
{
  node_volumes const& volumes = where.volumes();
  // Squares of up to 2^24 units, so that a sum over ranks fits.
  auto const bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(where.largest())));
  int const shift = std::max(0, bits - 24);
  auto const price = [floor = target - target / 32, shift](tokens volume) {
    // Rows after an exchange may be far larger than any is now.
    auto const over =
        std::min<std::int64_t>(std::max<tokens>(0, volume - floor) >> shift, std::int64_t{1} << 25);
    return over * over;
  };
  std::int64_t sum = where.sum_of_rows(price);
  auto const colder = static_cast<std::int64_t>(8 * volumes.ranks());
  auto const given = static_cast<std::int64_t>(left.left());
  while (where.largest() > target) {
    if (left.spent()) { return false; }
    auto const warm = static_cast<std::int64_t>(left.left());
    left.spend(1);
    std::size_t const row = where.worst_row();
    std::size_t batch = random.below(volumes.batches());
    std::size_t node = volumes.home_of(random.below(volumes.batches()));
    if (random.below(2) == 0 && row < volumes.ranks()) {
      auto const list = volumes.of_rank(row);
      if (list.empty()) { return false; }
      batch = list[random.below(list.size())].peer;
      node = volumes.node_of_rank(row);
    }
    if (volumes.kind_of(batch) == node_volumes::none || where.node_of(batch) == node) { continue; }
    auto const others = where.batches_on(node, volumes.kind_of(batch));
    if (others.empty()) { continue; }
    std::size_t const other = others[random.below(others.size())];
    std::int64_t const growth = where.growth_after_swap(batch, other, price);
    // At first 32 times the mean of a row: steps differ by that, however many rows there are.
    auto const draw = static_cast<std::int64_t>(random.below(256)) * warm / given;
    if (growth <= sum / colder * draw) {
      where.swap(batch, other);
      sum += growth;
    }
  }
  return true;
}

/// Lowers the largest row by settle_below, in shares of it that halve where that fails, and leaves
/// the best placement found. In a large job so few draws reach no row twice, and nothing is done.
///
/// Shapes      best[m]: scratch.
inline void settle_lower(node_assignment& where, std::span<std::uint32_t> best, std::uint64_t work)
{
  node_volumes const& volumes = where.volumes();
  constexpr std::uint64_t draws_per_rank = 32;
  work = std::min(work, std::uint64_t{1} << 48);  // so that products fit
  work_budget left(std::min(work, work * draws_per_rank / volumes.ranks()));
  std::uint64_t const per_target = left.left() / 8;
  if (per_target < volumes.ranks()) { return; }
  auto const store = [&] {
    for (std::size_t batch = 0; batch < best.size(); ++batch) {
      best[batch] = where.node_of(batch);
    }
  };
  auto const restore = [&] {
    where.clear();
    for (std::size_t batch = 0; batch < best.size(); ++batch) {
      if (volumes.kind_of(batch) != node_volumes::none) { where.place(batch, best[batch]); }
    }
  };
  random_source random(20240607);
  store();
  tokens least = where.largest();
  for (tokens share = 16; share <= 1024 && least > 0 && !left.spent(); share *= 2) {
    while (!left.spent()) {
      tokens const target = least - std::max<tokens>(1, least / share);
      work_budget of_target(std::min(left.left(), per_target));
      std::uint64_t const given = of_target.left();
      bool const found = settle_below(where, target, random, of_target);
      left.spend(given - of_target.left());
      if (!found) {
        restore();
        break;
      }
      exchange_for_worst(where, left);
      least = where.largest();
      store();
    }
  }
}

/// Gives every batch a bag of its kind on its node: of all pairs of a batch and a bag, the one
/// where most tokens come from the bag's own GPUs, and so on with what is left; batches without a
/// token there stay in their own bag where it is free.
///
/// Shapes      node_of[m], bag_of[m]; bag_of is overwritten.
/// Expects     node_of gives every node as many batches of a kind as it has bags of it.
/// Complexity  O(E log E + m log m) for E pairs of a rank and a batch.
inline void assign_bags(node_volumes const& volumes, bag_layout const& bags,
                        std::span<std::uint32_t const> node_of, std::span<bag_id> bag_of,
                        workspace& memory)
{
  struct candidate {
    tokens kept;
    std::uint32_t batch;
    std::uint32_t bag;
  };
  std::size_t const batches = volumes.batches();
  auto scratch = memory.open();
  std::span<candidate> const candidates = scratch.take<candidate>(volumes.entries());
  std::size_t found = 0;
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.kind_of(batch) == node_volumes::none) { continue; }
    std::size_t const first = found;
    for (batch_volume const& each : volumes.of_batch(batch, node_of[batch])) {
      auto const bag = static_cast<std::uint32_t>(bags.bag_of(rank_id{each.peer}));
      if (volumes.kind_of(bag) != volumes.kind_of(batch)) { continue; }
      bool const same = found > first && candidates[found - 1].bag == bag;
      if (!same) { candidates[found++] = {0, static_cast<std::uint32_t>(batch), bag}; }
      candidates[found - 1].kept += each.count;
    }
  }
  auto const best_first = candidates.first(found);
  std::sort(best_first.begin(), best_first.end(), [](candidate const& a, candidate const& b) {
    return precedes(b.kept, a.kept, a.batch, b.batch, a.bag, b.bag);
  });

  auto const nobody = to_id<bag_id>(batches);
  std::span<bool> const taken = scratch.take<bool>(batches);
  std::fill(taken.begin(), taken.end(), false);
  std::fill(bag_of.begin(), bag_of.end(), nobody);
  auto const take = [&](std::size_t batch, std::size_t bag) {
    if (bag_of[batch] != nobody || taken[bag]) { return; }
    bag_of[batch] = to_id<bag_id>(bag);
    taken[bag] = true;
  };
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.kind_of(batch) == node_volumes::none) { take(batch, batch); }
  }
  for (candidate const& each : best_first) { take(each.batch, each.bag); }
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.home_of(batch) == node_of[batch]) { take(batch, batch); }
  }

  // What is left: as many batches as bags of every kind on every node.
  std::span<std::uint32_t> const rest = scratch.take<std::uint32_t>(batches);
  std::span<std::uint32_t> const open = scratch.take<std::uint32_t>(batches);
  std::size_t left = 0;
  std::size_t empty = 0;
  for (std::size_t at = 0; at < batches; ++at) {
    if (bag_of[at] == nobody) { rest[left++] = static_cast<std::uint32_t>(at); }
    if (!taken[at]) { open[empty++] = static_cast<std::uint32_t>(at); }
  }
  auto const sort_by_place = [&](std::span<std::uint32_t> list, auto const& node_at) {
    std::sort(list.begin(), list.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(node_at(a), node_at(b), volumes.kind_of(a), volumes.kind_of(b), a, b);
    });
  };
  sort_by_place(rest.first(left), [&](std::uint32_t batch) { return node_of[batch]; });
  sort_by_place(open.first(empty), [&](std::uint32_t bag) { return volumes.home_of(bag); });
  for (std::size_t at = 0; at < left; ++at) { take(rest[at], open[at]); }
}

}  // namespace detail

/// What place_by_node did.
///
/// Shapes      bag_of[m]: where the samples that bag b was given are now.
/// Ensures     (1) largest <= largest_before; where they are equal, no sample has changed its bag
struct node_placement {
  /// What place_by_node makes few.
  struct options {
    /// false: makes few the most tokens that any rank sends to other nodes. true: the most that any
    /// rank sends to them or receives from them, where the GPUs of a bag receive equally much.
    bool count_received = false;
    std::uint64_t work = std::uint64_t{1} << 16;  ///< exchanges that are looked at
  };

  std::vector<bag_id> bag_of;
  tokens largest_before = 0;  ///< tokens between nodes of the rank with most
  tokens largest = 0;

  friend bool operator==(node_placement const&, node_placement const&) = default;
};

/// Exchanges what bags of one size and speed own, so that few tokens cross nodes: at the rank that
/// would send most to other nodes, since all wait for it. No load changes.
///
/// A policy fills equal bags in any order, and links between nodes are some ten times slower than
/// those inside. With V[i][b] tokens that rank i sends to the batch of bag b, it makes
///
///     max over i of sum over b of V[i][b] (1 if b is not on the node of i)
///
/// small: the rank with most gets the batch with most of its tokens onto its node, and so on; then
/// batches of two nodes change places while the largest falls; then, in jobs of up to 500 GPUs or
/// so, a search that also goes uphill. Inside a node a batch goes to the bag whose GPUs have most
/// of its tokens. A bag that has GPUs of several nodes keeps its batch.
///
/// In, out     plan: owner, loads and samples are permuted; `moved` is counted again, by tokens,
///             where it is not 0.
/// Expects     `from` is over the GPUs of `machines`, as `bags` are.
/// Ensures     (1) makespan, lower_bound and the loads in any order are those of before
///             (2) in the steady state place_by_node allocates nothing
/// Errors      mismatch: the plan is for other bags or another number of samples; it is unchanged.
/// Complexity  O(samples + pieces + E log E + ranks log ranks) for E pairs of a rank and a batch,
///             and options.work exchanges that are looked at.
/// Source      the problem is Algorithm 3 of B. Xiao, Y. Zheng et al., "OrchMLLM", arXiv
///             2503.23830, which solves it as an integer program. node_traffic_bound says how good
///             the answer is.
inline result<void> place_by_node(node_placement& placed, workspace& memory, partition_plan& plan,
                                  placement const& from, bag_layout const& bags,
                                  cluster const& machines,
                                  node_placement::options const& options = {})
{
  BALLAST_EXPECTS(from.ranks() == machines.gpus() && bags.gpus() == machines.gpus(),
                  "tokens lie on ", detail::counted(from.ranks(), "rank"), ", the bags have ",
                  detail::counted(bags.gpus(), "GPU"), ", and the cluster has ", machines.gpus());
  if (plan.bags_digest != bags.digest()) {
    return fail(error_code::mismatch, 0,
                "the plan is for other bags than these; give the bags that it was made for");
  }
  if (plan.owner.size() != from.size()) {
    return fail(error_code::mismatch, 0, "the plan is for ",
                detail::counted(plan.owner.size(), "sample"), ", not for ", from.size(),
                "; give the placement of those that were planned");
  }

  auto scratch = memory.open();
  detail::node_volumes const volumes(from, detail::span_of(plan.owner), bags, machines, scratch);
  std::size_t const batches = bags.size();
  detail::node_assignment where(volumes, options.count_received, scratch);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    if (volumes.kind_of(batch) != detail::node_volumes::none) {
      where.place(batch, volumes.home_of(batch));
    }
  }
  placed.largest_before = where.largest();
  where.clear();
  std::span<std::uint32_t> const node_of = scratch.take<std::uint32_t>(batches);
  std::span<cost_units> const loads = scratch.take<cost_units>(batches);
  detail::place_for_worst(where, memory);
  detail::work_budget left(options.work);
  detail::exchange_for_worst(where, left);
  detail::settle_lower(where, node_of, left.left());
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  placed.largest = std::min(where.largest(), placed.largest_before);
  placed.bag_of.resize(batches);
  if (placed.largest == placed.largest_before) {
    for (std::size_t bag = 0; bag < batches; ++bag) { placed.bag_of[bag] = to_id<bag_id>(bag); }
    return {};
  }
  for (std::size_t batch = 0; batch < batches; ++batch) { node_of[batch] = where.node_of(batch); }
  detail::assign_bags(volumes, bags, node_of, detail::mutable_span_of(placed.bag_of), memory);

  for (bag_id& owner : plan.owner) { owner = placed.bag_of[to_index(owner)]; }
  std::copy(plan.loads.begin(), plan.loads.end(), loads.begin());
  for (std::size_t bag = 0; bag < batches; ++bag) {
    plan.loads[to_index(placed.bag_of[bag])] = loads[bag];
  }
  plan.samples.collect(detail::span_of(plan.owner), batches);
  if (plan.moved.numerator != 0) {
    tokens all = 0;
    tokens moved = 0;
    for (std::size_t sample = 0; sample < plan.owner.size(); ++sample) {
      for (piece const& each : from[to_id<sample_id>(sample)]) {
        all += each.count;
        if (bags.bag_of(each.rank) != plan.owner[sample]) { moved += each.count; }
      }
    }
    plan.moved = {moved, std::max<tokens>(all, 1)};
  }
  return {};
}

/// The same, but returns a new answer.
[[nodiscard]] inline result<node_placement> place_by_node(
    partition_plan& plan, placement const& from, bag_layout const& bags, cluster const& machines,
    node_placement::options const& options = {})
{
  node_placement placed;
  workspace memory;
  auto const done = place_by_node(placed, memory, plan, from, bags, machines, options);
  if (!done) { return tl::unexpected(done.error()); }
  return placed;
}

}  // namespace ballast::inline v0
