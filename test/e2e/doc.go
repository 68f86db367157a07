// Package e2e holds tests that drive a real criadapter on the rig's engine from outside, with the programs of its
// users. The tests run under `make test`, see package test/rig/rigenv.
package e2e
