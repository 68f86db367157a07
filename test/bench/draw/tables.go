package main

import (
	"fmt"
	"slices"
	"strings"
)

// server is a compared server.
type server struct{ name, colour string }

func (s server) title() string { return s.name }

// servers returns the measured servers.
func (r *result) servers() []server { return serversOf(r) }

// allServers returns the servers in the order of every figure, with their colours.
func allServers() []server {
	return []server{
		{"criadapter", "#1f6fb2"}, {"criadapter-oci", "#3a9e6a"}, {"cri-dockerd", "#c9782c"}, {"containerd", "#7a8a99"},
	}
}

// serversOf returns the servers that at least one of the measurements has.
func serversOf(measured ...*result) []server {
	return slices.DeleteFunc(allServers(), func(s server) bool {
		return !slices.ContainsFunc(measured, func(r *result) bool { return r.has(s.name) })
	})
}

// has says whether a server was measured.
func (r *result) has(server string) bool {
	_, lived := r.Lives["pod up"][server]
	return lived || r.Versions[server] != "" || len(r.Lists) > 0 && r.Lists[0].Table["relist"][server].N > 0
}

// calls returns the RPCs of a pod's life in their order, then the sums of its two halves.
func calls() []string {
	return []string{
		"RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync true", "ContainerStatus", "PodSandboxStatus",
		"StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox", "pod up", "pod down",
	}
}

// tables writes the figures as tables, with links to the pictures if there are any.
func (r *result) tables(drawn bool) string {
	var out strings.Builder
	picture := func(text, file string) {
		if drawn {
			fmt.Fprintf(&out, "![%s](%s/%s)\n\n", text, figuresLink, file)
		}
	}
	r.versions(&out)
	picture("time of each call", "calls.svg")
	fmt.Fprintf(&out, "One pod with one container, median of %d, in milliseconds:\n\n",
		r.Lives["pod up"]["criadapter"].N)
	r.header(&out, "call")
	for _, call := range calls() {
		r.cells(&out, call, r.Lives[call])
	}
	fmt.Fprintln(&out)
	picture("time of a relist by the number of pods", "relist.svg")
	fmt.Fprint(&out, "With pods of two containers, median in milliseconds:\n\n")
	r.header(&out, "pods: question")
	for _, list := range r.Lists {
		for _, question := range []string{"relist", "PodSandboxStatus", "ContainerStatus", "ListContainerStats",
			"ListImages"} {
			r.cells(&out, fmt.Sprintf("%d: %s", list.Pods, question), list.Table[question])
		}
	}
	for _, storm := range sortedKeys(r.Storms) {
		r.cells(&out, storm, r.Storms[storm])
	}
	last := r.Lists[len(r.Lists)-1].Pods
	fmt.Fprintln(&out)
	picture("memory", "memory.svg")
	fmt.Fprintf(&out, "With %d pods of two containers:\n\n", last)
	r.header(&out, "")
	tableRow(&out, "memory of the server, MiB", r.servers(), func(s server) string {
		return fmt.Sprintf("%.0f", r.Usage[s.name].Server.RSSKiB/1024)
	})
	tableRow(&out, "CPU time of 60 relists, server and engine, ms", r.servers(), func(s server) string {
		u := r.Usage[s.name]
		return fmt.Sprintf("%.0f", (u.ServerCPU+u.EngineCPU)/1e6)
	})
	if perPod := r.perPod(); len(perPod) > 0 {
		name := fmt.Sprintf("memory of everything with %d pods of one container, MiB per pod", r.Nodes.Pods)
		tableRow(&out, name, r.servers(), func(s server) string { return fmt.Sprintf("%.1f", perPod[s.name]) })
		tableRow(&out, "shims and containers of these pods, MiB", r.servers(), func(s server) string {
			return fmt.Sprintf("%.0f", r.Nodes.Servers[s.name].PodsKiB/1024)
		})
		tableRow(&out, "server and engine with these pods, MiB", r.servers(), func(s server) string {
			return fmt.Sprintf("%.0f", r.Nodes.Servers[s.name].DaemonsKiB/1024)
		})
	}
	r.others(&out)
	r.missed(&out)
	return out.String()
}

// version is the runtime of a server. A containerd that is built from its module adds +unknown, which version removes.
func (r *result) version(server string) string {
	return strings.TrimSuffix(r.Versions[server], "+unknown")
}

// versions writes the runtime of each server. It leaves out servers whose runtime was not recorded.
func (r *result) versions(out *strings.Builder) {
	var all []string
	for _, s := range r.servers() {
		if version := r.version(s.name); version != "" {
			all = append(all, s.name+" on "+version)
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(out, "Measured: %s.\n\n", strings.Join(all, ", "))
	}
}

// header writes the first row of a table of servers.
func (r *result) header(out *strings.Builder, first string) {
	tableHead(out, first, r.servers(), server.title)
}

// cells writes a row.
func (r *result) cells(out *strings.Builder, name string, cells row) {
	tableRow(out, name, r.servers(), func(s server) string { return cells.median(s.name) })
}

// tableHead writes the first row of a table, and the line below it.
func tableHead[T any](out *strings.Builder, first string, columns []T, title func(T) string) {
	tableRow(out, first, columns, title)
	fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---|", len(columns)))
}

// tableRow writes a row of a table: its name, and a cell for each column.
func tableRow[T any](out *strings.Builder, name string, columns []T, cell func(T) string) {
	fmt.Fprintf(out, "| %s |", name)
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", cell(c))
	}
	fmt.Fprintln(out)
}

// median is the median of a server, or a dash without one.
func (r row) median(server string) string {
	if cell, ok := r[server]; ok {
		return short(cell.P50)
	}
	return "–"
}

// short is milliseconds with three digits.
func short(ms float64) string {
	if ms >= 100 {
		return fmt.Sprintf("%.0f", ms)
	}
	return fmt.Sprintf("%.3g", ms)
}
