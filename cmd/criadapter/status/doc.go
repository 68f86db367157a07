// Package status has the Report of a running criadapter. Ask fetches it, and [Answer.WriteText] writes it. The Report
// is a part of CRI's verbose Status, so that criadapter needs no other socket.
package status
