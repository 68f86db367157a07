// Package bench measures criadapter against the engine that it drives, on the
// rig. Figures are ratios of one run, taken in alternating pairs, because
// absolute times drift on a shared machine:
//
//	make bench BENCH=RunPodSandbox PKG=./test/bench
package bench
