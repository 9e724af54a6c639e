"""A site's SuperNode that keeps its ClientApp warm: `amsfl supernode`, in place of `flower-supernode`."""
