from devmem.search.rendering import quote_labels as quote_labels
