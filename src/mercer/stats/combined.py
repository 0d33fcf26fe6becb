"""Import path of ``CombinedStatistics`` before it moved to ``mercer.stats.base``."""

from mercer.stats.base import CombinedStatistics as CombinedStatistics
