// A page of the file system cannot read other files, from which Sphinx takes lines around matches.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
