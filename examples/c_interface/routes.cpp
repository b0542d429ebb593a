// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>

namespace c_interface {
namespace {

// Arrays of these are handed out as they are.
static_assert(sizeof(ballast_piece) == sizeof(ballast::piece) &&
              offsetof(ballast_piece, first) == offsetof(ballast::piece, first) &&
              offsetof(ballast_piece, row) == offsetof(ballast::piece, row));
static_assert(sizeof(ballast_rows) == sizeof(ballast::route_table::range) &&
              offsetof(ballast_rows, count) == offsetof(ballast::route_table::range, count));
static_assert(sizeof(ballast_kept_rows) == sizeof(ballast::route_plan::kept_rows) &&
              offsetof(ballast_kept_rows, count) ==
                  offsetof(ballast::route_plan::kept_rows, count));

result<void> check_placement(std::size_t number)
{
  if (number < BALLAST_PLACEMENTS) { return {}; }
  return fail(error_code::out_of_range, number, "there is no placement ", number, "; give one of ",
              BALLAST_PLACEMENTS, ", from 0 on");
}

result<void> place_by_rank(ballast::placement& where, ballast_place_step const& step)
{
  auto const lengths = array("lengths", step.lengths, step.samples);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  auto const ranks = array("rank", step.rank, step.samples);
  if (!ranks) { return tl::unexpected(ranks.error()); }
  constexpr std::size_t most_ranks = std::size_t{1} << 24;
  if (step.ranks == 0 || step.ranks > most_ranks) {
    return fail(error_code::out_of_range, 0, "a placement cannot be over ", step.ranks,
                " ranks; give from 1 to ", most_ranks);
  }
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    if ((*ranks)[sample] >= step.ranks || (*lengths)[sample] < 0 ||
        (*lengths)[sample] > ballast::longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has ", (*lengths)[sample],
                  " tokens on rank ", (*ranks)[sample], " of ", step.ranks,
                  "; give a length from 0 to ", ballast::longest_sample, " and a rank below them");
    }
  }
  ballast::place(where, *lengths, optional_ranks(step.rank, step.samples), step.ranks);
  return {};
}

tl::unexpected<ballast::error> not_planned(char const* function)
{
  return fail(error_code::wrong_order, 0, "there is no plan to place samples by; call ", function,
              " first, and without an error");
}

/// The samples of a slot, where they are computed or where another placement has them.
result<void> place_slot(ballast::placement& where, ballast_planner const& planner,
                        ballast_place_step const& step)
{
  if (!planner.slots.is_planned) { return not_planned("ballast_plan_slots"); }
  ballast::slots_plan const& plan = planner.slots.plan;
  if (step.slot >= plan.slots) {
    return fail(error_code::out_of_range, step.slot, "there is no slot ", step.slot,
                "; the plan has ", plan.slots);
  }
  if (step.by == BALLAST_BY_SLOT) {
    ballast::place(where, plan, step.slot);
    return {};
  }
  if (auto checked = check_placement(step.read); !checked) { return checked; }
  ballast::placement const& all = planner.placements[step.read].where;
  if (&where == &all || all.size() != plan.owner.size()) {
    return fail(error_code::mismatch, step.read, "placement ", step.read, " has ", all.size(),
                " samples, and the plan of slots ", plan.owner.size(),
                "; give another placement, of all of them");
  }
  ballast::place(where, plan, step.slot, all);
  return {};
}

result<void> write_place(ballast::placement& where, ballast_planner const& planner,
                         ballast_place_step const& step)
{
  switch (step.by) {
    case BALLAST_BY_RANK: return place_by_rank(where, step);
    case BALLAST_BY_PLAN:
      if (!planner.plan || !planner.plan->is_planned) { return not_planned("ballast_partition"); }
      return ballast::place(where, planner.plan->plan, planner.plan->bags);
    case BALLAST_BY_SHARDING:
      if (!planner.sharding || !planner.sharding->is_planned) {
        return not_planned("ballast_shard");
      }
      return ballast::place(where, planner.sharding->plan, planner.sharding->groups);
    case BALLAST_BY_SLOT:
    case BALLAST_BY_READ: return place_slot(where, planner, step);
    default:
      return fail(error_code::out_of_range, step.by, "by is ", step.by,
                  "; give one of ballast_place_by");
  }
}

result<ballast_placement> place_step(ballast_planner& planner, ballast_place_step const& step)
{
  if (auto checked = check_placement(step.placement); !checked) {
    return tl::unexpected(checked.error());
  }
  placed& place = planner.placements[step.placement];
  if (auto done = write_place(place.where, planner, step); !done) {
    return tl::unexpected(done.error());
  }
  place.first.assign(1, 0);
  for (std::size_t sample = 0; sample < place.where.size(); ++sample) {
    place.first.push_back(place.first.back() +
                          place.where[ballast::to_id<ballast::sample_id>(sample)].size());
  }
  place.rows.clear();
  for (std::size_t rank = 0; rank < place.where.ranks(); ++rank) {
    place.rows.push_back(place.where.rows(ballast::to_id<ballast::rank_id>(rank)));
  }
  ballast_placement found{};
  found.samples = place.where.size();
  found.ranks = place.where.ranks();
  found.first = place.first.data();
  found.piece = reinterpret_cast<ballast_piece const*>(place.where.pieces().data());
  found.rows = place.rows.data();
  found.digest = place.where.digest();
  return found;
}

void list_ranges(peer_ranges& all, ballast::route_table const& table)
{
  all.first.assign(1, 0);
  all.ranges.clear();
  for (std::size_t peer = 0; peer < table.rows().size(); ++peer) {
    auto const ranges = table[ballast::to_id<ballast::rank_id>(peer)];
    all.ranges.insert(all.ranges.end(), ranges.begin(), ranges.end());
    all.first.push_back(all.ranges.size());
  }
}

result<void> check_route(ballast_planner const& planner, ballast_route_step const& step)
{
  for (std::size_t const number : {step.from, step.to}) {
    if (auto checked = check_placement(number); !checked) { return checked; }
  }
  ballast::placement const& from = planner.placements[step.from].where;
  ballast::placement const& to = planner.placements[step.to].where;
  if (from.size() != to.size() || from.ranks() != to.ranks()) {
    return fail(error_code::mismatch, 0, "placement ", step.from, " has ", from.size(),
                " samples on ", from.ranks(), " ranks, and placement ", step.to, " ", to.size(),
                " on ", to.ranks(), "; place the same samples over the same ranks");
  }
  if (step.rank >= from.ranks()) {
    return fail(error_code::out_of_range, step.rank, "there is no rank ", step.rank, " of ",
                from.ranks(), "; place samples first, and give a rank below them");
  }
  for (std::size_t sample = 0; sample < from.size(); ++sample) {
    auto const id = ballast::to_id<ballast::sample_id>(sample);
    if (from.length(id) != to.length(id)) {
      return fail(error_code::mismatch, sample, "sample ", sample, " has ", from.length(id),
                  " tokens in placement ", step.from, " and ", to.length(id), " in placement ",
                  step.to, "; place the same samples");
    }
  }
  return {};
}

result<ballast_route> plan_route(ballast_planner& planner, ballast_route_step const& step)
{
  if (auto checked = check_route(planner, step); !checked) {
    return tl::unexpected(checked.error());
  }
  route_job& job = planner.route;
  ballast::route_plan& plan = job.plan;
  ballast::plan_route(plan, planner.placements[step.from].where, planner.placements[step.to].where,
                      ballast::to_id<ballast::rank_id>(step.rank));
  list_ranges(job.sent, plan.sent);
  list_ranges(job.received, plan.received);
  ballast_route found{};
  found.ranks = plan.ranks();
  found.rows_before = plan.rows_before;
  found.rows_after = plan.rows_after;
  found.first_sent = job.sent.first.data();
  found.sent = reinterpret_cast<ballast_rows const*>(job.sent.ranges.data());
  found.rows_sent = plan.sent.rows().data();
  found.first_received = job.received.first.data();
  found.received = reinterpret_cast<ballast_rows const*>(job.received.ranges.data());
  found.rows_received = plan.received.rows().data();
  found.kept_ranges = plan.kept.size();
  found.kept = reinterpret_cast<ballast_kept_rows const*>(plan.kept.data());
  found.digest = plan.word;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_place(ballast_planner* planner, ballast_place_step const* step,
                  ballast_placement* placement)
{
  return c_interface::answer(planner, step, placement, c_interface::place_step);
}

int ballast_plan_route(ballast_planner* planner, ballast_route_step const* step,
                       ballast_route* route)
{
  return c_interface::answer(planner, step, route, c_interface::plan_route);
}
