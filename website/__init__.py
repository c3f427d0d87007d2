"""The documentation as a site: `make site` builds it into site/, without a network.

In come the Markdown pages of the repository, which stay readable without the site. Out comes a folder of pages for
zensical (`pages`), with links that hold there (`links`), diagrams as pictures (`diagrams`), the public names of
`lakehouse` (`api`) and the navigation that docs/README.md lists (`navigation`). `__main__` builds, and fails if a link
or an anchor is broken.
"""
