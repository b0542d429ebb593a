// SPDX-License-Identifier: Apache-2.0
#include "../support/write_graphviz.hpp"
#include "../support/simulate_by_graph.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace {

using ballast::microbatch_id;

std::size_t count_of(std::string const& text, std::string const& part)
{
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(WriteGraphviz, HasEveryTaskAndWaitAndTheCriticalPathInRed)
{
  // [graphviz]
  auto const stages = ballast::chain_of_stages(2, 2, 5);  // two ranks, transfers of 5
  auto const schedule = ballast::one_forward_one_backward{}(stages, 2).value();
  ballast::pipeline_times times(2, 2);
  for (auto const microbatch : {microbatch_id{0}, microbatch_id{1}}) {
    for (auto& each : times[microbatch]) { each = {.forward = 10, .backward = 20}; }
  }
  std::vector<microbatch_id> const order{microbatch_id{1}, microbatch_id{0}};
  auto const graph = ballast_test::make_task_graph(stages, schedule).value();
  auto const timeline = ballast_test::simulate_by_graph(graph, times, order).value();
  std::ostringstream dot;
  ballast_test::write_graphviz(dot, graph, timeline, order);  // dot -Tsvg draws it
  // [graphviz]
  std::string const text = dot.str();
  EXPECT_TRUE(text.starts_with("digraph")) << text;
  EXPECT_EQ(count_of(text, "[label=\"microbatch "), boost::num_vertices(graph));
  EXPECT_EQ(count_of(text, "->"), boost::num_edges(graph));
  EXPECT_EQ(count_of(text, ", color=red]"), timeline.critical_path.size());
  EXPECT_THAT(text, testing::HasSubstr("microbatch 1\\nstage 0 forward\\n0 to 10"));
  EXPECT_THAT(text, testing::HasSubstr(std::to_string(timeline.makespan) + "\""));
  EXPECT_THAT(text, testing::HasSubstr("label=\"5\""));
}

}  // namespace
