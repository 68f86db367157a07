// Package testutil holds what the tests of many packages need: a wait for what happens in the background, a buffer for
// several goroutines, files to write, and a check that no goroutine is left. Nothing here ships.
package testutil
