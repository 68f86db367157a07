//go:build !race

package server

// raceDetector reports whether the tests are built with the race detector.
const raceDetector = false
