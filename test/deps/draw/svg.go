package main

import (
	"fmt"
	"strings"
)

const (
	boxHeight   = 30.0
	floorHeight = 92.0
	margin      = 24.0
)

// svg draws the floors, with the ground at the bottom, and an arrow for each import.
func svg(title string, floors [][]*box) string {
	half := 0.0
	for _, floor := range floors {
		for _, b := range floor {
			half = max(half, b.x+b.width/2, b.width/2-b.x)
		}
	}
	width, height := 2*(half+margin), float64(len(floors)-1)*floorHeight+boxHeight+2*margin
	middle := func(b *box) float64 { return half + margin + b.x }
	top := func(b *box) float64 { return margin + float64(len(floors)-1-b.floor)*floorHeight }

	var out strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"monospace\" "+
		"font-size=\"12\">\n", width, height)
	fmt.Fprintf(&out, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", title)
	out.WriteString("<defs><marker id=\"a\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" " +
		"markerHeight=\"6\" orient=\"auto\">" +
		"<path d=\"M0 0L6 3L0 6z\" fill=\"#7a8a99\"/></marker></defs>\n")
	for _, floor := range floors {
		for _, b := range floor {
			for _, to := range b.imports {
				if to.importers < popular && !b.wires {
					arrow(&out, middle(b), top(b)+boxHeight, middle(to), top(to))
				}
			}
		}
	}
	for _, floor := range floors {
		for _, b := range floor {
			drawBox(&out, b, middle(b), top(b))
		}
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func arrow(out *strings.Builder, x1, y1, x2, y2 float64) {
	bend := min((y2-y1)/2, floorHeight)
	fmt.Fprintf(out, "<path d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f\" fill=\"none\" stroke=\"#9fb0bf\" "+
		"marker-end=\"url(#a)\"/>\n",
		x1, y1, x1, y1+bend, x2, y2-bend, x2, y2)
}

func drawBox(out *strings.Builder, b *box, x, y float64) {
	fmt.Fprintf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"5\" fill=\"#eef4fa\" "+
		"stroke=\"#4a6a8a\"/>\n",
		x-b.width/2, y, b.width, boxHeight)
	fmt.Fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n", x, y+boxHeight/2+4, b.name)
	switch {
	case b.importers >= popular:
		note(out, x, y, fmt.Sprintf("imported by %d", b.importers))
	case b.wires:
		note(out, x, y, "wires them all")
	}
}

func note(out *strings.Builder, x, y float64, text string) {
	fmt.Fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" font-size=\"10\" fill=\"#667\">%s</text>\n", x,
		y+boxHeight+12, text)
}
