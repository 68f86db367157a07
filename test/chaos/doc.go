// Package chaos holds tests that kill criadapter and the engine at bad moments, on the rig. Each test counts and prints
// the damage, such as leaked objects and lost log lines. The tests run under `make test`, see package test/rig/rigenv.
package chaos
