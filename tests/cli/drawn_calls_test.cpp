// SPDX-License-Identifier: Apache-2.0
// Calls that succeed, drawn at random: what --plan writes and --format json says, against what is
// counted here from the trace alone. BALLAST_DRAWN_CALLS is how many, for more than usual.

#include "../support/all_assignments.hpp"
#include "program.hpp"

namespace drawn_calls {

using nlohmann::json;

struct trace_row {
  long tokens;
  long group;
  long kind;
};

/// A line of --plan of `plan`, in the order of its columns.
struct plan_line {
  long step, sample, rank, slot, tokens, cost, bag;
};

/// What a call asked for.
struct drawn_call {
  std::string arguments;
  std::vector<trace_row> rows;
  long gpus_of_bag = 1;
  long bags = 1;
  long batch = 1;
  long steps = 1;
  long cap = std::numeric_limits<long>::max();  ///< of a bag, or of a cell
  long multiple = 1;
  bool in_order = false;
  bool together = false;
  bool equal_counts = false;
  bool pads = false;
  bool is_grid = false;
  bool meets_often = false;
  bool has_kinds = false;
};

drawn_call draw(ballast::random_source& random)
{
  auto const below = [&random](long count) {
    return static_cast<long>(random.below(static_cast<std::uint64_t>(count)));
  };
  auto const one_in = [&](long count) { return below(count) == 0; };
  drawn_call call;
  bool const is_small = one_in(2);
  long const rows = is_small ? 3 + below(5) : 20 + below(60);
  long total = 0;
  for (long row = 0; row < rows; ++row) {
    call.rows.push_back({one_in(4) ? 8 + below(400) : 8 + below(60), below(rows), below(2)});
    total += call.rows.back().tokens;
  }
  call.gpus_of_bag = 1L << below(3);
  call.bags = 1 + below(is_small ? 3 : 4);
  call.steps = is_small ? 1 : 1 + below(3);
  call.batch = rows / call.steps;
  call.in_order = one_in(2);
  call.together = one_in(3);
  std::ostringstream text;
  text << " --length tokens --cost tokens --gpus " << call.gpus_of_bag * call.bags
       << " --gpus-per-node " << call.gpus_of_bag * (one_in(2) ? call.bags : 1) << " --bags g"
       << call.gpus_of_bag << "n1 --batch " << call.batch << " --steps " << call.steps << " --seed "
       << below(1000) << (call.in_order ? " --no-shuffle" : "")
       << (call.together ? " --together grp" : "");
  call.is_grid = one_in(3);
  if (call.is_grid) {
    long const each = (408 + below(1 + total / call.bags)) / call.gpus_of_bag + 1;
    call.cap = each * call.gpus_of_bag;
    call.multiple = one_in(3) ? 2 : 1;
    call.meets_often = one_in(2);
    call.has_kinds = !call.together && one_in(3);
    text << " --microbatches multiple_of:" << call.multiple << " --most-per-gpu " << each
         << (call.meets_often ? " --meet microbatch" : "")
         << (call.has_kinds ? " --kind kind" : "");
  } else {
    std::string const names =
        "refine lpt kk refine:nodes=1000 greedy_knapsack round_robin refine:lpt "
        "refine:kk,nodes=1000 padded_batches";
    auto const policies = ballast_test::split(names, " ");
    std::string const policy = policies[random.below(policies.size())];
    call.pads = policy == "padded_batches";
    call.equal_counts = !call.pads && one_in(4);
    call.together = call.together && !call.pads;
    std::string all = text.str();
    if (call.pads) {
      if (auto const at = all.find(" --together grp"); at != all.npos) { all.erase(at, 15); }
    }
    text.str("");
    text << all << " --policy " << policy << (call.equal_counts ? " --samples equal" : "")
         << (!call.pads && !call.equal_counts && one_in(4) ? " --then fewest_moves" : "");
    if (!call.pads && one_in(3)) {
      long const each = total / (call.bags * call.gpus_of_bag) + 100 + below(400);
      call.cap = each * call.gpus_of_bag;
      text << " --most-per-gpu " << each;
    }
  }
  call.arguments = text.str();
  return call;
}

std::vector<plan_line> lines_of(std::string const& csv)
{
  EXPECT_THAT(csv, testing::StartsWith("step,sample,rank,slot,tokens,cost,bag\n"));
  std::vector<plan_line> lines;
  for (auto const& row : ballast_test::rows_of(csv)) {
    auto const in = [&row](char const* name) { return std::stol(row.at(name)); };
    lines.push_back(
        {in("step"), in("sample"), in("rank"), in("slot"), in("tokens"), in("cost"), in("bag")});
  }
  return lines;
}

/// Where the samples of a step are.
struct placed_sample {
  long row, bag, slot;
};

/// The least largest load of a bag, over all plans of a small step that keep to what was asked for.
long least_by_trying(drawn_call const& call, std::vector<placed_sample> const& step)
{
  auto const bags = static_cast<std::size_t>(call.bags);
  auto const judge = [&](ballast_test::assignment const& owner) -> std::optional<long> {
    std::vector<long> loads(bags, 0);
    std::vector<long> counts(bags, 0);
    std::map<long, std::size_t> bag_of_group;
    for (std::size_t at = 0; at < owner.size(); ++at) {
      trace_row const& row = call.rows[static_cast<std::size_t>(step[at].row)];
      auto const [known, is_first] = bag_of_group.try_emplace(row.group, owner[at]);
      if (call.together && known->second != owner[at]) { return std::nullopt; }
      loads[owner[at]] += row.tokens;
      counts[owner[at]] += call.together && !is_first ? 0 : 1;  // what stays together is one
    }
    auto const [fewest, most] = std::ranges::minmax(counts);
    bool const is_even = !call.equal_counts || owner.size() < step.size() || most - fewest <= 1;
    long const longest = std::ranges::max(loads);
    return is_even && longest <= call.cap ? std::optional(longest) : std::nullopt;
  };
  return ballast_test::least_of_all(step.size(), bags, judge)
      .value_or(std::numeric_limits<long>::max());
}

/// The samples of each step, after what the lines say of each was checked.
std::vector<std::vector<placed_sample>> placed(drawn_call const& call,
                                               std::vector<plan_line> const& lines)
{
  std::map<std::pair<long, long>, std::vector<plan_line>> by_sample;
  for (plan_line const& each : lines) { by_sample[{each.step, each.sample}].push_back(each); }
  std::vector<std::vector<placed_sample>> steps(static_cast<std::size_t>(call.steps));
  for (auto const& [key, own] : by_sample) {
    auto const [step, row] = key;
    EXPECT_TRUE(step >= 0 && step < call.steps && row >= 0 && row < std::ssize(call.rows));
    if (testing::Test::HasFailure()) { return {}; }
    long const tokens = call.rows[static_cast<std::size_t>(row)].tokens;
    long sum = 0;
    std::set<long> ranks;
    for (plan_line const& each : own) {
      sum += each.tokens;
      ranks.insert(each.rank);
      EXPECT_EQ(each.bag, own.front().bag);
      EXPECT_EQ(each.slot, own.front().slot);
      EXPECT_EQ(each.rank / call.gpus_of_bag, each.bag) << "a GPU of another bag";
      EXPECT_EQ(each.cost, tokens / call.gpus_of_bag);
      EXPECT_LE(each.tokens, (tokens + call.gpus_of_bag - 1) / call.gpus_of_bag);
    }
    EXPECT_EQ(sum, tokens) << "row " << row;
    EXPECT_EQ(std::ssize(ranks), call.gpus_of_bag) << "no sample is shorter than a bag";
    EXPECT_EQ(std::ssize(own), call.gpus_of_bag);
    steps[static_cast<std::size_t>(step)].push_back({row, own.front().bag, own.front().slot});
  }
  return steps;
}

/// Every row at most once, batch after batch.
void expect_covered(drawn_call const& call, std::vector<std::vector<placed_sample>> const& steps)
{
  std::set<long> seen;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    EXPECT_EQ(std::ssize(steps[step]), call.batch) << "step " << step;
    for (placed_sample const& each : steps[step]) {
      EXPECT_TRUE(seen.insert(each.row).second) << "row " << each.row << " twice";
      if (call.in_order) { EXPECT_EQ(each.row / call.batch, static_cast<long>(step)); }
    }
  }
}

class BallastDrawnCalls : public ballast_test::program_test {
 protected:
  void expect_true(drawn_call const& call, json const& said,
                   std::vector<std::vector<placed_sample>> const& steps) const
  {
    double ratios = 0;
    double slots = 0;
    double least_slots = 0;
    for (auto const& step : steps) {
      std::map<std::pair<long, long>, long> cells;  // tokens by slot and bag
      std::vector<long> loads(static_cast<std::size_t>(call.bags), 0);
      std::vector<std::set<long>> items(loads.size());
      std::map<long, std::set<std::pair<long, long>>> groups;
      std::map<long, std::set<long>> kinds;
      long total = 0;
      long last_slot = 0;
      for (auto const& [row, bag, slot] : step) {
        trace_row const& read = call.rows[static_cast<std::size_t>(row)];
        ASSERT_TRUE(bag >= 0 && bag < call.bags);
        cells[{slot, bag}] += read.tokens;
        loads[static_cast<std::size_t>(bag)] += read.tokens;
        items[static_cast<std::size_t>(bag)].insert(call.together ? read.group : row);
        groups[read.group].insert({slot, bag});
        kinds[slot].insert(read.kind);
        total += read.tokens;
        last_slot = std::max(last_slot, slot);
      }
      for (auto const& [cell, tokens] : cells) { EXPECT_LE(tokens, call.cap); }
      for (auto const& [group, where] : groups) {
        EXPECT_TRUE(!call.together || where.size() == 1) << "group " << group;
      }
      for (auto const& [slot, own] : kinds) {
        EXPECT_TRUE(!call.has_kinds || own.size() == 1) << "slot " << slot;
      }
      if (call.equal_counts) {
        auto const by_size = [](auto const& set) { return set.size(); };
        auto const [fewest, most] = std::ranges::minmax_element(items, {}, by_size);
        EXPECT_LE(most->size() - fewest->size(), 1U);
      }
      long longest = std::ranges::max(loads);
      if (call.meets_often) {
        std::map<long, long> of_slot;
        for (auto const& [cell, tokens] : cells) {
          of_slot[cell.first] = std::max(of_slot[cell.first], tokens);
        }
        longest = 0;
        for (auto const& [slot, most] : of_slot) { longest += most; }
      }
      ratios += static_cast<double>(longest * call.bags) / static_cast<double>(total);
      slots += static_cast<double>(last_slot + 1);
      least_slots +=
          call.is_grid
              ? static_cast<double>((total + call.bags * call.cap - 1) / (call.bags * call.cap))
              : 1;
      if (!call.is_grid && !call.pads && step.size() <= 7) {
        double const bound = static_cast<double>(longest) / (1 + said.at("gap_max").get<double>());
        EXPECT_LE(bound, static_cast<double>(least_by_trying(call, step)) * (1 + 1e-12));
      }
    }
    auto const count = static_cast<double>(steps.size());
    if (!call.pads) {
      EXPECT_NEAR(said.at("balance_ratio_after").get<double>(), ratios / count, 1e-9);
    }
    if (!call.is_grid) {
      EXPECT_EQ(slots, count);
      return;
    }
    double const planned = said.at("microbatches_mean");
    double const fewest = said.at("fewest_microbatches_mean");
    EXPECT_GE(planned + 1e-9, slots / count);
    EXPECT_GE(planned + 1e-9, fewest);
    EXPECT_GE(fewest + 1e-9, least_slots / count);
    EXPECT_EQ(said.at("microbatches_why").size(), steps.size());
  }
};

TEST_F(BallastDrawnCalls, WriteWhatIsTrue)
{
  char const* const asked = std::getenv("BALLAST_DRAWN_CALLS");
  int const calls = asked == nullptr ? 40 : std::atoi(asked);
  ballast::random_source random(57);
  int succeeded = 0;
  int refused = 0;
  while (succeeded < calls) {
    drawn_call const call = draw(random);
    std::string trace = "tokens,grp,kind\n";
    for (trace_row const& row : call.rows) {
      trace += std::to_string(row.tokens) + "," + std::to_string(row.group) + "," +
               std::to_string(row.kind) + "\n";
    }
    file("trace.csv", trace);
    std::string const arguments =
        "plan --trace trace.csv" + call.arguments + " --plan plan.csv --format json";
    SCOPED_TRACE(arguments + "\n" + trace);
    auto const result = run(arguments);
    if (result.exit_code == 1 && call.cap < std::numeric_limits<long>::max()) {
      EXPECT_THAT(result.error, testing::StartsWith("ballast: step "));
      ASSERT_LE(++refused, calls / 2 + 5) << result.error;
      continue;
    }
    ASSERT_EQ(result.exit_code, 0) << result.error;
    ++succeeded;
    auto const steps = placed(call, lines_of(content("plan.csv")));
    ASSERT_FALSE(HasFailure());
    expect_covered(call, steps);
    expect_true(call, json::parse(result.out), steps);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(BallastDrawnCalls, PackWhatIsTrue)
{
  ballast::random_source random(58);
  for (int call = 0; call < 10; ++call) {
    std::string trace = "tokens\n";
    std::vector<long> lengths;
    for (std::uint64_t rows = 1 + random.below(60); rows > 0; --rows) {
      lengths.push_back(static_cast<long>(1 + random.below(200)));
      trace += std::to_string(lengths.back()) + "\n";
    }
    long const capacity = static_cast<long>(208 + random.below(600));
    long const most = static_cast<long>(1 + random.below(9));
    long const multiple = static_cast<long>(1 + random.below(3));
    long const rounded = random.below(2) == 0 ? 1 : 8;
    bool const is_padded = random.below(3) == 0;
    file("trace.csv", trace);
    json const said =
        json_of("pack --trace trace.csv --length tokens --most-per-gpu " +
                std::to_string(capacity) + " --samples at_most:" + std::to_string(most) +
                " --bins-multiple-of " + std::to_string(multiple) + " --rounded-to " +
                std::to_string(rounded) + (is_padded ? " --padded" : "") + " --plan bins.csv");
    SCOPED_TRACE(said.dump() + trace);
    ASSERT_THAT(content("bins.csv"), testing::StartsWith("step,sample,bag,tokens\n"));
    std::set<long> seen;
    std::map<long, std::vector<long>> bins;
    for (auto const& row : ballast_test::rows_of(content("bins.csv"))) {
      long const sample = std::stol(row.at("sample"));
      ASSERT_TRUE(row.at("step") == "0" && sample >= 0 && sample < std::ssize(lengths)) << sample;
      EXPECT_TRUE(seen.insert(sample).second) << sample;
      long const length = lengths[static_cast<std::size_t>(sample)];
      bins[std::stol(row.at("bag"))].push_back((length + rounded - 1) / rounded * rounded);
    }
    EXPECT_EQ(seen.size(), lengths.size());
    long total = 0;
    long largest = 0;
    for (auto const& [bin, own] : bins) {
      long const sum = std::accumulate(own.begin(), own.end(), 0L);
      long const takes = is_padded ? std::ranges::max(own) * std::ssize(own) : sum;
      EXPECT_LE(takes, capacity);
      EXPECT_LE(std::ssize(own), most);
      total += sum;
      largest = std::max(largest, takes);
    }
    long const all = said.at("bins");
    long const fewest = said.at("fewest_bins");
    EXPECT_EQ(all % multiple, 0);
    EXPECT_EQ(all - said.at("empty_bins").get<long>(), std::ssize(bins));
    EXPECT_EQ(said.at("largest"), largest);
    EXPECT_LE(said.at("largest_bound").get<long>(), largest);
    EXPECT_LE(fewest, all);
    EXPECT_GE(fewest * capacity, total);
    EXPECT_GE(fewest * most, std::ssize(lengths));
  }
}

}  // namespace drawn_calls
