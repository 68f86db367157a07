// Command release makes everything that a release has, for each architecture: deb, rpm and apk packages, a tarball, a
// container image, an SBOM and the licences of what is linked in; and one list of checksums. Usage:
//
//	go run ./packaging/release [-version v1.2.3] [-arch amd64,arm64] [-out build/release]
//
// One commit gives one set of bytes, whoever builds it and where: paths are trimmed, and every file carries the time of the
// commit (or SOURCE_DATE_EPOCH). Begin with run: it compiles (compile.go), lays out the files (layout.go), and packs them
// (tarball.go, packages.go, image.go). What is in a package is the table in layout.go.
package main
