"""Duty: records → a page, pictures and exports. Refusal: no figure that `brickyard.analysis` did not give.

Nothing is imported here: Altair takes half a second, which whoever draws nothing need not pay.
"""
