// Package chaos holds tests that kill criadapter and the engine at bad moments, on the rig, and count what that costs.
// Each prints its figures. The tests run under `make test`, see package test/rig/rigenv.
package chaos
