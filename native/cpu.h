#pragma once
#include <string>
#include <vector>

#include "table.h"

// The tables that this CPU can run, best first.
std::vector<const Table *> supported();

// The table named by the environment variable MERCER_ISA, else the best. std::invalid_argument when the name is unknown or not supported.
const Table *pick();

// Whether the CPU is one of AMD.
bool amd();
