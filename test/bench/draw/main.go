// Command draw writes the tables and pictures of the reports. `make bench` measures for docs/reports/benchmark.md and
// README.md, `make conformance` for docs/reports/conformance.md, and `make load` for docs/reports/load.md:
//
//	go run ./test/bench/draw [-from build/bench] [-conformance build/conformance] [-load build/load]
//
// New results are kept in docs/figures. Without these flags it draws the results that docs/figures has.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	figures = "docs/figures"
	// figuresLink is the path of figures in the reports' links.
	figuresLink = "../figures"
	document    = "docs/reports/benchmark.md"
	// front is the page with a few figures of each engine.
	front = "README.md"
)

// section is the part of the document that belongs to one engine.
type section struct {
	// engine is its name in the variable ENGINE, empty for the installed engine.
	engine string
	// drawn says that the section has pictures.
	drawn bool
}

func sections() []section { return []section{{"", true}, {"29-containerd", false}} }

// file is the name of the engine's measurement.
func (s section) file() string {
	if s.engine == "" {
		return "result.json"
	}
	return "result-" + s.engine + ".json"
}

// begin and end are the markers around the section.
func (s section) begin() string {
	if s.engine == "" {
		return "<!-- figures -->\n"
	}
	return "<!-- figures " + s.engine + " -->\n"
}

const end = "<!-- /figures -->"

func main() {
	from := flag.String("from", "",
		"the `directory` of new measurements, which are kept; empty: draw the last ones again")
	conformance := flag.String("conformance", "", "the `directory` of new results of make conformance, which are kept")
	load := flag.String("load", "", "the `directory` of new results of make load, which are kept")
	flag.Parse()
	err := errors.Join(run(*from), runScale(*from), runSuites(*from), runSpecs(*conformance), runLoad(*load))
	if err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func run(from string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	var measured []*result
	for _, s := range sections() {
		if err := keep(from, s.file(), s.file(), checkMeasurement); err != nil {
			return err
		}
		r, err := s.read()
		if err != nil {
			return err
		}
		for name, svg := range s.pictures(r) {
			if err := os.WriteFile(filepath.Join(figures, name), []byte(svg), 0o644); err != nil {
				return err
			}
		}
		if text, err = s.write(text, r); err != nil {
			return err
		}
		if r != nil {
			measured = append(measured, r)
		}
	}
	if err := os.WriteFile(document, text, 0o644); err != nil {
		return err
	}
	return writeFront(measured)
}

// writeFront puts the summary of all engines into the front page.
func writeFront(measured []*result) error {
	text, err := os.ReadFile(front)
	if err != nil {
		return err
	}
	if text, err = replaceBetween(text, front, sections()[0].begin(), summary(measured)); err != nil {
		return err
	}
	return os.WriteFile(front, text, 0o644)
}

// replaceBetween replaces the text between a section's markers.
func replaceBetween(text []byte, file, begin, content string) ([]byte, error) {
	before, rest, found := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return nil, fmt.Errorf("%s has no %s … %s", file, begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin), []byte(content), []byte(end), after}, nil), nil
}

// redraw writes a document and its picture again, as draw makes them. If draw returns no picture, the old picture
// stays.
func redraw(document, picture string, draw func(text []byte) (_ []byte, svg string, err error)) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, svg, err := draw(text)
	if err != nil {
		return err
	}
	if svg != "" {
		err = os.WriteFile(filepath.Join(figures, picture), []byte(svg), 0o644)
	}
	return errors.Join(err, os.WriteFile(document, text, 0o644))
}

// keep copies a new result from a directory to figures, if check allows it. If the directory has no new result, the
// kept result stays.
func keep(from, name, kept string, check func(text []byte) error) error {
	if from == "" {
		return nil
	}
	path := filepath.Join(from, name)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := check(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(filepath.Join(figures, kept), text, 0o644)
}

// checkJSON refuses a result that is not JSON.
func checkJSON(text []byte) error {
	var any json.RawMessage
	return json.Unmarshal(text, &any)
}

// checkMeasurement refuses a measurement without all parts.
func checkMeasurement(text []byte) error {
	_, err := parseResult(text)
	return err
}

// read reads the kept measurement. It returns nil if nothing was measured yet.
func (s section) read() (*result, error) {
	text, err := os.ReadFile(filepath.Join(figures, s.file()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := parseResult(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(figures, s.file()), err)
	}
	return &r, nil
}

// pictures returns the section's pictures by file name.
func (s section) pictures(r *result) map[string]string {
	if !s.drawn || r == nil {
		return nil
	}
	return r.figures()
}

// write puts the tables of a measurement into the document.
func (s section) write(text []byte, r *result) ([]byte, error) {
	content := fmt.Sprintf(
		"Nothing was measured yet: `make bench ENGINE=%[1]s` and then `make figures` write the tables here.\n",
		s.engine)
	if r != nil {
		content = r.tables(s.drawn)
	}
	return replaceBetween(text, document, s.begin(), content)
}

// result has the fields of test/bench's result that the tables and pictures need.
type result struct {
	Versions                             map[string]string
	Lives, Storms, Images, Exec, Kubelet map[string]row
	Lists                                []struct {
		Pods  int
		Table map[string]row
	}
	Logs  map[string]logCost
	Usage map[string]struct {
		Server struct{ RSSKiB float64 }
		// ServerCPU and EngineCPU are nanoseconds for a number of relists.
		ServerCPU, EngineCPU float64
	}
	Nodes struct {
		Pods    int
		Servers map[string]struct{ DaemonsKiB, PodsKiB float64 }
	}
	Rest *struct {
		Pods         int
		Quiet, Lines map[string]restCost
	}
	Ratios []ratio
}

// logCost is the speed of container logs, and their CPU time for 100 MB.
type logCost struct{ LinesPerSecond, AllCPUms float64 }

// perPod is the memory of a whole node divided by its pods, by server, in MiB.
func (r *result) perPod() map[string]float64 {
	values := map[string]float64{}
	for name, node := range r.Nodes.Servers {
		values[name] = (node.DaemonsKiB + node.PodsKiB) / 1024 / float64(r.Nodes.Pods)
	}
	return values
}

// row is one thing that was measured, by server.
type row map[string]struct {
	N             int
	P50, P90, P99 float64
}

func parseResult(text []byte) (result, error) {
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if len(r.Lives) == 0 || len(r.Lists) == 0 || len(r.Usage) == 0 {
		return r, errors.New("parts are missing: run make bench without PARTS")
	}
	return r, nil
}
