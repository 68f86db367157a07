// Package stats measures how long criadapter takes to tell what many running
// containers use, and the CPU time that it spends on it:
//
//	go run ./test/rig test -bench ListContainerStats ./test/bench/stats
package stats
