// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/parallelism: which layout: how many GPUs each module of a model gets, how it is
/// spread over them, and into which bags they are joined.

// IWYU pragma: begin_exports
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/layout_review.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/share_experts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>
// IWYU pragma: end_exports
