// Package stats measures how long criadapter takes to tell what many running
// containers use, and the CPU time that it spends on it:
//
//	make bench BENCH=ListContainerStats PKG=./test/bench/stats
package stats
