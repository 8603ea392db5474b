"""Duty: records → a page, pictures and exports. Refusal: no figure that `brickyard.analysis` did not give."""

from brickyard.report.page import default_directory, write_report

__all__ = ["default_directory", "write_report"]
