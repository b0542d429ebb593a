#include "../../examples/ballast/makespan_instances.hpp"
#include "../../examples/common/baselines/karmarkar_karp.hpp"

#include <benchmark/benchmark.h>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/text/read_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

namespace files = std::filesystem;
using ballast::tokens;
using cli::makespan_instance;

// The instances of Franca et al. (1994), uniform times, in $BALLAST_DATA/pcmax; none where they are
// not at hand.
std::vector<makespan_instance> load_instances()
{
  char const* const data = std::getenv("BALLAST_DATA");
  files::path const archive =
      files::path(data == nullptr ? "../shared/data" : data) / "pcmax" / "franca_u.tar.gz";
  if (!files::exists(archive)) { return {}; }
  std::string folder = (files::temp_directory_path() / "ballast_franca_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) { return {}; }
  std::string const unpack = "tar -xzf '" + archive.string() + "' -C '" + folder + "'";
  std::vector<makespan_instance> instances;
  if (std::system(unpack.c_str()) == 0) {
    std::vector<files::path> paths;
    for (auto const& entry : files::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) { paths.push_back(entry.path()); }
    }
    std::ranges::sort(paths);
    for (files::path const& path : paths) {
      if (auto instance = ballast::read_file(path.string(), cli::read_makespan_instance)) {
        instances.push_back(*std::move(instance));
      }
    }
  }
  std::error_code ignored;
  files::remove_all(folder, ignored);
  return instances;
}

// One iteration plans all instances, cost for cost as they are.
template <class Policy>
void franca(benchmark::State& state, Policy policy)
{
  static std::vector<makespan_instance> const instances = load_instances();
  if (instances.empty()) {
    state.SkipWithError("set BALLAST_DATA to a folder with pcmax/franca_u.tar.gz");
    return;
  }
  std::vector<ballast::bag_layout> bags;
  for (makespan_instance const& each : instances) {
    bags.push_back(ballast::one_gpu_bags(each.machines));
  }
  ballast::partition_plan plan;
  ballast::workspace memory;
  std::size_t proven = 0;
  double worst_gap = 0;
  for (auto _ : state) {
    proven = 0;
    worst_gap = 0;
    for (std::size_t index = 0; index < instances.size(); ++index) {
      bool const done = ballast::partition_into(
                            plan, memory, instances[index].times, bags[index], std::identity{},
                            [](ballast::cost_units) { return tokens{1}; }, {}, policy)
                            .has_value();
      benchmark::DoNotOptimize(done);
      proven += plan.proven_optimal() ? 1 : 0;
      worst_gap = std::max(worst_gap, plan.gap());
    }
  }
  auto const count = static_cast<double>(instances.size());
  state.counters["instances"] = count;
  state.counters["proven"] = static_cast<double>(proven);
  state.counters["proven_share"] = static_cast<double>(proven) / count;
  state.counters["worst_gap"] = worst_gap;
  state.counters["per_instance"] = benchmark::Counter(
      count, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

using lpt = ballast::longest_processing_time;

BENCHMARK_CAPTURE(franca, longest_processing_time, lpt{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(franca, karmarkar_karp, baselines::karmarkar_karp{})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(franca, refine, ballast::refine{lpt{}})->Unit(benchmark::kMillisecond);
constexpr std::uint64_t most_nodes = std::uint64_t{1} << 24;
BENCHMARK_CAPTURE(franca, exact_of_lpt, ballast::refine<>{.work = 0, .nodes = most_nodes})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(franca, exact_of_refine, ballast::refine<>{.nodes = most_nodes})
    ->Unit(benchmark::kMillisecond);

}  // namespace
