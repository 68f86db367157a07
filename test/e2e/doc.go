// Package e2e holds tests that drive a real criadapter on the rig's engine from outside, with the programs that its
// users drive it with. The tests run under `make test`, see package test/rig/rigenv.
package e2e
