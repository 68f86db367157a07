// Command packages tests a release as an operator uses it. It boots a Debian machine with systemd and Docker Engine in
// new namespaces (package machine):
//
//	go run ./test/packages [-cached] [-run list]
//
// It builds two releases. A second build of one release, from a copy of the sources elsewhere, must have the same
// bytes. On the machine it installs the deb and brings pods up. It upgrades the deb, takes cri-dockerd's names and
// gives them back, removes the deb, installs it again and purges it. No container may restart on the way, and no
// request may fail. The image runs a pod. promtool checks the alert rules. Prometheus runs every query of the
// dashboard, and a picture of the results is drawn. The program rpm installs, upgrades and removes the rpm. The apk is
// unpacked for OpenRC. At the end a clean node runs the commands of the documents. The cache keeps the root file
// system, Prometheus, OpenRC and cri-dockerd.
package main
