package main

import (
	"fmt"
	"strings"
)

// rawCalls is test/bench's name for the quickest way to call an engine directly.
const rawCalls = "raw best"

// summary writes a table with a few figures of each measured engine.
func summary(measured []*result) string {
	var out strings.Builder
	fmt.Fprint(&out, "| median, ms |")
	servers := serversOf(measured...)
	for _, s := range servers {
		fmt.Fprintf(&out, " %s |", s.name)
	}
	fmt.Fprintf(&out, " raw calls |\n|---|%s---|\n", strings.Repeat("---|", len(servers)))
	for _, r := range measured {
		r.summary(&out, servers)
	}
	return out.String()
}

// summary writes the rows of one engine, below its name.
func (r *result) summary(out *strings.Builder, servers []server) {
	fmt.Fprintf(out, "| **%s and %s** |%s\n", r.version("criadapter"), r.version("containerd"),
		strings.Repeat(" |", len(servers)+1))
	line := func(name string, cells row) {
		fmt.Fprintf(out, "| %s |", name)
		for _, s := range servers {
			fmt.Fprintf(out, " %s |", cells.median(s.name))
		}
		fmt.Fprintf(out, " %s |\n", cells.median(rawCalls))
	}
	for _, call := range []string{"pod up", "pod down", "ExecSync true"} {
		line(call, r.Lives[call])
	}
	last := r.Lists[len(r.Lists)-1]
	line(fmt.Sprintf("relist of %d pods with two containers", last.Pods), last.Table["relist"])
	line(fmt.Sprintf("stats of their %d containers", 2*last.Pods), last.Table["ListContainerStats"])
	fmt.Fprint(out, "| memory of the server then, MiB |")
	for _, s := range servers {
		if r.has(s.name) {
			fmt.Fprintf(out, " %.0f |", r.Usage[s.name].Server.RSSKiB/1024)
		} else {
			fmt.Fprint(out, " – |")
		}
	}
	fmt.Fprintln(out, " – |")
}
