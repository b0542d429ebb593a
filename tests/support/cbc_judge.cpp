// SPDX-License-Identifier: Apache-2.0
#include "cbc_judge.hpp"

#include <Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <vector>

namespace ballast_test {

namespace {

/// A matrix by columns, as the solver wants it.
struct sparse_columns {
  std::vector<int> starts{0};
  std::vector<int> rows;
  std::vector<double> values;

  void add(int row, double value)
  {
    rows.push_back(row);
    values.push_back(value);
  }
  void end_column() { starts.push_back(static_cast<int>(rows.size())); }
  [[nodiscard]] int columns() const { return static_cast<int>(starts.size()) - 1; }
};

}  // namespace

cbc_verdict ask_cbc(std::span<ballast::cost_units const> costs, std::size_t bags, double seconds)
{
  std::vector<ballast::cost_units> heaviest_first(costs.begin(), costs.end());
  std::ranges::sort(heaviest_first, std::greater{});
  auto const samples = static_cast<int>(heaviest_first.size());
  auto const bag_rows = static_cast<int>(bags);

  // Rows: what each bag holds less T, then each sample. Columns: T, then x of samples and bags.
  sparse_columns matrix;
  for (int bag = 0; bag < bag_rows; ++bag) { matrix.add(bag, -1.0); }
  matrix.end_column();
  std::vector<int> bag_of_column{bag_rows};
  std::vector<int> sample_of_column{samples};
  for (int sample = 0; sample < samples; ++sample) {
    for (int bag = 0; bag < std::min(bag_rows, sample + 1); ++bag) {
      matrix.add(bag, static_cast<double>(heaviest_first[static_cast<std::size_t>(sample)]));
      matrix.add(bag_rows + sample, 1.0);
      matrix.end_column();
      bag_of_column.push_back(bag);
      sample_of_column.push_back(sample);
    }
  }
  auto const columns = static_cast<std::size_t>(matrix.columns());
  auto const rows = static_cast<std::size_t>(bag_rows + samples);
  double const all = static_cast<double>(
      std::accumulate(heaviest_first.begin(), heaviest_first.end(), ballast::cost_units{0}));
  std::vector<double> const at_least(columns, 0.0);
  std::vector<double> at_most(columns, 1.0);
  at_most[0] = all;
  std::vector<double> objective(columns, 0.0);
  objective[0] = 1.0;
  std::vector<double> row_least(rows, -all);
  std::vector<double> row_most(rows, 0.0);
  std::fill(row_least.begin() + bag_rows, row_least.end(), 1.0);
  std::fill(row_most.begin() + bag_rows, row_most.end(), 1.0);

  using model = std::remove_pointer_t<decltype(Cbc_newModel())>;
  std::unique_ptr<model, void (*)(model*)> const solver(Cbc_newModel(), &Cbc_deleteModel);
  Cbc_loadProblem(solver.get(), matrix.columns(), static_cast<int>(rows), matrix.starts.data(),
                  matrix.rows.data(), matrix.values.data(), at_least.data(), at_most.data(),
                  objective.data(), row_least.data(), row_most.data());
  for (int column = 0; column < matrix.columns(); ++column) {
    Cbc_setInteger(solver.get(), column);
  }
  Cbc_setLogLevel(solver.get(), 0);
  Cbc_setParameter(solver.get(), "seconds", std::to_string(seconds).c_str());
  Cbc_setParameter(solver.get(), "ratioGap", "0");
  Cbc_setParameter(solver.get(), "allowableGap", "0");
  Cbc_solve(solver.get());

  cbc_verdict verdict;
  verdict.proven = Cbc_isProvenOptimal(solver.get()) != 0;
  double const* const solution = Cbc_bestSolution(solver.get());
  if (solution == nullptr) { return verdict; }
  // Its plan counts, not its objective, which is rounded.
  std::vector<ballast::cost_units> loads(bags, 0);
  for (std::size_t column = 1; column < columns; ++column) {
    if (std::lround(solution[column]) == 1) {
      loads[static_cast<std::size_t>(bag_of_column[column])] +=
          heaviest_first[static_cast<std::size_t>(sample_of_column[column])];
    }
  }
  verdict.makespan = std::ranges::max(loads);
  return verdict;
}

}  // namespace ballast_test
