// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The prelude of every test, and what is precompiled for them: the test libraries, ballast/core,
/// what tests use of std, and how many cases they try.

#include "trials.hpp"

#include <ballast/core.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <ranges>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>
