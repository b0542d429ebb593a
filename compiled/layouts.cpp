// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/search_layouts.hpp>
