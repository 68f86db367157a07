// Package step names the steps of requests. A step changes something outside this process, so a crash before it leaves
// another state than a crash after it. A step is named once, where it happens:
//
//	defer step.At("record: rename")()
//
// In a released program At does nothing. A program built with the tag steps kills itself by SIGKILL before or after the
// step that a file names. Package test/chaos does this for every step. Without such a file the program only records its
// steps. The variable CRIADAPTER_STEPS names the directory of the file and of the record. Without it At does nothing.
package step
