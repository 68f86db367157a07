// Package status has the Report of a running criadapter and Ask, which fetches and writes it. The Report is a part of
// CRI's verbose Status, so that the program needs no other socket.
package status
