from pipelines.rebalance.shares import LanguageShare, sampling_plan
from pipelines.rebalance.stage import balance_languages, balance_step, balance_units
from pipelines.rebalance.table import balance_table, notes_of, sizes_by_language

__all__ = [
    "LanguageShare",
    "balance_languages",
    "balance_step",
    "balance_table",
    "balance_units",
    "notes_of",
    "sampling_plan",
    "sizes_by_language",
]
