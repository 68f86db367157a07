// Package testutil has helpers for the tests of many packages: error checks, waiting, a buffer for several goroutines,
// files, and a check for leaked goroutines. Nothing here ships.
package testutil
