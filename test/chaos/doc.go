// Package chaos holds tests that kill criadapter and the engine at bad moments, on the rig. They count the damage, such
// as leaked objects and lost log lines. Each test prints its figures. The tests run under `make test`, see package
// test/rig/rigenv.
package chaos
