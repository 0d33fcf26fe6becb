// Which instruction set to use. No -march flag on this file: it runs on every CPU.
#include "cpu.h"

#include <cstdlib>
#include <stdexcept>

std::vector<const Table *> supported() {
    std::vector<const Table *> tables;
#ifdef MERCER_X86
    __builtin_cpu_init();
    // Feature by feature: clang 14 does not know __builtin_cpu_supports("x86-64-v4"). The v3 and v4 flags also allow BMI, which all these CPUs have.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
        tables.push_back(&isa_avx512::table);
    if (avx2) tables.push_back(&isa_avx2::table);
#endif
    tables.push_back(&isa_base::table);
    return tables;
}

const Table *pick() {
    const auto tables = supported();
    const char *wanted = std::getenv("MERCER_ISA");
    if (!wanted || !*wanted) return tables.front();
    std::string known;
    for (const Table *table : tables) {
        if (table->name == std::string(wanted)) return table;
        known += std::string(known.empty() ? "" : ", ") + table->name;
    }
    throw std::invalid_argument("MERCER_ISA is \"" + std::string(wanted) + "\", but this CPU and this build of mercer offer: " + known +
                                ". Unset MERCER_ISA, or set it to one of these.");
}

bool amd() {
#ifdef MERCER_X86
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}
