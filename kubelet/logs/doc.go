// Package logs reads the log of one attempt of a container: the file at the path that the runtime named, in the CRI's
// format or in Docker's JSON lines, to its end or, for those who follow, on through rotations until no more can come.
package logs
