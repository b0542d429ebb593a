// SPDX-License-Identifier: Apache-2.0
#pragma once

// What most tests include beside what they test.

#include <filesystem>

#include "test.hpp"

#include <fstream>
#include <initializer_list>
#include <iterator>
