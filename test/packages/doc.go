// Command packages tries a release as an operator does. It boots a Debian machine with systemd and Docker Engine in
// namespaces of its own (package machine):
//
//	go run ./test/packages [-cached] [-run list]
//
// It builds two releases, and one of them again from a copy of the sources elsewhere, whose bytes must be the same. On
// the machine it installs the deb, brings pods up, upgrades, takes the names of cri-dockerd and goes back, removes,
// comes back and purges: no container may restart on the way, and no request may fail. The image runs a pod; promtool
// checks the alert rules, and a Prometheus answers every question of the dashboard, of which a picture is drawn. The
// rpm is installed, upgraded and removed by rpm, and the apk is unpacked for OpenRC, both on the same Debian. At the
// end a clean node follows the documents. What it needs beside the tree (a root file system, Prometheus, OpenRC,
// cri-dockerd) is kept in the cache.
package main
