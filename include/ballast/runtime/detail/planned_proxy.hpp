// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_proxy.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>

namespace ballast::inline v0::detail {

/// What a data pipeline plans with: it says which rank computes each sample of a step.
template <class P>
concept data_plan = requires(P& plan, data_step const& step, std::span<rank_id> owner) {
  { plan(step, owner) } -> std::same_as<result<void>>;
};

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

/// What a call of load() gave.
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

/// What a rank has of a step, whose payloads have all come: they are taken out of those that are
/// kept by ticket.
[[nodiscard]] inline data_batch batch_of(std::shared_ptr<data_step const> step,
                                         std::span<std::uint64_t const> tickets, rank_id rank,
                                         std::map<std::uint64_t, std::vector<std::byte>>& payloads)
{
  data_batch batch{std::move(step), {}};
  for (std::size_t entry = 0; entry < tickets.size(); ++entry) {
    if (batch.step->owner[entry] != rank) { continue; }
    batch.own.push_back({entry, std::move(payloads.extract(tickets[entry]).mapped())});
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
                            Payload payload)
  {
    needed.loaded(took);
    if (!proxy.report(loader, ticket, lengths)) { return false; }
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

  /// Has the plan say who computes the samples of a step.
  [[nodiscard]] result<void> plan(data_step& step)
  {
    step.owner.assign(step.samples.size(), rank_id{0});
    result<void> done;
    auto called = call_user("the plan of a step", [&] {
      done = plan_with(static_cast<data_step const&>(step), std::span(step.owner));
    });
    if (!called) { return called; }
    for (std::size_t entry = 0; done && entry < step.owner.size(); ++entry) {
      if (to_index(step.owner[entry]) < taken.size()) { continue; }
      done = fail(error_code::infeasible, entry, "the plan of step ", step.number, " gave sample ",
                  step.samples[entry], " to rank ", to_index(step.owner[entry]), " of ",
                  taken.size(), "; give ranks that are there");
    }
    return done;
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
