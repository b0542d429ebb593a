// SPDX-License-Identifier: Apache-2.0
#include <ballast/interop/boost_graph.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

#include <boost/graph/adjacency_list.hpp>

namespace {

using ballast::model_part;
using ballast::pipeline_rank;
using ballast::pipeline_stage;
using testing::HasSubstr;

using numbers_graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                            std::uint32_t, ballast::time_units>;

auto own_ranks(numbers_graph const& graph)
{
  return [&graph](auto vertex) { return pipeline_stage{pipeline_rank{graph[vertex]}}; };
}
auto own_transfers(numbers_graph const& graph)
{
  return [&graph](auto edge) { return graph[edge]; };
}

TEST(StagesOf, AreThoseOfAModelThatATrainerHas)
{
  // [modules]
  struct part {  // of a model: what a trainer knows of it
    std::string name;
    model_part kind = model_part::llm;
    bool trains = true;
  };
  using model_graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, part>;
  model_graph model;
  auto const head = add_vertex({"head"}, model);
  auto const trunk = add_vertex({"trunk"}, model);
  auto const vision = add_vertex({"vision", model_part::encoder}, model);
  auto const audio = add_vertex({"audio", model_part::encoder, false}, model);
  add_edge(trunk, head, model);
  add_edge(vision, trunk, model);
  add_edge(audio, trunk, model);

  std::vector<std::string> names;  // of the stages, each on a rank of its own
  auto const stages = ballast::stages_of(
      model,
      [&](auto vertex) {
        auto const& [name, kind, trains] = model[vertex];
        names.push_back(name);
        return pipeline_stage{ballast::to_id<pipeline_rank>(names.size() - 1), trains, kind};
      },
      [](auto) { return ballast::time_units{5}; });
  // [modules]
  ASSERT_TRUE(stages) << stages.error().message;
  EXPECT_THAT(names, testing::ElementsAre("vision", "audio", "trunk", "head"));
  EXPECT_EQ(*stages,
            ballast::joined_stages(
                {.encoders = {{1}, {1, false}}, .llm = {2}, .generators = {}, .transfer = 5})
                .value());
  EXPECT_TRUE(ballast::compiled_schedule::make(*stages, ballast::one_forward_one_backward{}, 4));
}

// Edges of a random order of the vertices, drawn in any other order.
numbers_graph draw(ballast::random_source& random)
{
  std::size_t const count = 1 + random.below(12);
  std::vector<std::size_t> order(count);
  for (std::size_t each = 0; each < count; ++each) { order[each] = each; }
  random.shuffle(std::span(order));
  numbers_graph graph(count);
  for (std::uint32_t each = 0; each < count; ++each) { graph[each] = each; }
  for (std::size_t to = 1; to < count; ++to) {
    for (std::size_t from = 0; from < to; ++from) {
      if (random.below(3) > 0) { continue; }
      add_edge(order[from], order[to], random.between(0, 9), graph);
    }
  }
  return graph;
}

TEST(StagesOf, HaveTheLinksOfTheGraph)  // Ensures (1) (2)
{
  ballast::random_source random(3);
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    numbers_graph const graph = draw(random);
    std::vector<std::uint32_t> called;
    auto const stages = ballast::stages_of(
        graph,
        [&](auto vertex) {
          called.push_back(graph[vertex]);
          return pipeline_stage{ballast::to_id<pipeline_rank>(called.size() - 1)};
        },
        own_transfers(graph));
    ASSERT_TRUE(stages) << stages.error().message;
    ASSERT_EQ(called.size(), num_vertices(graph));

    // Oracle: the lowest vertex that has no edge from one without a number, found anew each time.
    std::vector<std::uint32_t> expected;
    while (expected.size() < called.size()) {
      for (std::uint32_t each = 0; each < called.size(); ++each) {
        auto const is_known = [&](auto vertex) {
          return std::ranges::find(expected, vertex) != expected.end();
        };
        bool waits = is_known(each);
        for (auto [edge, end] = edges(graph); edge != end; ++edge) {
          waits = waits || (target(*edge, graph) == each && !is_known(source(*edge, graph)));
        }
        if (waits) { continue; }
        expected.push_back(each);
        break;
      }
    }
    ASSERT_EQ(called, expected);
    std::multimap<std::pair<std::uint32_t, std::uint32_t>, ballast::time_units> links;
    for (ballast::stage_link const& link : stages->links()) {
      links.insert({{called[to_index(link.from)], called[to_index(link.to)]}, link.transfer});
    }
    ASSERT_EQ(links.size(), num_edges(graph));
    for (auto [edge, end] = edges(graph); edge != end; ++edge) {
      std::pair<std::uint32_t, std::uint32_t> const ends{graph[source(*edge, graph)],
                                                         graph[target(*edge, graph)]};
      ASSERT_EQ(links.count(ends), 1U);
      ASSERT_EQ(links.find(ends)->second, graph[*edge]);
    }
  }
}

TEST(StagesOf, RefuseACycleAndWhatNoPipelineHas)
{
  numbers_graph graph(4);
  for (std::uint32_t each = 0; each < 4; ++each) { graph[each] = each; }
  add_edge(0, 2, 1, graph);
  add_edge(2, 3, 1, graph);
  add_edge(3, 2, 1, graph);
  auto const cycle = ballast::stages_of(graph, own_ranks(graph), own_transfers(graph));
  ASSERT_FALSE(cycle);
  EXPECT_EQ(cycle.error().code, ballast::error_code::infeasible);
  EXPECT_EQ(cycle.error().position, 2U);
  EXPECT_THAT(cycle.error().message, HasSubstr("vertex 2 waits for itself"));

  numbers_graph twice(2);
  twice[1] = 1;
  add_edge(0, 1, 1, twice);
  add_edge(0, 1, 1, twice);
  auto const repeated = ballast::stages_of(twice, own_ranks(twice), own_transfers(twice));
  ASSERT_FALSE(repeated);
  EXPECT_THAT(repeated.error().message, HasSubstr("repeats another"));
  EXPECT_FALSE(ballast::stages_of(numbers_graph(), own_ranks(graph), own_transfers(graph)));
}

}  // namespace
