//go:build race

package server

// raceDetector says that the tests are built with it.
const raceDetector = true
