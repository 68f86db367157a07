// Command packages tries a release as an operator does, on a Debian machine with systemd and Docker Engine that it boots in
// namespaces of its own (package machine):
//
//	go run ./test/packages [-cached] [-run list]
//
// It builds two releases, and one of them again from a copy of the sources elsewhere, whose bytes must be the same. On the
// machine it installs the deb, brings pods up, upgrades, takes the names of cri-dockerd and goes back, removes, comes back
// and purges: no container may restart on the way, and no request may fail. The image runs a pod; promtool
// checks the alert rules, and a Prometheus answers every question of the dashboard, of which a picture is drawn. At the end a
// clean node runs the documents. What it needs of Debian (a root file system, Prometheus) is kept in the cache.
package main
