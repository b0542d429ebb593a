// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_proxy.hpp>

#include <map>

namespace ballast::inline v0::detail {

/// A plan that says which rank computes each sample of a step.
template <class P>
concept plan_of_samples = requires(P& plan, data_step const& step, std::span<rank_id> owner) {
  { plan(step, owner) } -> std::same_as<result<void>>;
};

/// What a data pipeline plans with: that, or one that lists which bytes of which sample go to which
/// rank, each at least once.
template <class P>
concept data_plan = plan_of_samples<P> ||
                    requires(P& plan, data_step const& step, std::vector<data_share>& shares) {
                      { plan(step, shares) } -> std::same_as<result<void>>;
                    };

/// What ranks get of a payload: each some ranges of it, as first byte and bytes, one after the other.
using payload_ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
using payload_takers = std::vector<std::pair<std::uint64_t, payload_ranges>>;

[[nodiscard]] inline std::uint64_t bytes_of(payload_ranges const& ranges)
{
  std::uint64_t sum = 0;
  for (auto const& [first, count] : ranges) { sum += count; }
  return sum;
}

/// Who gets what of the payload of each sample of a step.
[[nodiscard]] inline std::vector<payload_takers> takers_of(data_step const& step)
{
  std::vector<payload_takers> all(step.samples.size());
  for (data_share const& share : step.shares) {
    payload_takers& takers = all[share.entry];
    auto const rank = std::uint64_t{to_index(share.rank)};
    auto taker = std::find_if(takers.begin(), takers.end(),
                              [&](auto const& each) { return each.first == rank; });
    if (taker == takers.end()) { taker = takers.insert(taker, {rank, {}}); }
    taker->second.emplace_back(share.first, share.count);
  }
  return all;
}

/// Cuts a payload for those who take it. It is moved to one who takes all of it.
[[nodiscard]] inline std::vector<std::vector<std::byte>> cut(std::vector<std::byte> payload,
                                                             payload_takers const& takers)
{
  std::vector<std::vector<std::byte>> all(takers.size());
  if (all.size() == 1 && takers[0].second == payload_ranges{{0, payload.size()}}) {
    all[0] = std::move(payload);
    return all;
  }
  for (std::size_t taker = 0; taker < all.size(); ++taker) {
    all[taker].reserve(bytes_of(takers[taker].second));
    for (auto const& [first, count] : takers[taker].second) {
      auto const begin = payload.begin() + static_cast<std::ptrdiff_t>(first);
      all[taker].insert(all[taker].end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
  }
  return all;
}

/// The first byte of a payload that nobody takes; its size if there is none.
[[nodiscard]] inline std::uint64_t first_untaken(payload_takers const& takers)
{
  payload_ranges all;
  for (auto const& [rank, ranges] : takers) { all.insert(all.end(), ranges.begin(), ranges.end()); }
  std::sort(all.begin(), all.end());
  std::uint64_t next = 0;
  for (auto const& [first, count] : all) {
    if (first > next) { break; }
    next = std::max(next, first + count);
  }
  return next;
}

/// How many loaders a data pipeline needs, from measured rates: the seconds that loading the
/// samples of a step takes, over those that ranks compute one, and a quarter more.
///
/// Ensures     (1) from least to most; most where ranks compute nothing, least before the first step
///             (2) a larger number at once; a smaller one by one loader, after four steps in a row
///                 for which fewer were enough
class producer_count {
 public:
  /// Expects     1 <= least <= most.
  producer_count(std::size_t least, std::size_t most) : least_(least), most_(most), now_(least)
  {
    BALLAST_EXPECTS(least >= 1 && least <= most, "a data pipeline of ", least, " to ", most,
                    " loaders");
  }

  /// A loader took so long for a sample. Recent ones count most.
  void loaded(std::chrono::nanoseconds took)
  {
    loading_ = loading_.count() == 0 ? took : loading_ + (took - loading_) / 8;
  }
  /// A rank computed for so long between two steps.
  void computed(std::chrono::nanoseconds took) { computing_ += took; }

  /// All ranks have taken a step.
  void stepped(std::size_t step_samples, std::size_t ranks)
  {
    std::size_t const needed = enough(static_cast<uint128>(loading_.count()) * step_samples,
                                      static_cast<uint128>(computing_.count()) / ranks);
    computing_ = {};
    fewer_ = needed < now_ ? fewer_ + 1 : 0;
    if (needed < now_ && fewer_ < 4) { return; }
    now_ = std::max(needed, now_ - 1);
    fewer_ = 0;
  }

  [[nodiscard]] std::size_t now() const { return now_; }

 private:
  [[nodiscard]] std::size_t enough(uint128 loading, uint128 computing) const
  {
    uint128 const load = loading * 5;
    uint128 const compute = computing * 4;
    if (load > compute * most_ || compute == 0) { return loading == 0 ? least_ : most_; }
    return std::max(least_, static_cast<std::size_t>((load + compute - 1) / compute));
  }

  std::size_t least_;
  std::size_t most_;
  std::size_t now_;
  std::size_t fewer_ = 0;                    // steps in a row
  std::chrono::nanoseconds loading_ = {};    // of a sample
  std::chrono::nanoseconds computing_ = {};  // of all ranks, since the last step
};

struct ended_load {
  result<void> called = {};  // failed: it threw
  result<loaded_sample> sample = {};
  std::chrono::nanoseconds took = {};
};

template <data_source Source>
[[nodiscard]] ended_load load_from(Source const& source, std::uint64_t sample)
{
  auto const begin = std::chrono::steady_clock::now();
  ended_load ended;
  ended.called = call_user("load()", [&] { ended.sample = source.load(sample); });
  ended.took = std::chrono::steady_clock::now() - begin;
  return ended;
}

/// What a rank has of a step, of whose payloads all that it takes has come: that is taken out of
/// what is kept by ticket.
[[nodiscard]] inline data_batch batch_of(std::shared_ptr<data_step const> step,
                                         std::span<std::uint64_t const> tickets, rank_id rank,
                                         std::map<std::uint64_t, std::vector<std::byte>>& payloads)
{
  data_batch batch{std::move(step), {}};
  std::map<std::uint64_t, std::pair<std::vector<std::byte>, std::size_t>> taken;  // and bytes given
  for (data_share const& share : batch.step->shares) {
    if (share.rank != rank) { continue; }
    std::uint64_t const ticket = tickets[share.entry];
    if (auto came = payloads.extract(ticket)) { taken[ticket].first = std::move(came.mapped()); }
    auto& [bytes, given] = taken[ticket];
    auto& own = batch.own.emplace_back();
    own.entry = share.entry;
    own.first = share.first;
    own.microbatch = share.microbatch;
    if (given == 0 && share.count == bytes.size()) {
      own.bytes = std::move(bytes);
      continue;
    }
    auto const begin = bytes.begin() + static_cast<std::ptrdiff_t>(given);
    own.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(share.count));
    given += share.count;
  }
  return batch;
}

/// What a data pipeline decides of its steps, from samples that are dealt to the last rank that
/// takes them, whether loaders and ranks are threads or processes: a data_proxy with the plan, what
/// was decoded and not taken, how many loaders are needed, which are lost, and why it stops. Who runs
/// it carries payloads and tells ranks; one thread at a time calls all but plan(), which takes long.
///
/// Payload     where a payload is, or itself, until its rank has it.
/// Ensures     (1) every rank takes each step once, in order
///             (2) after stop() no step is made; those that were made before are taken
template <class Payload, data_plan Plan>
struct planned_proxy {
  struct made_step {
    data_step step;
    std::vector<std::uint64_t> tickets;
  };
  struct planned_step {
    std::shared_ptr<data_step const> step;
    std::vector<std::uint64_t> tickets;
    std::size_t takers = 0;
  };

  planned_proxy(Plan own_plan, std::size_t ranks, data_setup setup, data_windows windows,
                loader_options own, known_lengths lengths_of)
      : plan_with(std::move(own_plan)),
        options(checked(own)),
        proxy(std::move(setup), std::move(windows), std::move(lengths_of)),
        needed(options.least, options.most),
        taken(ranks)
  {}

  [[nodiscard]] std::optional<data_deal> deal(std::uint32_t loader)
  {
    auto const dealt = proxy.deal(loader);
    note_health();
    return dealt;
  }

  /// A loader has decoded a sample. Returns whether the payload is kept.
  [[nodiscard]] bool report(std::uint32_t loader, std::uint64_t ticket,
                            std::chrono::nanoseconds took, std::span<tokens const> lengths,
                            std::span<data_part const> parts, std::uint64_t bytes, Payload payload)
  {
    needed.loaded(took);
    if (!proxy.report(loader, ticket, lengths, parts, bytes)) { return false; }
    payloads.insert_or_assign(ticket, std::move(payload));
    return true;
  }

  /// A loader is lost. `starved` says that none is left for what is needed.
  void lose(std::uint32_t loader, std::string_view why, bool starved = false)
  {
    (void)proxy.lose(loader, why);
    if (++lost <= options.most_lost && !starved) { return; }
    stop(fail(error_code::peer_lost, 0, counted(lost, "loader"), lost == 1 ? " was" : " were",
              " lost", starved ? ", and none is left" : "", ", the last of them: ", why,
              "; look what ends them, or raise most_lost")
             .value());
  }

  /// Lets go of payloads that nobody needs, and says of each to whom it was dealt.
  template <class Told>
  void drop(Told told)
  {
    for (auto const& [ticket, loader] : std::exchange(proxy.dropped(), {})) {
      payloads.erase(ticket);
      told(ticket, loader);
    }
  }

  /// The next step whose samples are all there, for plan() and then add().
  [[nodiscard]] std::optional<made_step> make()
  {
    made_step next;
    bool const made = stopped && proxy.make(next.step, next.tickets);
    note_health();
    return made && stopped ? std::optional(std::move(next)) : std::nullopt;
  }

  /// Has the plan say who computes the samples of a step, and returns who takes what of them.
  [[nodiscard]] result<std::vector<payload_takers>> plan(data_step& step)
  {
    std::size_t const samples = step.samples.size();
    std::vector<std::uint64_t> sizes(samples);
    for (std::size_t entry = 0; entry < samples; ++entry) {
      for (data_part const& part : step.parts_of(entry)) { sizes[entry] += part.bytes; }
    }
    std::vector<data_share> shares;
    result<void> done;
    auto called = call_user("the plan of a step", [&] {
      if constexpr (plan_of_samples<Plan>) {
        std::vector<rank_id> owner(samples);
        done = plan_with(std::as_const(step), std::span(owner));
        for (std::size_t entry = 0; entry < samples; ++entry) {
          shares.push_back({entry, owner[entry], 0, sizes[entry]});
        }
      } else {
        done = plan_with(std::as_const(step), shares);
      }
    });
    if (!called || !done) { return tl::unexpected((called ? done : called).error()); }
    for (data_share const& each : shares) {
      bool const is_there = each.entry < samples && each.first <= sizes[each.entry] &&
                            each.count <= sizes[each.entry] - each.first;
      if (is_there && to_index(each.rank) < taken.size()) { continue; }
      auto const what = each.entry < samples ? step.samples[each.entry] : 0;
      return fail(error_code::infeasible, each.entry, "the plan of step ", step.number, " gave ",
                  is_there ? concat("sample ", what)
                           : concat(each.count, " bytes from byte ", each.first, " of entry ",
                                    each.entry, ", of ", counted(samples, "sample"), ","),
                  " to rank ", to_index(each.rank), " of ", taken.size(),
                  "; give ranks and bytes that are there");
    }
    step.shares = std::move(shares);
    auto takers = takers_of(step);
    for (std::size_t entry = 0; entry < samples; ++entry) {
      auto const untaken = first_untaken(takers[entry]);
      if (untaken == sizes[entry] && !takers[entry].empty()) { continue; }
      return fail(error_code::infeasible, entry, "the plan of step ", step.number,
                  " gave nobody byte ", untaken, " of the ", sizes[entry], " of sample ",
                  step.samples[entry], "; give each to a rank");
    }
    return takers;
  }

  void add(made_step made)
  {
    steps.push_back(
        {std::make_shared<data_step const>(std::move(made.step)), std::move(made.tickets)});
  }

  /// The step that a rank takes next; null if it is not planned.
  [[nodiscard]] planned_step const* next_of(rank_id rank) const
  {
    std::uint64_t const at = taken[to_index(rank)] - first;
    return at < steps.size() ? &steps[at] : nullptr;
  }

  /// A rank has its next step, before which it computed for so long. Returns whether that was the
  /// last rank, and the step is gone.
  bool take(rank_id rank, std::chrono::nanoseconds computed)
  {
    needed.computed(computed);
    ++steps[taken[to_index(rank)]++ - first].takers;
    if (steps.front().takers < taken.size()) { return false; }
    steps.pop_front();
    ++first;
    proxy.take();
    needed.stepped(proxy.setup().step_samples, taken.size());
    return true;
  }

  /// The first reason stays.
  void stop(error reason)
  {
    if (stopped) { stopped = tl::unexpected(std::move(reason)); }
  }
  void note_health()
  {
    if (!proxy.health()) { stop(proxy.health().error()); }
  }

  Plan plan_with;
  loader_options options;
  data_proxy proxy;
  producer_count needed;
  std::map<std::uint64_t, Payload> payloads;  // by ticket
  std::deque<planned_step> steps;             // that not all ranks have taken
  std::uint64_t first = 0;                    // of these, as taken counts
  std::vector<std::uint64_t> taken;           // by each rank
  std::size_t lost = 0;                       // loaders
  result<void> stopped;
};

}  // namespace ballast::inline v0::detail
