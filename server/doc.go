// Package server is the CRI v1 surface over gRPC and nothing else: one file per RPC, which checks the request's shape,
// calls one service and converts the answer.
//
// Lists and statuses of pods and containers answer from the cache and make no call to the engine. Handlers return
// ordinary typed errors; the one unary and the one stream interceptor turn them into gRPC codes, write the log and
// recover from panics.
package server
