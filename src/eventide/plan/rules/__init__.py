"""The optimizer: every pass, in the order in which they run. A pass takes a physical plan and gives a better one."""

from __future__ import annotations

from eventide.plan.rules.drop_identity_projects import drop_identity_projects
from eventide.plan.rules.fuse_scans import fuse_scans
from eventide.plan.rules.merge_filters import merge_filters
from eventide.plan.rules.share_packed_columns import share_packed_columns

RULES = (drop_identity_projects, merge_filters, share_packed_columns, fuse_scans)

__all__ = ["RULES"]
