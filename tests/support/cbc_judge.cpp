// SPDX-License-Identifier: Apache-2.0
#include "cbc_judge.hpp"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

namespace ballast_test {

namespace {

constexpr double endless = std::numeric_limits<double>::max();  // for the solver no bound

/// Rows of a program, and its columns one after the other, as the solver wants them.
struct integer_program {
  std::vector<double> row_least;
  std::vector<double> row_most;
  std::vector<int> starts{0};
  std::vector<int> rows;
  std::vector<double> values;
  std::vector<double> column_most;

  int add_row(double least, double most)
  {
    row_least.push_back(least);
    row_most.push_back(most);
    return static_cast<int>(row_least.size()) - 1;
  }
  void add(int row, double value)
  {
    rows.push_back(row);
    values.push_back(value);
  }
  void end_column(double most)
  {
    starts.push_back(static_cast<int>(rows.size()));
    column_most.push_back(most);
  }
  [[nodiscard]] int columns() const { return static_cast<int>(column_most.size()); }
};

bool are_alike(cbc_step const& step)
{
  auto const are_equal = [](auto const& of) {
    return std::ranges::all_of(of, [&of](auto each) { return each == of.front(); });
  };
  return step.fits.empty() && are_equal(step.speeds) &&
         std::ranges::all_of(step.caps, [&](auto const& each) { return are_equal(each.room); });
}

}  // namespace

cbc_verdict ask_cbc(cbc_step const& step, double seconds)
{
  std::size_t const samples = step.costs.size();
  std::size_t const bags = step.speeds.size();
  bool const alike = are_alike(step);
  auto const may_be = [&](std::size_t sample, std::size_t bag) {
    return (!alike || bag <= sample) && (step.fits.empty() || step.fits[sample * bags + bag]);
  };

  integer_program program;
  std::vector<int> row_of_sample;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    row_of_sample.push_back(program.add_row(1, 1));
  }
  std::vector<int> loads;
  std::vector<int> counts;
  std::vector<std::vector<int>> caps(bags);
  std::vector<std::map<std::int64_t, int>> keys(bags);
  for (std::size_t bag = 0; bag < bags; ++bag) {
    loads.push_back(program.add_row(-endless, 0));
    for (auto const& cap : step.caps) {
      caps[bag].push_back(program.add_row(0, static_cast<double>(cap.room[bag])));
    }
    bool const is_any = step.most == std::numeric_limits<std::int64_t>::max();
    double const most = is_any ? endless : static_cast<double>(step.most);
    counts.push_back(step.multiple > 1 ? program.add_row(0, 0)
                                       : program.add_row(static_cast<double>(step.least), most));
    for (auto const key : step.apart) {
      if (!keys[bag].contains(key)) { keys[bag][key] = program.add_row(0, 1); }
    }
  }
  // Of samples that stay together, each and the one before it: their columns have one value.
  std::vector<std::size_t> one_before(samples, samples);
  std::vector<std::vector<int>> as_before(samples);
  for (std::size_t sample = 0; sample < step.together.size(); ++sample) {
    for (std::size_t other = 0; other < sample; ++other) {
      if (step.together[other] == step.together[sample]) { one_before[sample] = other; }
    }
    if (one_before[sample] == samples) { continue; }
    for (std::size_t bag = 0; bag < bags; ++bag) {
      as_before[sample].push_back(program.add_row(0, 0));
    }
  }

  for (std::size_t bag = 0; bag < bags; ++bag) {
    program.add(loads[bag], -static_cast<double>(step.speeds[bag]));
  }
  program.end_column(endless);
  for (std::size_t sample = 0; sample < samples; ++sample) {
    for (std::size_t bag = 0; bag < bags; ++bag) {
      program.add(row_of_sample[sample], 1);
      program.add(loads[bag], static_cast<double>(step.costs[sample]));
      for (std::size_t at = 0; at < step.caps.size(); ++at) {
        program.add(caps[bag][at], static_cast<double>(step.caps[at].takes[sample]));
      }
      program.add(counts[bag], 1);
      if (!step.apart.empty()) { program.add(keys[bag][step.apart[sample]], 1); }
      if (!as_before[sample].empty()) { program.add(as_before[sample][bag], 1); }
      for (std::size_t next = sample + 1; next < samples; ++next) {
        if (one_before[next] == sample) { program.add(as_before[next][bag], -1); }
      }
      program.end_column(may_be(sample, bag) ? 1 : 0);
    }
  }
  for (std::size_t bag = 0; bag < bags && step.multiple > 1; ++bag) {  // how many multiples
    program.add(counts[bag], -static_cast<double>(step.multiple));
    program.end_column(static_cast<double>(samples));
  }
  std::vector<double> const zeros(program.column_most.size(), 0.0);
  std::vector<double> objective = zeros;
  objective[0] = 1.0;

  using model = std::remove_pointer_t<decltype(Cbc_newModel())>;
  std::unique_ptr<model, void (*)(model*)> const solver(Cbc_newModel(), &Cbc_deleteModel);
  Cbc_loadProblem(solver.get(), program.columns(), static_cast<int>(program.row_least.size()),
                  program.starts.data(), program.rows.data(), program.values.data(), zeros.data(),
                  program.column_most.data(), objective.data(), program.row_least.data(),
                  program.row_most.data());
  for (int column = 1; column < program.columns(); ++column) {
    Cbc_setInteger(solver.get(), column);
  }
  Cbc_setLogLevel(solver.get(), 0);
  Cbc_setParameter(solver.get(), "seconds", std::to_string(seconds).c_str());
  Cbc_setParameter(solver.get(), "ratioGap", "0");
  Cbc_setParameter(solver.get(), "allowableGap", "0");
  Cbc_solve(solver.get());

  cbc_verdict verdict;
  verdict.proven =
      Cbc_isProvenOptimal(solver.get()) != 0 || Cbc_isProvenInfeasible(solver.get()) != 0;
  verdict.bound = Cbc_getBestPossibleObjValue(solver.get());
  double const* const solution = Cbc_bestSolution(solver.get());
  if (solution == nullptr) { return verdict; }
  // Its plan counts, not its objective, which is rounded.
  std::vector<ballast::cost_units> held(bags, 0);
  for (std::size_t at = 0; at < samples * bags; ++at) {
    if (std::lround(solution[at + 1]) == 1) { held[at % bags] += step.costs[at / bags]; }
  }
  verdict.makespan = ballast::ratio{0, 1};
  for (std::size_t bag = 0; bag < bags; ++bag) {
    verdict.makespan = std::max(*verdict.makespan, ballast::ratio{held[bag], step.speeds[bag]});
  }
  return verdict;
}

cbc_verdict ask_cbc(std::span<ballast::cost_units const> costs, std::size_t bags, double seconds)
{
  cbc_step step;
  step.costs.assign(costs.begin(), costs.end());
  std::ranges::sort(step.costs, std::greater{});
  step.speeds.assign(bags, 1);
  return ask_cbc(step, seconds);
}

}  // namespace ballast_test
