// Package server is the CRI v1 API over gRPC. Each RPC has a file. Its handler checks the request's fields, calls one
// service and converts the answer.
//
// Lists and statuses of pods and containers answer from the cache and make no call to the engine. Handlers return typed
// errors. One unary and one stream interceptor turn them into gRPC codes, write the log and recover from panics.
package server
