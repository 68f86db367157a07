package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/test/program"
)

const (
	scaleDocument = "docs/reports/scale.md"
	scalePicture  = "scale.svg"
	scaleFile     = "scale.json"
)

// scaleResult is what the report needs of make bench PARTS=scale.
type scaleResult struct {
	Versions map[string]string
	Scale    []struct {
		With      string
		Table     map[string]row
		MemoryKiB map[string]float64
	}
}

// runScale keeps a new result, and writes its report and its picture.
func runScale(from string) error {
	if err := keep(from, scaleFile, scaleFile, checkJSON); err != nil {
		return err
	}
	return redraw(scaleDocument, scalePicture, drawScale)
}

// drawScale puts the tables into the report. svg is empty without a measurement.
func drawScale(text []byte) (_ []byte, svg string, err error) {
	content := "Nothing was measured yet: `make bench PARTS=scale` and then `make figures` write the tables here.\n"
	measured, err := program.ReadJSON[scaleResult](filepath.Join(figures, scaleFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	if err == nil {
		content, svg = measured.tables(), measured.picture()
	}
	text, err = replaceBetween(text, scaleDocument, "<!-- scale -->\n", content)
	return text, svg, err
}

// compared returns a result that has only the versions of the measured servers. The methods that write tables read the
// versions.
func (s scaleResult) compared() *result {
	versions := map[string]string{}
	for _, name := range []string{"criadapter-oci", "containerd"} {
		versions[name] = s.Versions[name]
	}
	return &result{Versions: versions}
}

// tables writes a table for each step.
func (s scaleResult) tables() string {
	var out strings.Builder
	r := s.compared()
	r.versions(&out)
	fmt.Fprintf(&out, "![lists and starts](%s/%s)\n", figuresLink, scalePicture)
	for _, step := range s.Scale {
		fmt.Fprintf(&out, "\nWith %s, median in milliseconds:\n\n", step.With)
		r.header(&out, "")
		for _, name := range sortedKeys(step.Table) {
			r.cells(&out, name, step.Table[name])
		}
		tableRow(&out, "memory of the server, MiB", r.servers(), func(s server) string {
			return fmt.Sprintf("%.0f", step.MemoryKiB[s.name]/1024)
		})
	}
	return out.String()
}

// picture compares the times of unfiltered lists and of server starts in each step.
func (s scaleResult) picture() string {
	var groups []group
	for _, step := range s.Scale {
		with := strings.TrimSuffix(step.With, " containers")
		for _, name := range []string{"ListContainers", "ListImages", "start of the server"} {
			if cells, ok := step.Table[name]; ok {
				what, _, _ := strings.Cut(name, " ")
				groups = append(groups, group{with + ": " + what, medians(cells)})
			}
		}
	}
	return bars(s.compared().servers(), "Median time of a list of all and of a start, ms; each has its own scale",
		groups)
}
