// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/open_window.hpp>
#include <ballast/runtime/detail/state_text.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What a state says of the step after which it was saved.
struct saved_step {
  std::int64_t sample = -1;  // its first one; -1 where it has none
  std::vector<tokens> lengths = {};
  cost_units cost = 0;     // in the windows, where these are of several steps
  std::uint64_t plan = 0;  // a word of what its window trains when
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t left_out = 0;

  [[nodiscard]] static std::string lengths_text(std::span<tokens const> lengths)
  {
    std::string text;
    for (tokens const length : lengths) { text += concat(text.empty() ? "" : " and ", length); }
    return text;
  }
};

/// Writes and reads the states of a data pipeline: what they were made by, where they are, and a
/// word of all that, so that no other text is taken.
class data_state {
 public:
  data_state(data_setup const& setup, data_windows const& windows)
      : policy_(windows.steps > 1 ? word_of_policy(windows) : std::uint64_t{0}),
        made_by_{
            {{"samples", setup.samples},
             {"step_samples", setup.step_samples},
             {"modules", setup.modules},
             {"seed", setup.seed},
             {"setup.together", digest{}.add(std::span(std::as_const(setup.together))).value()},
             {"windows.steps", windows.steps},
             {"windows.held_back", windows.held_back},
             {"windows.policy", policy_.value_or(0)}}}
  {}

  /// Errors      failed: the windows' policy threw.
  [[nodiscard]] result<void> health() const
  {
    return policy_.map([](std::uint64_t) {});
  }

  /// What read() needs to go on after a step. `plan` is the word of its window's plan.
  ///
  /// Errors      failed: the windows' cost threw.
  [[nodiscard]] result<std::string> save(data_step const& step, std::uint64_t plan,
                                         data_windows const& windows) const
  {
    bool const empty = step.samples.empty();
    auto const cost = empty ? 0 : cost_of(windows, step.lengths_of(0));
    if (!cost) { return tl::unexpected(cost.error()); }
    saved_step saved{.cost = *cost,
                     .plan = plan,
                     .number = step.number + 1,
                     .epoch = step.epoch + (step.ends_epoch ? 1 : 0),
                     .position = step.ends_epoch ? 0 : step.position + 1,
                     .left_out = step.left_out};
    saved.lengths.resize(made_by_[2].second);
    if (!empty) {
      saved.sample = static_cast<std::int64_t>(step.samples.front());
      std::copy_n(step.lengths.begin(), saved.lengths.size(), saved.lengths.begin());
    }
    state_writer out(title);
    auto made_by = made_by_;
    describe(saved, made_by, out);
    std::uint64_t const check = word_of(out.text());
    return out.line("check").number(check).text();
  }

  /// Errors      syntax: save() did not write it; mismatch: it is of other data, steps or windows.
  [[nodiscard]] result<saved_step> read(std::string_view text, data_windows const& windows) const
  {
    if (text.starts_with("data_pipeline 1\n")) {
      return fail(error_code::mismatch, 0,
                  "the saved state is of an earlier version, which did not write what it was made "
                  "by; begin again, or with a state that this version has saved");
    }
    state_reader in(title, text);
    auto theirs = made_by_;
    saved_step saved;
    describe(saved, theirs, in);
    std::uint64_t check = 0;
    in.line("check").number(check);
    if (auto done = in.finish(); !done) { return tl::unexpected(done.error()); }
    if (check != word_of(text.substr(0, text.rfind("check")))) {
      return fail(error_code::syntax, text.rfind("check"),
                  "the saved state was changed after it was saved; give what save() returned");
    }
    for (std::size_t at = 0; at < theirs.size(); ++at) {
      auto const [name, own] = made_by_[at];
      if (theirs[at].second == own) { continue; }
      bool const is_word = name == "setup.together" || name == "windows.policy";
      return fail(error_code::mismatch, 0, "the saved state is of ",
                  is_word ? concat("another ", name)
                          : concat(name, " = ", theirs[at].second, ", and this pipeline of ", own),
                  "; give the setup and windows with which it was saved");
    }
    auto const cost = saved.sample < 0 ? 0 : cost_of(windows, saved.lengths);
    if (!cost) { return tl::unexpected(cost.error()); }
    if (*cost != saved.cost) {
      return fail(error_code::mismatch, 0, "sample ", saved.sample, " of length ",
                  saved.lengths_text(saved.lengths), " cost ", saved.cost,
                  " where the state was saved, and costs ", *cost,
                  " here; give data_windows the cost with which it was saved");
    }
    return saved;
  }

 private:
  static constexpr std::string_view title = "data_pipeline 2";

  template <class State>
  static void describe(saved_step& saved, auto& made_by, State& state)
  {
    for (auto& [name, value] : made_by) { state.line(name).number(value); }
    state.line("sample").number(saved.sample, -1);
    for (std::size_t module = 0; module < made_by[2].second && !state.failed(); ++module) {
      saved.lengths.resize(std::max(saved.lengths.size(), module + 1));
      state.number(saved.lengths[module], 0, longest_sample);
    }
    state.line("cost").number(saved.cost, 0);
    state.line("plan").number(saved.plan);
    state.line("step").number(saved.number, 0);
    state.line("epoch").number(saved.epoch, 0);
    state.line("position").number(saved.position, 0);
    state.line("left_out").number(saved.left_out, 0);
  }

  /// 0 where windows are of one step, which asks for no cost.
  [[nodiscard]] static result<cost_units> cost_of(data_windows const& windows,
                                                  std::span<tokens const> lengths)
  {
    cost_units cost = 0;
    if (windows.steps == 1) { return cost; }
    return call_user("the cost of data_windows", [&] { cost = windows.cost(lengths); }).map([&] {
      return cost;
    });
  }
  [[nodiscard]] static std::uint64_t word_of(std::string_view text)
  {
    return digest{}.add(std::span(text)).value();
  }

  result<std::uint64_t> policy_;  // a word of it
  std::array<std::pair<std::string_view, std::uint64_t>, 8> made_by_;
};

/// What is left to compare with the state from which a data pipeline goes on: the lengths of a
/// sample, which a loader loads for that, and the plan of the window in which it was saved.
class compared_data {
 public:
  compared_data() = default;
  explicit compared_data(saved_step saved) : saved_(std::move(saved)), is_over_(saved_.sample < 0)
  {}

  [[nodiscard]] bool is_over() const { return is_over_; }

  [[nodiscard]] std::optional<data_deal> deal(std::uint32_t loader)
  {
    if (is_over_ || loader_) { return {}; }
    loader_ = loader;
    return data_deal{ticket, static_cast<std::uint64_t>(saved_.sample)};
  }
  void lose(std::uint32_t loader)
  {
    if (loader_ == loader) { loader_.reset(); }
  }
  /// Whether a loader tells of this sample, with which it is over.
  [[nodiscard]] bool ends(std::uint32_t loader, std::uint64_t of)
  {
    if (of != ticket) { return false; }
    is_over_ = is_over_ || loader_ == loader;
    return true;
  }

  /// Errors      mismatch: the sample has other lengths.
  [[nodiscard]] result<void> compare(std::span<tokens const> lengths) const
  {
    if (std::equal(lengths.begin(), lengths.end(), saved_.lengths.begin(), saved_.lengths.end())) {
      return {};
    }
    return fail(error_code::mismatch, static_cast<std::size_t>(saved_.sample), "sample ",
                saved_.sample, " had length ", saved_step::lengths_text(saved_.lengths),
                " when the state was saved, and has ", saved_step::lengths_text(lengths),
                " now; give the data with which it was saved");
  }

  /// Errors      mismatch: the window is that of the state, and was planned otherwise.
  [[nodiscard]] result<void> compare(open_window const& window) const
  {
    if (window.taken == 0 || window.word == saved_.plan) { return {}; }
    return fail(error_code::mismatch, 0,
                "the saved state is of a window that was planned otherwise: of samples with other "
                "lengths, of which others could be decoded, or by another policy or cost; give the "
                "data and windows with which it was saved");
  }

 private:
  static constexpr std::uint64_t ticket = ~std::uint64_t{0};  // no other sample has it

  saved_step saved_;
  bool is_over_ = true;
  std::optional<std::uint32_t> loader_;  // that has it
};

/// The order of an epoch: a random permutation of its units (samples, or groups of samples), cut
/// into steps of at most step_samples samples.
///
/// Ensures     (1) every sample is in one step, with its whole group
///             (2) the same order for the same setup and epoch
/// Complexity  four bytes a sample; of groups eight more, and eight a group. O(samples) to shuffle.
class epoch_order {
 public:
  explicit epoch_order(data_setup const& setup)
      : samples_(setup.samples), step_samples_(setup.step_samples), seed_(setup.seed)
  {
    if (!setup.together.empty()) { group(setup.together); }
    order_.resize(begins_.empty() ? samples_ : begins_.size() - 1);
    shuffle(0);
  }

  /// Takes the order of another epoch, from its first step on.
  void shuffle(std::uint64_t epoch)
  {
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    random_source random(digest{}.add(seed_).add(epoch).value());
    random.shuffle(std::span(order_));
    next_ = 0;
  }

  [[nodiscard]] bool at_end() const { return next_ == order_.size(); }

  /// Calls use(samples of a unit) for each unit of the next step, and goes on to the one after it.
  template <class Use>
  void next_step(Use use)
  {
    for (std::size_t room = step_samples_; next_ < order_.size(); ++next_) {
      std::uint32_t const unit = order_[next_];
      std::span<std::uint32_t const> const members =
          begins_.empty() ? std::span<std::uint32_t const>(&unit, 1)
                          : std::span<std::uint32_t const>(members_).subspan(
                                begins_[unit], begins_[unit + 1] - begins_[unit]);
      if (members.size() > room) { return; }
      room -= members.size();
      use(members);
    }
  }

 private:
  void group(std::vector<std::uint32_t> const& together)
  {
    members_.resize(samples_);
    std::iota(members_.begin(), members_.end(), std::uint32_t{0});
    std::sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return together[a] < together[b] || (together[a] == together[b] && a < b);
    });
    begins_.push_back(0);
    for (std::size_t at = 1; at <= samples_; ++at) {
      if (at < samples_ && together[members_[at]] == together[members_[at - 1]]) { continue; }
      std::size_t const size = at - begins_.back();
      BALLAST_EXPECTS(size <= step_samples_, "a group of setup.together has ",
                      counted(size, "sample"), ", and a step has room for ", step_samples_);
      begins_.push_back(static_cast<std::uint32_t>(at));
    }
  }

  std::size_t samples_;
  std::size_t step_samples_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> order_;    // of units
  std::vector<std::uint32_t> begins_;   // of each group among the members; empty without groups
  std::vector<std::uint32_t> members_;  // samples, group by group
  std::size_t next_ = 0;                // unit of the order
};

/// Where a data pipeline is in its epochs: gives the windows, one after the other.
class window_opener {
 public:
  window_opener(data_setup setup, std::size_t steps)
      : setup_(checked(std::move(setup), steps)), steps_(steps), order_(setup_)
  {}

  [[nodiscard]] data_setup const& setup() const noexcept { return setup_; }

  [[nodiscard]] bool at_end() const
  {
    return setup_.samples == 0 || epoch_ >= setup_.epochs ||
           (order_.at_end() && epoch_ + 1 == setup_.epochs);
  }

  /// The next window, if there is one. Its samples wait, in the order in which they arrive.
  [[nodiscard]] open_window open()
  {
    BALLAST_EXPECTS(!at_end());
    if (order_.at_end()) {
      order_.shuffle(++epoch_);
      position_ = 0;
      trained_ = 0;
    }
    open_window window;
    window.epoch = epoch_;
    window.first_position = position_;
    window.first_number = number_;
    window.first_ticket = tickets_;
    window.unit_begins.push_back(0);
    for (; window.steps < steps_ && !order_.at_end(); ++window.steps) {
      order_.next_step([&](std::span<std::uint32_t const> samples) {
        auto const unit = static_cast<std::uint32_t>(window.unit_steps.size());
        for (std::uint32_t const sample : samples) {
          window.samples.push_back({.sample = sample, .unit = unit});
        }
        window.unit_begins.push_back(static_cast<std::uint32_t>(window.samples.size()));
        window.unit_steps.push_back(static_cast<std::uint32_t>(window.steps));
      });
    }
    window.lengths.resize(window.samples.size() * setup_.modules);
    window.parts.reserve(window.samples.size());
    window.unreported = window.samples.size();
    window.made = window.taken = std::exchange(trained_, 0);
    window.ends_epoch = order_.at_end();
    window.sort_by_step();
    position_ += window.steps;
    number_ += window.steps;
    tickets_ += window.samples.size();
    return window;
  }

  /// Whether there is the step after which a state was saved, and so many samples before it.
  ///
  /// Errors      out_of_range: there is not.
  /// Complexity  O(samples); with groups, O(samples) an epoch before it.
  [[nodiscard]] result<void> expect_place(saved_step const& saved) const
  {
    auto const refuse = [](auto const&... what) {
      return fail(error_code::out_of_range, 0, "the saved state ", what...,
                  "; give what save() returned");
    };
    if (saved.epoch > setup_.epochs || (saved.epoch == setup_.epochs && saved.position > 0)) {
      return refuse("is in epoch ", saved.epoch, " of ", setup_.epochs);
    }
    epoch_order order = order_;
    uint128 steps = 0;    // before it
    uint128 samples = 0;  // of these
    if (setup_.together.empty()) {
      samples = uint128{saved.epoch} * setup_.samples;
      steps = uint128{saved.epoch} * (setup_.samples / setup_.step_samples +
                                      (setup_.samples % setup_.step_samples > 0 ? 1 : 0));
    } else {
      for (std::uint64_t epoch = 0; epoch < saved.epoch; ++epoch) {
        for (order.shuffle(epoch); !order.at_end(); ++steps) { samples += skip_step(order); }
      }
    }
    order.shuffle(saved.epoch);
    for (std::uint64_t step = 0; step < saved.position && !order.at_end(); ++step) {
      samples += skip_step(order);
    }
    if (saved.position > 0 && order.at_end()) {
      return refuse("is at step ", saved.position, " of an epoch that has no more steps");
    }
    if (saved.number != steps + saved.position) {
      return refuse("is at step ", saved.position, " of epoch ", saved.epoch,
                    ", which is not step ", saved.number, " of all");
    }
    if (saved.left_out > samples) {
      return refuse("has left out ", saved.left_out, " samples, more than there were");
    }
    return {};
  }

  void go_to(saved_step const& saved)
  {
    BALLAST_EXPECTS(tickets_ == 0, "a data pipeline is restored before it deals anything");
    epoch_ = saved.epoch;
    trained_ = saved.position % steps_;
    position_ = saved.position - trained_;
    number_ = saved.number - trained_;
    order_.shuffle(epoch_);
    for (std::uint64_t step = 0; step < position_; ++step) { (void)skip_step(order_); }
  }

 private:
  /// Returns how many samples it has.
  [[nodiscard]] static std::uint64_t skip_step(epoch_order& order)
  {
    std::uint64_t samples = 0;
    order.next_step([&](std::span<std::uint32_t const> unit) { samples += unit.size(); });
    return samples;
  }

  [[nodiscard]] static data_setup checked(data_setup setup, std::size_t steps)
  {
    BALLAST_EXPECTS(
        setup.step_samples >= 1 && setup.modules >= 1 && setup.fetched_ahead >= 1 && steps >= 1,
        "step_samples, modules, fetched_ahead or the steps of a window are 0");
    BALLAST_EXPECTS(setup.samples < std::numeric_limits<std::uint32_t>::max(),
                    "a data pipeline numbers samples by 32 bits, and is given ", setup.samples);
    BALLAST_EXPECTS(setup.together.empty() || setup.together.size() == setup.samples,
                    "setup.together has ", counted(setup.together.size(), "entry"), " for ",
                    counted(setup.samples, "sample"));
    return setup;
  }

  data_setup setup_;
  std::size_t steps_;
  epoch_order order_;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;  // of the next window's first step in its epoch
  std::uint64_t number_ = 0;    // of that step
  std::uint64_t trained_ = 0;   // steps of the next window that were taken before a restore
  std::uint64_t tickets_ = 0;
};

}  // namespace detail

/// What one rank knows of a data pipeline: which samples were dealt to which loader, how long they
/// are, which steps they form. It holds indices and lengths, no payloads, and knows no threads, no
/// ranks and no clock: who runs it says when a loader asks, reports or is lost. `data_pipeline`
/// runs it for threads, `serve_as_proxy` for ranks.
///
/// Each sample of an epoch is dealt, reported with its lengths, delivered and taken: deal(), then
/// report() or cannot_decode(), make() for each step whose samples have all been reported, deliver()
/// for each payload that has left its loader, and take() when all ranks have the step; lose() deals
/// anew what a loader had.
///
/// Where lengths_of(sample) has the lengths of samples, windows are planned by them before anything
/// is decoded, and steps by the lengths that are reported. Else a window is planned when all of its
/// samples were decoded.
///
/// Expects     setup.step_samples, modules, fetched_ahead and windows.steps are at least 1,
///             setup.samples below 2^32, setup.together empty or of as many entries, no group
///             larger than a step.
/// Ensures     (1) which samples train in which step depends on setup, windows, lengths and on what
///                 cannot be decoded, and on nothing else
///             (2) every sample that can be decoded, and whose group can be, is in one step of each
///                 epoch; no sample is in two
///             (3) a report of a sample that was dealt to another loader meanwhile changes nothing
///             (4) at most (windows.steps - 1 + fetched_ahead) x step_samples samples are dealt, and
///                 not taken; no step waits for a sample that this bound holds up
///             (5) restored from step.save(), with any number of loaders, all further steps have
///                 equal digests; what was dealt and not taken comes again
///             (6) a sample trains at most windows.held_back steps after it arrives
/// Errors      health(), after which nothing is dealt or made any more. out_of_range: a wrong number
///             of lengths, or one below 0 or above longest_sample, or parts that are not all of a
///             payload, or costs of a window that data_windows refuses; mismatch: a sample that was
///             fetched again has other lengths or parts;
///             infeasible: the window policy broke its promise; failed: it, the cost of windows or
///             lengths_of threw, or a sample cannot be decoded where that stops the step, or could
///             once, and not after its loader was lost.
/// Complexity  4 bytes a sample of an epoch, and some 50 a sample and 24 a part of the windows that
///             are open.
///             A call is O(1), but for one of each window, which is O(its samples), and lose.
/// Source      FlexRL, 2025, section 4.4: a proxy with metadata, local loaders with data.
class data_proxy {
 public:
  explicit data_proxy(data_setup setup, data_windows windows = {},
                      detail::known_lengths lengths_of = {})
      : opener_(std::move(setup), windows.steps),
        windows_(std::move(windows)),
        lengths_of_(std::move(lengths_of)),
        state_(opener_.setup(), windows_),
        health_(state_.health())
  {}

  [[nodiscard]] data_setup const& setup() const noexcept { return opener_.setup(); }

  /// Goes on after the step whose save() this is. Before anything was dealt.
  ///
  /// A sample of that step is dealt again, first: health() says if its lengths differ, or later, if
  /// the window in which the state was saved is planned otherwise.
  ///
  /// Errors      syntax: not what save() wrote; mismatch: of other samples, groups, steps, windows,
  ///             or of another seed, policy or cost; out_of_range: there is no such step.
  [[nodiscard]] result<void> restore(std::string_view text)
  {
    auto const saved = state_.read(text, windows_);
    if (!saved) { return tl::unexpected(saved.error()); }
    if (auto done = opener_.expect_place(*saved); !done) { return done; }
    opener_.go_to(*saved);
    left_out_ = saved->left_out;
    compared_ = detail::compared_data(*saved);
    if (lengths_of_ && saved->position % windows_.steps > 0) { (void)open(); }
    if (!health_) { return tl::unexpected(health_.error()); }
    return {};
  }

  /// After a restore the sample whose lengths are compared with those of the state.
  [[nodiscard]] std::optional<data_deal> deal_again(std::uint32_t loader)
  {
    return health_ ? compared_.deal(loader) : std::nullopt;
  }

  /// The next sample that this loader is to fetch; none where queues are full, or nothing is left.
  [[nodiscard]] std::optional<data_deal> deal(std::uint32_t loader)
  {
    if (auto const again = deal_again(loader)) { return again; }
    std::size_t const most = (windows_.steps - 1 + setup().fetched_ahead) * setup().step_samples;
    if (open_.fetched >= most || !health_) { return {}; }
    data_deal dealt;
    for (std::size_t at = 0;; ++at) {
      if (at == open_.all.size() && !open()) { return {}; }
      if (open_.deal(open_.all[at], loader, dealt)) { return dealt; }
    }
  }

  /// A loader has decoded what it was dealt: a payload of so many bytes, in these parts, or in one.
  /// Returns whether it is to keep the payload: not if the sample was dealt to another loader
  /// meanwhile, or is not needed.
  [[nodiscard]] bool report(std::uint32_t loader, std::uint64_t ticket,
                            std::span<tokens const> lengths, std::span<data_part const> parts = {},
                            std::uint64_t bytes = 0)
  {
    if (compared_.ends(loader, ticket)) {
      if (health_) { health_ = compared_.compare(lengths); }
      return false;
    }
    detail::open_window* const window = awaited(loader, ticket);
    if (window == nullptr) { return false; }
    detail::window_sample& sample = window->samples[ticket - window->first_ticket];
    health_ = window->keep_lengths(sample, lengths, setup().modules).and_then([&] {
      return window->keep_parts(sample, parts, bytes, setup().modules);
    });
    if (!health_) { return false; }
    sample.place = place::held;
    note(*window, sample);
    return sample.place == place::held;
  }

  /// A loader could not decode what it was dealt, and says why.
  void cannot_decode(std::uint32_t loader, std::uint64_t ticket, std::string_view why)
  {
    detail::open_window* const window = awaited(loader, ticket);
    if (compared_.ends(loader, ticket) || window == nullptr) { return; }
    detail::window_sample const& sample = window->samples[ticket - window->first_ticket];
    bool const made = window->planned && window->unit_steps[sample.unit] < window->made;
    if (made || setup().stops_at_undecodable) {
      health_ = fail(error_code::failed, sample.sample, "sample ", sample.sample,
                     " cannot be decoded: ", why,
                     made ? "; it was decoded once, before its loader was lost: look what changes "
                            "at its source"
                          : "; repair it, or have such samples left out");
      return;
    }
    auto const members = window->of_unit(sample.unit);
    std::string const group = detail::counted(members.size(), "sample");
    news_.push_back(detail::concat("sample ", sample.sample, " cannot be decoded: ", why,
                                   "; it is left out",
                                   members.size() > 1 ? " with its group of " + group : ""));
    for (detail::window_sample& member : members) { open_.put(*window, member, place::left_out); }
    for (detail::window_sample& member : members) { note(*window, member); }
  }

  /// A payload has left its loader for where it is computed.
  void deliver(std::uint64_t ticket)
  {
    if (detail::open_window* const window = open_.find(ticket)) {
      open_.deliver(window->samples[ticket - window->first_ticket]);
    }
  }

  /// A loader is lost, or so late that it is given up: what it has is dealt anew. Returns how many
  /// samples these are.
  std::size_t lose(std::uint32_t loader, std::string_view why)
  {
    std::size_t const lost = open_.lose(loader);
    compared_.lose(loader);
    news_.push_back(detail::concat("loader ", loader, " was lost: ", why, "; ", lost,
                                   lost == 1 ? " sample was" : " samples were", " dealt anew"));
    return lost;
  }

  /// Makes the next step if all of its samples have been reported, and returns whether it did. Its
  /// owners are for the plan to fill in. `tickets` are those of its samples.
  [[nodiscard]] bool make(data_step& step, std::vector<std::uint64_t>& tickets)
  {
    auto const window = std::find_if(open_.all.begin(), open_.all.end(),
                                     [](auto const& each) { return each.made < each.steps; });
    if (!health_ || !compared_.is_over() || window == open_.all.end() || !window->planned ||
        window->unreported_in[window->made] > 0) {
      return false;
    }
    left_out_ += window->make(step, tickets, setup().modules);
    step.left_out = left_out_;
    step.news = std::exchange(news_, {});
    auto saved = state_.save(step, window->word, windows_);
    health_ = std::move(saved).map([&](std::string text) { step.saved = std::move(text); });
    return health_.has_value();
  }

  /// All ranks have what they compute of the oldest step that was made.
  void take()
  {
    BALLAST_EXPECTS(!open_.all.empty() && open_.all.front().taken < open_.all.front().made,
                    "no step was made that has not been taken");
    open_.take();
  }

  /// Whether all steps of all epochs have been made.
  [[nodiscard]] bool finished() const
  {
    return opener_.at_end() &&
           (open_.all.empty() || open_.all.back().made == open_.all.back().steps);
  }

  /// Payloads that loaders hold and nobody needs: ticket and loader. The caller empties it.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint32_t>>& dropped() noexcept
  {
    return open_.dropped;
  }
  [[nodiscard]] result<void> const& health() const noexcept { return health_; }
  /// Samples that were dealt and not taken.
  [[nodiscard]] std::size_t fetched() const noexcept { return open_.fetched; }

 private:
  using place = detail::sample_place;

  /// The window of a sample that was dealt to this loader, and to none after it.
  [[nodiscard]] detail::open_window* awaited(std::uint32_t loader, std::uint64_t ticket)
  {
    detail::open_window* const window = open_.find(ticket);
    if (window == nullptr || !health_) { return nullptr; }
    auto const& own = window->samples[ticket - window->first_ticket];
    return own.place == place::dealt && own.loader == loader ? window : nullptr;
  }

  /// Opens the next window, if there is one.
  [[nodiscard]] bool open()
  {
    // Windows of which all is left out are in no queue.
    if (opener_.at_end() || open_.all.size() > open_.fetched + setup().fetched_ahead) {
      return false;
    }
    detail::open_window& window = open_.all.emplace_back(opener_.open());
    window.planned = windows_.steps == 1;
    if (window.planned || !lengths_of_) { return health_.has_value(); }
    health_ = window.measure(lengths_of_, setup().modules);
    if (health_) { plan(window); }
    return health_.has_value();
  }

  void plan(detail::open_window& window)
  {
    health_ =
        window.plan(windows_, setup().modules).and_then([&] { return compared_.compare(window); });
    window.planned = true;
    for (detail::window_sample& each : window.samples) {  // what was taken before a restore
      if (window.unit_steps[each.unit] < window.taken) { open_.put(window, each, place::gone); }
    }
  }

  /// The lengths of a sample are known, or it is left out: plans the window after its last one.
  void note(detail::open_window& window, detail::window_sample& sample)
  {
    if (std::exchange(sample.reported, true)) { return; }
    --window.unreported;
    if (window.planned) {
      --window.unreported_in[window.unit_steps[sample.unit]];
    } else if (window.unreported == 0) {
      plan(window);
    }
  }

  detail::window_opener opener_;
  data_windows windows_;
  detail::known_lengths lengths_of_;
  detail::data_state state_;
  detail::open_windows open_;
  std::uint64_t left_out_ = 0;  // samples of steps that were made
  result<void> health_;
  std::vector<std::string> news_;
  detail::compared_data compared_;  // with the state that was restored
};

}  // namespace ballast::inline v0
