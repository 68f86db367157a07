package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	width     = 720.0
	left      = 150.0
	barHeight = 14.0
	right     = 70.0
)

// figures returns the pictures by file name.
func (r *result) figures() map[string]string {
	var groups []group
	for _, call := range calls() {
		groups = append(groups, group{name: call, values: medians(r.Lives[call])})
	}
	title, memory := r.memory()
	return map[string]string{
		"calls.svg": bars(r.servers(), "Median time of each call of a pod's life, ms; each call has its own scale",
			groups),
		"memory.svg": bars(r.servers(), title, memory),
		"relist.svg": r.lines(
			"Median time of a relist (ListPodSandbox and ListContainers) by pods of two containers, ms", "relist"),
	}
}

// memory returns the title and the groups of the picture of memory.
func (r *result) memory() (string, []group) {
	server := group{name: "resident, MiB", values: map[string]float64{}}
	for name, usage := range r.Usage {
		server.values[name] = usage.Server.RSSKiB / 1024
	}
	title := fmt.Sprintf("Memory of the server with %d pods of two containers", r.Lists[len(r.Lists)-1].Pods)
	if len(r.Nodes.Servers) == 0 {
		return title, []group{server}
	}
	title += fmt.Sprintf(", and of everything with %d of one", r.Nodes.Pods)
	return title, []group{server, {name: "all, MiB per pod", values: r.perPod()}}
}

// group is one measured figure, by server.
type group struct {
	name   string
	values map[string]float64
}

func medians(cells row) map[string]float64 {
	values := map[string]float64{}
	for name, cell := range cells {
		values[name] = cell.P50
	}
	return values
}

// frame writes a picture with a title, a legend and the content. height is in pixels.
func frame(servers []server, title string, height float64, content string) string {
	var out strings.Builder
	fmt.Fprintf(&out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "+
			"font-size=\"12\">\n", width, height)
	fmt.Fprintf(&out,
		"<title>%[1]s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"12\" y=\"20\" "+
			"font-weight=\"bold\">%[1]s</text>\n", title)
	for i, s := range servers {
		x := 12 + float64(i)*125
		fmt.Fprintf(&out,
			"<rect x=\"%.0f\" y=\"30\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.0f\" y=\"41\">%s</text>\n",
			x, s.colour, x+17, s.name)
	}
	return out.String() + content + "</svg>\n"
}

// bars draws a bar for each server in each group. The longest bar of a group takes the whole width.
func bars(servers []server, title string, groups []group) string {
	var out strings.Builder
	y := 56.0
	for _, g := range groups {
		most := 0.0
		for _, s := range servers {
			most = max(most, g.values[s.name])
		}
		fmt.Fprintf(&out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", left-10, y+barHeight*1.5+4,
			g.name)
		for _, s := range servers {
			if value, ok := g.values[s.name]; ok {
				length := value / most * (width - left - right)
				fmt.Fprintf(&out,
					"<rect x=\"%.0f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"/><text x=\"%.1f\" "+
						"y=\"%.0f\">%s</text>\n",
					left, y, length, barHeight-2, s.colour, left+length+5, y+barHeight-3, short(value))
			}
			y += barHeight
		}
		y += 8
	}
	return frame(servers, title, y+6, out.String())
}

// lines draws a line for each server, by the number of pods. The axis of times is logarithmic.
func (r *result) lines(title, question string) string {
	const top, bottom = 60.0, 300.0
	least, most := math.Inf(1), 0.0
	for _, list := range r.Lists {
		for _, cell := range list.Table[question] {
			least, most = min(least, cell.P50), max(most, cell.P50)
		}
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	pods := float64(r.Lists[len(r.Lists)-1].Pods)
	x := func(n int) float64 { return left + float64(n)/pods*(width-left-right) }
	y := func(ms float64) float64 { return bottom - (math.Log10(ms)-low)/(high-low)*(bottom-top) }
	var out strings.Builder
	for decade := low; decade <= high; decade++ {
		at := y(math.Pow(10, decade))
		fmt.Fprintf(&out,
			"<path d=\"M%.0f %.1fH%.0f\" stroke=\"#ddd\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			left, at, width-right, left-8, at+4, math.Pow(10, decade))
	}
	for _, list := range r.Lists {
		fmt.Fprintf(&out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%d</text>\n", x(list.Pods), bottom+18,
			list.Pods)
	}
	for i, s := range r.servers() {
		beside := []float64{15, -5}[min(i, 1)] // labels of criadapter are below its line, all others above
		var points []string
		for _, list := range r.Lists {
			if cell, ok := list.Table[question][s.name]; ok {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(list.Pods), y(cell.P50)))
				fmt.Fprintf(&out,
					"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
					x(list.Pods), y(cell.P50), s.colour, x(list.Pods)+7, y(cell.P50)+beside, short(cell.P50))
			}
		}
		fmt.Fprintf(&out, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
			strings.Join(points, " "), s.colour)
	}
	return frame(r.servers(), title, bottom+32, out.String())
}

func sortedKeys(of map[string]row) []string { return slices.Sorted(maps.Keys(of)) }
