// Command release makes all files of a release for each architecture: deb, rpm and apk packages, a tarball, a container
// image, an SBOM, the licences of linked modules, and one list of checksums. Usage:
//
//	go run ./packaging/release [-version v1.2.3] [-arch amd64,arm64] [-out build/release]
//
// With -sign it signs the checksums, a SLSA provenance and the SBOMs (sign.go, attest.go). With -verify it verifies a
// signed release (verify.go).
//
// One commit gives the same bytes on every machine: paths are trimmed, and every file has the time of the commit (or
// SOURCE_DATE_EPOCH). Begin with run: it compiles (compile.go), lays out the files (layout.go), and packs them
// (tarball.go, packages.go, image.go). The table in layout.go lists the files of a package.
package main
