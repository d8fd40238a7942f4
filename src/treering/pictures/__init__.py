"""PUBLIC pictures: public values as SVG, for the command line, the demonstration's report and the server's page."""
