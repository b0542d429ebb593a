// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_HPP
#define BALLAST_BY_NAME_HPP

/// All of ballast/by_name: policies, schedules and orders chosen by name at run time, for programs.

#include <ballast/by_name/any_order_policy.hpp>
#include <ballast/by_name/any_policy.hpp>
#include <ballast/by_name/any_schedule.hpp>
#include <ballast/by_name/parse_order_policy.hpp>
#include <ballast/by_name/parse_policy.hpp>
#include <ballast/by_name/parse_schedule.hpp>

#endif  // BALLAST_BY_NAME_HPP
