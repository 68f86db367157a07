package dashboard

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

const (
	column = 50.0
	line   = 26.0
	// legendLines is the number of series that a panel's legend names.
	legendLines = 4
)

// colours returns the colours of the lines, in turn.
func colours() []string {
	return []string{"#1f6fb2", "#c9782c", "#3a8f5c", "#8a5fb0", "#b23b4e", "#4aa3a2", "#8a7a3d", "#666"}
}

// SVG draws the panels at their places on the dashboard.
func SVG(title string, panels []Panel) string {
	height := 0.0
	for _, p := range panels {
		height = max(height, (p.GridPos.Y+p.GridPos.H)*line)
	}
	var out strings.Builder
	fmt.Fprintf(&out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "+
			"font-size=\"11\">\n<title>%s</title>\n",
		24*column, height+4, html.EscapeString(title))
	out.WriteString("<rect width=\"100%\" height=\"100%\" fill=\"#f4f5f7\"/>\n")
	for _, p := range panels {
		x, y, w, h := p.GridPos.X*column, p.GridPos.Y*line, p.GridPos.W*column, p.GridPos.H*line
		if p.Type == "row" {
			fmt.Fprintf(&out, "<text x=\"%.0f\" y=\"%.0f\" font-weight=\"bold\" font-size=\"13\">%s</text>\n", x+8,
				y+line-8, html.EscapeString(p.Title))
			continue
		}
		fmt.Fprintf(&out,
			"<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"3\" fill=\"#fff\" "+
				"stroke=\"#dcdfe4\"/><text x=\"%.0f\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n",
			x+3, y+3, w-6, h-6, x+10, y+18, html.EscapeString(p.Title))
		switch {
		case len(p.Series) == 0:
			fmt.Fprintf(&out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#888\">none</text>\n", x+w/2,
				y+h/2+6)
		case p.Type == "stat":
			drawStat(&out, p, x, y)
		default:
			drawLines(&out, p, x, y, w, h)
		}
	}
	return out.String() + "</svg>\n"
}

// drawStat writes the last value of each series.
func drawStat(out *strings.Builder, p Panel, x, y float64) {
	for i, s := range p.Series {
		value := s.Points[len(s.Points)-1].Value
		fmt.Fprintf(out,
			"<text x=\"%.0f\" y=\"%.0f\" font-size=\"13\"><tspan font-weight=\"bold\" "+
				"fill=\"#3a8f5c\">%s</tspan> %s</text>\n",
			x+12, y+40+17*float64(i), written(value, p.FieldConfig.Defaults.Unit), html.EscapeString(s.Legend))
	}
}

// drawLines draws the series over one scale from 0, and names the highest of them.
func drawLines(out *strings.Builder, p Panel, x, y, w, h float64) {
	least, most, top := math.Inf(1), math.Inf(-1), 0.0
	for _, s := range p.Series {
		for _, point := range s.Points {
			least, most, top = min(least, point.At), max(most, point.At), max(top, point.Value)
		}
	}
	if top == 0 {
		top = 1
	}
	left, right, upper, lower := x+56, x+w-12, y+30, y+h-16-13*legendLines
	for _, part := range []float64{0, 0.5, 1} {
		at := lower - part*(lower-upper)
		fmt.Fprintf(out,
			"<path d=\"M%.0f %.1fH%.0f\" stroke=\"#e6e8ec\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" "+
				"fill=\"#666\">%s</text>\n",
			left, at, right, left-5, at+4, written(part*top, p.FieldConfig.Defaults.Unit))
	}
	series := slices.SortedStableFunc(slices.Values(p.Series), func(a, b Series) int {
		return cmp.Compare(highest(b), highest(a))
	})
	for i, s := range series {
		colour := colours()[i%len(colours())]
		points := make([]string, len(s.Points))
		for j, point := range s.Points {
			points[j] = fmt.Sprintf("%.1f,%.1f", left+(point.At-least)/max(most-least, 1)*(right-left),
				lower-point.Value/top*(lower-upper))
		}
		fmt.Fprintf(out, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\"/>\n",
			strings.Join(points, " "), colour)
		if i < legendLines {
			name := s.Legend
			if i == legendLines-1 && len(series) > legendLines {
				name = fmt.Sprintf("%s, and %d more", name, len(series)-legendLines)
			}
			at := lower + 16 + 13*float64(i)
			fmt.Fprintf(out,
				"<rect x=\"%.0f\" y=\"%.0f\" width=\"9\" height=\"3\" fill=\"%s\"/><text x=\"%.0f\" y=\"%.0f\" "+
					"fill=\"#444\">%s</text>\n",
				x+12, at-5, colour, x+26, at, html.EscapeString(name))
		}
	}
}

func highest(s Series) float64 {
	most := math.Inf(-1)
	for _, point := range s.Points {
		most = max(most, point.Value)
	}
	return most
}

// written formats a value with its unit and three digits. A value without a unit has four.
func written(value float64, unit string) string {
	switch unit {
	case "s":
		switch {
		case value == 0:
			return "0"
		case value < 0.001:
			return fmt.Sprintf("%.3g µs", value*1e6)
		case value < 1:
			return fmt.Sprintf("%.3g ms", value*1e3)
		}
		return fmt.Sprintf("%.3g s", value)
	case "bytes", "Bps":
		suffix := map[string]string{"bytes": "", "Bps": "/s"}[unit]
		switch {
		case value >= 1<<20:
			return fmt.Sprintf("%.3g MiB%s", value/(1<<20), suffix)
		case value >= 1<<10:
			return fmt.Sprintf("%.3g KiB%s", value/(1<<10), suffix)
		}
		return fmt.Sprintf("%.3g B%s", value, suffix)
	case "reqps":
		return fmt.Sprintf("%.3g/s", value)
	}
	return fmt.Sprintf("%.4g", value)
}
