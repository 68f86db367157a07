package migrate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/docker/go-units"
)

// Print writes the plan, one pod per line.
func (p *Plan) Print(to io.Writer) error {
	containers, count := 0, 0
	for _, pod := range p.pods {
		containers, count = containers+pod.containers, count+len(pod.logs)
	}
	out := &printer{to: to}
	out.line("%d pods with %d containers of cri-dockerd are to be taken over, and %d logs continued\n", len(p.pods),
		containers, count)
	if len(p.pods) > 0 {
		out.table("POD\tSANDBOX\tSTATE\tNETWORK\tADDRESSES\tCONTAINERS\tLOGS", func(row func(...any)) {
			for _, pod := range p.pods {
				row(pod.name, pod.id[:min(len(pod.id), 12)], stateName(pod.running), pod.network,
					cmp.Or(strings.Join(pod.ips, ","), "-"), pod.containers, logsText(pod.logs))
			}
		})
	}
	if p.crowded() {
		out.line(
			"free space bounds how much of the logs is converted: %.0f %% of their file system must stay "+
				"free; make room, or go on without the rest\n", minFree*100)
	}
	for _, pod := range p.pods {
		for _, note := range pod.notes {
			out.line("%s: %s\n", pod.name, note)
		}
	}
	for _, pod := range p.left {
		out.line("pod sandbox %s is left out, the kubelet may replace it: %v\n", pod.id, pod.err)
	}
	if p.peer != (shim{}) {
		out.line("%s: stop the kubelet and %s before --apply\n", p.peer.runs(), p.peer.name)
	}
	return out.err
}

func stateName(running bool) string {
	if running {
		return "ready"
	}
	return "not ready"
}

// crowded reports whether too little free space reduced the history of a log.
func (p *Plan) crowded() bool {
	return slices.ContainsFunc(p.pods, func(pod *podPlan) bool {
		return slices.ContainsFunc(pod.logs, func(l *logPlan) bool { return l.crowded })
	})
}

// logsText says how much of each log is converted.
func logsText(logs []*logPlan) string {
	var texts []string
	for _, l := range logs {
		text := l.container + " " + units.HumanSize(float64(l.history))
		if l.history < l.kept {
			text += " of " + units.HumanSize(float64(l.kept))
		}
		texts = append(texts, text)
	}
	return cmp.Or(strings.Join(texts, ", "), "-")
}

// printer records the first error.
type printer struct {
	to  io.Writer
	err error
}

func (p *printer) line(format string, values ...any) {
	_, err := fmt.Fprintf(p.to, format, values...)
	p.err = errors.Join(p.err, err)
}

func (p *printer) table(header string, fill func(row func(...any))) {
	table := tabwriter.NewWriter(p.to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, header) // Flush returns its error
	fill(func(cells ...any) {
		texts := make([]string, len(cells))
		for i, cell := range cells {
			texts[i] = fmt.Sprint(cell)
		}
		fmt.Fprintln(table, strings.Join(texts, "\t"))
	})
	p.err = errors.Join(p.err, table.Flush())
}
