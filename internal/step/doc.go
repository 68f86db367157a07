// Package step names the steps of requests: what changes something outside of this process, so that a crash before it
// and a crash behind it leave something different. A step is named once, where it is done:
//
//	defer step.At("record: rename")()
//
// In a released program that does nothing. A program built with the tag steps ends itself by SIGKILL before or behind the
// step that a file names; package test/chaos walks all of them. Without such a file it only notes what it has done.
package step
