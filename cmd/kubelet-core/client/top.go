package client

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Summary returns the stats summary of the node and its pods.
func (c *Client) Summary(ctx context.Context) (*statsapi.Summary, error) {
	var summary statsapi.Summary
	return &summary, c.get(ctx, "/stats/summary", &summary)
}

// TopOptions choose the rows of WriteTop and their order.
type TopOptions struct {
	// Namespace is the namespace of the pods; "" means all namespaces.
	Namespace string
	// Containers gives each container a row, instead of each pod.
	Containers bool
	// Sort is cpu or memory, the largest first, or "" for the names.
	Sort string
}

// usage is a row. A figure that the runtime does not have is nil.
type usage struct {
	names       []string
	cpu, memory *uint64
}

// WriteTop writes the CPU and the memory that pods use, as kubectl top does.
func WriteTop(out io.Writer, summary *statsapi.Summary, opts TopOptions) error {
	rows, header := podUsage(summary, opts), []string{"NAMESPACE", "NAME"}
	if opts.Containers {
		header = append(header, "CONTAINER")
	}
	switch opts.Sort {
	case "":
		slices.SortFunc(rows, func(a, b usage) int { return slices.Compare(a.names, b.names) })
	case "cpu":
		slices.SortStableFunc(rows, func(a, b usage) int { return largerFirst(a.cpu, b.cpu) })
	case "memory":
		slices.SortStableFunc(rows, func(a, b usage) int { return largerFirst(a.memory, b.memory) })
	default:
		return fmt.Errorf("--sort-by: it is %q, want cpu or memory: %w", opts.Sort, errdefs.ErrInvalidArgument)
	}
	cells := [][]string{append(header, "CPU(cores)", "MEMORY(bytes)")}
	for _, row := range rows {
		cells = append(cells, append(row.names, cores(row.cpu), mebibytes(row.memory)))
	}
	var table columns
	return table.write(out, cells...)
}

// WriteTopNode writes the CPU and the memory that the node uses.
func WriteTopNode(out io.Writer, summary *statsapi.Summary) error {
	node := usageOf([]string{summary.Node.NodeName}, summary.Node.CPU, summary.Node.Memory)
	var table columns
	return table.write(out, []string{"NAME", "CPU(cores)", "MEMORY(bytes)"},
		append(node.names, cores(node.cpu), mebibytes(node.memory)))
}

func podUsage(summary *statsapi.Summary, opts TopOptions) (rows []usage) {
	for i := range summary.Pods {
		pod := &summary.Pods[i]
		ref := pod.PodRef
		if opts.Namespace != "" && ref.Namespace != opts.Namespace {
			continue
		}
		if !opts.Containers {
			rows = append(rows, usageOf([]string{ref.Namespace, ref.Name}, pod.CPU, pod.Memory))
			continue
		}
		for j := range pod.Containers {
			c := &pod.Containers[j]
			rows = append(rows, usageOf([]string{ref.Namespace, ref.Name, c.Name}, c.CPU, c.Memory))
		}
	}
	return rows
}

func usageOf(names []string, cpu *statsapi.CPUStats, memory *statsapi.MemoryStats) usage {
	row := usage{names: names}
	if cpu != nil {
		row.cpu = cpu.UsageNanoCores
	}
	if memory != nil {
		row.memory = memory.WorkingSetBytes
	}
	return row
}

// largerFirst sorts figures downwards. Missing figures come last.
func largerFirst(a, b *uint64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return cmp.Compare(*b, *a)
	}
}

// cores is a CPU figure in thousandths of a core, as kubectl top shows it.
func cores(nanoCores *uint64) string {
	if nanoCores == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%dm", (*nanoCores+999_999)/1_000_000)
}

func mebibytes(bytes *uint64) string {
	if bytes == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%dMi", *bytes>>20)
}
